/** What sticks below the head of the page and below the line has to know how high they are. */

import { byId } from "./dom.js";

const PARTS = { "--head": "top", "--band": "ask" };

/** Tells the style sheets from now on. */
export function startSticky() {
  const heights = new ResizeObserver(() => {
    for (const [name, id] of Object.entries(PARTS)) {
      document.documentElement.style.setProperty(name, `${byId(id).getBoundingClientRect().height}px`);
    }
  });
  for (const id of Object.values(PARTS)) heights.observe(byId(id));
}

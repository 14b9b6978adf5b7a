/** Keys that work anywhere, and the query of narrow screens, which folds. */

import { byId } from "./dom.js";
import { aim, aimAt } from "./query.js";

const isWriting = (element) => element.matches?.("input, textarea, select");

/** Brings them to life. */
export function startShortcuts() {
  byId("unfold").addEventListener("click", () => fold(byId("query").classList.contains("is-open")));
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !isWriting(event.target) && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      fold(false);
      byId("formula").focus();
    } else if (event.key === "Escape" && !event.defaultPrevented) {
      escape(event.target);
    }
  });
}

function escape(element) {
  if (isWriting(element)) element.blur();
  else if (aim()) aimAt(null);
  else fold(true);
}

function fold(isFolded) {
  byId("query").classList.toggle("is-open", !isFolded);
  byId("unfold").setAttribute("aria-expanded", String(!isFolded));
}

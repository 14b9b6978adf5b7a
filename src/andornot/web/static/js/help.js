/** A short help, with examples made of pictures of this gallery. */

import { addressOf } from "./address.js";
import { ask } from "./api.js";
import { byId, h } from "./dom.js";
import { gallery, thumbnail } from "./gallery.js";

/** Draws the help into `main`; its text is in index.html. */
export async function showHelp(main) {
  main.replaceChildren(byId("help-text").content.cloneNode(true));
  if (gallery()?.pictures) main.querySelector(".examples").append(...(await makeExamples()));
}

/** Examples by rule: the pictures that show two quite different features most, and one that is near the first. */
async function makeExamples() {
  const { features } = await ask("/api/features", { order: "spread", limit: 12 });
  const a = features[0].pictures[0];
  const b = features.flatMap(({ pictures }) => pictures[0]).find(({ id }) => id !== a.id);
  const { hits } = await ask(`/api/pictures/${a.id}/similar`, { top: 2 });
  const [near, other] = hits;
  return [
    example("Like this one", [a]),
    b && example("The two together", [a, " | ", b]),
    near && example("What two of a kind share", [a, " & ", near]),
    b && example("The one without the other", [a, " - ", b]),
    near && other && example("What two of three share", ["at_least(2, ", a, ", ", near, ", ", other, ")"]),
  ].filter(Boolean);
}

function example(words, parts) {
  const formula = parts.map((part) => (typeof part === "string" ? part : part.term)).join("");
  const shown = parts.map((part) =>
    typeof part === "string" ? h("code", {}, part.trim()) : h("img", { src: thumbnail(part), alt: part.name }),
  );
  return h(
    "li",
    {},
    h(
      "a",
      { href: addressOf({ view: "pictures", q: formula, all: "", picture: "" }) },
      h("b", {}, words),
      h("span", { class: "formula" }, shown),
    ),
  );
}

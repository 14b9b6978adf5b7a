/** How images are ranked, and how many are shown; modest, because the defaults are good. */

import { go, here, moved, RANKING } from "./address.js";
import { byId, h } from "./dom.js";
import { changed } from "./gallery.js";
import { SCORES } from "./labels.js";

const TOPS = ["12", "24", "48", "96", "200", "500", "1000"];
const SEMANTICS = { exact: "the same thing", independent: "independent, as in the paper" };
const LOGICS = { "": "default", godel: "Gödel, as in the paper", lukasiewicz: "Łukasiewicz", product: "product" };

/** Keeps the fields and the address in step. */
export function startOptions() {
  changed.on(fillChoices);
  for (const name of RANKING) {
    byId(`option-${name}`).addEventListener("change", ({ target }) => go({ [name]: target.value }));
  }
  moved.on(show);
}

function fillChoices({ scores, logics }) {
  choices(
    "score",
    scores.map((score) => [score, SCORES[score] ? `${score}: ${SCORES[score]}` : score]),
  );
  choices(
    "top",
    TOPS.map((top) => [top, top]),
  );
  choices(
    "logic",
    ["", ...logics].map((logic) => [logic, LOGICS[logic] ?? logic]),
  );
  choices("semantics", Object.entries(SEMANTICS));
  show();
}

function choices(name, entries) {
  byId(`option-${name}`).replaceChildren(...entries.map(([value, words]) => h("option", { value }, words)));
}

function show() {
  for (const name of RANKING) {
    const field = byId(`option-${name}`);
    // A number of somebody else's address is as good as ours.
    const isKnown = [...field.options].some(({ value }) => value === here()[name]);
    if (!isKnown) field.append(h("option", { value: here()[name] }, here()[name]));
    field.value = here()[name];
  }
}

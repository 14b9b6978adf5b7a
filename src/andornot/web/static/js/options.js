/** Options of the ranking. */

import { go, here, moved, RANKING } from "./address.js";
import { byId, h } from "./dom.js";
import { changed } from "./gallery.js";
import { SCORES } from "./labels.js";
import { t } from "./texts.js";

const SEMANTICS = { exact: t("the same thing"), independent: t("independent, as in the paper") };
const LOGICS = { "": t("default"), godel: t("Gödel, as in the paper"), lukasiewicz: "Łukasiewicz", product: "product" };

/** Synchronises the fields with the address. */
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
    // Also accept values from an address that are not in the list.
    const isKnown = [...field.options].some(({ value }) => value === here()[name]);
    if (!isKnown) field.append(h("option", { value: here()[name] }, here()[name]));
    field.value = here()[name];
  }
}

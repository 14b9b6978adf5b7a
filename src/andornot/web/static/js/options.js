/** What may be found and how it is ranked; modest, because the defaults are good. */

import { go, here, moved, SEARCH } from "./address.js";
import { byId, h } from "./dom.js";
import { changed } from "./gallery.js";
import { count, SCORES } from "./words.js";

const TOPS = ["12", "24", "48", "96", "200", "500", "1000"];
const SEMANTICS = { exact: "is the same thing", independent: "is independent, as in the paper" };
const FILE_DATES = [
  ["", "as the camera noted it"],
  ["1", "else that of the file"],
];
const LOGICS = { "": "as usual", godel: "Gödel, as in the paper", lukasiewicz: "Łukasiewicz", product: "product" };

/** Keeps the fields and the address in step. */
export function startOptions() {
  changed.on(fillChoices);
  for (const name of SEARCH) {
    byId(`option-${name}`).addEventListener("change", ({ target }) => go({ [name]: target.value }));
  }
  moved.on(show);
}

function fillChoices({ labels, scores, logics, taken }) {
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
  choices("file_dates", FILE_DATES);
  choices("label", [
    ["", "all folders"],
    ...labels.map(({ label, pictures }) => [label, `${label} (${count(pictures)})`]),
  ]);
  for (const name of ["after", "before"]) {
    byId(`option-${name}`).min = taken?.from?.slice(0, 10) ?? "";
    byId(`option-${name}`).max = "9999-12-31";
  }
  byId("option-label").closest("label").hidden = labels.length < 2 && !here().label;
  show();
}

function choices(name, entries) {
  byId(`option-${name}`).replaceChildren(...entries.map(([value, words]) => h("option", { value }, words)));
}

function show() {
  const isChanged = SEARCH.some((name) => byId(`option-${name}`).value !== here()[name]);
  for (const name of isChanged ? SEARCH : []) {
    const field = byId(`option-${name}`);
    // A number or a label of somebody else's address is as good as ours.
    const isKnown = field.tagName !== "SELECT" || [...field.options].some(({ value }) => value === here()[name]);
    if (!isKnown) field.append(h("option", { value: here()[name] }, here()[name]));
    field.value = here()[name];
  }
}

/** The three drawings of a blend: union, intersection, difference. */

import { h, icon } from "./dom.js";
import * as query from "./query.js";

const OPERATORS = [
  ["or", "with", "Union: what any of them shows"],
  ["and", "common", "Common: only what they share"],
  ["minus", "without", "Difference: the first without the others"],
];

/** Three small buttons to choose from; `key` tells the blend from others. */
export const drawOperators = (blend, key) =>
  h(
    "div",
    { class: "operators", role: "group", "aria-label": "How to blend" },
    OPERATORS.map(([op, drawing, words]) =>
      h(
        "button",
        {
          type: "button",
          class: "plain",
          title: words,
          "aria-label": words,
          "aria-pressed": String(blend.op === op),
          "data-item": `${key}-${op}`,
          onclick: () =>
            query.edit(() => {
              blend.op = op;
            }),
        },
        icon(drawing),
      ),
    ),
  );

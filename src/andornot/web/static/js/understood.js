/** Shows how a query was understood: the formula for plain text, and unknown words. */

import { byId, h, redraw } from "./dom.js";
import { teach } from "./definitions.js";
import { gallery } from "./gallery.js";
import * as query from "./query.js";
import { language, t } from "./texts.js";

/** Starts drawing it. */
export function startUnderstood() {
  query.queryChanged.on(draw);
  draw();
}

function draw() {
  const { understood, notes } = query.interpretation();
  // The grammar of the sentence is English.
  const sentence = query.error() || understood || language() !== "en" ? "" : query.sentence();
  byId("sentence").textContent = sentence;
  byId("sentence").hidden = !sentence;
  const lines = query.error() ? [] : [understood && drawFormula(understood), ...notes.map(drawNote)].filter(Boolean);
  byId("understood").hidden = lines.length === 0;
  redraw(byId("understood"), ...lines);
}

/** The formula; a click puts it into the search field for editing. */
function drawFormula(formula) {
  const edit = () => {
    query.setText(formula);
    byId("formula").focus();
  };
  const button = h("button", { type: "button", class: "link", title: t("Edit"), onclick: edit }, h("code", {}, formula));
  return h("span", {}, `${t("Understood as")} `, button);
}

function drawNote({ code, word, by }) {
  const values = { word, words: by.join(", ") };
  if (code === "taken-for") return h("span", {}, t("“{word}” is taken for {words}.", values));
  return h("span", {}, t("“{word}” is not a known word: these photos are guesses by {words}.", values), " ", teachButton(word));
}

/** A button to teach a word, if this browser is allowed to. */
export const teachButton = (word) =>
  gallery()?.can_define &&
  h("button", { type: "button", class: "link", onclick: () => teach(word) }, t("Teach “{word}” by examples", { word }));

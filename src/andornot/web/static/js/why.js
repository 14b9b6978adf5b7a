/** Explains why a photo was found, in words; feature numbers are shown on request. */

import { addressOf } from "./address.js";
import { bar } from "./charts.js";
import { h } from "./dom.js";
import { thumbnail } from "./gallery.js";
import { decimal, percent } from "./labels.js";
import { t } from "./texts.js";

const SHOWN = 3;
const WORDLESS = t("unnamed feature");
const MATCHES = { strong: t("Strong match"), maybe: t("Possible match"), weak: t("Weak match") };

/**
 * The section of the explanation: the match, and what contributed most to it.
 * @param {string[]} asked  the words of the query
 * @param {{word: string, truth: number}[]} seen  the words for the image
 */
export function drawWhy(hit, reasons, asked, seen) {
  const rows = byName(reasons).map(({ name, shownBy }) =>
    h("li", {}, h("span", { class: name ? "reason" : "reason hint" }, name || WORDLESS), thumbnails(shownBy)),
  );
  const words = `${MATCHES[hit.strength]}: ${percent(hit.truth)}.`;
  return h(
    "section",
    { class: "why" },
    h("h3", {}, t("Why this photo")),
    h("p", { class: "hint" }, words, rows.length > 0 && ` ${t("It shares this with your query (examples on the right):")}`),
    rows.length > 0 && h("ul", { class: "reasons" }, rows),
    asked.length > 0 && h("ul", { class: "reasons" }, asked.map((word) => drawWord(word, seen))),
  );
}

/** The truth of a word of the query in the image. */
function drawWord(word, seen) {
  const found = seen.find((other) => other.word === word);
  return h(
    "li",
    {},
    h("span", { class: "reason" }, word),
    h("span", { class: "hint" }, found ? t("{percent} sure", { percent: percent(found.truth) }) : t("not detected")),
  );
}

/** The features behind each word of the reasons, in order; features without a word come last. */
function byName(reasons) {
  const named = new Map();
  for (const { name, shown_by: shownBy } of reasons) {
    const known = named.get(name) ?? [];
    named.set(name, [...known, ...shownBy.filter(({ id }) => !known.some((other) => other.id === id))]);
  }
  const all = [...named].map(([name, shownBy]) => ({ name, shownBy }));
  return [...all.filter(({ name }) => name), ...all.filter(({ name }) => !name)];
}

/** The contributing features and the strongest features of the image, by number. */
export function drawFeatures(reasons, features) {
  const row = (feature, length, value, shownBy) =>
    h(
      "li",
      {},
      h(
        "a",
        { href: addressOf({ view: "feature", feature, image: "" }) },
        h("span", { class: "number" }, t("Feature {n}", { n: feature })),
        bar(length),
        h("span", { class: "value" }, value),
        thumbnails(shownBy),
      ),
    );
  const list = (words, rows) => rows.length > 0 && [h("p", { class: "hint" }, words), h("ul", { class: "features" }, rows)];
  return h(
    "div",
    {},
    list(
      t("These features contributed most to the match:"),
      reasons.map((reason) =>
        row(reason.feature, reason.contribution / reasons[0].contribution, "", reason.shown_by),
      ),
    ),
    list(
      t("Strongest features, compared with the gallery:"),
      features.map(({ feature, degree, shown_by: shownBy }) => row(feature, degree, decimal(degree, 2), shownBy)),
    ),
  );
}

const thumbnails = (images) =>
  h(
    "span",
    { class: "shown-by" },
    images.slice(0, SHOWN).map((shown) => h("img", { src: thumbnail(shown), alt: "", title: shown.name })),
  );

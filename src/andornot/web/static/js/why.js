/** Why a photo was found, in words; feature numbers are shown on request. */

import { addressOf } from "./address.js";
import { bar } from "./charts.js";
import { h } from "./dom.js";
import { thumbnail } from "./gallery.js";
import { decimal, percent } from "./labels.js";

const SHOWN = 3;
const WORDLESS = "unnamed feature";

/**
 * The section that says why: how good the match is, and what gave most to it.
 * @param {string[]} asked  the words of the query
 * @param {{word: string, truth: number}[]} seen  what the image shows, in words
 */
export function drawWhy({ truth, is_weak: isWeak }, reasons, asked, seen) {
  const rows = byName(reasons).map(({ name, shownBy }) =>
    h("li", {}, h("span", { class: name ? "reason" : "reason hint" }, name || WORDLESS), thumbnails(shownBy)),
  );
  const words = isWeak ? `Weak match: ${percent(truth)}.` : `Match: ${percent(truth)}.`;
  return h(
    "section",
    { class: "why" },
    h("h3", {}, "Why this photo"),
    h("p", { class: "hint" }, rows.length ? `${words} It shares this with your query (examples on the right):` : words),
    rows.length > 0 && h("ul", { class: "reasons" }, rows),
    asked.length > 0 && h("ul", { class: "reasons" }, asked.map((word) => drawWord(word, seen))),
  );
}

/** How surely the image shows a word of the query. */
function drawWord(word, seen) {
  const found = seen.find((other) => other.word === word);
  return h(
    "li",
    {},
    h("span", { class: "reason" }, word),
    h("span", { class: "hint" }, found ? `${percent(found.truth)} sure` : "not detected"),
  );
}

/** What each word of the reasons is shown by, in their order; what has no word comes last. */
function byName(reasons) {
  const named = new Map();
  for (const { name, shown_by: shownBy } of reasons) {
    const known = named.get(name) ?? [];
    named.set(name, [...known, ...shownBy.filter(({ id }) => !known.some((other) => other.id === id))]);
  }
  const all = [...named].map(([name, shownBy]) => ({ name, shownBy }));
  return [...all.filter(({ name }) => name), ...all.filter(({ name }) => !name)];
}

/** The features behind it and those that the image has most of, by number. */
export function drawFeatures(reasons, features) {
  const row = (feature, length, value, shownBy) =>
    h(
      "li",
      {},
      h(
        "a",
        { href: addressOf({ view: "feature", feature, image: "" }) },
        h("span", { class: "number" }, `Feature ${feature}`),
        bar(length),
        h("span", { class: "value" }, value),
        thumbnails(shownBy),
      ),
    );
  const list = (words, rows) => rows.length > 0 && [h("p", { class: "hint" }, words), h("ul", { class: "features" }, rows)];
  return h(
    "details",
    {},
    h("summary", {}, "Features"),
    list(
      "These contributed most to the match:",
      reasons.map((reason) =>
        row(reason.feature, reason.contribution / reasons[0].contribution, "", reason.shown_by),
      ),
    ),
    list(
      "Strongest features, compared with the gallery:",
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

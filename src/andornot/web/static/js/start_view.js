/** The start page: words of the gallery, example queries, and uploads. */

import { addressOf, FILTERS, here } from "./address.js";
import { ask } from "./api.js";
import { byId, h, icon } from "./dom.js";
import { changed, gallery, thumbnail } from "./gallery.js";
import * as query from "./query.js";
import { count } from "./labels.js";

/** So many words are shown at first, fewer where there is little place; the rest on request. */
const FIRST = matchMedia("(max-width: 52rem)").matches ? 15 : 32;
const MOST = 200;
const THUMBNAILS = 4;

/** The server's answers for this version of the gallery. */
let told = null;
let isAll = false;

changed.on(() => {
  told = null;
});

/** Draws the start into `host`, if nothing is asked and nothing filtered. */
export function drawStart(host) {
  const isHere = !here().q && query.isBlank() && gallery().images > 0 && !FILTERS.some((name) => here()[name]);
  host.hidden = !isHere;
  if (!isHere) return;
  if (!told) load(host);
  else if (host.told !== told) fill(host);
}

async function load(host) {
  const mine = (told = { words: [], examples: [] });
  host.ariaBusy = "true";
  fill(host);
  const [{ words }, { examples }] = await Promise.all([
    ask("/api/words", { limit: MOST }).catch(() => ({ words: [] })),
    ask("/api/examples").catch(() => ({ examples: [] })),
  ]);
  if (told !== mine) return;
  told = { words, examples };
  host.ariaBusy = "false";
  fill(host);
}

function fill(host) {
  host.told = told;
  const { words, examples } = told;
  host.replaceChildren(
    ...[
      words.length > 0 && h("h2", {}, "Start with a word"),
      words.length > 0 && drawWords(host, words),
      examples.length > 0 && h("h2", {}, words.length ? "Or with an example" : "Start with an example"),
      examples.length > 0 && h("ul", { class: "examples" }, examples.map(drawExample)),
      drawOwn(words.length + examples.length ? "Or start" : "Start"),
    ].filter(Boolean),
  );
}

function drawWords(host, words) {
  const shown = isAll ? words : words.slice(0, FIRST);
  const rest = words.length - shown.length;
  const entries = shown.map(({ word, term, images }) =>
    h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "word", onclick: () => query.addWord(word, term) },
        word,
        h("span", { class: "count" }, h("span", { class: "said" }, "photos: "), count(images)),
      ),
    ),
  );
  const more = h(
    "button",
    {
      type: "button",
      class: "link",
      onclick: () => {
        isAll = true;
        fill(host);
        host.querySelectorAll(".word")[FIRST]?.focus();
      },
    },
    `${count(rest)} more`,
  );
  return h("ul", { class: "cloud", "aria-label": "Words of this gallery" }, entries, rest > 0 && h("li", {}, more));
}

const drawExample = ({ formula, sentence, hits }) =>
  h(
    "li",
    {},
    h(
      "a",
      { href: addressOf({ view: "images", q: formula, all: "", image: "" }) },
      h("b", {}, sentence),
      h(
        "span",
        { class: "found-images" },
        hits.slice(0, THUMBNAILS).map((hit) => h("img", { src: thumbnail(hit), alt: "" })),
      ),
    ),
  );

function drawOwn(start) {
  const choose = h("button", { type: "button", class: "link", onclick: () => byId("file").click() }, "choose a file");
  return h(
    "p",
    { class: "own" },
    icon("image"),
    h(
      "span",
      {},
      `${start} with a photo of your own: drop it here, paste it, or `,
      choose,
      ". It is sent only to the machine that serves this page.",
    ),
  );
}

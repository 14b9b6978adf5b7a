/** The start page: taught words, saved searches, words of the gallery in groups, example queries, and uploads. */

import { addressOf, FILTERS, here } from "./address.js";
import { ask } from "./api.js";
import { definitions, drawAlbums, teach } from "./definitions.js";
import { byId, h, icon } from "./dom.js";
import { changed, gallery, thumbnail } from "./gallery.js";
import { count } from "./labels.js";
import * as query from "./query.js";
import { result } from "./search.js";
import { t } from "./texts.js";

/** The number of words of each group that are shown at first. */
const FIRST = 10;
const MOST = 200;
const THUMBNAILS = 4;
const GROUPS = { people: t("People"), animals: t("Animals"), things: t("Things"), places: t("Places") };

/** The server's answers for this version of the gallery. */
let told = null;
let isAll = false;

changed.on(() => {
  told = null;
});

/** Draws the start page into `host` if there is no query and no filter, or if the query has a mistake. */
export function drawStart(host) {
  const isBlank = !here().q && query.isBlank() && !FILTERS.some((name) => here()[name]);
  const hasFailed = query.error() !== null && !result();
  host.hidden = gallery().images === 0 || !(isBlank || hasFailed);
  if (host.hidden) return;
  if (!told) load(host);
  else if (host.told !== told) fill(host);
}

async function load(host) {
  const mine = (told = { words: [], examples: [], albums: [] });
  host.ariaBusy = "true";
  fill(host);
  const [{ words }, { examples }, albums] = await Promise.all([
    ask("/api/words", { limit: MOST }).catch(() => ({ words: [] })),
    ask("/api/examples").catch(() => ({ examples: [] })),
    definitions(),
  ]);
  if (told !== mine) return;
  told = { words, examples, albums };
  host.ariaBusy = "false";
  fill(host);
}

function fill(host) {
  host.told = told;
  const { words, examples, albums } = told;
  const again = () => {
    told = null;
    drawStart(host);
  };
  host.classList.toggle("is-unfolded", isAll);
  host.replaceChildren(
    ...[
      albums.length > 0 && h("h2", {}, t("Your words and albums")),
      albums.length > 0 && drawAlbums(albums, again),
      words.length > 0 && h("h2", {}, t("Words of this gallery")),
      words.length > 0 && drawGroups(host, words),
      examples.length > 0 && h("h2", {}, t("Examples")),
      examples.length > 0 && h("ul", { class: "examples" }, examples.map(drawExample)),
      drawOwn(),
    ].filter(Boolean),
  );
}

/** The words in groups, most frequent first; counts are estimates. */
function drawGroups(host, words) {
  const groups = Object.entries(GROUPS).map(([name, title]) => [title, words.filter(({ group }) => group === name)]);
  const rest = groups.some(([, own]) => own.length > FIRST);
  const unfold = () => {
    isAll = !isAll;
    fill(host);
    host.querySelector(".unfold")?.focus();
  };
  return h(
    "div",
    { class: "words" },
    groups
      .filter(([, own]) => own.length)
      .map(([title, own]) =>
        h(
          "section",
          {},
          h("h3", {}, title),
          h("ul", { class: "cloud", "aria-label": title }, own.slice(0, isAll ? MOST : FIRST).map(drawWord)),
        ),
      ),
    (rest || isAll) &&
      h("button", { type: "button", class: "link unfold", onclick: unfold }, isAll ? t("Fewer words") : t("More words")),
  );
}

const drawWord = ({ word, term, images }) =>
  h(
    "li",
    {},
    h(
      "button",
      {
        type: "button",
        class: "word",
        title: t("about {n} photos", { n: count(images) }),
        onclick: () => query.setText(term),
      },
      word,
      h("span", { class: "count" }, `~${count(images)}`),
    ),
  );

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

function drawOwn() {
  const link = (words, act) => h("button", { type: "button", class: "link", onclick: act }, words);
  return h(
    "p",
    { class: "own" },
    icon("image"),
    h(
      "span",
      {},
      `${t("Or search with a photo of your own: drop it here, paste it, or")} `,
      link(t("choose a file"), () => byId("file").click()),
      `. ${t("It is sent only to the machine that serves this page.")} `,
      gallery().can_define && link(t("Teach a new word by examples"), () => teach("")),
    ),
  );
}

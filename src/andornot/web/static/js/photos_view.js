/** The main view: the start page, all photos, or the hits of the query. */

import { addressOf, FILTERS, go, here, UNFILTERED } from "./address.js";
import { isAborted, newestOnly } from "./api.js";
import { showBroken } from "./broken.js";
import { announce, h, icon, redraw } from "./dom.js";
import { drawChips, filterButton } from "./filters.js";
import { characters } from "./formula.js";
import { gallery, thumbnail } from "./gallery.js";
import { makeGrid } from "./grid.js";
import * as query from "./query.js";
import { download, found, result } from "./search.js";
import { answered, wholeGallery } from "./grid_sources.js";
import { stacked } from "./stacks.js";
import { drawStart } from "./start_view.js";
import { count, ORDERS, photos } from "./labels.js";

const PEEKED = 12;
/** The names of uploads in a formula. */
const UPLOAD = /upload-[0-9a-f]{16}/;

const grid = makeGrid("Photos");
const start = h("div", { class: "start", hidden: true });
const heading = h("div", { class: "heading" });
const chips = h("ul", { class: "filters", "aria-label": "Filters", hidden: true });
const empty = h("div", { class: "empty", hidden: true });
const newest = newestOnly();

/** What the grid shows now: an answer, or which part of the gallery. It is not filled with the same again. */
let shown = null;

/** The first hits of the stacks that are open, of the answer that is shown. */
let open = new Set();

/** How far each part of the gallery was scrolled, for who comes back. */
const scrolled = new Map();

/** Draws the view into `main`. */
export function showImages(main) {
  main.replaceChildren(start, heading, chips, empty, grid.element);
  shown = null;
  draw();
}

/** Draws again what has changed. */
export function draw() {
  if (!grid.element.isConnected) return;
  drawChips(chips);
  drawStart(start);
  grid.element.classList.toggle("shows-where", here().frames === "1");
  const isHits = Boolean(here().q) && !here().all;
  grid.element.classList.toggle("is-stale", isHits && query.error() !== null);
  if (isHits) showHits();
  else showAll();
}

found.on((answer) => {
  draw();
  if (answer) announce(`${photos(answer.hits.length)} found`);
});
query.queryChanged.on(draw);

function showHits() {
  const answer = result();
  if (!answer) {
    if (query.error()) showNothing("This query has a mistake", reason(query.error()));
    return; // else what is shown stays until there is an answer
  }
  const { hits, total, seconds } = answer;
  const isNew = shown !== answer;
  if (isNew) open = new Set();
  const seen = stacked(hits, open);
  const isOld = query.error() !== null;
  const folded = hits.length - seen.length;
  redraw(
    heading,
    h("h1", { class: "said" }, "Results"),
    tabs(),
    h(
      "p",
      { class: "facts", title: `${Math.max(1, Math.round(seconds * 1000))} ms` },
      isOld
        ? "Previous results: the query has a mistake"
        : `best ${count(hits.length)} of ${count(total)}${folded ? ` · ${count(folded)} near duplicates hidden` : ""}`,
    ),
    h(
      "div",
      { class: "tools" },
      hits.some(({ boxes }) => boxes.length) && whereButton(),
      filterButton(),
      h(
        "p",
        {},
        "Save as ",
        h("a", { href: download("csv"), download: "", "data-item": "list" }, "list"),
        " or ",
        h("a", { href: download("zip"), download: "", "data-item": "zip" }, "photos"),
      ),
    ),
  );
  if (!isNew) return;
  fillGrid(answered(answer, seen, toggleStack), answer);
  say(
    hits.length === 0 && [
      h("h2", {}, "No results"),
      h(
        "p",
        {},
        FILTERS.some((name) => here()[name])
          ? "No photo passes the filters, except those in the query."
          : "All photos are in the query.",
      ),
      FILTERS.some((name) => here()[name]) &&
        h("p", {}, h("a", { href: addressOf(UNFILTERED) }, "Search all photos")),
    ],
  );
}

/** Opens or folds what lies under a hit; the hit stays where it is. */
function toggleStack(id) {
  if (!open.delete(id)) open.add(id);
  const answer = result();
  const seen = stacked(answer.hits, open);
  grid.show(answered(answer, seen, toggleStack), { at: seen.findIndex(({ hit }) => hit.id === id) });
  showHits();
  announce(open.has(id) ? "Near duplicates shown" : "Near duplicates hidden");
}

const whereButton = () =>
  h(
    "button",
    {
      type: "button",
      class: "quiet",
      "data-item": "where",
      "aria-pressed": String(here().frames === "1"),
      onclick: () => go({ frames: here().frames ? "" : "1" }, { replace: true }),
    },
    icon("where"),
    "Show where",
  );

async function showAll() {
  const state = here();
  const filters = Object.fromEntries([...FILTERS, "order"].map((key) => [key, state[key]]));
  const { images: total, broken } = gallery();
  const order = h(
    "select",
    { "aria-label": "Order", "data-item": "order", onchange: () => go({ order: order.value }) },
    Object.entries(ORDERS).map(([value, words]) => h("option", { value, selected: value === state.order }, words)),
  );
  const facts = h("p", { class: "facts" });
  redraw(
    heading,
    h("h1", { class: state.q ? "said" : "" }, "All photos"),
    tabs(),
    facts,
    h("div", { class: "tools" }, total > 0 && filterButton(), total > 0 && order),
  );
  const tell = (number) => {
    const hint = state.q || !number ? "" : " · click one to find similar photos";
    facts.replaceChildren(photos(number), ...(broken ? [" · ", brokenButton(broken)] : []), hint);
  };
  tell(total);
  const wanted = JSON.stringify([filters, gallery().state]);
  if (shown === wanted) return;
  try {
    const source = await newest((stop) => wholeGallery(filters, () => grid.refresh(), stop));
    if (here().q && !here().all) return;
    fillGrid(source, wanted);
    tell(source.total);
    say(source.total === 0 && (total === 0 ? nothingIndexed() : noneLeft()));
  } catch (error) {
    if (!isAborted(error)) showNothing("The photos cannot be shown", error.message);
  }
}

const brokenButton = (broken) =>
  h(
    "button",
    { type: "button", class: "link", "data-item": "broken", onclick: showBroken },
    `${count(broken)} could not be read`,
  );

/** Fills the grid, from the top or where one was before. */
function fillGrid(source, content) {
  if (typeof shown === "string") scrolled.set(shown, scrollY);
  shown = content;
  grid.show(source);
  scrollTo(0, scrolled.get(shown) ?? 0);
}

function showNothing(title, words) {
  redraw(heading, h("h1", { class: "said" }, title), tabs());
  fillGrid({ total: 0 }, null);
  say([
    h("h2", {}, title),
    h("p", {}, words),
    h("p", {}, h("a", { href: addressOf({ q: "", ...UNFILTERED }) }, "Show all photos")),
  ]);
}

/** Why a query cannot be searched; uploads expire. */
function reason({ code, message, span }) {
  if (code !== "unknown-name" || !UPLOAD.test(characters(here().q, ...span))) return message;
  return "Your photo in this query has expired on the server. Please add it again.";
}

const nothingIndexed = () => [
  h("h2", {}, "No photos yet"),
  h("p", {}, "This gallery is empty. Index a folder of photos, and they will appear here:"),
  h("p", {}, h("code", {}, "andornot index photos/ --gallery g/")),
];

const noneLeft = () => [
  h("h2", {}, "No photo passes the filters"),
  h("p", {}, h("a", { href: addressOf(UNFILTERED) }, "Show all photos")),
];

function say(content) {
  empty.hidden = !content;
  empty.replaceChildren(...(content || []).filter(Boolean));
}

/** Results or all images, if there is a query. */
function tabs() {
  if (!here().q) return "";
  const tab = (words, all) =>
    h(
      "a",
      { href: addressOf({ all, image: "" }), "aria-current": here().all === all && "page", "data-item": `tab${all}` },
      words,
    );
  return h("nav", { class: "tabs", "aria-label": "Which photos" }, tab("Results", ""), tab("All photos", "1"));
}

/** The nearest few, for the views that show something else. */
export function peek() {
  const hits = here().q ? (result()?.hits ?? []) : [];
  const isThere = here().view === "images" && !here().all;
  if (!hits.length || isThere) return "";
  return h(
    "a",
    { class: "peek", href: addressOf({ view: "images", all: "", image: "" }), "aria-label": "Show the results" },
    h("span", {}, "Results"),
    hits.slice(0, PEEKED).map((hit) => h("img", { src: thumbnail(hit), alt: "" })),
    icon("next"),
  );
}

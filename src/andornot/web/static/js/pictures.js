/** The first view: where to start, all pictures of the gallery, or the hits of the query. */

import { addressOf, FILTERS, go, here, UNFILTERED } from "./address.js";
import { isAborted, newestOnly } from "./api.js";
import { showBroken } from "./broken.js";
import { announce, h, icon, redraw } from "./dom.js";
import { drawChips, filterButton } from "./filters.js";
import { gallery, thumbnail } from "./gallery.js";
import { makeGrid } from "./grid.js";
import * as query from "./query.js";
import { download, found, result } from "./search.js";
import { answered, wholeGallery } from "./sources.js";
import { stacked } from "./stacks.js";
import { drawStart } from "./start.js";
import { count, ORDERS, pictures } from "./words.js";

const PEEKED = 12;
/** Pictures of one's own that the server has forgotten are called so in a query. */
const UPLOAD = /upload-[0-9a-f]{16}/;

const grid = makeGrid("Pictures");
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
export function showPictures(main) {
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
  if (answer) announce(`${pictures(answer.hits.length)} found`);
});
query.queryChanged.on(draw);

function showHits() {
  const answer = result();
  if (!answer) {
    if (query.error()) showNothing("This query cannot be searched", reason(query.error()));
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
        ? "These are from before: the query has a mistake"
        : `${count(hits.length)} best of ${count(total)}${folded ? ` · ${count(folded)} nearly the same folded` : ""}`,
    ),
    h(
      "div",
      { class: "tools" },
      hits.some(({ where }) => where.length) && whereButton(),
      filterButton(),
      h(
        "p",
        {},
        "Save as ",
        h("a", { href: download("csv"), download: "", "data-item": "list" }, "list"),
        " or ",
        h("a", { href: download("zip"), download: "", "data-item": "zip" }, "pictures"),
      ),
    ),
  );
  if (!isNew) return;
  fillGrid(answered(answer, seen, toggleStack), answer);
  say(
    hits.length === 0 && [
      h("h2", {}, "Nothing was found"),
      h(
        "p",
        {},
        FILTERS.some((name) => here()[name])
          ? "No picture passes the filters, or all that do are in the query."
          : "All pictures are in the query.",
      ),
      FILTERS.some((name) => here()[name]) &&
        h("p", {}, h("a", { href: addressOf(UNFILTERED) }, "Search all pictures")),
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
  announce(open.has(id) ? "Opened" : "Folded");
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
  const { pictures: total, broken } = gallery();
  const order = h(
    "select",
    { "aria-label": "Order", "data-item": "order", onchange: () => go({ order: order.value }) },
    Object.entries(ORDERS).map(([value, words]) => h("option", { value, selected: value === state.order }, words)),
  );
  const facts = h("p", { class: "facts" });
  redraw(
    heading,
    h("h1", { class: state.q ? "said" : "" }, "All pictures"),
    tabs(),
    facts,
    h("div", { class: "tools" }, total > 0 && filterButton(), total > 0 && order),
  );
  const tell = (number) => {
    const hint = state.q || !number ? "" : " · click one to find others like it";
    facts.replaceChildren(pictures(number), ...(broken ? [" · ", brokenButton(broken)] : []), hint);
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
    if (!isAborted(error)) showNothing("The pictures cannot be shown", error.message);
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
    h("p", {}, h("a", { href: addressOf({ q: "", ...UNFILTERED }) }, "Start with all pictures")),
  ]);
}

/** Why a query cannot be searched. A picture of one's own is forgotten after some time. */
function reason({ message, position = 0, length = 0 }) {
  const spot = here().q.slice(position, position + Math.max(length, 1));
  if (!UPLOAD.test(spot)) return message;
  return "It has a picture of your own that the server no longer has. Choose that picture again.";
}

const nothingIndexed = () => [
  h("h2", {}, "No pictures yet"),
  h("p", {}, "This gallery is empty. Fill it from a folder of pictures, and they appear here by themselves:"),
  h("p", {}, h("code", {}, "andornot index photos/ --gallery g/")),
];

const noneLeft = () => [
  h("h2", {}, "No picture passes the filters"),
  h("p", {}, h("a", { href: addressOf(UNFILTERED) }, "Show all pictures")),
];

function say(content) {
  empty.hidden = !content;
  empty.replaceChildren(...(content || []).filter(Boolean));
}

/** Results or all pictures, if there is a query. */
function tabs() {
  if (!here().q) return "";
  const tab = (words, all) =>
    h(
      "a",
      { href: addressOf({ all, picture: "" }), "aria-current": here().all === all && "page", "data-item": `tab${all}` },
      words,
    );
  return h("nav", { class: "tabs", "aria-label": "Which pictures" }, tab("Results", ""), tab("All pictures", "1"));
}

/** The nearest few, for the views that show something else. */
export function peek() {
  const hits = here().q ? (result()?.hits ?? []) : [];
  const isThere = here().view === "pictures" && !here().all;
  if (!hits.length || isThere) return "";
  return h(
    "a",
    { class: "peek", href: addressOf({ view: "pictures", all: "", picture: "" }), "aria-label": "Show the results" },
    h("span", {}, "Results"),
    hits.slice(0, PEEKED).map((hit) => h("img", { src: thumbnail(hit), alt: "" })),
    icon("next"),
  );
}

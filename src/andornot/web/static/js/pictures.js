/** The first view: all pictures of the gallery, or the hits of the query. */

import { addressOf, FILTERS, go, here } from "./address.js";
import { isAborted, newestOnly } from "./api.js";
import { announce, h, icon, redraw } from "./dom.js";
import { gallery, thumbnail } from "./gallery.js";
import { makeGrid } from "./grid.js";
import * as query from "./query.js";
import { download, found, result } from "./search.js";
import { listed, wholeGallery } from "./sources.js";
import { count, ORDERS, percent, pictures } from "./words.js";

const PEEKED = 12;

const grid = makeGrid("Pictures");
const heading = h("div", { class: "heading" });
const empty = h("div", { class: "empty", hidden: true });
const newest = newestOnly();

/** What the grid shows now: an answer, or which part of the gallery. It is not filled with the same again. */
let shown = null;

/** How far each part of the gallery was scrolled, for who comes back. */
const scrolled = new Map();

/** Draws the view into `main`. */
export function showPictures(main) {
  main.replaceChildren(heading, empty, grid.element);
  shown = null;
  draw();
}

/** Draws again what has changed. */
export function draw() {
  if (!grid.element.isConnected) return;
  if (here().q && !here().all) showHits();
  else showAll();
}

found.on((answer) => {
  draw();
  if (answer) announce(`${pictures(answer.hits.length)} found`);
});
query.queryChanged.on(() => {
  if (query.error()) draw();
});

function showHits() {
  const answer = result();
  if (!answer) {
    if (query.error()) showNothing("This query cannot be searched", query.error().message);
    return; // else what is shown stays until there is an answer
  }
  const milliseconds = Math.max(1, Math.round(answer.seconds * 1000));
  redraw(
    heading,
    h("h1", { class: "said" }, "Results"),
    tabs(),
    h("p", { class: "facts" }, `${count(answer.hits.length)} nearest of ${count(answer.total)} · ${milliseconds} ms`),
    h(
      "p",
      { class: "save" },
      "Save as ",
      h("a", { href: download("csv"), download: "", "data-item": "list" }, "list"),
      " or ",
      h("a", { href: download("zip"), download: "", "data-item": "zip" }, "pictures"),
    ),
  );
  if (shown === answer) return;
  fillGrid(
    listed(answer.hits, ({ truth, is_weak: isWeak }) => percent(truth) + (isWeak ? ", weak" : ""), "match"),
    answer,
  );
  say(
    answer.hits.length === 0 && [
      h("h2", {}, "Nothing was found"),
      h("p", {}, "No picture passes the filters, or all of them are in the query. Look at the options."),
    ],
  );
}

async function showAll() {
  const state = here();
  const filters = Object.fromEntries([...FILTERS, "order"].map((key) => [key, state[key]]));
  const { pictures: total, broken } = gallery();
  const order = h(
    "select",
    { "aria-label": "Order", "data-item": "order", onchange: () => go({ order: order.value }) },
    Object.entries(ORDERS).map(([value, words]) => h("option", { value, selected: value === state.order }, words)),
  );
  redraw(
    heading,
    h("h1", { class: state.q ? "said" : "" }, "All pictures"),
    tabs(),
    h("p", { class: "facts" }),
    h("p", { class: "save" }, order),
  );
  const tell = (number) => {
    const unread = broken ? ` · ${count(broken)} could not be read` : "";
    const hint = state.q || !number ? "" : " · click one to find others like it";
    heading.querySelector(".facts").textContent = pictures(number) + unread + hint;
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

/** Fills the grid, from the top or where one was before. */
function fillGrid(source, content) {
  if (typeof shown === "string") scrolled.set(shown, scrollY);
  shown = content;
  grid.show(source);
  scrollTo(0, scrolled.get(shown) ?? 0);
}

function showNothing(title, reason) {
  redraw(heading, h("h1", { class: "said" }, title), tabs());
  fillGrid({ total: 0 }, null);
  say([
    h("h2", {}, title),
    h("p", {}, reason),
    h("p", {}, h("a", { href: addressOf({ q: "" }) }, "Start with all pictures")),
  ]);
}

const nothingIndexed = () => [
  h("h2", {}, "No pictures yet"),
  h("p", {}, "This gallery is empty. Fill it from a folder of pictures, and they appear here:"),
  h("p", {}, h("code", {}, "andornot index photos/ --gallery g/")),
];

const noneLeft = () => [
  h("h2", {}, "No picture passes the filters"),
  h("p", {}, h("a", { href: addressOf(Object.fromEntries(FILTERS.map((name) => [name, ""]))) }, "Show all pictures")),
];

function say(content) {
  empty.hidden = !content;
  empty.replaceChildren(...(content || []));
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

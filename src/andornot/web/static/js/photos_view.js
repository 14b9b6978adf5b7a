/** The main view: the start page, all photos, or the hits of the query. */

import { addressOf, FILTERS, go, here, UNFILTERED } from "./address.js";
import { isAborted, newestOnly } from "./api.js";
import { showBroken } from "./broken.js";
import { canSave, saveSearch } from "./definitions.js";
import { announce, h, icon, redraw } from "./dom.js";
import { drawChips, filterButton } from "./filters.js";
import { characters } from "./formula.js";
import { gallery, thumbnail } from "./gallery.js";
import { makeGrid } from "./grid.js";
import { answered, stacked, wholeGallery } from "./grid_sources.js";
import { count, ORDERS, photos } from "./labels.js";
import { leftOut, undoLeftOut } from "./photo_actions.js";
import * as query from "./query.js";
import { download, found, grown, moreHits, result } from "./search.js";
import { drawStart } from "./start_view.js";
import { t } from "./texts.js";

const PEEKED = 12;
/** Matches names of uploads in a formula. */
const UPLOAD = /upload-[0-9a-f]{16}/;

const grid = makeGrid(t("Photos"));
const start = h("div", { class: "start", hidden: true });
const heading = h("div", { class: "heading" });
const chips = h("ul", { class: "filters", "aria-label": t("Filters"), hidden: true });
const empty = h("div", { class: "empty", hidden: true });
const newest = newestOnly();

/** What the grid shows now, an answer or a part of the gallery, so that it is not filled with the same again. */
let shown = null;

/** The first hits of the open stacks of the current answer. */
let open = new Set();

/** The scroll position of each part of the gallery, to restore it. */
const scrolled = new Map();

/** The neighbour of a photo in the grid, and a function to focus a photo. */
export const { neighbour, focusOn } = grid;

/** Draws the view into `main`. */
export function showImages(main) {
  main.replaceChildren(start, heading, chips, empty, grid.element);
  shown = null;
  draw();
}

/** Redraws what has changed. */
export function draw() {
  if (!grid.element.isConnected) return;
  drawChips(chips);
  drawStart(start);
  grid.element.classList.toggle("shows-where", here().frames === "1");
  grid.element.classList.toggle("shows-notes", here().names === "1");
  const isHits = Boolean(here().q) && !here().all;
  grid.element.classList.toggle("is-stale", isHits && query.error() !== null);
  if (isHits) showHits();
  else showAll();
}

found.on((answer) => {
  draw();
  if (answer) announce(t("{photos} found", { photos: photos(answer.hits.length) }));
});
grown.on(draw);
query.queryChanged.on(draw);

/** The state that the results depend on besides the answer. */
const stateOf = (answer) => ({ formula: answer.formula, first: answer.hits[0]?.id, exclude: here().exclude });
const isSameList = (one, other) => one && Object.keys(other).every((key) => one[key] === other[key]);

function showHits() {
  const answer = result();
  if (!answer) {
    if (query.error()) showNothing(t("This query has a mistake"), reason(query.error()));
    return; // keep the current results until there is an answer
  }
  const isNew = shown?.answer !== answer || shown.exclude !== here().exclude;
  const isMore = isNew && isSameList(shown, stateOf(answer));
  if (isNew && !isMore && !isSameList({ ...shown, exclude: here().exclude }, stateOf(answer))) open = new Set();
  const without = new Set(leftOut());
  const hits = answer.hits.filter(({ id }) => !without.has(id));
  const seen = stacked(hits, open);
  drawHeading(answer, hits, hits.length - seen.length);
  if (!isNew) return;
  const source = answered(answer, seen, toggleStack, moreHits);
  const content = { answer, ...stateOf(answer) };
  if (shown?.answer && shown.formula === answer.formula) {
    // After further hits or an exclusion, keep the scroll position.
    shown = content;
    const focused = document.activeElement?.closest?.(".tile")?.index;
    grid.show(source, { at: Math.min(focused ?? 0, Math.max(0, source.total - 1)) });
  } else fillGrid(source, content);
  say(hits.length === 0 && noResults());
}

function noResults() {
  const isFiltered = FILTERS.some((name) => here()[name]);
  return [
    h("h2", {}, t("No results")),
    h(
      "p",
      {},
      isFiltered ? t("No photo passes the filters, except those in the query.") : t("All photos are in the query."),
    ),
    isFiltered && h("p", {}, h("a", { href: addressOf(UNFILTERED) }, t("Search all photos"))),
  ];
}

function drawHeading({ total, seconds }, hits, folded) {
  const left = leftOut().length;
  const facts = [
    query.error() ? t("Previous results: the query has a mistake") : t("of {photos}", { photos: photos(total) }),
    folded > 0 && t("{n} near duplicates hidden", { n: count(folded) }),
  ].filter(Boolean);
  redraw(
    heading,
    h("h1", { class: "said" }, t("Results")),
    tabs(),
    h("p", { class: "facts", title: `${Math.max(1, Math.round(seconds * 1000))} ms` }, facts.join(" · ")),
    left > 0 &&
      h(
        "p",
        { class: "left-out" },
        t("{n} left out", { n: left }),
        " · ",
        h("button", { type: "button", class: "link", "data-item": "undo-left-out", onclick: () => undoLeftOut() }, t("undo")),
      ),
    h(
      "div",
      { class: "tools" },
      hits.some(({ boxes }) => boxes.length) && toggle("frames", "where", t("Show where")),
      toggle("names", "word", t("Names and percentages")),
      filterButton(),
      canSave() &&
        h(
          "button",
          { type: "button", class: "quiet tool", title: t("Save this search"), "data-item": "save", onclick: saveSearch },
          icon("stack"),
          h("span", {}, t("Save")),
        ),
      h("a", { class: "tool", href: download("csv"), download: "", title: t("Save as a list"), "data-item": "list" }, icon("save"), h("span", {}, t("List"))),
      h("a", { class: "tool", href: download("zip"), download: "", title: t("Save the photos"), "data-item": "zip" }, icon("save"), h("span", {}, t("Photos"))),
    ),
  );
}

/** Opens or closes the stack of a hit, without moving the hit. */
function toggleStack(id) {
  if (!open.delete(id)) open.add(id);
  const answer = result();
  const without = new Set(leftOut());
  const seen = stacked(answer.hits.filter((hit) => !without.has(hit.id)), open);
  grid.show(answered(answer, seen, toggleStack, moreHits), { at: seen.findIndex(({ hit }) => hit.id === id) });
  showHits();
  announce(open.has(id) ? t("Near duplicates shown") : t("Near duplicates hidden"));
}

/** A button that toggles an overlay of the photos. */
const toggle = (name, drawing, words) =>
  h(
    "button",
    {
      type: "button",
      class: "quiet tool",
      title: words,
      "data-item": name,
      "aria-pressed": String(here()[name] === "1"),
      onclick: () => go({ [name]: here()[name] ? "" : "1" }, { replace: true }),
    },
    icon(drawing),
    h("span", {}, words),
  );

async function showAll() {
  const state = here();
  const filters = Object.fromEntries([...FILTERS, "order"].map((key) => [key, state[key]]));
  const { images: total, broken } = gallery();
  const order = h(
    "select",
    { "aria-label": t("Order"), "data-item": "order", onchange: () => go({ order: order.value }) },
    Object.entries(ORDERS).map(([value, words]) => h("option", { value, selected: value === state.order }, words)),
  );
  const facts = h("p", { class: "facts" });
  const jump = h("select", { class: "timeline", "aria-label": t("Go to a month"), hidden: true });
  redraw(
    heading,
    h("h1", { class: state.q ? "said" : "" }, t("All photos")),
    tabs(),
    facts,
    h("div", { class: "tools" }, jump, total > 0 && filterButton(), total > 0 && order),
  );
  const tell = ({ total: number, groups = [] }) => {
    facts.replaceChildren(photos(number), ...(broken ? [" · ", brokenButton(broken)] : []));
    jump.hidden = groups.length < 2;
    jump.replaceChildren(...groups.map(({ at, title }) => h("option", { value: at }, title)));
    jump.onchange = () => grid.scrollTo(Number(jump.value));
  };
  const wanted = JSON.stringify([filters, gallery().state]);
  if (shown?.wanted === wanted) {
    tell(shown.source);
    return;
  }
  tell({ total });
  try {
    const source = await newest((stop) => wholeGallery(filters, () => grid.refresh(), stop));
    if (here().q && !here().all) return;
    fillGrid(source, { wanted, source });
    tell(source);
    say(source.total === 0 && (total === 0 ? nothingIndexed() : noneLeft()));
  } catch (error) {
    if (!isAborted(error)) showNothing(t("The photos cannot be shown"), error.message);
  }
}

const brokenButton = (broken) =>
  h(
    "button",
    { type: "button", class: "link", "data-item": "broken", onclick: showBroken },
    t("{n} could not be read", { n: count(broken) }),
  );

/** Fills the grid, from the top or at the previous scroll position. */
function fillGrid(source, content) {
  if (shown?.wanted) scrolled.set(shown.wanted, scrollY);
  shown = content;
  grid.show(source);
  scrollTo(0, scrolled.get(shown?.wanted) ?? 0);
}

function showNothing(title, words) {
  redraw(heading, h("h1", { class: "said" }, title), tabs());
  fillGrid({ total: 0 }, null);
  say([
    h("h2", {}, title),
    h("p", {}, words),
    h("p", {}, h("a", { href: addressOf({ q: "", ...UNFILTERED }) }, t("Show all photos"))),
  ]);
}

/** The message why a query cannot be searched, e.g. because uploads have expired. */
function reason({ code, message, span }) {
  if (code !== "unknown-name" || !UPLOAD.test(characters(here().q, ...span))) return message;
  return t("Your photo in this query has expired on the server. Please add it again.");
}

const nothingIndexed = () => [
  h("h2", {}, t("No photos yet")),
  h("p", {}, t("This gallery is empty. Index a folder of photos, and they will appear here:")),
  h("p", {}, h("code", {}, "andornot index photos/ --gallery g/")),
];

const noneLeft = () => [
  h("h2", {}, t("No photo passes the filters")),
  h("p", {}, h("a", { href: addressOf(UNFILTERED) }, t("Show all photos"))),
];

function say(content) {
  empty.hidden = !content;
  empty.replaceChildren(...(content || []).filter(Boolean));
}

/** The switch between results and all photos, if there is a query. */
function tabs() {
  if (!here().q) return "";
  const tab = (words, all) =>
    h(
      "a",
      { href: addressOf({ all, image: "" }), "aria-current": here().all === all && "page", "data-item": `tab${all}` },
      words,
    );
  return h("nav", { class: "tabs", "aria-label": t("Which photos") }, tab(t("Results"), ""), tab(t("All photos"), "1"));
}

/** The best few hits, for other views. */
export function peek() {
  const hits = here().q ? (result()?.hits ?? []) : [];
  const isThere = here().view === "images" && !here().all;
  if (!hits.length || isThere) return "";
  return h(
    "a",
    { class: "peek", href: addressOf({ view: "images", all: "", image: "" }), "aria-label": t("Show the results") },
    h("span", {}, t("Results")),
    hits.slice(0, PEEKED).map((hit) => h("img", { src: thumbnail(hit), alt: "" })),
    icon("next"),
  );
}

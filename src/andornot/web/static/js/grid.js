/** A grid of any number of images, of which only those in view exist. */

import { h } from "./dom.js";
import { queryChanged } from "./query.js";
import { fill, liveTiles, markUsed, place } from "./tile.js";

const GAP = 12;
const NARROWEST = 164;
/** Rows beyond the window that exist too, so that they are there when they come into view. */
const SPARE = 2;
/** The height of the line between two parts of the images. */
const LINE = 48;
/** How long one rests before what flew by is filled and asked for: nobody wants all of it. */
const REST = 60;

/**
 * @typedef {{total: number, item: (index: number) => ?object, need: (from: number, to: number) => void,
 *   describe?: (image: object) => import("./tile.js").Description, noteHeight?: number,
 *   line?: {at: number, words: string}}} Source
 *   Images by number. `need` says which are wanted; when they came, `grid.refresh()` is to be called.
 *   `line`: these words stand before that image, which begins a row.
 */

/** Makes a grid called `label` for screen readers; `show(source)` fills it. */
export function makeGrid(label) {
  const element = h("div", { class: "grid", role: "grid", "aria-label": label });
  const rows = new Map();
  let source = { total: 0, item: () => null, need: () => {} };
  let width = 0;
  let columns = 1;
  let size = NARROWEST;
  let active = 0;
  let resting = 0;
  let frame = 0;
  let lastTop = 0;
  let line = null;

  const rowHeight = () => size + GAP + (source.noteHeight ?? 0);
  const parting = () => source.line?.at ?? Infinity;
  /** How many rows stand before the line. */
  const rowsBefore = () => Math.ceil(Math.min(parting(), source.total) / columns);
  const rowOf = (index) =>
    index < parting() ? Math.floor(index / columns) : rowsBefore() + Math.floor((index - parting()) / columns);
  const rowCount = () => (source.total ? rowOf(source.total - 1) + 1 : 0);
  const isBelow = (row) => source.line !== undefined && row >= rowsBefore();
  const firstOf = (row) => (isBelow(row) ? parting() + (row - rowsBefore()) * columns : row * columns);
  const endOf = (row) => Math.min(firstOf(row) + columns, isBelow(row) ? source.total : parting(), source.total);
  const topOf = (row) => row * rowHeight() + (isBelow(row) ? LINE : 0);

  /** Makes the rows in view, and removes the others but for the one with the focus. */
  function draw() {
    frame = 0;
    if (!element.isConnected || !source.total) return;
    const top = -element.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor((top - LINE) / rowHeight()) - SPARE);
    const last = Math.min(rowCount() - 1, Math.floor((top + innerHeight) / rowHeight()) + SPARE);
    const isFlying = Math.abs(top - lastTop) > rowHeight() / 2;
    lastTop = top;
    for (const [number, row] of rows) {
      if ((number < first || number > last) && !row.contains(document.activeElement)) {
        row.remove();
        rows.delete(number);
      }
    }
    for (let number = first; number <= last; number += 1) if (!rows.has(number)) rows.set(number, makeRow(number));
    const ahead = last - first + 1;
    const fillRows = () => {
      fillTiles();
      source.need(firstOf(Math.max(0, first - ahead)), endOf(Math.min(rowCount() - 1, last + ahead)));
    };
    clearTimeout(resting);
    if (isFlying) resting = setTimeout(fillRows, REST);
    else fillRows();
  }

  function makeRow(number) {
    const row = h("div", { class: "row", role: "row", "aria-rowindex": number + 1 });
    row.style.transform = `translateY(${topOf(number)}px)`;
    row.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    for (let index = firstOf(number); index < endOf(number); index += 1) {
      const column = index - firstOf(number) + 1;
      const tile = place({ role: "gridcell", "aria-colindex": column, "aria-label": "loading" });
      tile.index = index;
      tile.tabIndex = index === active ? 0 : -1;
      row.append(tile);
    }
    // In the order of the rows, so that reading and Tab follow it.
    const next = [...rows.keys()].filter((other) => other > number).sort((a, b) => a - b)[0];
    element.insertBefore(row, next === undefined ? null : rows.get(next));
    return row;
  }

  const tiles = () => [...rows.values()].flatMap((row) => [...row.children]);

  /** Fills the places whose images have come. */
  function fillTiles() {
    for (const tile of tiles()) {
      const image = tile.image ? null : source.item(tile.index);
      if (image) fill(tile, image, source.describe?.(image));
    }
  }

  const drawSoon = () => {
    frame ||= requestAnimationFrame(draw);
  };

  function layOut() {
    width = element.clientWidth;
    if (!width) return;
    const hadFocus = element.contains(document.activeElement);
    columns = Math.max(2, Math.floor((width + GAP) / (NARROWEST + GAP)));
    size = (width - (columns - 1) * GAP) / columns;
    element.style.height = `${Math.max(0, topOf(rowCount()) - GAP)}px`;
    element.setAttribute("aria-rowcount", rowCount());
    element.setAttribute("aria-colcount", columns);
    for (const row of rows.values()) row.remove();
    rows.clear();
    drawLine();
    lastTop = -element.getBoundingClientRect().top; // what jumps here does not fly
    draw();
    if (hadFocus) focus(active);
  }

  function drawLine() {
    line?.remove();
    line = source.line && h("div", { class: "parting", role: "row" }, h("span", { role: "gridcell" }, source.line.words));
    if (!line) return;
    line.style.transform = `translateY(${rowsBefore() * rowHeight()}px)`;
    element.prepend(line);
  }

  /** Moves the focus to an image, which is scrolled into view. */
  function focus(index) {
    active = Math.max(0, Math.min(source.total - 1, index));
    const top = topOf(rowOf(active));
    const shift = element.getBoundingClientRect().top;
    const style = getComputedStyle(document.documentElement);
    const [above, below] = ["scrollPaddingTop", "scrollPaddingBottom"].map((name) => parseFloat(style[name]) || 0);
    if (shift + top < above) scrollBy(0, shift + top - above);
    const hidden = shift + top + rowHeight() - (innerHeight - below);
    if (hidden > 0) scrollBy(0, hidden);
    draw();
    for (const tile of tiles()) tile.tabIndex = tile.index === active ? 0 : -1;
    tiles()
      .find((tile) => tile.index === active)
      ?.focus({ preventScroll: true });
  }

  /** The image so many rows below the active one, or as far as there are rows. */
  function beside(step) {
    const row = rowOf(active);
    const next = Math.max(0, Math.min(rowCount() - 1, row + step));
    return Math.min(firstOf(next) + active - firstOf(row), endOf(next) - 1);
  }

  element.addEventListener("keydown", (event) => {
    if (!event.target.classList.contains("tile") || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(innerHeight / rowHeight()) - 1);
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    const rowSteps = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page };
    if (!(event.key in steps) && !(event.key in rowSteps)) return;
    event.preventDefault();
    if (event.key in steps) focus(active + steps[event.key]);
    else focus(beside(rowSteps[event.key]));
  });
  element.addEventListener("focusin", (event) => {
    const tile = event.target.closest(".tile");
    if (!tile || tile.index === active) return;
    active = tile.index;
    for (const other of tiles()) other.tabIndex = other.index === active ? 0 : -1;
  });

  liveTiles(element);
  addEventListener("scroll", drawSoon, { passive: true });
  new ResizeObserver(() => {
    if (element.clientWidth !== width) layOut();
  }).observe(element);
  queryChanged.on(() => tiles().forEach(markUsed));

  return {
    element,
    /** Shows other images; `at` is the one that Tab leads to. */
    show(next, { at = 0 } = {}) {
      source = next;
      active = at;
      element.hidden = source.total === 0;
      layOut();
    },
    /** To be called when images have come. */
    refresh: drawSoon,
  };
}

/** A virtual grid of photos in justified rows: only rows in view have elements. */

import { h } from "./dom.js";
import { GAP, justify, ratioOf, USUAL, wantedHeight } from "./layout.js";
import { queryChanged } from "./query.js";
import { t } from "./texts.js";
import { fill, liveTiles, markUsed, place } from "./tile.js";

/** The number of photos that are laid out at a time. */
const CHUNK = 48;
/** How far beyond the window rows are drawn, in pixels. */
const SPARE = 500;
/** The height of a heading. */
const HEADING = 44;
/** While scrolling faster than this, in pixels per frame, photos are only loaded after REST milliseconds. */
const FAST = 400;
const REST = 60;

/**
 * @typedef {{total: number, item: (index: number) => ?object, need: (from: number, to: number) => void,
 *   groups?: {at: number, title: string, count?: string}[], describe?: (image: object) => object}} Source
 *   Photos by index. `need` requests photos; call `grid.refresh()` when they are loaded. `groups` are headings before
 *   photo `at`.
 */

/** Creates a grid with the `label` for screen readers; `show(source)` fills it. */
export function makeGrid(label) {
  const element = h("div", { class: "grid", role: "grid", "aria-label": label });
  /** The drawn rows by "chunk:row", and the headings by chunk. */
  const rows = new Map();
  const headings = new Map();
  let source = { total: 0, item: () => null, need: () => {} };
  let chunks = [];
  let width = 0;
  let active = 0;
  let resting = 0;
  let frame = 0;
  let lastTop = 0;

  // --- layout --------------------------------------------------------------------------------------------------------

  function makeChunks() {
    const starts = [...new Set([0, ...(source.groups ?? []).map(({ at }) => at)])].sort((a, b) => a - b);
    const title = new Map((source.groups ?? []).map((group) => [group.at, group]));
    chunks = starts.flatMap((start, number) => {
      const end = starts[number + 1] ?? source.total;
      const parts = [];
      for (let from = start; from < end; from += CHUNK) {
        parts.push({ from, to: Math.min(end, from + CHUNK), group: from === start ? title.get(start) : undefined });
      }
      return parts;
    });
  }

  /** Lays out a chunk by the sizes of its photos; unknown sizes are estimated. */
  function measure(chunk) {
    const ratios = [];
    let isKnown = true;
    for (let index = chunk.from; index < chunk.to; index += 1) {
      const image = source.item(index);
      isKnown &&= Boolean(image);
      ratios.push(image ? ratioOf(image) : USUAL);
    }
    if (chunk.rows && !isKnown) return;
    chunk.isKnown = isKnown;
    let top = chunk.group ? HEADING : 0;
    chunk.rows = justify(ratios, width, wantedHeight(width)).map((row) => {
      const laid = { from: chunk.from + row.from, to: chunk.from + row.to, height: row.height, top };
      top += row.height + GAP;
      return laid;
    });
    chunk.ratios = ratios;
    chunk.height = top;
  }

  function stack() {
    let top = 0;
    for (const chunk of chunks) {
      chunk.top = top;
      top += chunk.height;
    }
    element.style.height = `${Math.max(0, top - GAP)}px`;
    element.setAttribute("aria-rowcount", chunks.reduce((sum, { rows: own }) => sum + own.length, 0));
  }

  /** The last chunk that begins at or before a position in pixels. */
  function chunkAt(top) {
    let [low, high] = [0, chunks.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (chunks[middle].top <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function chunkOf(index) {
    return chunks.findIndex(({ from, to }) => index >= from && index < to);
  }

  function rowOf(index) {
    const chunk = chunkOf(index);
    return [chunk, chunks[chunk]?.rows.findIndex(({ from, to }) => index >= from && index < to) ?? -1];
  }

  // --- drawing -------------------------------------------------------------------------------------------------------

  const offset = () => -element.getBoundingClientRect().top;

  /** Draws the rows in view, and removes all others except the one with the focus. */
  function draw() {
    frame = 0;
    if (!element.isConnected || !chunks.length || !width) return;
    const top = offset();
    const isFlying = Math.abs(top - lastTop) > FAST;
    lastTop = top;
    const wanted = new Set();
    const first = chunkAt(top - SPARE);
    let last = first;
    for (let number = first; number < chunks.length && chunks[number].top < top + innerHeight + SPARE; number += 1) {
      last = number;
      const chunk = chunks[number];
      if (chunk.group) showHeading(number);
      chunk.rows.forEach((row, at) => {
        const start = chunk.top + row.top;
        if (start + row.height < top - SPARE || start > top + innerHeight + SPARE) return;
        wanted.add(`${number}:${at}`);
        if (!rows.has(`${number}:${at}`)) makeRow(number, at);
      });
    }
    for (const [key, row] of rows) {
      if (wanted.has(key) || row.contains(document.activeElement)) continue;
      row.remove();
      rows.delete(key);
    }
    const fillRows = () => {
      fillTiles();
      source.need(chunks[first].from, chunks[Math.min(last + 1, chunks.length - 1)].to);
    };
    clearTimeout(resting);
    if (isFlying) resting = setTimeout(fillRows, REST);
    else fillRows();
  }

  function showHeading(number) {
    if (!headings.has(number)) {
      const { title, count } = chunks[number].group;
      const words = h("h2", { role: "gridcell" }, `${title} `, count && h("span", { class: "count" }, count));
      headings.set(number, h("div", { class: "group-heading", role: "row" }, words));
      insert(headings.get(number), number, -1);
    }
    headings.get(number).style.transform = `translateY(${chunks[number].top}px)`;
  }

  function makeRow(number, at) {
    const chunk = chunks[number];
    const row = chunk.rows[at];
    const line = h("div", { class: "row", role: "row" });
    line.style.transform = `translateY(${chunk.top + row.top}px)`;
    for (let index = row.from; index < row.to; index += 1) {
      const tile = place({ role: "gridcell", "aria-colindex": index - row.from + 1, "aria-label": t("loading") });
      tile.index = index;
      tile.tabIndex = index === active ? 0 : -1;
      tile.style.width = `${row.height * chunk.ratios[index - chunk.from]}px`;
      tile.style.height = `${row.height}px`;
      line.append(tile);
    }
    rows.set(`${number}:${at}`, line);
    insert(line, number, at);
  }

  /** Inserts an element in the order of the photos, for screen readers and Tab. */
  function insert(line, number, at) {
    line.order = number * 1000 + at;
    const next = [...element.children].find((other) => other.order > line.order);
    element.insertBefore(line, next ?? null);
  }

  const tiles = () => [...rows.values()].flatMap((row) => [...row.children]);

  /** Fills the places of loaded photos. */
  function fillTiles() {
    for (const tile of tiles()) {
      const image = tile.image ? null : source.item(tile.index);
      if (image) fill(tile, image, source.describe?.(image));
    }
  }

  function clear() {
    for (const line of [...rows.values(), ...headings.values()]) line.remove();
    rows.clear();
    headings.clear();
  }

  function layOut() {
    width = element.clientWidth;
    if (!width) return;
    const hadFocus = element.contains(document.activeElement);
    for (const chunk of chunks) {
      chunk.rows = null;
      measure(chunk);
    }
    stack();
    clear();
    lastTop = offset(); // a jump does not count as fast scrolling
    draw();
    if (hadFocus) focus(active);
  }

  /** Lays out chunks whose photos were loaded, without moving what is in view. */
  function refresh() {
    frame = 0;
    if (!element.isConnected || !width) return;
    const come = chunks.filter(({ isKnown, from }) => !isKnown && source.item(from));
    if (come.length) {
      const anchor = chunks[chunkAt(Math.max(0, offset()))];
      const before = anchor?.top;
      const focused = document.activeElement?.closest?.(".tile");
      const hadFocus = focused && element.contains(focused);
      come.forEach(measure);
      stack();
      clear();
      const shift = anchor ? anchor.top - before : 0;
      if (shift && offset() > 0) scrollBy(0, shift);
      lastTop = offset();
      draw();
      if (hadFocus) focus(active);
    } else draw();
  }

  const soon = (act) => () => {
    frame ||= requestAnimationFrame(act);
  };
  const drawSoon = soon(draw);
  const refreshSoon = soon(refresh);

  // --- keyboard ------------------------------------------------------------------------------------------------------

  /** Moves the focus to a photo and scrolls it into view. */
  function focus(index) {
    active = Math.max(0, Math.min(source.total - 1, index));
    const [number, at] = rowOf(active);
    if (number < 0) return;
    const row = chunks[number].rows[at];
    const top = chunks[number].top + row.top - offset();
    const style = getComputedStyle(document.documentElement);
    const [above, below] = ["scrollPaddingTop", "scrollPaddingBottom"].map((name) => parseFloat(style[name]) || 0);
    if (top < above) scrollBy(0, top - above);
    const hidden = top + row.height - (innerHeight - below);
    if (hidden > 0) scrollBy(0, hidden);
    draw();
    for (const tile of tiles()) tile.tabIndex = tile.index === active ? 0 : -1;
    tiles()
      .find((tile) => tile.index === active)
      ?.focus({ preventScroll: true });
  }

  /** The horizontally nearest photo a number of rows below the active one. */
  function beside(step) {
    let [number, at] = rowOf(active);
    const middle = centerOf(number, at, active);
    for (let left = Math.abs(step); left > 0; left -= 1) {
      const next = at + Math.sign(step);
      if (chunks[number].rows[next]) at = next;
      else if (chunks[number + Math.sign(step)]) {
        number += Math.sign(step);
        at = step > 0 ? 0 : chunks[number].rows.length - 1;
      }
    }
    const { from, to } = chunks[number].rows[at];
    const distance = (index) => Math.abs(centerOf(number, at, index) - middle);
    return Array.from({ length: to - from }, (_, place) => from + place).reduce((best, index) =>
      distance(index) < distance(best) ? index : best,
    );
  }

  function centerOf(number, at, index) {
    const { from, height } = chunks[number].rows[at];
    const ratio = (other) => chunks[number].ratios[other - chunks[number].from];
    let left = 0;
    for (let other = from; other < index; other += 1) left += ratio(other) * height + GAP;
    return left + (ratio(index) * height) / 2;
  }

  element.addEventListener("keydown", (event) => {
    if (!event.target.classList.contains("tile") || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(innerHeight / wantedHeight(width)) - 1);
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
    /** Shows the photos of a source; `at` is the one that Tab focuses. */
    show(next, { at = 0 } = {}) {
      source = next;
      active = at;
      element.hidden = source.total === 0;
      makeChunks();
      layOut();
    },
    /** Must be called when photos were loaded. */
    refresh: refreshSoon,
    /** The photo a number of places after another; undefined if there is none or it is not loaded yet. */
    neighbour(id, step) {
      const index = source.indexOf?.(id) ?? -1;
      if (index < 0) return undefined;
      const next = index + step;
      if (next >= 0) source.need(next, Math.min(source.total, next + 1));
      return next >= 0 && next < source.total ? source.item(next) : undefined;
    },
    /** Moves the focus to a photo, if it is in the grid. */
    focusOn(id) {
      const index = source.indexOf?.(id) ?? -1;
      if (index >= 0) focus(index);
    },
    /** Scrolls to the photo with an index. */
    scrollTo(index) {
      const chunk = chunks[chunkOf(index)];
      if (!chunk) return;
      const padding = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
      scrollBy(0, chunk.top - offset() - padding);
    },
  };
}

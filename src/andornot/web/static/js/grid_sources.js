/** Sources of the photos in a grid. */

import { ask, isAborted } from "./api.js";
import { h } from "./dom.js";
import { placesOf } from "./frames.js";
import { count, month, percent, STRENGTHS } from "./labels.js";
import { t } from "./texts.js";

const PAGE = 200;
/** Further hits are requested when this many loaded ones are left. */
const AHEAD = 40;

/**
 * All photos of the gallery that pass the filters, loaded in pages on demand; `came` is called after each page.
 * If sorted by date, they have a heading for each month.
 * @returns {Promise<import("./grid.js").Source>}
 */
export async function wholeGallery(filters, came, signal) {
  const pages = new Map();
  const load = async (number, stop) => {
    const asked = { ...filters, offset: number * PAGE, limit: PAGE };
    const answer = await ask("/api/images", asked, { signal: stop });
    pages.set(number, answer.images);
    return answer;
  };
  const [{ total }, groups] = await Promise.all([load(0, signal), monthsOf(filters, signal)]);
  const loading = new Map();
  return {
    total,
    groups,
    item: (index) => pages.get(Math.floor(index / PAGE))?.[index % PAGE],
    indexOf(id) {
      for (const [number, images] of pages) {
        const place = images.findIndex((image) => image.id === id);
        if (place >= 0) return number * PAGE + place;
      }
      return -1;
    },
    need(from, to) {
      const [first, last] = [Math.floor(from / PAGE), Math.floor((to - 1) / PAGE)];
      for (const [number, controller] of loading) {
        if (number >= first && number <= last) continue;
        controller.abort();
        loading.delete(number);
      }
      for (let number = first; number <= last; number += 1) {
        if (pages.has(number) || loading.has(number)) continue;
        const controller = new AbortController();
        loading.set(number, controller);
        load(number, controller.signal)
          .catch((error) => isAborted(error) || pause())
          .then(() => {
            if (loading.get(number) === controller) loading.delete(number);
            came();
          });
      }
    },
  };
}

/** Waits before a failed request is retried. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 1000));

/** A heading for each month, if photos are sorted by date. */
async function monthsOf({ order, ...filters }, signal) {
  if (order !== "taken" && order !== "-taken") return [];
  const { months } = await ask("/api/timeline", filters, { signal });
  if (order === "taken") months.reverse();
  let at = 0;
  return months.map(({ month: text, images }) => {
    const group = { at, title: month(text), count: count(images) };
    at += images;
    return group;
  });
}

/** A loaded list of photos; `words(image)` are shown on each, with the title `word`. */
export function listed(images, words, word) {
  return {
    total: images.length,
    item: (index) => images[index],
    indexOf: (id) => images.findIndex((image) => image.id === id),
    need: () => {},
    describe(image) {
      const value = words(image);
      return { note: note(image.name, value), said: `${word} ${value}` };
    },
  };
}

/**
 * The hits of an answer, in groups: strong, maybe and weak ones.
 * @param {Stacked[]} shown  the visible hits
 * @param {(id: number) => void} toggle  opens or closes a stack
 * @param {() => void} more  requests further hits
 */
export function answered({ names, isComplete }, shown, toggle, more) {
  const byId = new Map(shown.map((one, index) => [one.hit.id, { ...one, index }]));
  return {
    total: shown.length,
    groups: groupsOf(shown, isComplete),
    item: (index) => shown[index]?.hit,
    indexOf: (id) => byId.get(id)?.index ?? -1,
    need(_, to) {
      if (to > shown.length - AHEAD && !isComplete) more();
    },
    describe(hit) {
      const { others, isOpen, isInside } = byId.get(hit.id);
      const match = percent(hit.truth);
      return {
        note: note(hit.name, match),
        said: t("match {percent}, {group}", { percent: match, group: STRENGTHS[hit.strength] }),
        places: placesOf(hit, names),
        stack: others.length ? { count: others.length, isOpen, toggle: () => toggle(hit.id) } : undefined,
        isInside,
      };
    },
  };
}

/** The start of each group; the last one may have more hits than are loaded. */
function groupsOf(shown, isComplete) {
  const groups = [];
  let at = 0;
  for (const [strength, title] of Object.entries(STRENGTHS)) {
    const end = Math.max(at, shown.findLastIndex((one) => one.strength === strength) + 1);
    if (end > at) groups.push({ at, title, count: count(end - at) + (end === shown.length && !isComplete ? "+" : "") });
    at = end;
  }
  return groups;
}

const note = (name, value) =>
  h("p", { class: "note", "aria-hidden": "true" }, h("span", {}, name), h("b", {}, value));

// --- near duplicates ---------------------------------------------------------------------------------------------

/**
 * @typedef {{hit: object, others: object[], isOpen: boolean, isInside: boolean, strength: string}} Stacked
 *   A hit of the grid, and the near duplicates stacked under it. `isInside`: it is in an open stack, but not the first.
 *   `strength`: that of the first hit of the stack.
 */

/**
 * The visible hits in order; those of an open stack follow its first.
 * @param {{id: number, stacked_on: ?number}[]} hits
 * @param {Set<number>} open  the first hits of open stacks
 * @returns {Stacked[]}
 */
export function stacked(hits, open) {
  const stacks = new Map();
  const firstOf = new Map();
  for (const hit of hits) {
    const first = firstOf.get(hit.stacked_on) ?? hit.id;
    firstOf.set(hit.id, first);
    if (first === hit.id) stacks.set(first, { hit, others: [] });
    else stacks.get(first).others.push(hit);
  }
  return [...stacks.values()].flatMap(({ hit, others }) => {
    const isOpen = open.has(hit.id);
    const { strength } = hit;
    const inside = isOpen ? others : [];
    return [
      { hit, others, isOpen, isInside: false, strength },
      ...inside.map((other) => ({ hit: other, others: [], isOpen: false, isInside: true, strength })),
    ];
  });
}

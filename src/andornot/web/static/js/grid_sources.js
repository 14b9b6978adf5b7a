/** Sources of the photos in a grid. */

import { ask, isAborted } from "./api.js";
import { h } from "./dom.js";
import { placesOf } from "./frames.js";
import { percent } from "./labels.js";

const PAGE = 200;
const NOTE = 30;

/**
 * All images of the gallery that pass some filters, page by page as they are wanted; `came` is called when some came.
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
  const { total } = await load(0, signal);
  const loading = new Map();
  return {
    total,
    item: (index) => pages.get(Math.floor(index / PAGE))?.[index % PAGE],
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

/** Waits before a failed request is repeated. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 1000));

/** A list that is there already; `words(image)` are shown below each, and called `word`. */
export function listed(images, words, word) {
  return {
    total: images.length,
    item: (index) => images[index],
    need: () => {},
    noteHeight: NOTE,
    describe(image) {
      const value = words(image);
      return { note: note(image.name, value), said: `${word} ${value}` };
    },
  };
}

/**
 * The hits of an answer; weak ones stand below a line.
 * @param {import("./stacks.js").Stacked[]} shown  what of it is to be seen
 * @param {(id: number) => void} toggle  opens or folds a stack
 */
export function answered({ names }, shown, toggle) {
  const byId = new Map(shown.map((one) => [one.hit.id, one]));
  const firstWeak = shown.findLastIndex(({ isWeak }) => !isWeak) + 1;
  const words = firstWeak ? "Below: weak matches" : "Only weak matches";
  return {
    total: shown.length,
    item: (index) => shown[index].hit,
    need: () => {},
    noteHeight: NOTE,
    line: firstWeak < shown.length ? { at: firstWeak, words } : undefined,
    describe(hit) {
      const { others, isOpen, isInside } = byId.get(hit.id);
      const match = percent(hit.truth);
      return {
        note: note(hit.name, match),
        said: `match ${match}${hit.is_weak ? ", weak" : ""}`,
        places: placesOf(hit, names),
        stack: others.length ? { count: others.length, isOpen, toggle: () => toggle(hit.id) } : undefined,
        isInside,
      };
    },
  };
}

const note = (name, value) =>
  h("p", { class: "note", "aria-hidden": "true" }, h("span", {}, name), h("b", {}, value));

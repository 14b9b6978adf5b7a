/** Searching while the query is built: the newest answer counts, and the one before stays until it comes. */

import { here, moved, SEARCH } from "./address.js";
import { ApiError, ask, isAborted, newestOnly, withParameters } from "./api.js";
import { debounced } from "./dom.js";
import { changed } from "./gallery.js";
import * as query from "./query.js";
import { signal } from "./signal.js";

/** Sent when there is another answer, or none any more. */
export const found = signal();

/** Clicks that follow one another this fast are one search. */
const PAUSE = 60;

let answer = null;
let reasons = null;
const newest = newestOnly();

/** The server's answer to the query; null without one. */
export const result = () => answer;

/** Searches from now on, whenever the query, the options or the gallery change. */
export function startSearch() {
  const searchSoon = debounced(search, PAUSE);
  moved.on(({ now, before }) => {
    if (now.q !== before.q || SEARCH.some((name) => now[name] !== before[name])) searchSoon();
  });
  changed.on(search);
  search();
}

/** The features that carried a hit, or undefined if the picture is no hit. They cost more, and are asked for late. */
export async function why(id) {
  if (!answer?.hits.some((hit) => hit.id === id)) return undefined;
  reasons ??= ask("/api/search", { ...asked(), why: "1" }).catch((error) => {
    reasons = null; // to be asked for again
    throw error;
  });
  const { hits } = await reasons;
  return hits.find((hit) => hit.id === id)?.why;
}

/** Where the hits can be had as a file. */
export const download = (format) => withParameters("/api/download", { ...asked(), format });

function asked() {
  const state = here();
  return { formula: state.q, ...Object.fromEntries(SEARCH.map((name) => [name, state[name]])) };
}

async function search() {
  if (!here().q) {
    newest(() => {});
    settle(null);
    return;
  }
  document.body.classList.add("is-searching");
  try {
    settle(await newest((stop) => ask("/api/search", asked(), { signal: stop })));
    if (query.error() && query.formula() === here().q) query.blame(null);
  } catch (error) {
    if (isAborted(error)) return;
    document.body.classList.remove("is-searching");
    if (error instanceof ApiError && query.formula() === here().q) query.blame(error);
  }
}

function settle(next) {
  document.body.classList.remove("is-searching");
  answer = next;
  reasons = null;
  found.send(answer);
}

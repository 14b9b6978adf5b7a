/** Searches: only the newest request is used, and the previous answer stays until the next one arrives. */

import { here, SEARCH } from "./address.js";
import { ask, askSearch, isAborted, newestOnly, withParameters } from "./api.js";
import { signal } from "./signal.js";

/** Sent when the answer was replaced or removed. */
export const found = signal();

/** Sent when further hits of the same answer were loaded. */
export const grown = signal();

/** The number of hits of the first request; each further request loads as many as are already loaded. */
const FIRST = 48;
const MOST = 1000;

let answer = null;
/** The parameters of the last request, and those that need no further request (answered or invalid). */
let requested = "";
let settled = "";
const newest = newestOnly();

/** The server's answer to the query; null without one. */
export const result = () => answer;

/** Whether the server has answered this formula with the options of the address, possibly with an error. */
export const isSettled = (formula) => settled === JSON.stringify(parametersOf(formula));

/** Parses a formula and searches with the options of the address. Call `showAnswer` to show the answer. */
export async function search(formula) {
  const parameters = parametersOf(formula);
  requested = JSON.stringify(parameters);
  document.body.classList.add("is-searching");
  try {
    return await newest((stop) => askSearch(parameters, { signal: stop }));
  } catch (error) {
    if (isAborted(error)) throw error;
    document.body.classList.remove("is-searching");
    if (error.status === 200) settled = requested;
    throw error;
  }
}

/** Shows the answer to the newest search; null for none. */
export function showAnswer(next) {
  document.body.classList.remove("is-searching");
  settled = next ? requested : "";
  answer = next && { ...next, isComplete: next.hits.length < FIRST };
  found.send(answer);
}

let isLoading = false;

/** Requests further hits. */
export async function moreHits() {
  const mine = answer;
  if (isLoading || !mine || mine.isComplete) return;
  isLoading = true;
  const asked = { offset: mine.hits.length, top: Math.min(MOST, mine.hits.length) };
  try {
    const { hits } = await ask("/api/search", { ...parametersOf(here().q), ...asked });
    if (answer !== mine) return;
    const known = new Set(mine.hits.map(({ id }) => id));
    const fresh = hits.filter(({ id }) => !known.has(id));
    answer = { ...mine, hits: [...mine.hits, ...fresh], isComplete: hits.length < asked.top };
    grown.send(answer);
  } catch {
    // Requested again on further scrolling.
  } finally {
    isLoading = false;
  }
}

/** Cancels the running search. */
export function cancelSearch() {
  document.body.classList.remove("is-searching");
  newest(() => {});
}

/** The features that contributed to a hit; undefined if the photo is not a hit. Slow, so requested on demand. */
export async function why(id) {
  if (!answer?.hits.some((hit) => hit.id === id)) return undefined;
  const offset = answer.hits.findIndex((hit) => hit.id === id);
  const { hits } = await ask("/api/search", { ...parametersOf(here().q), why: "1", offset, top: 1 });
  return hits.find((hit) => hit.id === id)?.why;
}

/** The address to download the hits from. */
export const download = (format) => {
  // The strong and maybe hits, or the loaded ones if there are none.
  const isSure = answer.hits.some(({ strength }) => strength !== "weak");
  const which = isSure ? { top: MOST, weak: "0" } : { top: Math.min(MOST, answer.hits.length) };
  return withParameters("/api/download", { ...parametersOf(here().q), format, exclude: here().exclude.split(","), ...which });
};

function parametersOf(formula) {
  return { formula, ...Object.fromEntries(SEARCH.map((name) => [name, here()[name]])) };
}

/** Searching: the newest request counts, and the previous answer stays until the next one arrives. */

import { here, SEARCH } from "./address.js";
import { ask, askSearch, isAborted, newestOnly, withParameters } from "./api.js";
import { signal } from "./signal.js";

/** Sent when there is another answer, or none any more. */
export const found = signal();

let answer = null;
let reasons = null;
/** The parameters that were requested last, and those that need no further request: answered, or wrong. */
let requested = "";
let settled = "";
const newest = newestOnly();

/** The server's answer to the query; null without one. */
export const result = () => answer;

/** Whether the server has answered this formula with the options of the address, be it with a mistake. */
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
  answer = next;
  reasons = null;
  found.send(answer);
}

/** Gives up the search that is under way. */
export function cancelSearch() {
  document.body.classList.remove("is-searching");
  newest(() => {});
}

/** The features that contributed to a hit; undefined if the photo is no hit. They are slow, so requested only here. */
export async function why(id) {
  if (!answer?.hits.some((hit) => hit.id === id)) return undefined;
  reasons ??= ask("/api/search", { ...parametersOf(here().q), why: "1" }).catch((error) => {
    reasons = null; // to be requested again
    throw error;
  });
  const { hits } = await reasons;
  return hits.find((hit) => hit.id === id)?.why;
}

/** The address to download the hits from. */
export const download = (format) => withParameters("/api/download", { ...parametersOf(here().q), format });

function parametersOf(formula) {
  return { formula, ...Object.fromEntries(SEARCH.map((name) => [name, here()[name]])) };
}

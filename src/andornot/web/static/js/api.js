/** Asking the server. */

import { signal } from "./signal.js";

/** An answer that is an error: `message`, and for formulas `position` and `length` of the spot, `nearest` names. */
export class ApiError extends Error {
  constructor(status, { message, position, length, nearest }) {
    super(message);
    Object.assign(this, { status, position, length, nearest });
  }
}

/** No answer at all. */
export class Unreachable extends Error {}

/** Sent with null when the server answers as it should, else with what is wrong. */
export const trouble = signal();

const BUSY = 503;
const TRIES = 4;

/** The answer to a question, as it is; waits and asks again while the server is busy. */
export async function ask(path, parameters = {}, { signal: abort, ...options } = {}) {
  const address = withParameters(path, parameters);
  for (let left = TRIES; ; left -= 1) {
    const response = await fetched(address, { ...options, signal: abort });
    if (response.ok) return response.status === 204 ? null : response.json();
    if (response.status === BUSY && left > 1) {
      await pause(1000 * (Number(response.headers.get("Retry-After")) || 1), abort);
      continue;
    }
    const { error } = await response.json().catch(() => ({}));
    throw new ApiError(response.status, error ?? { message: `the server answered ${response.status}` });
  }
}

/** What a formula says; a mistake in it is an ApiError, but no failed request: whoever types makes many. */
export async function explain(formula, options) {
  const answer = await ask("/api/formula", { formula, unfinished: "1" }, options);
  if (answer.error) throw new ApiError(200, answer.error);
  return answer;
}

/** `path?name=value…`, without what is empty. */
export function withParameters(path, parameters) {
  const filled = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined);
  const query = new URLSearchParams(filled).toString();
  return query ? `${path}?${query}` : path;
}

/** Whether an error only says that nobody waits for the answer any more. */
export const isAborted = (error) => error.name === "AbortError";

/**
 * For questions of which only the newest counts: each call gives up the one before, which then never returns.
 * `latest((signal) => ask(…, { signal }))`
 */
export function newestOnly() {
  let controller = new AbortController();
  return (act) => {
    controller.abort();
    controller = new AbortController();
    return act(controller.signal);
  };
}

async function fetched(address, options) {
  try {
    const response = await fetch(address, options);
    if (response.status < 500) trouble.send(null);
    return response;
  } catch (error) {
    if (isAborted(error)) throw error;
    const failure = new Unreachable("The server does not answer. Trying again…");
    trouble.send(failure.message);
    throw failure;
  }
}

function pause(milliseconds, abort) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    abort?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(abort.reason);
    });
  });
}

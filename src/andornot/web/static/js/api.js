/** Requests to the server. */

import { signal } from "./signal.js";
import { t } from "./texts.js";

/**
 * An error returned by the server, with `code` and `message`. Errors in formulas also have the `span` [start, end] of
 * the wrong characters, `corrections`, and `parsed` if the formula can be parsed but not searched.
 */
export class ApiError extends Error {
  constructor(status, { code, message, span = [0, 0], corrections = [], understood = null }, parsed = null) {
    super(message);
    Object.assign(this, { status, code, span, corrections, understood, parsed });
  }
}

/** The server did not answer. */
export class Unreachable extends Error {}

/** Sent with a message when the server has a problem, and with null when it works again. */
export const trouble = signal();

const BUSY = 503;
const TRIES = 4;

/** Returns the answer to a request; retries while the server is busy. */
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
    throw new ApiError(response.status, error ?? { code: "unknown", message: t("the server answered {status}", { status: response.status }) });
  }
}

/** Parses a formula and searches; a mistake in it is an ApiError of status 200, because half-typed formulas are normal. */
export async function askSearch(parameters, options) {
  const answer = await ask("/api/search", { ...parameters, lenient: "1" }, options);
  if (answer.error) throw new ApiError(200, answer.error, answer.parsed);
  return answer;
}

/** Returns `path?name=value…`, without empty values; a list gives several values. */
export function withParameters(path, parameters) {
  const filled = Object.entries(parameters)
    .flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]]))
    .filter(([, value]) => value !== "" && value !== undefined);
  const query = new URLSearchParams(filled).toString();
  return query ? `${path}?${query}` : path;
}

/** Whether a request was cancelled. */
export const isAborted = (error) => error.name === "AbortError";

/**
 * For requests of which only the newest is needed: each call cancels the previous one.
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
    const failure = new Unreachable(t("The server does not respond. Trying again…"));
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

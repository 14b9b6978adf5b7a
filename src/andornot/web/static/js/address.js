/**
 * The state of the page is in its address: view, query, options, filters, and the open photo. So every state can be
 * shared and bookmarked, and the back button works.
 */

import { signal } from "./signal.js";

/** Default values, which are left out of the address. */
const DEFAULTS = {
  q: "", // the formula
  score: "centered",
  exclude: "", // ids of excluded photos
  logic: "", // default: the paper's logic in terms, product logic in conditions
  semantics: "exact",
  folder: "", // images in it, at any depth
  label: "", // images whose own folder has this name
  after: "",
  before: "",
  file_dates: "", // "1": use the file date of photos without a date
  order: "id",
  all: "", // "1": show all photos, even with a query
  frames: "", // "1": show boxes where terms were found
  names: "", // "1": show file names and percentages on the photos
  image: "", // the id of the open photo
  a: "",
  b: "",
  show: "degrees", // what the comparison draws
  sort: "spread", // of the features
};

const VIEWS = { "": "images", features: "features", feature: "feature", compare: "compare", duplicates: "duplicates", help: "help" };

/** Filters of photos. */
export const FILTERS = ["folder", "label", "after", "before", "file_dates"];

/** Options of the ranking. */
export const RANKING = ["score", "logic", "semantics"];

/** Everything that a search depends on, except the formula. */
export const SEARCH = [...RANKING, ...FILTERS];

/** The state without filters. */
export const UNFILTERED = Object.fromEntries(FILTERS.map((name) => [name, ""]));

/** Sent with the new and the old state. */
export const moved = signal();

let current = parsed(location);

/** The current state. */
export const here = () => current;

/** The address of the state with some changes. */
export function addressOf(changes) {
  const state = { ...current, ...changes };
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(DEFAULTS)) {
    if (state[name] !== value) parameters.set(name, state[name]);
  }
  const path = state.view === "images" ? "/" : `/${state.view}${state.view === "feature" ? `/${state.feature}` : ""}`;
  // Keep brackets and bars unescaped, which makes formulas easier to read.
  const text = parameters.toString().replaceAll("%7C", "|").replaceAll("%28", "(").replaceAll("%29", ")");
  return text ? `${path}?${text}` : path;
}

/** Changes the state; `replace` adds no entry to the history. */
export function go(changes, { replace = false } = {}) {
  const address = addressOf(changes);
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  arrive();
}

/** Handles links and the back and forward buttons without reloading the page. */
export function followLinks() {
  history.scrollRestoration = "manual"; // the content to scroll is loaded later
  addEventListener("popstate", arrive);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    if (!link || !plain || link.hasAttribute("download") || link.target || event.defaultPrevented) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !(firstPart(url) in VIEWS)) return;
    event.preventDefault();
    if (url.href === location.href) return;
    history.pushState(null, "", url);
    arrive();
  });
}

function arrive() {
  const before = current;
  current = parsed(location);
  moved.send({ now: current, before });
}

function firstPart({ pathname }) {
  return pathname.split("/")[1];
}

function parsed(url) {
  const given = new URLSearchParams(url.search);
  const state = Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]));
  return { ...state, view: VIEWS[firstPart(url)] ?? "images", feature: url.pathname.split("/")[2] ?? "" };
}

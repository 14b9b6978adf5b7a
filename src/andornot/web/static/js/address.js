/**
 * The address of the page is its state: which view, the query, options, filters, the picture that is looked at. So
 * everything can be shared and bookmarked, and "back" goes back.
 */

import { signal } from "./signal.js";

/** What is not in the address. */
const DEFAULTS = {
  q: "", // the formula
  score: "centred",
  top: "48",
  logic: "", // as usual: that of the paper in terms, the product in conditions
  semantics: "exact",
  folder: "", // pictures in it, at any depth
  label: "", // pictures whose own folder has this name
  after: "",
  before: "",
  file_dates: "", // "1": the date of its file for a picture that no camera dated
  order: "id",
  all: "", // "1": all pictures, though there is a query
  frames: "", // "1": frames around where terms were found
  picture: "", // the id of the picture that is looked at
  a: "",
  b: "",
  show: "degrees", // what the comparison draws
  sort: "spread", // of the features
};

const VIEWS = { "": "pictures", features: "features", feature: "feature", compare: "compare", help: "help" };

/** Which pictures may be found or shown. */
export const FILTERS = ["folder", "label", "after", "before", "file_dates"];

/** How they are ranked, and how many. */
export const RANKING = ["score", "top", "logic", "semantics"];

/** What a search depends on, but for the formula. */
export const SEARCH = [...RANKING, ...FILTERS];

/** The state of no filters. */
export const UNFILTERED = Object.fromEntries(FILTERS.map((name) => [name, ""]));

/** Sent with the new state and the old one. */
export const moved = signal();

let current = parsed(location);

/** The state now. */
export const here = () => current;

/** The address of the state with some changes. */
export function addressOf(changes) {
  const state = { ...current, ...changes };
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(DEFAULTS)) {
    if (state[name] !== value) parameters.set(name, state[name]);
  }
  const path = state.view === "pictures" ? "/" : `/${state.view}${state.view === "feature" ? `/${state.feature}` : ""}`;
  // A formula is easier to read, and to send, with its brackets and bars.
  const text = parameters.toString().replaceAll("%7C", "|").replaceAll("%28", "(").replaceAll("%29", ")");
  return text ? `${path}?${text}` : path;
}

/** Goes to the state with some changes; `replace` forgets where we were. */
export function go(changes, { replace = false } = {}) {
  const address = addressOf(changes);
  if (address === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  arrive();
}

/** Lets links and the buttons of the browser lead through the page without loading it again. */
export function followLinks() {
  history.scrollRestoration = "manual"; // what there is to scroll comes later
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
  return { ...state, view: VIEWS[firstPart(url)] ?? "pictures", feature: url.pathname.split("/")[2] ?? "" };
}

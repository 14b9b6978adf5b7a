/**
 * The query: trays and text in step. Whoever edits the trays gets the text written; whoever types gets the trays read
 * by the server. The text is in the address, and what is in the address is searched.
 */

import { go, here, moved } from "./address.js";
import { ask, isAborted, newestOnly, Unreachable } from "./api.js";
import { emptyGroup, isEmpty, picturesOf, placeOf, read, traysOf, write } from "./formula.js";
import { signal } from "./signal.js";

/** Sent when trays, text or the error have changed. */
export const queryChanged = signal();

/** Typing that goes on this long is one step back. */
const PAUSE = 1500;

let group = emptyGroup();
let active = group;
let text = "";
let fault = null;
let typed = -Infinity;
const newest = newestOnly();
/** The server does not know what the files of uploads were called. */
const uploadNames = new Map();

/** The outermost group. */
export const root = () => group;

/** The group that clicks add to. */
export const activeGroup = () => active;

/** The formula; while somebody types, it may be none. */
export const formula = () => text;

/** What is wrong with the text: `{message, position, length}`, or null. */
export const error = () => fault;

/** The picture as it stands in a tray. */
export function asItem({ id = null, upload = null, version, term, name }) {
  if (upload) uploadNames.set(upload, name);
  return { kind: "picture", term, file: name, id, upload, version };
}

/** Where in the query a picture is: names of trays. */
export function traysWith({ id, upload }) {
  const found = new Set();
  const look = (item) => {
    for (const [tray, items] of traysOf(item)) {
      for (const inner of items) {
        if (inner.kind !== "picture") look(inner);
        else if (upload ? inner.upload === upload : inner.id === id) found.add(tray);
      }
    }
  };
  look(group);
  return [...found];
}

/** Changes the trays by `act`, then writes the text anew. */
export function edit(act) {
  act(group);
  if (active !== group && !contains(group, active)) active = group;
  newest(() => {});
  text = write(group);
  fault = null;
  typed = -Infinity;
  queryChanged.send();
  go(text ? { q: text } : { q: "", all: "" });
}

/** Adds to a tray of the active group, or of another; what an at_least or a like holds is in one tray. */
export function add(item, tray, into = active) {
  edit(() => {
    (into.items ?? into[tray]).push(item);
    if (item.kind !== "picture") active = item;
  });
}

/** Takes an item out, wherever it is. */
export function remove(item) {
  edit(() => drop(item));
}

/** Takes an item from where it is to the end of a tray of a group. */
export function move(item, tray, into) {
  if (item === into || contains(item, into)) return;
  edit(() => {
    drop(item);
    delete item.not;
    (into.items ?? into[tray]).push(item);
  });
}

/** Puts another item in the place of one. */
export function replace(item, other) {
  edit(() => {
    const { items } = placeOf(item, group);
    items[items.indexOf(item)] = other;
    if (other.kind !== "picture") active = other;
  });
}

/** Starts afresh. */
export function clear() {
  edit(() => {
    group = emptyGroup();
    active = group;
  });
}

/** From now on clicks add to this group. */
export function activate(chosen) {
  if (active === chosen) return;
  active = chosen;
  queryChanged.send();
}

/** The text as somebody types it. */
export function type(value) {
  text = value;
  return readText({ isTyped: true });
}

/** An error that only the search can find, shown like the others. */
export function blame(failure) {
  fault = failure;
  queryChanged.send();
}

/** Follows the address from now on. */
export function startQuery() {
  moved.on(({ now, before }) => {
    if (now.q !== before.q && now.q !== text) readAddress();
  });
  return readAddress();
}

function readAddress() {
  text = here().q;
  return readText({ isTyped: false });
}

async function readText({ isTyped }) {
  if (!text.trim()) {
    newest(() => {});
    accept(emptyGroup(), isTyped);
    return;
  }
  try {
    const answer = await newest((stop) => ask("/api/formula", { formula: text }, { signal: stop }));
    // What trays hold is a term; a condition stays text.
    accept(answer.is_condition ? emptyGroup() : read(answer.tree, text), isTyped);
  } catch (failure) {
    if (isAborted(failure) || failure instanceof Unreachable) return;
    blame(failure);
  }
}

function accept(trays, isTyped) {
  group = active = trays;
  for (const picture of picturesOf(group)) picture.file = uploadNames.get(picture.upload) ?? picture.file;
  fault = null;
  queryChanged.send();
  if (!isTyped) return;
  const now = performance.now();
  go({ q: text }, { replace: now - typed < PAUSE });
  typed = now;
}

function drop(item) {
  const { items } = placeOf(item, group);
  items.splice(items.indexOf(item), 1);
}

const contains = (outer, item) => placeOf(item, outer) !== null;

/** How many pictures are in the query. */
export const size = () => picturesOf(group).length;

/** Whether nothing is asked. */
export const isBlank = () => isEmpty(group) && !text.trim();

// --- until the three trays "all", "any", "none" are here ---------------------------------------------------------

/** What a plain click on a picture does. */
export const click = (picture) => add(asItem(picture), "with");

/** One more example of what is looked for. */
export const moreLikeThis = (picture) => add(asItem(picture), "with");

/** An example of what is not looked for. */
export const notThis = (picture) => add(asItem(picture), "without");

/** A word into the query. */
export const addWord = (word) => add({ kind: "picture", term: word, file: word, id: null, upload: null }, "with");

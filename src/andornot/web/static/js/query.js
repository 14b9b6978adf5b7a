/**
 * The query: trays and text in step. Whoever edits the trays gets the text written; whoever types gets the trays read
 * by the server. The text is in the address, and what is in the address is searched.
 */

import { go, here, moved } from "./address.js";
import { explain, isAborted, newestOnly, Unreachable } from "./api.js";
import { cropped, emptyGroup, isEmpty, picturesOf, placeOf, read, tidy, traysOf, write } from "./formula.js";
import { changed } from "./gallery.js";
import { describe } from "./sentence.js";
import { signal } from "./signal.js";

/** Sent when trays, text, the error or the question have changed. */
export const queryChanged = signal();

/** Typing that goes on this long is one step back. */
const PAUSE = 1500;
const MOST_STEPS = 100;

let group = emptyGroup();
let text = "";
let fault = null;
let typed = -Infinity;
/** Which tray pictures are clicked into, if somebody chose one. */
let aimed = null;
/** What several clicked pictures are: "same" thing, or "both" together; null until somebody said so. */
let meant = null;
let isAsking = false;
/** Whether the server was away when the text was to be read. */
let isUnread = false;
/** What there was before each change. */
const steps = [];
const newest = newestOnly();
/** Servers before this one do not know what the files of uploads were called. */
const uploadNames = new Map();

// --- what there is -----------------------------------------------------------------------------------------------

/** The three trays. */
export const root = () => group;

/** The formula; while somebody types, it may be none. */
export const formula = () => text;

/** What is wrong with the text: `{message, position, length, nearest}`, or null. */
export const error = () => fault;

/** How many pictures are in the query. */
export const size = () => picturesOf(group).length;

/** Whether nothing is asked. */
export const isBlank = () => isEmpty(group) && !text.trim();

/** The query as an English sentence; "" for an empty one. */
export const sentence = () => describe(group);

/** The tray that somebody chose for the pictures that are clicked; null for the usual. */
export const aim = () => aimed;

/** The examples of which we want to know whether they are the same thing or both are wanted; null if we know. */
export const question = () => (isAsking ? (group.all.findLast(({ kind }) => kind === "like") ?? null) : null);

/** The picture as it stands in a tray; `crop` is the part of it that is meant, in fractions. */
export function asItem({ id = null, upload = null, version = "", term, name }, crop = null) {
  if (upload) uploadNames.set(upload, name);
  return cropped({ kind: "picture", term, file: name, id, upload, version, crop: null }, crop);
}

/** A word as it stands in a tray; `term` is how it is written. */
export const wordItem = (word) => ({ kind: "word", term: quoted(word), file: word });

/** A name as it stands in a formula: in quotes, unless it is surely one name without. */
export const quoted = (word) =>
  /^[\p{L}\p{N}_]+$/u.test(word) && !/^(and|or|not|at_least|like)$/i.test(word)
    ? word
    : `"${word.replace(/["\\]/g, "\\$&")}"`;

/** Where in the query a picture is: names of trays. */
export function traysWith(picture) {
  const isIn = (item) => picturesOf(item).some((other) => isSame(other, picture));
  return traysOf(group)
    .filter(([, items]) => items.some(isIn))
    .map(([tray]) => tray);
}

const isSame = (one, { id = null, upload = null }) => (upload ? one.upload === upload : one.id !== null && one.id === id);

// --- changes by hand ---------------------------------------------------------------------------------------------

/** Changes the trays by `act`, then writes the text anew. */
export function edit(act) {
  remember();
  act(group);
  tidy(group);
  settle(write(group));
}

/** Adds to a tray, or to the examples or the blend `into`. */
export function add(item, tray = "all", into = group) {
  edit(() => (into.items ?? into[tray]).push(item));
}

/** Takes an item out, wherever it is. */
export function remove(item) {
  edit(() => drop(item));
}

/** Takes an item from where it is to the end of a tray of a group. */
export function move(item, tray, into = group) {
  if (item === into || placeOf(into, item)) return;
  edit(() => {
    drop(item);
    (into.items ?? into[tray]).push(item);
  });
}

/** Puts another item in the place of one; several, if there are more. */
export function replace(item, ...others) {
  edit(() => {
    const { items } = placeOf(item, group);
    items.splice(items.indexOf(item), 1, ...others);
  });
}

/** Makes one item of two, in the place of the second: `{kind: "blend", op}` or `{kind: "like"}`. */
export function join(item, onto, { kind, op }) {
  if (item === onto || placeOf(onto, item)) return;
  edit(() => {
    if (placeOf(item, group)) drop(item);
    const { items } = placeOf(onto, group);
    // A weight is of a whole term.
    const parts = [onto, item].map(({ weight, ...rest }) => rest);
    items[items.indexOf(onto)] = { kind, ...(op && { op }), items: parts, weight: onto.weight };
  });
}

/** How much an item counts; 1 is as much as the others. */
export function weigh(item, weight) {
  edit(() => {
    item.weight = weight;
  });
}

/** Starts afresh. */
export function clear() {
  edit(() => {
    group = emptyGroup();
  });
}

/** From now on pictures that are clicked go into this tray; with null they are examples of what is looked for. */
export function aimAt(tray) {
  if (aimed === tray) return;
  aimed = tray;
  queryChanged.send();
}

// --- pictures that are clicked -----------------------------------------------------------------------------------

/**
 * A plain click on a picture: the first is looked for, a second one is one more example of the same thing. Whether
 * that was meant is asked once.
 */
export function click(picture) {
  if (aimed) {
    add(asItem(picture), aimed);
  } else if (!traysWith(picture).includes("all")) {
    const wasOne = Boolean(example()) && !meant;
    addExample(picture);
    isAsking = wasOne;
    queryChanged.send();
  }
}

/** One more example of what is looked for. */
export function moreLikeThis(picture) {
  if (traysWith(picture).includes("all")) return;
  addExample(picture);
}

/** An example of what is not looked for. */
export function notThis(picture) {
  if (!traysWith(picture).includes("none")) add(asItem(picture), "none");
}

/** A word into a tray. */
export function addWord(word, tray = "all") {
  const isThere = group[tray].some(({ kind, file }) => kind === "word" && file === word);
  if (!isThere) add(wordItem(word), tray);
}

/** Says what several clicked pictures are: "same" thing, or "both" together. */
export function answer(reading) {
  const examples = question();
  meant = reading;
  isAsking = false;
  if (reading === "both" && examples) replace(examples, ...examples.items);
  else queryChanged.send();
}

function addExample(picture) {
  const item = asItem(picture);
  const other = meant === "both" ? null : example();
  if (!other) add(item);
  else if (other.kind === "like") add(item, "items", other);
  else join(item, other, { kind: "like" });
}

/** What one more example would join: the last examples, or the last picture. */
const example = () => group.all.findLast(({ kind }) => kind === "like" || kind === "picture");

// --- text --------------------------------------------------------------------------------------------------------

/** The text as somebody types it. */
export function type(value) {
  if (value === text) return Promise.resolve();
  const now = performance.now();
  const isSameStep = now - typed < PAUSE;
  if (!isSameStep) remember();
  typed = now;
  text = value;
  return readText({ isSameStep });
}

/** Another text, as a whole. */
export function setText(value) {
  remember();
  typed = -Infinity;
  text = value;
  return readText();
}

/** An error that only the search can find, shown like the others. */
export function blame(failure) {
  fault = failure;
  queryChanged.send();
}

/** Follows the address from now on. */
export function startQuery() {
  moved.on(({ now, before }) => {
    if (now.q === before.q || now.q === text) return;
    // Who goes back has undone.
    if (steps.at(-1)?.text === now.q) steps.pop();
    else remember();
    readAddress();
  });
  changed.on(() => isUnread && readText());
  return readAddress();
}

function readAddress() {
  text = here().q;
  typed = -Infinity;
  return readText();
}

async function readText({ isSameStep = false } = {}) {
  const asked = text;
  isUnread = false;
  if (!asked.trim()) {
    newest(() => {});
    accept(emptyGroup(), isSameStep);
    return;
  }
  try {
    const { tree } = await newest((stop) => explain(asked, { signal: stop }));
    accept(read(tree, asked), isSameStep);
  } catch (failure) {
    if (failure instanceof Unreachable) isUnread = true;
    else if (!isAborted(failure)) blame(failure);
  }
}

function accept(trays, isSameStep) {
  group = trays;
  for (const picture of picturesOf(group)) picture.file = uploadNames.get(picture.upload) ?? picture.file;
  settle(text, isSameStep);
}

// --- and back ----------------------------------------------------------------------------------------------------

/** Whether there is something to undo. */
export const canUndo = () => steps.length > 0;

/** Takes the last change back. */
export function undo() {
  if (!steps.length) return;
  const before = steps.pop();
  ({ group, meant, isAsking } = before);
  settle(before.text);
}

function remember() {
  steps.push({ text, meant, isAsking, group: structuredClone(group) });
  if (steps.length > MOST_STEPS) steps.shift();
}

/** The trays are as they should be, and so is the text from now on. */
function settle(next, isSameStep = false) {
  newest(() => {});
  text = next;
  fault = null;
  if (isEmpty(group)) [aimed, meant, isAsking] = [null, null, false];
  if (!question()) isAsking = false;
  queryChanged.send();
  go(text.trim() ? { q: text } : { q: "", all: "" }, { replace: isSameStep });
}

function drop(item) {
  const { items } = placeOf(item, group);
  items.splice(items.indexOf(item), 1);
}

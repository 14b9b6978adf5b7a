/**
 * The query, as trays and as text. When the trays are edited, the text is written from them; when text is typed, the
 * server parses it and searches in one request, and the trays follow. The text is in the address.
 */

import { go, here, moved, SEARCH } from "./address.js";
import { ApiError, isAborted, Unreachable } from "./api.js";
import { debounced } from "./dom.js";
import { cropped, emptyGroup, isEmpty, imagesOf, placeOf, read, tidy, traysOf, write } from "./formula.js";
import { changed } from "./gallery.js";
import { cancelSearch, isSettled, search, showAnswer } from "./search.js";
import { describe } from "./sentence.js";
import { signal } from "./signal.js";

/** Sent when the trays, the text, the error or the question have changed. */
export const queryChanged = signal();

/** Typing without a longer pause is one undo step. */
const PAUSE = 1500;
/** Edits that follow each other faster are searched once. */
const SEARCH_PAUSE = 60;
const MOST_STEPS = 100;

let group = emptyGroup();
let text = "";
let fault = null;
/** How the server understood the text. */
let meaning = { understood: null, notes: [] };
let typed = -Infinity;
/** The tray that clicked photos are added to, if one was chosen. */
let aimed = null;
/** Whether several clicked photos show the "same" thing, or "both" are wanted together; null if unanswered. */
let meant = null;
let isAsking = false;
/** The pending parse of the text, `{isSameStep}`, or null. Kept while the server is unavailable. */
let reading = null;
/** The undo history. */
const steps = [];
/** The file names of uploads, which a restarted server does not know. */
const uploadNames = new Map();

// --- state -------------------------------------------------------------------------------------------------------

/** The three trays. */
export const root = () => group;

/** The text of the formula, which may have mistakes. */
export const formula = () => text;

/** The error in the text, an ApiError or null. */
export const error = () => fault;

/** How the text was understood: the formula for plain text, and notes about unknown words. */
export const interpretation = () => meaning;

/** The number of images in the query. */
export const size = () => imagesOf(group).length;

/** Whether the query is empty. */
export const isBlank = () => isEmpty(group) && !text.trim();

/** The query as an English sentence; "" for an empty one. */
export const sentence = () => describe(group);

/** The tray that was chosen for clicked photos; null for the default. */
export const aim = () => aimed;

/** The examples to ask "same thing, or both together?" about; null if this is known. */
export const question = () => (isAsking ? (group.all.findLast(({ kind }) => kind === "like") ?? null) : null);

/** An image as an item of a tray; `crop` is in fractions. */
export function asItem({ id = null, upload = null, version = "", term, name }, crop = null) {
  if (upload) uploadNames.set(upload, name);
  return cropped({ kind: "image", term, file: name, id, upload, version, crop: null }, crop);
}

/** The names of the trays that contain an image. */
export function traysWith(image) {
  const isIn = (item) => imagesOf(item).some((other) => isSame(other, image));
  return traysOf(group)
    .filter(([, items]) => items.some(isIn))
    .map(([tray]) => tray);
}

const isSame = (one, { id = null, upload = null }) => (upload ? one.upload === upload : one.id !== null && one.id === id);

// --- edits -------------------------------------------------------------------------------------------------------

/** Changes the trays by `act`, then updates the text. */
export function edit(act) {
  remember();
  act(group);
  tidy(group);
  settle(write(group));
}

/** Adds an item to a tray, or to the examples or the blend `into`. */
export function add(item, tray = "all", into = group) {
  edit(() => (into.items ?? into[tray]).push(item));
}

/** Removes an item. */
export function remove(item) {
  edit(() => drop(item));
}

/** Moves an item to the end of a tray of a group. */
export function move(item, tray, into = group) {
  if (item === into || placeOf(into, item)) return;
  edit(() => {
    drop(item);
    (into.items ?? into[tray]).push(item);
  });
}

/** Replaces an item by one or several others. */
export function replace(item, ...others) {
  edit(() => {
    const { items } = placeOf(item, group);
    items.splice(items.indexOf(item), 1, ...others);
  });
}

/** Merges two items in the place of the second: `{kind: "blend", op}` or `{kind: "like"}`. */
export function join(item, onto, { kind, op }) {
  if (item === onto || placeOf(onto, item)) return;
  edit(() => {
    if (placeOf(item, group)) drop(item);
    const { items } = placeOf(onto, group);
    // Only whole terms can have weights.
    const parts = [onto, item].map(({ weight, ...rest }) => rest);
    items[items.indexOf(onto)] = { kind, ...(op && { op }), items: parts, weight: onto.weight };
  });
}

/** Sets the weight of an item; the default is 1. */
export function weigh(item, weight) {
  edit(() => {
    item.weight = weight;
  });
}

/** Clears the query. */
export function clear() {
  edit(() => {
    group = emptyGroup();
  });
}

/** Chooses the tray for clicked images; with null, they become examples. */
export function aimAt(tray) {
  if (aimed === tray) return;
  aimed = tray;
  queryChanged.send();
}

// --- clicked images --------------------------------------------------------------------------------------------

/** Searches for the first photo; a second one becomes another example of the same thing, and the user is asked. */
export function click(image) {
  if (aimed) {
    add(asItem(image), aimed);
  } else if (!traysWith(image).includes("all")) {
    const wasOne = Boolean(example()) && !meant;
    addExample(image);
    isAsking = wasOne;
    queryChanged.send();
  }
}

/** Adds a negative example. */
export function notThis(image) {
  if (!traysWith(image).includes("none")) add(asItem(image), "none");
}

/** Adds a word or a defined name; `term` is how it is written in a formula. */
export function addWord(word, term) {
  const isThere = group.all.some(({ kind, file }) => kind === "word" && file === word);
  if (!isThere) add({ kind: "word", term, file: word });
}

/** Sets whether several clicked photos show the "same" thing, or "both" are wanted together. */
export function answer(reading) {
  const examples = question();
  meant = reading;
  isAsking = false;
  if (reading === "both" && examples) replace(examples, ...examples.items);
  else queryChanged.send();
}

function addExample(image) {
  const item = asItem(image);
  const other = meant === "both" ? null : example();
  if (!other) add(item);
  else if (other.kind === "like") add(item, "items", other);
  else join(item, other, { kind: "like" });
}

/** The item that another example is added to: the last examples, or the last image. */
const example = () => group.all.findLast(({ kind }) => kind === "like" || kind === "image");

// --- text --------------------------------------------------------------------------------------------------------

/** Updates the text while the user types. */
export function type(value) {
  if (value === text) return Promise.resolve();
  const now = performance.now();
  const isSameStep = now - typed < PAUSE;
  if (!isSameStep) remember();
  typed = now;
  text = value;
  return readText({ isSameStep });
}

/** Replaces the whole text. */
export function setText(value) {
  remember();
  typed = -Infinity;
  text = value;
  return readText();
}

/** Follows the address, and searches whenever the query, the options or the gallery change. */
export function startQuery() {
  const searchSoon = debounced(() => isSettled(here().q) || searchAddress(), SEARCH_PAUSE);
  moved.on(({ now, before }) => {
    if (now.q !== before.q && now.q !== text) {
      // Going back in the history is an undo.
      if (steps.at(-1)?.text === now.q) steps.pop();
      else remember();
      readAddress();
    } else if (now.q !== before.q || SEARCH.some((name) => now[name] !== before[name])) searchSoon();
  });
  changed.on(searchAddress);
  return readAddress();
}

function blame(error) {
  fault = error;
  queryChanged.send();
}

/** Searches for the query of the address; text that is being parsed takes precedence. */
async function searchAddress() {
  if (reading) return readText(reading);
  const { q } = here();
  if (!q) {
    cancelSearch();
    showAnswer(null);
    return undefined;
  }
  try {
    showAnswer(await search(q));
    if (fault && text === here().q) blame(null);
  } catch (error) {
    if (error instanceof ApiError && text === here().q) blame(error);
  }
  return undefined;
}

function readAddress() {
  text = here().q;
  typed = -Infinity;
  return readText();
}

/** Lets the server parse the text and search for it. */
async function readText({ isSameStep = false } = {}) {
  const asked = text;
  if (!asked.trim()) {
    accept(emptyGroup(), isSameStep);
    if (!here().q) showAnswer(null);
    return;
  }
  reading = { isSameStep };
  try {
    const answer = await search(asked);
    accept(read(answer.tree, answer.formula), isSameStep, answer);
    showAnswer(answer);
  } catch (error) {
    if (isAborted(error) || error instanceof Unreachable) return;
    reading = null;
    if (error.parsed) accept(read(error.parsed.tree, error.parsed.formula), isSameStep, error.parsed);
    blame(error);
  }
}

function accept(trays, isSameStep, { understood = null, notes = [] } = {}) {
  group = trays;
  meaning = { understood, notes };
  for (const image of imagesOf(group)) image.file = uploadNames.get(image.upload) ?? image.file;
  settle(text, isSameStep, meaning);
}

// --- undo --------------------------------------------------------------------------------------------------------

/** Whether there is something to undo. */
export const canUndo = () => steps.length > 0;

/** Undoes the last change. */
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

/** Sets the text that belongs to the current trays, and updates the address. */
function settle(next, isSameStep = false, how = { understood: null, notes: [] }) {
  meaning = how;
  cancelSearch();
  reading = null;
  text = next;
  fault = null;
  if (isEmpty(group)) [aimed, meant, isAsking] = [null, null, false];
  if (!question()) isAsking = false;
  queryChanged.send();
  // A query from the lightbox replaces its entry in the history, so that Back does not open the photo again.
  const image = text === here().q ? here().image : "";
  const replace = isSameStep || here().image !== image;
  go(text.trim() ? { q: text, image } : { q: "", all: "", exclude: "", image }, { replace });
}

function drop(item) {
  const { items } = placeOf(item, group);
  items.splice(items.indexOf(item), 1);
}

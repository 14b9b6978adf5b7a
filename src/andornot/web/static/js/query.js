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

/** Sent when trays, text, the error or the question have changed. */
export const queryChanged = signal();

/** Typing without a longer pause is one step to undo. */
const PAUSE = 1500;
/** Edits that follow each other faster are one search. */
const SEARCH_PAUSE = 60;
const MOST_STEPS = 100;

let group = emptyGroup();
let text = "";
let fault = null;
let typed = -Infinity;
/** The tray that clicked photos are added to, if one was chosen. */
let aimed = null;
/** What several clicked photos are: "same" thing, or "both" together; null until the user says so. */
let meant = null;
let isAsking = false;
/** How the text is being read, `{isSameStep}`; null if it is not. Kept while the server is away. */
let reading = null;
/** What there was before each change. */
const steps = [];
/** The file names of uploads: a restarted server does not know them. */
const uploadNames = new Map();

// --- what there is -----------------------------------------------------------------------------------------------

/** The three trays. */
export const root = () => group;

/** The text of the formula, which may have mistakes. */
export const formula = () => text;

/** What is wrong with the text, an ApiError; or null. */
export const error = () => fault;

/** How many images are in the query. */
export const size = () => imagesOf(group).length;

/** Whether the query is empty. */
export const isBlank = () => isEmpty(group) && !text.trim();

/** The query as an English sentence; "" for an empty one. */
export const sentence = () => describe(group);

/** The tray that was chosen for clicked photos; null for the default. */
export const aim = () => aimed;

/** The examples to ask "same thing, or both together?" about; null if that is known. */
export const question = () => (isAsking ? (group.all.findLast(({ kind }) => kind === "like") ?? null) : null);

/** The image as it stands in a tray; `crop` is the part of it that is meant, in fractions. */
export function asItem({ id = null, upload = null, version = "", term, name }, crop = null) {
  if (upload) uploadNames.set(upload, name);
  return cropped({ kind: "image", term, file: name, id, upload, version, crop: null }, crop);
}

/** Where in the query an image is: names of trays. */
export function traysWith(image) {
  const isIn = (item) => imagesOf(item).some((other) => isSame(other, image));
  return traysOf(group)
    .filter(([, items]) => items.some(isIn))
    .map(([tray]) => tray);
}

const isSame = (one, { id = null, upload = null }) => (upload ? one.upload === upload : one.id !== null && one.id === id);

// --- changes by hand ---------------------------------------------------------------------------------------------

/** Changes the trays by `act`, then writes the text. */
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

/** Clears the query. */
export function clear() {
  edit(() => {
    group = emptyGroup();
  });
}

/** From now on images that are clicked go into this tray; with null they are examples of what is looked for. */
export function aimAt(tray) {
  if (aimed === tray) return;
  aimed = tray;
  queryChanged.send();
}

// --- images that are clicked -----------------------------------------------------------------------------------

/**
 * A plain click on an image: the first is looked for, a second one is one more example of the same thing. Whether
 * that was meant is asked once.
 */
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

/** Adds an example. */
export function moreLikeThis(image) {
  if (traysWith(image).includes("all")) return;
  addExample(image);
}

/** Adds an example of what is not wanted. */
export function notThis(image) {
  if (!traysWith(image).includes("none")) add(asItem(image), "none");
}

/** Adds a word or a defined name; `term` is how it is written in a formula. */
export function addWord(word, term) {
  const isThere = group.all.some(({ kind, file }) => kind === "word" && file === word);
  if (!isThere) add({ kind: "word", term, file: word });
}

/** Answers what several clicked photos are: "same" thing, or "both" together. */
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

/** What one more example would join: the last examples, or the last image. */
const example = () => group.all.findLast(({ kind }) => kind === "like" || kind === "image");

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

/** Follows the address from now on, and searches whenever the query, the options or the gallery change. */
export function startQuery() {
  const searchSoon = debounced(() => isSettled(here().q) || searchAddress(), SEARCH_PAUSE);
  moved.on(({ now, before }) => {
    if (now.q !== before.q && now.q !== text) {
      // Going back is an undo.
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

/** Searches for what the address says; text that is being read goes first. */
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
    accept(read(answer.tree, asked), isSameStep);
    showAnswer(answer);
  } catch (error) {
    if (isAborted(error) || error instanceof Unreachable) return;
    reading = null;
    if (error.parsed) accept(read(error.parsed.tree, asked), isSameStep);
    blame(error);
  }
}

function accept(trays, isSameStep) {
  group = trays;
  for (const image of imagesOf(group)) image.file = uploadNames.get(image.upload) ?? image.file;
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
  cancelSearch();
  reading = null;
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

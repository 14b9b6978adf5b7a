/**
 * The query as three trays, and as text.
 *
 * A group has three trays, which mean A1 and A2 and (O1 or O2) and not N1 and not N2. Other conditions are nested
 * groups. The items of a tray are terms, optionally with a weight: an image or a crop, a word, several examples of one
 * thing, or a blend of images.
 *
 * @typedef {{kind: "image", term: string, file: string, id: ?number, upload: ?string, version: string,
 *   crop: ?number[], weight?: number}} Image  `term` is how it is written, with its crop; `crop` is in fractions.
 * @typedef {{kind: "word" | "definition", term: string, file: string, weight?: number}} Word
 * @typedef {{kind: "like", items: Item[], weight?: number}} Like
 * @typedef {{kind: "blend", op: "or" | "and" | "minus" | "not" | "at_least", k?: number, items: Item[],
 *   weight?: number}} Blend
 * @typedef {{kind: "group", all: Item[], any: Item[], none: Item[]}} Group
 * @typedef {Image | Word | Like | Blend | Group} Item
 */

export const TRAYS = ["all", "any", "none"];

const SIGNS = { or: " | ", and: " & ", minus: " - " };

/** @returns {Group} */
export const emptyGroup = () => ({ kind: "group", all: [], any: [], none: [] });

/** The lists of items in a container by name: three trays of a group, or one list of examples or of a blend. */
export function traysOf(item) {
  if (item.kind === "group") return TRAYS.map((name) => [name, item[name]]);
  return item.items ? [["items", item.items]] : [];
}

/** All images, words and defined names of a query, in order. */
export function atomsOf(item) {
  const trays = traysOf(item);
  return trays.length ? trays.flatMap(([, items]) => items.flatMap(atomsOf)) : [item];
}

/** All images of a query, in order. */
export function imagesOf(item) {
  return item.kind === "group" && isEmpty(item) ? [] : atomsOf(item).filter(({ kind }) => kind === "image");
}

/** Whether a group is empty; empty groups are not written. */
export function isEmpty(item) {
  const trays = traysOf(item);
  return trays.length > 0 && trays.every(([, items]) => items.every(isEmpty));
}

/** The place of an item in a query: its container, the name of the tray, and its items; null if it is not there. */
export function placeOf(item, within) {
  for (const [tray, items] of traysOf(within)) {
    if (items.includes(item)) return { holder: within, tray, items };
    for (const inner of items) {
      const found = placeOf(item, inner);
      if (found) return found;
    }
  }
  return null;
}

/** The image with another crop; null for the whole image. */
export function cropped(image, crop) {
  const whole = image.crop ? image.term.slice(0, image.term.lastIndexOf("[")) : image.term;
  const isAll = !crop || crop.join() === "0,0,1,1";
  return isAll
    ? { ...image, term: whole, crop: null }
    : { ...image, term: `${whole}[${crop.map(short).join(", ")}]`, crop: crop.map(short) };
}

/** Rounds to two digits, which are precise enough. */
const short = (number) => Number(number.toFixed(2));

/** A slice of a text by code points, which the server counts, instead of UTF-16 units. */
export const characters = (text, start, end) => [...text].slice(start, end).join("");

/**
 * Simplifies a query after a removal: drops empty items, and unwraps blends and groups of one. The three trays of the
 * query itself stay.
 */
export function tidy(item) {
  for (const [, items] of traysOf(item)) {
    items.forEach(tidy);
    const kept = items.filter((inner) => !isEmpty(inner)).map(simplest);
    items.splice(0, items.length, ...kept);
  }
}

function simplest(item) {
  const inside = traysOf(item).flatMap(([, items]) => items);
  const isBare = item.kind === "group" ? !item.none.length : item.op !== "not";
  if (inside.length !== 1 || !isBare) return item;
  const [only] = inside;
  // The remaining item gets the weight of the whole.
  return item.weight === undefined || only.kind === "group" ? only : { ...only, weight: item.weight };
}

// --- from trays to text ------------------------------------------------------------------------------------------

/** The formula of a query; "" for an empty one. */
export const write = (item) => (isEmpty(item) ? "" : condition(item).text);

/** Adds brackets even where they are redundant, so that readers need not know operator precedence. */
const operand = ({ text, isJoined }) => (isJoined ? `(${text})` : text);

const filled = (items) => items.filter((inner) => !isEmpty(inner));

function joined(parts, sign) {
  return parts.length === 1 ? parts[0] : { text: parts.map(operand).join(sign), isJoined: true };
}

function condition(item) {
  if (item.kind === "group") {
    const [all, any, none] = TRAYS.map((tray) => filled(item[tray]).map(condition));
    const parts = all.concat(any.length ? joined(any, " or ") : []);
    return joined(parts.concat(none.map((one) => ({ text: `not ${operand(one)}`, isJoined: false }))), " and ");
  }
  const { weight = 1 } = item;
  return weight === 1 ? term(item) : { text: `${weight}*${operand(term(item))}`, isJoined: false };
}

function term(item) {
  if (!item.items) return { text: item.term, isJoined: false };
  const parts = filled(item.items).map(term);
  const list = parts.map(({ text }) => text).join(", ");
  if (item.kind === "like") return parts.length === 1 ? parts[0] : { text: `like(${list})`, isJoined: false };
  if (item.op === "at_least") {
    return { text: `at_least(${Math.min(item.k, parts.length)}, ${list})`, isJoined: false };
  }
  if (item.op === "not") return { text: `~${operand(parts[0])}`, isJoined: false };
  return joined(parts, SIGNS[item.op]);
}

// --- from the server's tree to trays -----------------------------------------------------------------------------

/** Converts the server's tree to a group; `formula` is the text that it was parsed from. */
export function read(tree, formula) {
  const group = emptyGroup();
  const items = (some) => some.map((node) => readItem(node, formula));
  const nodes = operands("and", tree);
  // The last "or" becomes the tray "any", which is also written last, so that a round trip changes nothing.
  const either = nodes.findLast((node) => isCondition(node, "or"));
  for (const node of nodes) {
    // not (a or b) is not a and not b.
    if (isCondition(node, "not")) group.none.push(...items(operands("or", node.item)));
    else if (node === either) group.any = items(operands("or", node));
    else group.all.push(readItem(node, formula));
  }
  return group;
}

const isCondition = (node, op) => node.op === op && node.level === "condition";

/** The operands of nested "and" or "or" nodes as a flat list; another node is its only operand. */
const operands = (op, node) =>
  isCondition(node, op) ? node.items.flatMap((inner) => operands(op, inner)) : [node];

function readItem(node, formula) {
  if (node.op === "weight") return { ...readItem(node.item, formula), weight: node.weight };
  return node.level === "condition" ? read(node, formula) : readTerm(node, formula);
}

function readTerm(node, formula) {
  const items = (nodes) => nodes.map((inner) => readTerm(inner, formula));
  switch (node.op) {
    case "name":
      return readName(node, formula);
    case "like":
      return { kind: "like", items: items(node.items) };
    case "at_least":
      return { kind: "blend", op: node.op, k: node.k, items: items(node.items) };
    case "not":
      return { kind: "blend", op: node.op, items: items([node.item]) };
    default:
      return { kind: "blend", op: node.op, items: items(node.op === "minus" ? subtracted(node) : node.items) };
  }
}

function readName({ kind, start, end, id, upload, version, file, crop }, formula) {
  const term = characters(formula, start, end);
  if (kind === "word" || kind === "definition") return { kind, term, file };
  return { kind: "image", term, file, id, upload, version, crop };
}

/** The server parses a - b - c as (a - b) - c. */
function subtracted({ items: [first, second] }) {
  return [...(first.op === "minus" ? subtracted(first) : [first]), second];
}

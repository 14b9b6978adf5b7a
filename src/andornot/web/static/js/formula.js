/**
 * The query as three trays, and as text.
 *
 * A group has three trays, and says A1 and A2 and (O1 or O2) and not N1 and not N2. Whatever does not fit lies in them
 * as a group of its own. What lies in a tray is a term, which may count more or less than others: an image or a part
 * of one, a word, several examples of one thing, or a blend of images.
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

/** What holds other items, by the name of the place: three trays of a group, one of examples and of a blend. */
export function traysOf(item) {
  if (item.kind === "group") return TRAYS.map((name) => [name, item[name]]);
  return item.items ? [["items", item.items]] : [];
}

/** All images, words and defined names of a query, as they come. */
export function atomsOf(item) {
  const trays = traysOf(item);
  return trays.length ? trays.flatMap(([, items]) => items.flatMap(atomsOf)) : [item];
}

/** All images of a query, as they come. */
export function imagesOf(item) {
  return item.kind === "group" && isEmpty(item) ? [] : atomsOf(item).filter(({ kind }) => kind === "image");
}

/** Whether there is nothing in it; such a group is not written. */
export function isEmpty(item) {
  const trays = traysOf(item);
  return trays.length > 0 && trays.every(([, items]) => items.every(isEmpty));
}

/** Where in a query an item is: what holds it, the name of the tray, and what is in that; null if it is not there. */
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

/** An image with another part of it meant; all of it with null. */
export function cropped(image, crop) {
  const whole = image.crop ? image.term.slice(0, image.term.lastIndexOf("[")) : image.term;
  const isAll = !crop || crop.join() === "0,0,1,1";
  return isAll
    ? { ...image, term: whole, crop: null }
    : { ...image, term: `${whole}[${crop.map(short).join(", ")}]`, crop: crop.map(short) };
}

/** Two digits are enough for the eye. */
const short = (number) => Number(number.toFixed(2));

/** Part of a text. The server counts characters, and JavaScript halves of some. */
export const characters = (text, start, end) => [...text].slice(start, end).join("");

/**
 * Puts in order what lost a part: what is empty goes, and what is left alone needs neither a blend nor a group. The
 * three trays themselves stay.
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
  // A weight of the whole is one of what is left.
  return item.weight === undefined || only.kind === "group" ? only : { ...only, weight: item.weight };
}

// --- from trays to text ------------------------------------------------------------------------------------------

/** The formula of a query; "" for an empty one. */
export const write = (item) => (isEmpty(item) ? "" : condition(item).text);

/** What is joined stands in brackets even where it need not: people do not know which sign binds more. */
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

/** The group that a tree stands for; `formula` is the text that the tree was read from. */
export function read(tree, formula) {
  const group = emptyGroup();
  const items = (some) => some.map((node) => readItem(node, formula));
  const nodes = operands("and", tree);
  // Of several, the last: it is written last, so that reading what was written changes nothing.
  const either = nodes.findLast((node) => isCondition(node, "or"));
  for (const node of nodes) {
    // None of two is not one and not the other.
    if (isCondition(node, "not")) group.none.push(...items(operands("or", node.item)));
    else if (node === either) group.any = items(operands("or", node));
    else group.all.push(readItem(node, formula));
  }
  return group;
}

const isCondition = (node, op) => node.op === op && node.level === "condition";

/** The operands of a chain of "and" or "or", however it is nested; a node of another kind is a chain of one. */
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

/** a - b - c is told as (a - b) - c. */
function subtracted({ items: [first, second] }) {
  return [...(first.op === "minus" ? subtracted(first) : [first]), second];
}

/**
 * The query as trays, and as text.
 *
 * A group has three trays, and its value is ((w1 | w2 …) & c1 & c2 …) - n1 - n2 …; an empty tray is left out, and
 * a group that has only "without" is ~n1 & ~n2 …. Whatever does not fit becomes a group inside a group.
 *
 * @typedef {{kind: "picture", term: string, file: string, id: ?number, upload: ?string, version: string, not?: boolean}} Picture
 * @typedef {{kind: "group", with: Item[], common: Item[], without: Item[], not?: boolean}} Group
 * @typedef {{kind: "at_least", k: number, items: Item[], not?: boolean}} AtLeast
 * @typedef {{kind: "like", items: Item[], not?: boolean}} Like
 * @typedef {Picture | Group | AtLeast | Like} Item  In "without", `not` says that it is written `& ~x` and not `- x`.
 */

export const TRAYS = ["with", "common", "without"];

/** Operators that bind more have a higher level; a name binds most. */
const LEVEL = { or: 1, and: 2, not: 3, name: 4 };

/** @returns {Group} */
export const emptyGroup = () => ({ kind: "group", with: [], common: [], without: [] });

/** The trays of an item, by name: three of a group, one of an at_least and of a like, none of a picture. */
export function traysOf(item) {
  if (item.kind === "group") return TRAYS.map((name) => [name, item[name]]);
  return item.items ? [["items", item.items]] : [];
}

/** All pictures of a query, as they come. */
export function picturesOf(item) {
  if (item.kind === "picture") return [item];
  return traysOf(item).flatMap(([, items]) => items.flatMap(picturesOf));
}

/** Where in a query an item is: the group, the name of its tray, and what is in that; null if it is not there. */
export function placeOf(item, within) {
  for (const [tray, items] of traysOf(within)) {
    if (items.includes(item)) return { group: within, tray, items };
    for (const inner of items) {
      const found = placeOf(item, inner);
      if (found) return found;
    }
  }
  return null;
}

/** Whether there is no picture in it; such a group is not written. */
export const isEmpty = (item) => picturesOf(item).length === 0;

/** Part of a text. The server counts characters, and JavaScript halves of some. */
export const characters = (text, start, end) => [...text].slice(start, end).join("");

// --- from trays to text ------------------------------------------------------------------------------------------

/** The formula of a query; "" for an empty one. */
export const write = (item) => written(item).text;

function written(item) {
  if (item.kind === "picture") return { text: item.term, level: LEVEL.name };
  if (item.items) return writtenCall(item);
  const [some, common, without] = TRAYS.map((tray) => item[tray].filter((inner) => !isEmpty(inner)));
  const parts = common.map(written);
  if (some.length) parts.unshift(joined(some.map(written), " | ", LEVEL.or));
  if (!parts.length) return joined(without.map(negated), " & ", LEVEL.and);
  let result = joined(parts, " & ", LEVEL.and);
  for (const inner of without) {
    const left = result.level < LEVEL.and ? bracketed(result) : result.text;
    const right = inner.not ? ` & ${negated(inner).text}` : ` - ${bracketed(written(inner))}`;
    result = { text: left + right, level: LEVEL.and };
  }
  return result;
}

function writtenCall({ kind, k, items }) {
  const texts = items.filter((inner) => !isEmpty(inner)).map(write);
  if (kind === "at_least") texts.unshift(Math.min(k, texts.length));
  return { text: `${kind}(${texts.join(", ")})`, level: LEVEL.name };
}

const negated = (item) => ({ text: `~${bracketed(written(item))}`, level: LEVEL.not });

const joined = (parts, sign, level) =>
  parts.length === 1 ? parts[0] : { text: parts.map(bracketed).join(sign), level };

/** What is joined stands in brackets even where it need not: people do not know which sign binds more. */
const bracketed = ({ text, level }) => (level < LEVEL.not ? `(${text})` : text);

// --- from the server's tree to trays -----------------------------------------------------------------------------

/** The group that a tree stands for; `formula` is the text that the tree was read from. */
export function read(tree, formula) {
  const { base, without } = peeled(tree);
  const item = (node) => readItem(node, formula);
  const group = { ...emptyGroup(), without: without.map(({ node, not }) => ({ ...item(node), not })) };
  const factors = flat("and", base);
  if (factors.every(({ op }) => op === "not") && !without.length) {
    return { ...group, without: factors.map((factor) => item(factor.item)) };
  }
  const either = factors.length === 1 ? factors[0] : factors.find(({ op }) => op === "or");
  if (either) group.with = flat("or", either).map(item);
  group.common = factors.filter((factor) => factor !== either).map(item);
  return group;
}

function readItem(node, formula) {
  if (node.op === "name") {
    const { start, end, id = null, upload = null, version, file } = node;
    return { kind: "picture", term: characters(formula, start, end), file, id, upload, version };
  }
  if (node.op === "at_least" || node.op === "like") {
    return { kind: node.op, k: node.k, items: node.items.map((inner) => readItem(inner, formula)) };
  }
  return read(node, formula);
}

/**
 * Takes `- y` and `& ~y` off the end, as often as there is one. Their order counts: (x - y) & ~z is not (x & ~z) - y.
 * NOTs anywhere in a chain of ANDs may move to its end.
 */
function peeled(tree) {
  const without = [];
  let base = tree;
  for (;;) {
    if (base.op === "minus") {
      const [kept, removed] = base.items;
      without.unshift({ node: removed, not: false });
      base = kept;
      continue;
    }
    const factors = flat("and", base);
    const kept = factors.filter(({ op }) => op !== "not");
    if (factors.length === 1 || !kept.length || kept.length === factors.length) return { base, without };
    without.unshift(...factors.filter(({ op }) => op === "not").map(({ item }) => ({ node: item, not: true })));
    base = kept.length === 1 ? kept[0] : { op: "and", items: kept };
  }
}

/** The operands of a chain of one operator, however it is nested; a node of another kind is a chain of one. */
const flat = (op, node) => (node.op === op ? node.items.flatMap((inner) => flat(op, inner)) : [node]);

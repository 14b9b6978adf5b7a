/** The query as an English sentence. */

const isWord = ({ kind }) => kind === "word" || kind === "definition";

/** "a, b and c" */
export function listed(words, last = "and") {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
}

/** The sentence of three trays: "Photos that show a dog and a sofa, not like these 2"; "" if they are empty. */
export function describe(group) {
  const words = said(group);
  return words && `Photos that ${words}`;
}

function said({ all, any, none }) {
  const wanted = [
    ...(all.some(isWord) ? [`show ${listed(all.filter(isWord).map(named))}`] : []),
    ...all.filter((item) => !isWord(item)).map(predicate),
    ...(any.length ? [alternatives(any)] : []),
  ];
  if (!none.length) return listed(wanted);
  if (wanted.length) return [listed(wanted), ...unwanted(none).map((words) => `not ${words}`)].join(", ");
  const refused = [
    ...(none.some(isWord) ? [`do not show ${listed(none.filter(isWord).map(named), "or")}`] : []),
    ...unwanted(none.filter((item) => !isWord(item))).map((words) => `are not ${words}`),
  ];
  return listed(refused);
}

function alternatives(items) {
  return items.every(isWord) ? `show ${listed(items.map(named), "or")}` : listed(items.map(predicate), "or");
}

/** The negated items; plain examples are counted together. */
function unwanted(items) {
  const examples = items.filter(({ kind, crop }) => (kind === "image" && !crop) || kind === "like");
  const images = examples.flatMap((item) => item.items ?? [item]);
  const others = items.filter((item) => !examples.includes(item)).map((item) => named(item));
  return images.length > 1 ? [...others, `like these ${images.length}`] : [...others, ...examples.map(named)];
}

function predicate(item) {
  if (isWord(item)) return `show ${named(item)}`;
  return item.kind === "group" ? said(item) : `are ${named(item)}`;
}

/** "a dog", "like beach.jpg" */
function named(item) {
  const { weight = 1 } = item;
  const emphasis = weight === 1 ? "" : weight > 1 ? " (weighted more)" : " (weighted less)";
  return bare(item) + emphasis;
}

function bare(item) {
  switch (item.kind) {
    case "word":
      return withArticle(item.file);
    case "definition":
      return `“${item.file}”`;
    case "image":
      return `like ${called(item)}`;
    case "like":
      return `like these ${item.items.length}`;
    case "group":
      return `those that ${said(item)}`;
    default:
      return blended(item);
  }
}

const called = (item) => (item.kind === "image" && item.crop ? `a part of ${item.file}` : item.file);

/** The description of a blend, without "like". */
const part = (item) => (item.items ? bare(item).replace(/^like /, "") : called(item));

function blended({ op, k, items }) {
  const parts = items.map(part);
  if (op === "not") return `like the opposite of ${parts[0]}`;
  if (op === "minus") return `like ${parts[0]} without ${listed(parts.slice(1))}`;
  if (op === "at_least") return `like what at least ${k} of ${listed(parts)} share`;
  return op === "and" ? `like what ${listed(parts)} share` : `like ${listed(parts)} put together`;
}

// The same rule as in words/nouns.py.
const AN = /^(?:hour|(?!eu|uni|ute|u-)[aeiou])/i;
const WITHOUT = /(?:[^isu]s|clothing|bedding|furniture|equipment|ware|wear|food|bread)$/i;

/** "a dog", "an airplane", "sunglasses" */
export function withArticle(noun) {
  if (WITHOUT.test(noun.split(" of ")[0])) return noun;
  return `${AN.test(noun) ? "an" : "a"} ${noun}`;
}

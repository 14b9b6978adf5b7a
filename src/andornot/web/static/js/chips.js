/** An item of the query as a chip: an image or a crop, a word, examples, or a blend. */

import { openItem, takeOut, WEIGHTS } from "./chip_menu.js";
import { h, icon } from "./dom.js";
import { carry, dropOn } from "./drag.js";
import { placeOf } from "./formula.js";
import { thumbnail } from "./gallery.js";
import * as query from "./query.js";
import { addFiles } from "./uploads.js";
import { t } from "./texts.js";

/** Keys that move a chip to another tray. */
const MOVES = { a: "all", o: "any", n: "none" };
const STACKED = 3;

/** Stable numbers of items, to find their elements after a redraw. */
const numbers = new WeakMap();
let lastNumber = 0;

/** The title of an item. */
export function titleOf(item) {
  if (item.kind === "image") return item.crop ? t("{name} (part)", { name: item.file }) : item.file;
  if (item.kind === "like") return t("{n} examples", { n: item.items.length });
  if (item.kind === "blend") return t("Blend of {names}", { names: item.items.map(titleOf).join(", ") });
  return item.kind === "group" ? t("A group") : item.file;
}

/** A thumbnail of an item. */
export function face(item) {
  if (item.kind === "image") return item.crop ? drawPart(item) : drawWhole(item);
  const inner = item.items ?? [];
  if (!inner.length) return h("span", { class: "text" }, item.file);
  const shown = inner.slice(0, STACKED).map((one) => h("span", {}, face(one)));
  return h("span", { class: "stacked", "data-count": shown.length }, shown);
}

const drawWhole = (image) => h("img", { src: thumbnail(image), alt: "", draggable: "false" });

/** The crop of an image. */
function drawPart(image) {
  const canvas = h("canvas", { width: 144, height: 144 });
  const img = new Image();
  img.addEventListener("load", () => {
    const { naturalWidth: width, naturalHeight: height } = img;
    const [left, top, right, bottom] = image.crop;
    const [x, y, across, down] = [left * width, top * height, (right - left) * width, (bottom - top) * height];
    const scale = Math.min(canvas.width / across, canvas.height / down);
    const [shownWidth, shownHeight] = [across * scale, down * scale];
    const place = [(canvas.width - shownWidth) / 2, (canvas.height - shownHeight) / 2];
    canvas.getContext("2d").drawImage(img, x, y, across, down, ...place, shownWidth, shownHeight);
  });
  img.src = thumbnail(image);
  return canvas;
}

/** The chip of an item in a tray. */
export function drawChip(item) {
  const { weight = 1 } = item;
  const chip = h(
    "div",
    {
      class: `chip ${item.kind}`,
      role: "button",
      tabindex: 0,
      draggable: "true",
      title: titleOf(item),
      "aria-label": titleOf(item) + (weight === 1 ? "" : `, ${t("weight {n}", { n: weight })}`),
      "aria-haspopup": "true",
      "data-item": numberOf(item),
      onclick: () => openItem(chip, item),
    },
    face(item),
    item.kind === "like" && h("span", { class: "count" }, item.items.length),
    weight !== 1 && h("span", { class: "weight" }, `× ${weight}`),
  );
  chip.addEventListener("dragstart", (event) => {
    event.stopPropagation();
    carry(event, item, { moves: true });
  });
  chip.addEventListener("keydown", (event) => {
    if (event.target !== chip || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!useKey(event.key, item, chip)) return;
    event.preventDefault();
  });
  dropOn(
    chip,
    (carried) => dropped(carried, item),
    (files) => addFiles(files, placeOf(item, query.root()).tray),
  );
  const out = h(
    "button",
    {
      type: "button",
      class: "out",
      tabindex: -1,
      title: t("Remove"),
      "aria-label": t("Remove {name}", { name: titleOf(item) }),
      onclick: () => takeOut(item),
    },
    icon("close"),
  );
  return h("div", { class: "holder" }, chip, out, item.kind === "blend" && drawOperators(item, numberOf(item)));
}

/** Handles a key on a chip; returns whether it did something. */
function useKey(key, item, chip) {
  const step = { "+": 1, "-": -1, ArrowRight: 1, ArrowLeft: -1 }[key];
  if (key === "Enter" || key === " ") chip.click();
  else if (key === "Delete" || key === "Backspace") {
    focusBeside(chip);
    takeOut(item);
  } else if (MOVES[key]) {
    const { holder } = placeOf(item, query.root());
    query.move(item, MOVES[key], holder.kind === "group" ? holder : query.root());
  } else if (key.startsWith("Arrow") && step) beside(chip, step)?.focus();
  else if (step) {
    const { weight = 1 } = item;
    const next = WEIGHTS.filter((other) => (step > 0 ? other > weight : other < weight)).at(step > 0 ? 0 : -1);
    if (next) query.weigh(item, next);
  } else return false;
  return true;
}

function beside(chip, step) {
  const chips = [...document.querySelectorAll("#trays .chip")];
  return chips[chips.indexOf(chip) + step];
}

/** Moves the focus to a neighbour, so that several chips can be removed one after another by key. */
const focusBeside = (chip) => (beside(chip, 1) ?? beside(chip, -1))?.focus();

/** Dropping an image on an image blends them, on examples adds it to them; anything else is added to the tray. */
function dropped({ item, moves }, onto) {
  if (item === onto) return;
  const isTerm = (one) => one.kind === "image" || one.kind === "like" || one.kind === "blend";
  const { tray, holder } = placeOf(onto, query.root());
  if (isTerm(item) && onto.kind === "image") query.join(item, onto, { kind: "blend", op: "or" });
  else if (item.kind === "image" && (onto.kind === "like" || (onto.kind === "blend" && onto.op !== "not")))
    (moves ? query.move : query.add)(item, "items", onto);
  else if (moves) query.move(item, tray, holder);
  else query.add(item, tray, holder);
}

function numberOf(item) {
  if (!numbers.has(item)) numbers.set(item, (lastNumber += 1));
  return numbers.get(item);
}

const OPERATORS = [
  ["or", "with", t("Union: what any of them shows")],
  ["and", "common", t("Common: only what they share")],
  ["minus", "without", t("Difference: the first without the others")],
];

/** Three radio buttons; `key` identifies the blend. */
const drawOperators = (blend, key) =>
  h(
    "div",
    { class: "operators", role: "group", "aria-label": t("How to blend") },
    OPERATORS.map(([op, drawing, words]) =>
      h(
        "button",
        {
          type: "button",
          class: "plain",
          title: words,
          "aria-label": words,
          "aria-pressed": String(blend.op === op),
          "data-item": `${key}-${op}`,
          onclick: () =>
            query.edit(() => {
              blend.op = op;
            }),
        },
        icon(drawing),
      ),
    ),
  );

/** One thing that is asked for, as a chip: an image or a part of one, a word, examples, a blend. */

import { openItem, takeOut, WEIGHTS } from "./chip_menu.js";
import { drawOperators } from "./blend.js";
import { h, icon } from "./dom.js";
import { carry, dropOn } from "./drag.js";
import { placeOf } from "./formula.js";
import { thumbnail } from "./gallery.js";
import * as query from "./query.js";
import { addFiles } from "./uploads.js";

/** Keys that bring a chip to another tray. */
const MOVES = { a: "all", o: "any", n: "none" };
const STACKED = 3;

/** Each item keeps its number, by which its element is found again after a redraw. */
const numbers = new WeakMap();
let lastNumber = 0;

/** What an item is called. */
export function titleOf(item) {
  if (item.kind === "image") return item.crop ? `${item.file} (part)` : item.file;
  if (item.kind === "like") return `${item.items.length} examples`;
  if (item.kind === "blend") return `Blend of ${item.items.map(titleOf).join(", ")}`;
  return item.kind === "group" ? "A group" : item.file;
}

/** How an item looks, small. */
export function face(item) {
  if (item.kind === "image") return item.crop ? drawPart(item) : drawWhole(item);
  const inner = item.items ?? [];
  if (!inner.length) return h("span", { class: "text" }, item.file);
  const shown = inner.slice(0, STACKED).map((one) => h("span", {}, face(one)));
  return h("span", { class: "stacked", "data-count": shown.length }, shown);
}

const drawWhole = (image) => h("img", { src: thumbnail(image), alt: "", draggable: "false" });

/** The part of an image that is meant. */
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
      "aria-label": titleOf(item) + (weight === 1 ? "" : `, weight ${weight}`),
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
      title: "Remove",
      "aria-label": `Remove ${titleOf(item)}`,
      onclick: () => takeOut(item),
    },
    icon("close"),
  );
  return h("div", { class: "holder" }, chip, out, item.kind === "blend" && drawOperators(item, numberOf(item)));
}

/** Whether a key on a chip did something. */
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

/** Who removes one chip after the other by key stays among them. */
const focusBeside = (chip) => (beside(chip, 1) ?? beside(chip, -1))?.focus();

/** An image that is dropped on another is blended with it, one on examples is one more; all else goes to the tray. */
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

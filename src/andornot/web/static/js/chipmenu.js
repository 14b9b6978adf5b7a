/** What can be done with a chip, without dragging: a menu with all of it. */

import { go } from "./address.js";
import { nameOf } from "./compare.js";
import { openCrop } from "./crop.js";
import { face, titleOf } from "./chips.js";
import { announce, h } from "./dom.js";
import { cropped, picturesOf, placeOf, TRAYS } from "./formula.js";
import { openMenu } from "./menu.js";
import * as query from "./query.js";
import { WORDS } from "./words.js";

/** How much a chip may count: twice as much is as far from 1 as half. */
export const WEIGHTS = [0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4];
const MOST = 4;

/** Opens the menu of an item of the query. */
export function openItem(anchor, item) {
  const entries = [...ofPicture(item), ...ofExamples(item), ...ofBlend(item), ...joins(item), ...moves(item)];
  const remove = { label: "Remove", icon: "close", act: () => takeOut(item) };
  openMenu(anchor, [...entries, remove], [drawParts(anchor, item), drawWeight(item)].filter(Boolean));
}

/** Takes an item out of the query, and says so. */
export function takeOut(item) {
  query.remove(item);
  announce(`${titleOf(item)} removed`);
}

/** A slider in steps that are equal to the eye; the middle is neutral. */
function drawWeight(item) {
  const { holder } = placeOf(item, query.root());
  if (item.kind === "group" || holder.kind !== "group") return null;
  const nearest = (weight) =>
    WEIGHTS.reduce((best, one) => (Math.abs(Math.log(one / weight)) < Math.abs(Math.log(best / weight)) ? one : best));
  const words = (weight) => (weight === 1 ? "as much as the others" : `${weight} times as much`);
  const value = h("output", {}, words(item.weight ?? 1));
  const slider = h("input", {
    type: "range",
    min: 0,
    max: WEIGHTS.length - 1,
    step: 1,
    value: WEIGHTS.indexOf(nearest(item.weight ?? 1)),
    "aria-label": "How much it counts",
    "aria-valuetext": words(item.weight ?? 1),
  });
  slider.addEventListener("input", () => {
    value.textContent = words(WEIGHTS[slider.value]);
    slider.setAttribute("aria-valuetext", value.textContent);
  });
  slider.addEventListener("change", () => query.weigh(item, WEIGHTS[slider.value]));
  return h("label", { class: "weigh" }, h("span", {}, "Counts ", value), slider);
}

/** What it is made of: each part can be opened by itself. */
function drawParts(anchor, item) {
  if (!item.items) return null;
  return h(
    "div",
    { class: "parts", role: "group", "aria-label": titleOf(item) },
    item.items.map((part) =>
      h(
        "button",
        {
          type: "button",
          class: "thumb",
          title: titleOf(part),
          "aria-label": titleOf(part),
          onclick: () => openItem(anchor, part),
        },
        face(part),
      ),
    ),
  );
}

function ofPicture(item) {
  if (item.kind !== "picture") return [];
  const other = picturesOf(query.root()).find((one) => one !== item && nameOf(one) !== nameOf(item));
  return [
    {
      label: item.crop ? "Draw another box" : "Draw a box around what you mean",
      icon: "crop",
      act: () => openCrop({ ...item, name: item.file }, (crop) => query.replace(item, cropped(item, crop))),
    },
    item.crop && { label: "All of the picture", icon: "picture", act: () => query.replace(item, cropped(item, null)) },
    item.id !== null && { label: "Look closer", icon: "closer", act: () => go({ picture: String(item.id) }) },
    other && {
      label: `Compare with ${other.file}`,
      icon: "compare",
      act: () => go({ view: "compare", a: nameOf(item), b: nameOf(other), picture: "" }),
    },
  ];
}

function ofExamples(item) {
  if (item.kind !== "like") return [];
  return [
    { label: "Not the same thing: all are wanted", icon: "all", act: () => query.replace(item, ...item.items) },
    { label: "Blend them", icon: "with", act: () => query.replace(item, { ...item, kind: "blend", op: "or" }) },
  ];
}

function ofBlend(item) {
  if (item.kind !== "blend") return [];
  const many = item.items.length;
  return [
    many > 1 && {
      label: "Examples of the same thing",
      icon: "stack",
      act: () => query.replace(item, { kind: "like", items: item.items, weight: item.weight }),
    },
    many > 2 && {
      label: `What at least ${many - 1} of them share`,
      icon: "items",
      act: () => query.replace(item, { ...item, op: "at_least", k: many - 1 }),
    },
    { label: "Take it apart", icon: "group", act: () => query.replace(item, ...item.items) },
  ];
}

/** What dropping it on another chip does. */
function joins(item) {
  const isTerm = ({ kind }) => kind === "picture" || kind === "like" || kind === "blend";
  const { holder } = placeOf(item, query.root());
  if (!isTerm(item) || holder.kind !== "group") return [];
  const others = TRAYS.flatMap((tray) => holder[tray]).filter((one) => one !== item && isTerm(one));
  return others.slice(0, MOST).flatMap((other) => [
    { label: `Blend with ${titleOf(other)}`, icon: "with", act: () => query.join(item, other, { kind: "blend", op: "or" }) },
    item.kind === "picture" &&
      other.kind === "picture" && {
        label: `Same thing as ${titleOf(other)}`,
        icon: "stack",
        act: () => query.join(item, other, { kind: "like" }),
      },
  ]);
}

/** Entries that bring an item to another tray. */
function moves(item) {
  const { holder } = placeOf(item, query.root());
  const into = holder.kind === "group" ? holder : query.root();
  return TRAYS.filter((tray) => !into[tray].includes(item)).map((tray) => ({
    label: `Move to “${WORDS[tray].title}”`,
    icon: tray,
    act: () => query.move(item, tray, into),
  }));
}

/** The menu of a chip. */

import { go } from "./address.js";
import { nameOf } from "./compare.js";
import { openCrop } from "./crop.js";
import { face, titleOf } from "./chips.js";
import { announce, h } from "./dom.js";
import { cropped, imagesOf, placeOf, TRAYS } from "./formula.js";
import { openMenu } from "./menu.js";
import * as query from "./query.js";
import { trays } from "./labels.js";
import { t } from "./texts.js";

/** Weights on a logarithmic scale. */
export const WEIGHTS = [0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4];
const MOST = 4;

/** Opens the menu of an item of the query. */
export function openItem(anchor, item) {
  const entries = [...ofImage(item), ...ofExamples(item), ...ofBlend(item), ...joins(item), ...moves(item)];
  const remove = { label: t("Remove"), icon: "close", act: () => takeOut(item) };
  openMenu(anchor, [...entries, remove], [drawParts(anchor, item), drawWeight(item)].filter(Boolean));
}

/** Removes an item from the query, and announces it to screen readers. */
export function takeOut(item) {
  query.remove(item);
  announce(t("Removed: {name}", { name: titleOf(item) }));
}

/** A slider on the logarithmic scale; the middle is neutral. */
function drawWeight(item) {
  const { holder } = placeOf(item, query.root());
  if (item.kind === "group" || holder.kind !== "group") return null;
  const nearest = (weight) =>
    WEIGHTS.reduce((best, one) => (Math.abs(Math.log(one / weight)) < Math.abs(Math.log(best / weight)) ? one : best));
  const words = (weight) => (weight === 1 ? t("normal") : `${weight} ×`);
  const value = h("output", {}, words(item.weight ?? 1));
  const slider = h("input", {
    type: "range",
    min: 0,
    max: WEIGHTS.length - 1,
    step: 1,
    value: WEIGHTS.indexOf(nearest(item.weight ?? 1)),
    "aria-label": t("Weight"),
    "aria-valuetext": words(item.weight ?? 1),
  });
  slider.addEventListener("input", () => {
    value.textContent = words(WEIGHTS[slider.value]);
    slider.setAttribute("aria-valuetext", value.textContent);
  });
  slider.addEventListener("change", () => query.weigh(item, WEIGHTS[slider.value]));
  return h("label", { class: "weigh" }, h("span", {}, `${t("Weight")}: `, value), slider);
}

/** The parts of an item, each with its own menu. */
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

function ofImage(item) {
  if (item.kind !== "image") return [];
  const other = imagesOf(query.root()).find((one) => one !== item && nameOf(one) !== nameOf(item));
  return [
    {
      label: item.crop ? t("Choose another part") : t("Choose a part"),
      icon: "crop",
      act: () => openCrop({ ...item, name: item.file }, (crop) => query.replace(item, cropped(item, crop))),
    },
    item.crop && { label: t("Use the whole photo"), icon: "image", act: () => query.replace(item, cropped(item, null)) },
    item.id !== null && { label: t("View"), icon: "view", act: () => go({ image: String(item.id) }) },
    other && {
      label: t("Compare with {name}", { name: other.file }),
      icon: "compare",
      act: () => go({ view: "compare", a: nameOf(item), b: nameOf(other), image: "" }),
    },
  ];
}

function ofExamples(item) {
  if (item.kind !== "like") return [];
  return [
    { label: t("Different things: require all"), icon: "all", act: () => query.replace(item, ...item.items) },
    { label: t("Blend them"), icon: "with", act: () => query.replace(item, { ...item, kind: "blend", op: "or" }) },
  ];
}

function ofBlend(item) {
  if (item.kind !== "blend") return [];
  const many = item.items.length;
  return [
    many > 1 && {
      label: t("Examples of the same thing"),
      icon: "stack",
      act: () => query.replace(item, { kind: "like", items: item.items, weight: item.weight }),
    },
    many > 2 && {
      label: t("Common to at least {n} of them", { n: many - 1 }),
      icon: "items",
      act: () => query.replace(item, { ...item, op: "at_least", k: many - 1 }),
    },
    { label: t("Separate"), icon: "group", act: () => query.replace(item, ...item.items) },
  ];
}

/** Entries that do what dropping the item on another chip does. */
function joins(item) {
  const isTerm = ({ kind }) => kind === "image" || kind === "like" || kind === "blend";
  const { holder } = placeOf(item, query.root());
  if (!isTerm(item) || holder.kind !== "group") return [];
  const others = TRAYS.flatMap((tray) => holder[tray]).filter((one) => one !== item && isTerm(one));
  return others.slice(0, MOST).flatMap((other) => [
    { label: t("Blend with {name}", { name: titleOf(other) }), icon: "with", act: () => query.join(item, other, { kind: "blend", op: "or" }) },
    item.kind === "image" &&
      other.kind === "image" && {
        label: t("Same thing as {name}", { name: titleOf(other) }),
        icon: "stack",
        act: () => query.join(item, other, { kind: "like" }),
      },
  ]);
}

/** Entries that move an item to another tray. */
function moves(item) {
  const { holder } = placeOf(item, query.root());
  const into = holder.kind === "group" ? holder : query.root();
  return TRAYS.filter((tray) => !into[tray].includes(item)).map((tray) => ({
    label: t("Move to “{tray}”", { tray: trays[tray].title }),
    icon: tray,
    act: () => query.move(item, tray, into),
  }));
}

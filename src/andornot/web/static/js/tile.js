/** A photo in a grid: a click opens it, + and − use it in the query. */

import { go } from "./address.js";
import { h, icon } from "./dom.js";
import { carry } from "./drag.js";
import { drawFrames, separateLabels } from "./frames.js";
import { thumbnail } from "./gallery.js";
import { trays } from "./labels.js";
import { moreLike, notThisKind, notThisOne } from "./photo_actions.js";
import * as query from "./query.js";
import { t } from "./texts.js";

/**
 * @typedef {{note?: Element, said?: string, places?: object[], stack?: Stack, isInside?: boolean}} Description
 *   Information on a photo besides its name: a line of text, the text for screen readers, the boxes of terms, the stack
 *   of near duplicates under it, and whether it is inside of an open stack.
 * @typedef {{count: number, isOpen: boolean, toggle: () => void}} Stack
 */

const open = (image) => go({ image: String(image.id) });

const BUTTONS = [
  { name: "more", words: t("More like this"), drawing: "add", act: moreLike },
  { name: "not", words: t("Not this one"), drawing: "minus", act: notThisOne },
];
const KEYS = {
  Enter: open,
  " ": open,
  m: moreLike,
  "+": moreLike,
  n: notThisOne,
  "-": notThisOne,
  k: notThisKind,
};

/** An empty place for a photo, to be filled by `fill(place, image)`. */
export const place = (properties) => h("div", { class: "tile", tabindex: "-1", ...properties });

/**
 * Fills a place with a photo, which may be loaded later than its place.
 * @param {Description} description
 */
export function fill(tile, image, { note, said, places = [], stack, isInside = false } = {}) {
  const frame = h("div", { class: "frame" });
  const img = h("img", { src: thumbnail(image), alt: "", decoding: "async", draggable: "false" });
  const frames = places.length > 0 && drawFrames(places);
  img.addEventListener("load", () => {
    tile.classList.add("is-loaded");
    if (frames) separateLabels(frames);
  });
  img.addEventListener("error", () => tile.classList.add("is-gone"));
  frame.append(img);
  if (frames) frame.append(frames);
  tile.image = image;
  tile.stack = stack;
  tile.draggable = true;
  tile.title = image.name;
  tile.classList.toggle("is-inside", isInside);
  tile.classList.toggle("has-stack", Boolean(stack));
  const words = [image.name, said, stack && t("{n} near duplicates", { n: stack.count })].filter(Boolean);
  tile.setAttribute("aria-label", words.join(", "));
  tile.replaceChildren(...[frame, stack && drawStack(stack), note, drawButtons()].filter(Boolean));
  markUsed(tile);
}

const drawButtons = () =>
  h(
    "div",
    { class: "offer" },
    BUTTONS.map(({ name, words, drawing }) =>
      h("button", { type: "button", tabindex: -1, title: words, "aria-label": words, "data-offer": name }, icon(drawing)),
    ),
  );

function drawStack({ count, isOpen }) {
  const words = t(isOpen ? "Hide {n} near duplicates" : "Show {n} near duplicates", { n: count });
  return h(
    "button",
    { type: "button", class: "stack", tabindex: -1, title: words, "aria-label": words, "aria-expanded": isOpen },
    icon("stack"),
    isOpen ? "−" : `+${count}`,
  );
}

/** Shows on a tile whether its photo is in the query. */
export function markUsed(tile) {
  if (!tile.image) return;
  const used = query.traysWith(tile.image);
  tile.classList.toggle("is-used", used.length > 0);
  tile.querySelector(".used")?.remove();
  if (!used.length) return;
  const words = used.map((tray) => trays[tray].title).join(", ");
  const drawing = used.includes("none") ? "minus" : "check";
  tile
    .querySelector(".frame")
    .append(h("span", { class: "used", title: words }, icon(drawing), h("span", { class: "said" }, words)));
}

/** Handles clicks, taps, drags and keys on all tiles inside `host`. */
export function liveTiles(host) {
  const tileOf = (event) => {
    const tile = event.target.closest?.(".tile");
    return tile?.image ? tile : null;
  };
  host.addEventListener("click", (event) => {
    const tile = tileOf(event);
    if (!tile) return;
    const button = event.target.closest("button");
    if (button?.classList.contains("stack")) tile.stack.toggle();
    else (BUTTONS.find(({ name }) => name === button?.dataset.offer)?.act ?? open)(tile.image);
  });
  host.addEventListener("keydown", (event) => {
    const tile = tileOf(event);
    if (!tile || event.target !== tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = event.key === "s" ? tile.stack?.toggle : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act(tile.image);
  });
  host.addEventListener("dragstart", (event) => {
    const tile = tileOf(event);
    if (tile) carry(event, query.asItem(tile.image));
  });
}

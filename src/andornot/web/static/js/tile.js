/** A photo in a grid, with its buttons. */

import { go } from "./address.js";
import { chosen, moreLike, notThis } from "./photo_actions.js";
import { h, icon } from "./dom.js";
import { carry } from "./drag.js";
import { covered, drawFrames } from "./frames.js";
import { thumbnail } from "./gallery.js";
import * as query from "./query.js";
import { WORDS } from "./labels.js";

/**
 * @typedef {{note?: Element, said?: string, places?: object[], stack?: Stack, isInside?: boolean}} Description
 *   What is known of an image beside its name: a line below it, how a screen reader calls it, where terms were found,
 *   what lies under it, whether it is one of an open stack.
 * @typedef {{count: number, isOpen: boolean, toggle: () => void}} Stack
 */

const view = (image) => go({ image: String(image.id) });

/** The buttons of a photo. */
const OFFERS = [
  { name: "more", words: "More like this", drawing: "add", act: moreLike },
  { name: "not", words: "Not this", drawing: "minus", act: notThis },
  { name: "view", words: "View", drawing: "view", act: view },
];
const KEYS = { Enter: chosen, m: moreLike, n: notThis, " ": view };

/** An empty place for an image: `fill(place, image)` fills it. */
export const place = (properties) => h("div", { class: "tile", tabindex: "-1", ...properties });

/**
 * Fills a place with an image. It may come late, so that its place exists before.
 * @param {Description} description
 */
export function fill(tile, image, { note, said, places = [], stack, isInside = false } = {}) {
  const frame = h("div", { class: "frame" });
  const img = h("img", { src: thumbnail(image), alt: "", decoding: "async", draggable: "false" });
  img.addEventListener("load", () => {
    tile.classList.add("is-loaded");
    if (places.length) frame.append(drawFrames(places, covered(img)));
  });
  img.addEventListener("error", () => tile.classList.add("is-gone"));
  frame.append(img);
  tile.image = image;
  tile.stack = stack;
  tile.draggable = true;
  tile.title = image.name;
  tile.classList.toggle("is-inside", isInside);
  tile.classList.toggle("has-stack", Boolean(stack));
  const words = [image.name, said, stack && `${stack.count} near duplicates`].filter(Boolean);
  tile.setAttribute("aria-label", words.join(", "));
  tile.replaceChildren(...[frame, stack && drawStack(stack), note].filter(Boolean));
  markUsed(tile);
}

function drawStack({ count, isOpen }) {
  const words = isOpen ? `Hide ${count} near duplicates` : `Show ${count} near duplicates`;
  return h(
    "button",
    { type: "button", class: "stack", tabindex: -1, title: words, "aria-label": words, "aria-expanded": isOpen },
    icon("stack"),
    isOpen ? "−" : `+${count}`,
  );
}

/** Shows on a tile whether its image is in the query. */
export function markUsed(tile) {
  if (!tile.image) return;
  const trays = query.traysWith(tile.image);
  tile.classList.toggle("is-used", trays.length > 0);
  tile.querySelector(".used")?.remove();
  if (!trays.length) return;
  const words = trays.map((tray) => WORDS[tray].title).join(", ");
  const drawing = trays.includes("none") ? "minus" : "check";
  tile
    .querySelector(".frame")
    .append(h("span", { class: "used", title: words }, icon(drawing), h("span", { class: "said" }, words)));
}

/**
 * Lets all tiles inside `host` be clicked, tapped, dragged and used by key. There is one set of buttons, which goes to
 * the tile that is pointed at, was tapped or has the focus of the keyboard.
 */
export function liveTiles(host) {
  const offer = h(
    "div",
    { class: "offer" },
    OFFERS.map(({ name, words, drawing }) =>
      h(
        "button",
        { type: "button", title: words, "aria-label": words, "data-offer": name },
        icon(drawing),
        name !== "view" && h("span", {}, words),
      ),
    ),
  );
  const tileOf = (event) => {
    const tile = event.target.closest?.(".tile");
    return tile?.image ? tile : null;
  };
  let offered = null;
  const offerOn = (tile) => {
    if (offered === tile) return;
    offered?.classList.remove("is-offered");
    offered = tile;
    tile?.classList.add("is-offered");
    tile?.append(offer);
  };
  const isUsedByKey = () => Boolean(offered?.matches(":focus-visible, :has(:focus-visible)"));

  host.addEventListener("pointerover", (event) => {
    const tile = tileOf(event);
    // The mouse takes the buttons away from where it clicked, but not from who uses them by key.
    if (tile && event.pointerType === "mouse" && !offer.querySelector(":focus-visible")) offerOn(tile);
  });
  host.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse" && !isUsedByKey()) offerOn(null);
  });
  host.addEventListener("focusin", (event) => {
    const tile = tileOf(event);
    if (tile?.matches(":focus-visible, :has(:focus-visible)")) offerOn(tile);
  });
  host.addEventListener("focusout", (event) => {
    if (!host.contains(event.relatedTarget) && !offered?.matches(":hover")) offerOn(null);
  });
  let isFinger = false;
  let wasOffered = true;
  document.addEventListener("pointerdown", (event) => {
    isFinger = event.pointerType !== "mouse";
    const tile = host.contains(event.target) ? tileOf(event) : null;
    // A finger cannot point without touching: the first tap only shows what there is to choose.
    wasOffered = !isFinger || offered === tile;
    if (isFinger && offered !== tile) offerOn(null);
  });
  host.addEventListener("click", (event) => {
    const tile = tileOf(event);
    if (!tile) return;
    const button = event.target.closest("button");
    if (button?.classList.contains("stack")) tile.stack.toggle();
    else if (!button && !wasOffered) offerOn(tile);
    else {
      const { image } = tile;
      if (isFinger) putAway(tile);
      (OFFERS.find(({ name }) => name === button?.dataset.offer)?.act ?? chosen)(image);
    }
  });
  /** What a finger has done is done: nothing stays lit where it touched. */
  const putAway = (tile) => {
    if (tile.contains(document.activeElement)) document.activeElement.blur();
    offerOn(null);
  };
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

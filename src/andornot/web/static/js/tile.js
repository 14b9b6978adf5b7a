/** A picture in a grid, and what it offers when one points at it. */

import { go } from "./address.js";
import { chosen, moreLike, notThis } from "./choosing.js";
import { h, icon } from "./dom.js";
import { carry } from "./drag.js";
import { covered, drawFrames } from "./frames.js";
import { thumbnail } from "./gallery.js";
import * as query from "./query.js";
import { WORDS } from "./words.js";

/**
 * @typedef {{note?: Element, said?: string, places?: object[], stack?: Stack, isInside?: boolean}} Description
 *   What is known of a picture beside its name: a line below it, how a screen reader calls it, where terms were found,
 *   what lies under it, whether it is one of an open stack.
 * @typedef {{count: number, isOpen: boolean, toggle: () => void}} Stack
 */

const look = (picture) => go({ picture: String(picture.id) });

/** What a picture offers, in the order of its buttons. */
const OFFERS = [
  { name: "more", words: "More like this", drawing: "add", act: moreLike },
  { name: "not", words: "Not this", drawing: "minus", act: notThis },
  { name: "closer", words: "Look closer", drawing: "closer", act: look },
];
const KEYS = { Enter: chosen, m: moreLike, n: notThis, " ": look };

/** An empty place for a picture: `fill(place, picture)` fills it. */
export const place = (properties) => h("div", { class: "tile", tabindex: "-1", ...properties });

/**
 * Fills a place with a picture. It may come late, so that its place exists before.
 * @param {Description} description
 */
export function fill(tile, picture, { note, said, places = [], stack, isInside = false } = {}) {
  const frame = h("div", { class: "frame" });
  const image = h("img", { src: thumbnail(picture), alt: "", decoding: "async", draggable: "false" });
  image.addEventListener("load", () => {
    tile.classList.add("is-loaded");
    if (places.length) frame.append(drawFrames(places, covered(image)));
  });
  image.addEventListener("error", () => tile.classList.add("is-gone"));
  frame.append(image);
  tile.picture = picture;
  tile.stack = stack;
  tile.draggable = true;
  tile.title = picture.name;
  tile.classList.toggle("is-inside", isInside);
  tile.classList.toggle("has-stack", Boolean(stack));
  const words = [picture.name, said, stack && `${stack.count} more nearly the same`].filter(Boolean);
  tile.setAttribute("aria-label", words.join(", "));
  tile.replaceChildren(...[frame, stack && drawStack(stack), note].filter(Boolean));
  markUsed(tile);
}

function drawStack({ count, isOpen }) {
  const words = isOpen ? `Fold ${count} nearly the same` : `Show ${count} nearly the same`;
  return h(
    "button",
    { type: "button", class: "stack", tabindex: -1, title: words, "aria-label": words, "aria-expanded": isOpen },
    icon("stack"),
    isOpen ? "−" : `+${count}`,
  );
}

/** Shows on a tile whether its picture is in the query. */
export function markUsed(tile) {
  if (!tile.picture) return;
  const trays = query.traysWith(tile.picture);
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
        name !== "closer" && h("span", {}, words),
      ),
    ),
  );
  const tileOf = (event) => {
    const tile = event.target.closest?.(".tile");
    return tile?.picture ? tile : null;
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
      const { picture } = tile;
      if (isFinger) putAway(tile);
      (OFFERS.find(({ name }) => name === button?.dataset.offer)?.act ?? chosen)(picture);
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
    act(tile.picture);
  });
  host.addEventListener("dragstart", (event) => {
    const tile = tileOf(event);
    if (tile) carry(event, query.asItem(tile.picture));
  });
}

/** A picture in a grid, and what it offers when one points at it. */

import { go } from "./address.js";
import { announce, h, icon } from "./dom.js";
import { carry } from "./drag.js";
import { thumbnail } from "./gallery.js";
import * as query from "./query.js";
import { WORDS } from "./words.js";

/** Keys on a picture, and the trays they add to. */
const KEYS = { Enter: "all", m: "all", n: "none" };

/** Adds a picture to a tray, and says so. */
export function addTo(tray, picture) {
  if (tray === "all") query.click(picture);
  else query.add(query.asItem(picture), tray);
  announce(`${picture.name} added to ${WORDS[tray].title}`);
}

/** An empty place for a picture: `fill(place, picture)` fills it. */
export const place = (properties) => h("div", { class: "tile", tabindex: "-1", ...properties });

/**
 * Fills a place with a picture; `note` is a line below it, `said` how a screen reader calls it.
 * A picture may come late, so that its place exists before.
 */
export function fill(tile, picture, { note, said } = {}) {
  const image = h("img", { src: thumbnail(picture), alt: "", decoding: "async", draggable: "false" });
  image.addEventListener("load", () => tile.classList.add("is-loaded"));
  image.addEventListener("error", () => tile.classList.add("is-gone"));
  tile.picture = picture;
  tile.draggable = true;
  tile.title = picture.name;
  tile.setAttribute("aria-label", said ? `${picture.name}, ${said}` : picture.name);
  tile.replaceChildren(h("div", { class: "frame" }, image), note ?? "");
  markUsed(tile);
}

/** Shows on a tile whether its picture is in the query. */
export function markUsed(tile) {
  if (!tile.picture) return;
  const trays = query.traysWith(tile.picture);
  tile.classList.toggle("is-used", trays.length > 0);
  tile.querySelector(".used")?.remove();
  if (!trays.length) return;
  const words = trays.map((tray) => WORDS[tray].title).join(", ");
  tile
    .querySelector(".frame")
    .append(h("span", { class: "used" }, icon(trays[0]), h("span", { class: "said" }, words)));
}

/**
 * Lets all tiles inside `host` be clicked, tapped, dragged and used by key. There is one set of buttons, which goes to
 * the tile that is pointed at or has the focus.
 */
export function liveTiles(host) {
  const offer = h("div", { class: "offer" });
  const tileOf = (event) => {
    const tile = event.target.closest?.(".tile");
    return tile?.picture ? tile : null;
  };
  const buttons = [
    ...["all", "any", "none"].map((tray) =>
      h(
        "button",
        { type: "button", title: WORDS[tray].title, "aria-label": WORDS[tray].title, "data-tray": tray },
        icon(tray),
        h("span", {}, WORDS[tray].short),
      ),
    ),
    h("button", { type: "button", class: "closer", title: "Look closer", "aria-label": "Look closer" }, icon("closer")),
  ];
  offer.append(...buttons);
  const offerOn = (tile) => {
    if (offer.parentElement !== tile) tile.append(offer);
  };

  host.addEventListener("pointerover", (event) => {
    const tile = tileOf(event);
    // The mouse takes the buttons away from where it clicked, but not from who uses them by key.
    if (tile && event.pointerType === "mouse" && !offer.querySelector(":focus-visible")) offerOn(tile);
  });
  host.addEventListener("focusin", (event) => {
    const tile = tileOf(event);
    if (tile) offerOn(tile);
  });
  let wasOffered = true;
  host.addEventListener("pointerdown", (event) => {
    const tile = tileOf(event);
    // A finger cannot point without touching: the first tap only shows what there is to choose.
    wasOffered = event.pointerType === "mouse" || offer.parentElement === tile;
  });
  host.addEventListener("click", (event) => {
    const tile = tileOf(event);
    if (!tile) return;
    const button = event.target.closest("button");
    if (button?.dataset.tray) addTo(button.dataset.tray, tile.picture);
    else if (button) go({ picture: String(tile.picture.id) });
    else if (wasOffered) addTo("all", tile.picture);
    else offerOn(tile);
  });
  host.addEventListener("keydown", (event) => {
    const tile = tileOf(event);
    if (!tile || event.target !== tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const tray = KEYS[event.key];
    if (!tray && event.key !== " ") return;
    event.preventDefault();
    if (tray) addTo(tray, tile.picture);
    else go({ picture: String(tile.picture.id) });
  });
  host.addEventListener("dragstart", (event) => {
    const tile = tileOf(event);
    if (tile) carry(event, query.asItem(tile.picture));
  });
}

/** Frames that show where in a photo each term of the query was found. */

import { h } from "./dom.js";
import { thumbnail } from "./gallery.js";

/** So many terms look different; further ones begin again. */
const COLOURS = 4;

/** What stands in a formula where a name may stand; what is in square brackets is a part of an image. */
const NAME = /"(?:\\.|[^"\\])*"|[\p{L}\p{N}_./-]+/gu;
const PART = /\[[^\]]*\]/g;

/**
 * What the places of a hit are called, and the first image of their terms.
 * @param {{boxes: {term: string, box: number[]}[]}} hit
 * @param {{name: string, file: string}[]} names  those of the answer
 */
export function placesOf(hit, names) {
  const known = new Map(names.map((name) => [name.name, name]));
  const order = [...new Set(hit.boxes.map(({ term }) => term))];
  return hit.boxes.map(({ term, box }) => {
    const written = term.replace(PART, "").match(NAME) ?? [];
    const meant = written.map((name) => known.get(unquoted(name))).filter(Boolean);
    return { box, label: said(term, meant), image: meant.find(isImage), colour: order.indexOf(term) % COLOURS };
  });
}

const isImage = ({ id, upload }) => id !== null || upload !== null;

const unquoted = (name) => (name.startsWith('"') ? name.slice(1, -1).replace(/\\(.)/g, "$1") : name);

function said(term, meant) {
  if (meant.length === 0) return term;
  if (meant.length === 1) return (term.includes("[") ? "part of " : "") + meant[0].file;
  return `these ${meant.length}`;
}

/** Frames to lie over an image; `part` says which part of it is seen, as left, top, right, bottom. */
export function drawFrames(places, part = [0, 0, 1, 1]) {
  return h(
    "div",
    { class: "frames", "aria-hidden": "true" },
    places.map(({ box, label, image, colour }) => {
      const frame = h(
        "div",
        { class: `found colour-${colour}` },
        h("span", {}, image && h("img", { src: thumbnail(image), alt: "" }), label),
      );
      const [left, top, right, bottom] = seen(box, part).map((fraction) => `${100 * fraction}%`);
      Object.assign(frame.style, { left, top, width: `calc(${right} - ${left})`, height: `calc(${bottom} - ${top})` });
      return frame;
    }),
  );
}

/** Which part of an image a square shows that it covers. */
export function covered({ naturalWidth: width, naturalHeight: height }) {
  const [x, y] = [Math.max(0, width - height) / (2 * width), Math.max(0, height - width) / (2 * height)];
  return [x, y, 1 - x, 1 - y];
}

/** A box of the image as fractions of the part that is seen. */
function seen(box, part) {
  return box.map((value, side) => {
    const [from, to] = [part[side % 2], part[(side % 2) + 2]];
    return Math.max(0, Math.min(1, (value - from) / (to - from)));
  });
}

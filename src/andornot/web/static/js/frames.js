/** Frames that show where in a photo each term of the query was found. */

import { h } from "./dom.js";
import { thumbnail } from "./gallery.js";
import { t } from "./texts.js";

/** The number of different styles of frames; further terms reuse them. */
const COLOURS = 4;

/** Matches atoms in a formula; crops are in square brackets. */
const NAME = /"(?:\\.|[^"\\])*"|[\p{L}\p{N}_./-]+/gu;
const PART = /\[[^\]]*\]/g;

/** Corners of a frame for its label, in the order in which they are tried. */
const CORNERS = ["top left", "bottom left", "top right", "bottom right"];

/**
 * The labels of the boxes of a hit, and the first image of their terms.
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
  if (meant.length > 1) return t("these {n}", { n: meant.length });
  return term.includes("[") ? t("part of {name}", { name: meant[0].file }) : meant[0].file;
}

/** Draws frames over a photo. */
export function drawFrames(places) {
  return h(
    "div",
    { class: "frames", "aria-hidden": "true" },
    places.map(({ box, label, image, colour }) => {
      const frame = h(
        "div",
        { class: `found colour-${colour}` },
        h("span", { "data-corner": CORNERS[0] }, image && h("img", { src: thumbnail(image), alt: "" }), label),
      );
      const [left, top, right, bottom] = box.map((edge) => 100 * Math.max(0, Math.min(1, edge)));
      Object.assign(frame.style, {
        left: `${left}%`,
        top: `${top}%`,
        width: `${right - left}%`,
        height: `${bottom - top}%`,
      });
      return frame;
    }),
  );
}

/** Moves labels to other corners of their frames until none overlap; a label without a free corner is hidden. */
export function separateLabels(frames) {
  const placed = [];
  for (const label of frames.querySelectorAll(".found > span")) {
    label.hidden = false;
    const corner = CORNERS.find((one) => {
      label.dataset.corner = one;
      const at = label.getBoundingClientRect();
      return !placed.some((other) => overlap(at, other));
    });
    label.hidden = !corner;
    if (corner) placed.push(label.getBoundingClientRect());
  }
}

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** A dialog to crop a photo by mouse, touch, arrow keys or numbers. */

import { byId } from "./dom.js";
import { thumbnail } from "./gallery.js";
import * as query from "./query.js";

/** As fractions of the image's side: the step of an arrow key, and the smallest crop. */
const STEP = 0.02;
const LEAST = 0.04;
const MIDDLE = [0.25, 0.25, 0.75, 0.75];

let box = MIDDLE;
let isStarted = false;

const within = (value, low, high) => Math.max(low, Math.min(high, value));

/**
 * Lets the user draw a box on an image; `onChosen` gets [left, top, right, bottom] in fractions. Without it, the crop
 * is added to the query.
 */
export async function openCrop(image, onChosen = (crop) => query.add(query.asItem(image, crop))) {
  const dialog = byId("crop-dialog");
  if (!isStarted) start(dialog);
  const img = dialog.querySelector("img");
  img.src = image.upload ? thumbnail(image) : `/api/images/${image.id}/image`;
  img.alt = image.name ?? "";
  draw(image.crop ?? MIDDLE);
  dialog.returnValue = "";
  dialog.showModal();
  byId("crop-box").focus();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  if (dialog.returnValue === "part") onChosen(box);
}

function start(dialog) {
  isStarted = true;
  const surface = byId("crop-image");
  surface.addEventListener("pointerdown", (event) => {
    const drag = dragFrom(event, surface);
    if (!drag) return;
    event.preventDefault();
    byId("crop-box").focus();
    surface.setPointerCapture(event.pointerId);
    const move = (later) => draw(drag(later));
    surface.addEventListener("pointermove", move);
    const end = () => surface.removeEventListener("pointermove", move);
    for (const happening of ["pointerup", "pointercancel"]) surface.addEventListener(happening, end, { once: true });
  });
  byId("crop-box").addEventListener("keydown", (event) => {
    const [x, y] = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] }[
      event.key
    ] ?? [0, 0];
    if (!x && !y) return;
    event.preventDefault();
    draw(event.shiftKey ? resized(box, x, y) : shifted(box, x, y));
  });
  for (const field of fields()) {
    field.addEventListener("change", () => {
      const next = [...box];
      next[field.dataset.edge] = Number(field.value) / 100;
      draw(checked(next, Number(field.dataset.edge)));
    });
  }
  dialog.querySelector("form").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target.matches("button")) return;
    event.preventDefault();
    if (event.target.matches("input")) event.target.blur();
    dialog.close("part");
  });
}

/** What dragging from this position does: move a corner, move the box, or draw a new one. */
function dragFrom(event, surface) {
  const frame = surface.getBoundingClientRect();
  const at = ({ clientX, clientY }) => [
    within((clientX - frame.left) / frame.width, 0, 1),
    within((clientY - frame.top) / frame.height, 0, 1),
  ];
  const [x, y] = at(event);
  const first = [...box];
  const between = ([fromX, fromY], [toX, toY]) => {
    const [left, right] = [Math.min(fromX, toX, 1 - LEAST), Math.max(fromX, toX)];
    const [top, bottom] = [Math.min(fromY, toY, 1 - LEAST), Math.max(fromY, toY)];
    return [left, top, Math.max(right, left + LEAST), Math.max(bottom, top + LEAST)];
  };
  const corner = event.target.closest?.(".corner")?.dataset.corner;
  if (corner) {
    const fixed = [corner.includes("left") ? first[2] : first[0], corner.includes("top") ? first[3] : first[1]];
    return (later) => between(fixed, at(later));
  }
  if (event.target.closest?.("#crop-box")) {
    return (later) => {
      const [toX, toY] = at(later);
      return shifted(first, toX - x, toY - y);
    };
  }
  return (later) => between([x, y], at(later));
}

function shifted([left, top, right, bottom], x, y) {
  const across = within(x, -left, 1 - right);
  const down = within(y, -top, 1 - bottom);
  return [left + across, top + down, right + across, bottom + down];
}

const resized = ([left, top, right, bottom], x, y) => [
  left,
  top,
  within(right + x, left + LEAST, 1),
  within(bottom + y, top + LEAST, 1),
];

/** The box with one edge changed. */
function checked(next, edge) {
  const opposite = next[(edge + 2) % 4];
  const result = [...next];
  result[edge] = edge < 2 ? within(next[edge], 0, opposite - LEAST) : within(next[edge], opposite + LEAST, 1);
  return result;
}

const fields = () => byId("crop-dialog").querySelectorAll("[data-edge]");

function draw(next) {
  box = next.map((edge) => Number(within(edge, 0, 1).toFixed(4)));
  const [left, top, right, bottom] = box.map((edge) => 100 * edge);
  Object.assign(byId("crop-box").style, {
    left: `${left}%`,
    top: `${top}%`,
    width: `${right - left}%`,
    height: `${bottom - top}%`,
  });
  for (const field of fields()) field.value = Math.round(100 * box[field.dataset.edge]);
}

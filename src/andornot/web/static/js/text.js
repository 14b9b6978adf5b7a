/** The formula as text, with a mistake marked at its spot while somebody types. */

import { byId, debounced, h } from "./dom.js";
import { characters } from "./formula.js";
import * as query from "./query.js";

const PAUSE = 150;

/** Whether somebody types just now, and is not to be interrupted. */
let isTyping = false;

/** Brings the text field to life. */
export function startText() {
  const field = byId("formula");
  const type = () => {
    isTyping = false;
    query.type(field.value);
  };
  const typeSoon = debounced(type, PAUSE);
  field.addEventListener("input", () => {
    isTyping = true;
    mark(null);
    fit(field);
    typeSoon();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // a formula is one line, however long
    type();
  });
  new ResizeObserver(show).observe(field.parentElement);
  query.queryChanged.on(show);
  show();
}

function show() {
  const field = byId("formula");
  if (field.value !== query.formula() && !isTyping) field.value = query.formula();
  mark(query.error());
  fit(field);
}

function fit(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

/** Underlines the spot in a copy of the text that lies under the field, and says below what is wrong. */
function mark(error) {
  const [field, copy, message] = ["formula", "formula-copy", "formula-error"].map(byId);
  field.setAttribute("aria-invalid", String(error !== null));
  message.hidden = error === null;
  copy.replaceChildren();
  if (error === null) return;
  const { position: start = 0, length = Infinity } = error;
  const end = start + Math.max(1, length);
  // Beyond the end of the text there is nothing to underline but a space.
  const spot = h("mark", {}, characters(field.value, start, end) || "\u00a0");
  copy.append(characters(field.value, 0, start), spot, characters(field.value, end));
  message.replaceChildren(h("span", { class: "pointer" }), error.message);
  const at = spot.getClientRects()[0]; // nowhere, while a narrow screen has it folded
  if (at) message.style.setProperty("--spot", `${at.left - copy.getBoundingClientRect().left}px`);
}

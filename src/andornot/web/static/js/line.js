/** The line to type in: plain text, with a mistake underlined at its spot, and what else may have been meant. */

import { isCompleting, startCompletion } from "./completion.js";
import { announce, byId, debounced, h } from "./dom.js";
import { characters } from "./formula.js";
import * as query from "./query.js";
import { isMissingSign, readings } from "./readings.js";

const PAUSE = 150;

/** Whether somebody types just now, and is not to be interrupted. */
let isTyping = false;
/** What else the text may mean; asked for once for each mistake. */
let offered = { fault: null, found: Promise.resolve([]) };

/** Brings the line to life. */
export function startLine() {
  const field = byId("formula");
  const type = () => {
    isTyping = false;
    return query.type(field.value);
  };
  const typeSoon = debounced(() => isTyping && type(), PAUSE);
  field.addEventListener("input", () => {
    isTyping = true;
    mark(null);
    typeSoon();
  });
  startCompletion(field);
  field.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter" || event.defaultPrevented || event.isComposing) return;
    event.preventDefault();
    await type();
    const [first] = query.error() ? await offers(query.error()) : [];
    if (first?.isSure && query.formula() === field.value) {
      query.setText(first.text);
      announce(`Read as ${first.text}`);
    } else show();
  });
  for (const happening of ["scroll", "keyup", "pointerup", "focus", "blur"]) field.addEventListener(happening, follow);
  field.addEventListener("blur", show);
  query.queryChanged.on(show);
  show();
}

function show() {
  const field = byId("formula");
  if (field.value !== query.formula() && !isTyping) field.value = query.formula();
  if (!isTyping) mark(query.error());
}

/** A field of one line scrolls by itself; the copy behind it goes along. */
function follow() {
  byId("formula-copy").scrollLeft = byId("formula").scrollLeft;
}

/** Somebody is still writing the word that is not known yet, and is being helped with it. */
function isUnfinished({ position = 0, length = 0 }) {
  const field = byId("formula");
  const caret = [...field.value.slice(0, field.selectionStart)].length;
  return document.activeElement === field && isCompleting() && caret >= position && caret <= position + length;
}

function offers(fault) {
  if (offered.fault !== fault) offered = { fault, found: readings(query.formula(), fault) };
  return offered.found;
}

/** Who types two words does not ask for signs; what is near an unknown word is offered, and need not be told. */
function kindly({ message, position = 0, length = 0, nearest = [] }) {
  if (isMissingSign(message)) return "Words are joined by and, or, not.";
  if (!nearest.length) return message;
  const name = characters(byId("formula").value, position, position + length).replace(/^"|"$/g, "");
  return `“${name}” is no word that is known here, and no picture.`;
}

/** Underlines the spot in a copy of the text that lies under the field, and says below what is wrong. */
async function mark(error) {
  const [field, copy, message] = ["formula", "formula-copy", "formula-error"].map(byId);
  const fault = error && isUnfinished(error) ? null : error;
  field.setAttribute("aria-invalid", String(fault !== null));
  message.hidden = fault === null;
  copy.replaceChildren();
  if (fault === null) return;
  const { position: start = 0, length = Infinity } = fault;
  const end = start + Math.max(1, length);
  // Beyond the end of the text there is nothing to underline but a space.
  const spot = h("mark", {}, characters(field.value, start, end) || "\u00a0");
  copy.append(characters(field.value, 0, start), spot, characters(field.value, end));
  follow();
  message.replaceChildren(h("span", { class: "pointer" }), h("span", {}, kindly(fault)));
  const left = spot.getBoundingClientRect().left - copy.getBoundingClientRect().left;
  message.style.setProperty("--spot", `${Math.max(0, Math.min(left, copy.clientWidth))}px`);
  const found = await offers(fault);
  if (query.error() !== fault || !found.length || message.querySelector(".readings")) return;
  message.append(
    h(
      "span",
      { class: "readings" },
      "Did you mean ",
      found.map(({ text, words }) =>
        h("button", { type: "button", class: "word", onclick: () => query.setText(text) }, words),
      ),
    ),
  );
}

/** The search field, which underlines mistakes and offers corrections. */

import { isCompleting, startCompletion } from "./completion.js";
import { announce, byId, debounced, h } from "./dom.js";
import { characters } from "./formula.js";
import * as query from "./query.js";
import { teachButton } from "./understood.js";
import { t } from "./texts.js";

const PAUSE = 150;

/** Whether the user is typing, so that the text must not be replaced. */
let isTyping = false;

/** Starts the search field. */
export function startSearchField() {
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
    const [first] = query.error()?.corrections ?? [];
    if (first?.is_certain && query.formula() === field.value) {
      query.setText(first.formula);
      announce(t("Searching for {query}", { query: first.formula }));
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

/** Scrolls the copy behind the field in sync with it. */
function follow() {
  byId("formula-copy").scrollLeft = byId("formula").scrollLeft;
}

/** Whether the unknown word is still being typed, and completions for it are shown. */
function isUnfinished({ span: [start, end] }) {
  const field = byId("formula");
  const caret = [...field.value.slice(0, field.selectionStart)].length;
  return document.activeElement === field && isCompleting() && caret >= start && caret <= end;
}

/** The message for a mistake; short if corrections are shown below it. */
function messageOf({ code, message, corrections }) {
  if (code === "missing-operator") return t("Join words with and, or, not.");
  const isUnknown = code === "unknown-name" || code === "unknown-word";
  return isUnknown && corrections.length ? t("Unknown word or file name.") : message;
}

/** Underlines the mistake in a copy of the text behind the field, and shows the message below it. */
function mark(error) {
  const [field, copy, message] = ["formula", "formula-copy", "formula-error"].map(byId);
  const fault = error && isUnfinished(error) ? null : error;
  field.setAttribute("aria-invalid", String(fault !== null));
  message.hidden = fault === null;
  copy.replaceChildren();
  if (fault === null) return;
  // For plain text, the span refers to the formula, not to the typed text.
  const [start, to] = fault.understood && fault.understood !== field.value ? [0, 0] : fault.span;
  const end = Math.max(start + 1, to);
  // At the end of the text, underline a space.
  const spot = h("mark", {}, characters(field.value, start, end) || "\u00a0");
  copy.append(characters(field.value, 0, start), spot, characters(field.value, end));
  follow();
  message.replaceChildren(h("span", { class: "pointer" }), h("span", {}, messageOf(fault)));
  const left = spot.getBoundingClientRect().left - copy.getBoundingClientRect().left;
  message.style.setProperty("--spot", `${Math.max(0, Math.min(left, copy.clientWidth))}px`);
  const isWord = ["unknown-name", "unknown-word"].includes(fault.code);
  if (isWord) message.append(...[teachButton(spot.textContent.replace(/^"|"$/g, ""))].filter(Boolean));
  if (!fault.corrections.length) return;
  message.append(
    h(
      "span",
      { class: "corrections" },
      `${t("Did you mean")} `,
      fault.corrections.map(({ formula, label }) =>
        h("button", { type: "button", class: "word", onclick: () => query.setText(formula) }, label),
      ),
    ),
  );
}

/** Completions below the search field: words with their counts, file names, defined names. */

import { ask, newestOnly } from "./api.js";
import { byId, debounced, h, icon } from "./dom.js";
import { characters } from "./formula.js";
import { thumbnail } from "./gallery.js";
import { count } from "./labels.js";

const PAUSE = 60;
const MOST = 8;
const newest = newestOnly();

/** The completions, and the text they are for. */
let answer = { of: "", start: 0, end: 0, completions: [] };
let chosen = -1;
/** Whether something was typed and the list was not closed since. */
let isWanted = false;

/** Whether the list is shown. */
export const isCompleting = () => !byId("completions").hidden;

/** Adds completion to a field. */
export function startCompletion(field) {
  const list = byId("completions");
  const askSoon = debounced(() => isWanted && document.activeElement === field && complete(field), PAUSE);
  field.addEventListener("input", (event) => {
    choose(-1); // typing clears the selection
    isWanted = event.isTrusted;
    askSoon();
  });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !isCompleting()) {
      if (step > 0) complete(field);
    } else if (step) choose(chosen + step);
    else if (event.key === "Escape" && isCompleting()) close();
    else if ((event.key === "Enter" || event.key === "Tab") && isCompleting() && chosen >= 0) take(field);
    else {
      if (event.key === "Enter") close();
      return;
    }
    event.preventDefault();
  });
  // Keep the focus in the field on click.
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (!option) return;
    chosen = [...list.children].indexOf(option);
    take(field);
  });
}

async function complete(field) {
  const cursor = [...field.value.slice(0, field.selectionStart)].length;
  try {
    const text = field.value;
    const parameters = { text, cursor: String(cursor), limit: String(MOST) };
    answer = { of: text, ...(await newest((signal) => ask("/api/complete", parameters, { signal }))) };
  } catch {
    close(); // completions are optional: ignore errors
    return;
  }
  if (document.activeElement === field) draw();
}

function draw() {
  const { completions } = answer;
  const list = byId("completions");
  list.replaceChildren(
    ...completions.map(({ kind, label, images, id, version }, place) =>
      h(
        "li",
        { role: "option", id: `completion-${place}`, "aria-selected": "false" },
        kind === "image" && id !== null
          ? h("img", { src: thumbnail({ id, version }), alt: "" })
          : icon(kind === "definition" ? "stack" : "word"),
        h("span", { class: "label" }, label),
        images !== null && h("span", { class: "count" }, count(images)),
      ),
    ),
  );
  list.hidden = completions.length === 0;
  byId("formula").setAttribute("aria-expanded", String(completions.length > 0));
  choose(-1);
}

function choose(place) {
  const options = [...byId("completions").children];
  // Moving past either end returns to the typed text.
  chosen = place < -1 ? options.length - 1 : place >= options.length ? -1 : place;
  options.forEach((option, at) => option.setAttribute("aria-selected", String(at === chosen)));
  options[chosen]?.scrollIntoView({ block: "nearest" });
  if (chosen >= 0) byId("formula").setAttribute("aria-activedescendant", `completion-${chosen}`);
  else byId("formula").removeAttribute("aria-activedescendant");
}

function take(field) {
  // Use the text of the request, because the field may have changed since.
  const { of, start, end, completions } = answer;
  const before = characters(of, 0, start) + completions[chosen].text;
  field.value = before + characters(of, end);
  field.setSelectionRange(before.length, before.length);
  close();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function close() {
  isWanted = false;
  newest(() => {});
  byId("completions").hidden = true;
  byId("formula").setAttribute("aria-expanded", "false");
  choose(-1);
}

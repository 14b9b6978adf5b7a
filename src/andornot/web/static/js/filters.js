/** Filters: chips to remove them, and a panel to choose them. */

import { FILTERS, go, here, moved, UNFILTERED } from "./address.js";
import { ask } from "./api.js";
import { byId, h, icon, redraw } from "./dom.js";
import { drawFolders } from "./folders.js";
import { changed } from "./gallery.js";
import * as query from "./query.js";
import { count, day } from "./labels.js";

/** What a chip says. */
const SAID = {
  folder: (value) => `Folder: ${value}`,
  label: (value) => `Folder name: ${value}`,
  after: (value) => `From ${day(value)}`,
  before: (value) => `Before ${day(value)}`,
  file_dates: () => "Including file dates",
};

/** The tree of folders and the names of one's own, once they came. */
let known = { folders: null, definitions: [] };

const active = () => FILTERS.filter((name) => here()[name]);

/** Draws the filters of the address into a list; a click removes one. */
export function drawChips(list) {
  const names = active();
  const state = JSON.stringify(names.map((name) => [name, here()[name]]));
  if (list.dataset.state === state) return; // a click on what is drawn anew just then would be lost
  list.dataset.state = state;
  list.hidden = names.length === 0;
  const chip = (words, changes, name) =>
    h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "filter", "data-item": name, "aria-label": `Remove: ${words}`, onclick: () => go(changes) },
        words,
        icon("close"),
      ),
    );
  redraw(
    list,
    ...names.map((name) => chip(SAID[name](here()[name]), { [name]: "" }, name)),
    ...(names.length > 1 ? [chip("All filters", UNFILTERED, "unfiltered")] : []),
  );
}

/** The button that opens the panel. */
export const filterButton = () =>
  h(
    "button",
    {
      type: "button",
      class: "quiet",
      "data-item": "filter",
      "aria-haspopup": "dialog",
      onclick: ({ currentTarget }) => openPanel(currentTarget),
    },
    icon("filter"),
    active().length ? `Filter (${active().length})` : "Filter",
  );

/** Keeps the panel and the address in step. */
export function startFilters() {
  for (const name of ["after", "before"]) {
    byId(`option-${name}`).addEventListener("change", ({ target }) => go({ [name]: target.value }));
  }
  byId("option-file_dates").addEventListener("change", ({ target }) => go({ file_dates: target.checked ? "1" : "" }));
  byId("filter-panel").addEventListener("toggle", ({ newState }) => {
    // What opened it may have been drawn anew meanwhile.
    const isLost = newState === "closed" && [document.body, null].includes(document.activeElement);
    if (isLost) document.querySelector('[data-item="filter"]')?.focus();
  });
  byId("filter-close").addEventListener("click", () => byId("filter-panel").hidePopover());
  changed.on(({ taken }) => {
    known = { folders: null, definitions: [] };
    byId("option-after").min = taken?.from?.slice(0, 10) ?? "";
    for (const name of ["after", "before"]) byId(`option-${name}`).max = "9999-12-31";
    if (isOpen()) load();
    show();
  });
  moved.on(show);
}

const isOpen = () => byId("filter-panel").matches(":popover-open");

function openPanel(anchor) {
  const panel = byId("filter-panel");
  panel.showPopover();
  const at = anchor.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, innerWidth - panel.offsetWidth - 8));
  Object.assign(panel.style, { left: `${left}px`, top: `${at.bottom + 6}px`, maxHeight: `${innerHeight - at.bottom - 20}px` });
  panel.focus();
  load();
}

async function load() {
  if (known.folders) return;
  const [folders, { definitions }] = await Promise.all([
    ask("/api/folders").catch(() => null),
    ask("/api/definitions").catch(() => ({ definitions: [] })),
  ]);
  known = { folders, definitions };
  show();
}

function show() {
  byId("option-after").value = here().after;
  byId("option-before").value = here().before;
  byId("option-file_dates").checked = here().file_dates !== "";
  const { folders, definitions } = known;
  byId("filter-folders").hidden = !folders?.folders.length;
  if (folders) {
    byId("filter-tree").replaceChildren(drawFolders(folders, here().folder, (folder) => go({ folder, label: "" })));
  }
  byId("filter-definitions").hidden = definitions.length === 0;
  byId("filter-names").replaceChildren(...definitions.map(drawDefinition));
}

/** A name of one's own is a part of the query: there it is seen, weighted and removed like a word. */
const drawDefinition = ({ name, term, images }) =>
  h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: "word", onclick: () => query.addWord(name, term) },
      name,
      typeof images === "number" && h("span", { class: "count" }, count(images)),
    ),
  );

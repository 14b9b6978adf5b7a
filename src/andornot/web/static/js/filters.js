/** Filters: chips to remove them, and a panel to choose them. */

import { FILTERS, go, here, moved, UNFILTERED } from "./address.js";
import { ask } from "./api.js";
import { byId, h, icon, redraw } from "./dom.js";
import { changed } from "./gallery.js";
import * as query from "./query.js";
import { count, day } from "./labels.js";
import { t } from "./texts.js";

/** The text of a chip. */
const SAID = {
  folder: (value) => t("Folder: {name}", { name: value }),
  label: (value) => t("Folder name: {name}", { name: value }),
  after: (value) => t("From {date}", { date: day(value) }),
  before: (value) => t("Before {date}", { date: day(value) }),
  file_dates: () => t("Including file dates"),
};

/** The folder tree and the defined names, once they are loaded. */
let known = { folders: null, definitions: [] };

const active = () => FILTERS.filter((name) => here()[name]);

/** Draws the active filters into a list; a click removes one. */
export function drawChips(list) {
  const names = active();
  const state = JSON.stringify(names.map((name) => [name, here()[name]]));
  if (list.dataset.state === state) return; // a redraw during a click would lose it
  list.dataset.state = state;
  list.hidden = names.length === 0;
  const chip = (words, changes, name) =>
    h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "filter", "data-item": name, "aria-label": t("Remove: {name}", { name: words }), onclick: () => go(changes) },
        words,
        icon("close"),
      ),
    );
  redraw(
    list,
    ...names.map((name) => chip(SAID[name](here()[name]), { [name]: "" }, name)),
    ...(names.length > 1 ? [chip(t("All filters"), UNFILTERED, "unfiltered")] : []),
  );
}

/** The button that opens the panel. */
export const filterButton = () =>
  h(
    "button",
    {
      type: "button",
      class: "quiet tool",
      "data-item": "filter",
      "aria-haspopup": "dialog",
      title: t("Filter"),
      onclick: ({ currentTarget }) => openPanel(currentTarget),
    },
    icon("filter"),
    h("span", {}, t("Filter")),
    active().length > 0 && `(${active().length})`,
  );

/** Synchronises the panel with the address. */
export function startFilters() {
  for (const name of ["after", "before"]) {
    byId(`option-${name}`).addEventListener("change", ({ target }) => go({ [name]: target.value }));
  }
  byId("option-file_dates").addEventListener("change", ({ target }) => go({ file_dates: target.checked ? "1" : "" }));
  byId("filter-panel").addEventListener("toggle", ({ newState }) => {
    // The button that opened it may have been redrawn.
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
  placeBelow(panel, at);
  panel.focus();
  load();
}

/** Places the panel below its button, and within the window. */
function placeBelow(panel, at) {
  const left = Math.max(8, Math.min(at.left, innerWidth - panel.offsetWidth - 8));
  const top = Math.max(8, Math.min(at.bottom + 6, innerHeight - panel.offsetHeight - 8));
  Object.assign(panel.style, { left: `${left}px`, top: `${top}px` });
}

async function load() {
  if (known.folders) return;
  const [folders, { definitions }] = await Promise.all([
    ask("/api/folders").catch(() => null),
    ask("/api/definitions").catch(() => ({ definitions: [] })),
  ]);
  known = { folders, definitions };
  show();
  const anchor = document.querySelector('[data-item="filter"]');
  if (anchor && isOpen()) placeBelow(byId("filter-panel"), anchor.getBoundingClientRect());
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

/** A defined name is added to the query, where it can be weighted and removed like a word. */
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

// --- folders --------------------------------------------------------------------------------------------------------

/**
 * Draws a tree; the content of a folder is created when it is opened, because there may be many folders.
 * @param {{name: string, folder: string, images: number, folders: object[]}} root
 * @param {string} chosen  the selected folder
 * @param {(folder: string) => void} choose
 */
function drawFolders(root, chosen, choose) {
  return h("ul", { class: "folders" }, root.folders.map((folder) => drawFolder(folder, chosen, choose)));
}

function drawFolder(folder, chosen, choose) {
  const isInside = chosen.startsWith(`${folder.folder}/`);
  const item = h("li", {});
  const inner = () => drawFolders(folder, chosen, choose);
  const toggle = h(
    "button",
    {
      type: "button",
      class: "plain",
      "aria-label": t("Folders in {name}", { name: folder.name }),
      "aria-expanded": String(isInside),
      onclick: () => {
        const isOpen = toggle.getAttribute("aria-expanded") === "true";
        toggle.setAttribute("aria-expanded", String(!isOpen));
        if (isOpen) item.lastChild.remove();
        else item.append(inner());
      },
    },
    icon("next"),
  );
  const isChosen = folder.folder === chosen;
  item.append(
    folder.folders.length ? toggle : h("span", { class: "leaf" }),
    h(
      "button",
      {
        type: "button",
        class: "folder",
        "aria-pressed": String(isChosen),
        onclick: () => choose(isChosen ? "" : folder.folder),
      },
      h("span", {}, folder.name),
      h("span", { class: "count" }, count(folder.images)),
    ),
  );
  if (isInside) item.append(inner());
  return item;
}

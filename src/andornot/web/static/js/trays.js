/** The trays of the query, drawn anew whenever it changes. */

import { go } from "./address.js";
import { nameOf } from "./compare.js";
import { announce, byId, h, icon, redraw } from "./dom.js";
import { carry, dropOn } from "./drag.js";
import { emptyGroup, picturesOf, placeOf, traysOf, TRAYS } from "./formula.js";
import { thumbnail } from "./gallery.js";
import { openMenu } from "./menu.js";
import * as query from "./query.js";
import { addFiles } from "./uploads.js";
import { WORDS } from "./words.js";

const MOVES = { w: "with", c: "common", n: "without" };

/** Each item keeps its number, by which its element is found again after a redraw. */
const numbers = new WeakMap();
let lastNumber = 0;

/** Draws the trays from now on. */
export function startTrays() {
  byId("clear").addEventListener("click", query.clear);
  query.queryChanged.on(draw);
  draw();
}

function draw() {
  redraw(byId("trays"), drawGroup(query.root()));
  byId("clear").hidden = query.isBlank();
  drawSummary();
}

/** What a narrow screen shows of the query while it is folded. */
function drawSummary() {
  const all = picturesOf(query.root());
  const shown = all.slice(0, 5).map((picture) => h("img", { src: thumbnail(picture), alt: "" }));
  const more = all.length > shown.length ? `+${all.length - shown.length}` : "";
  byId("summary").replaceChildren(...shown, more || (all.length ? "" : "No pictures yet"));
}

function drawGroup(group) {
  const isRoot = group === query.root();
  const trays = traysOf(group).map(([name, items]) => drawTray(group, name, items));
  if (isRoot) return h("div", { class: "group is-root" }, trays);
  const element = h("section", { class: "group", "aria-label": titleOf(group) }, drawHeading(group), trays);
  element.classList.toggle("is-active", group === query.activeGroup());
  element.draggable = true;
  element.addEventListener("dragstart", (event) => {
    event.stopPropagation();
    carry(event, group, { moves: true });
  });
  element.addEventListener("click", (event) => {
    event.stopPropagation();
    if (!event.target.closest("button, input, .chip")) query.activate(group);
  });
  return element;
}

function titleOf(group) {
  if (group.kind === "like") return "Like these";
  return group.kind === "at_least" ? `At least ${group.k} of these` : "Group";
}

function drawHeading(group) {
  const isActive = group === query.activeGroup();
  const toggle = h(
    "button",
    {
      type: "button",
      class: "here",
      "aria-pressed": String(isActive),
      "data-item": `${numberOf(group)}-here`,
      title: "Clicked pictures are added to this group",
      onclick: () => query.activate(isActive ? query.root() : group),
    },
    isActive ? "Adding here" : "Add here",
  );
  const title = group.kind === "at_least" ? drawCount(group) : h("span", { class: "title" }, titleOf(group));
  return h(
    "header",
    {},
    group.not && h("span", { class: "not" }, "not"),
    title,
    toggle,
    group.items && adder(group, "items"),
    h(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-label": `${titleOf(group)}: more`,
        "data-item": numberOf(group),
        onclick: (event) => openMenu(event.currentTarget, groupEntries(group)),
      },
      icon("more"),
    ),
  );
}

function drawCount(group) {
  const number = h("input", {
    type: "number",
    min: 1,
    max: Math.max(1, group.items.length),
    value: group.k,
    "aria-label": "At least how many of these",
    "data-item": `${numberOf(group)}-k`,
  });
  number.addEventListener("change", () => {
    const most = Math.max(1, group.items.length);
    query.edit(() => {
      group.k = Math.max(1, Math.min(most, Math.round(Number(number.value)) || 1));
    });
  });
  return h("label", { class: "title" }, "At least ", number, " of");
}

function drawTray(group, name, items) {
  const words = WORDS[name];
  const isRoot = group === query.root();
  const heading =
    name !== "items" &&
    h(
      "div",
      { class: "tray-heading" },
      icon(name),
      h("h3", {}, words.title),
      h("span", { class: "sign", "aria-hidden": "true" }, words.sign),
      adder(group, name),
    );
  const hint = h("p", { class: "hint" }, isRoot ? words.hint : "empty");
  const list = h(
    "ul",
    {},
    items.map((item) => h("li", { class: item.kind === "picture" ? "" : "wide" }, drawItem(item, name))),
  );
  const element = h(
    "div",
    { class: `tray ${name}`, role: "group", "aria-label": words.title },
    heading,
    items.length ? list : hint,
  );
  dropOn(
    element,
    ({ item, moves: isMove }) => (isMove ? query.move(item, name, group) : query.add(item, name, group)),
    (files) => addFiles(files, name, group),
  );
  return element;
}

const adder = (group, tray) =>
  h(
    "button",
    {
      type: "button",
      class: "plain",
      title: "Add a group",
      "data-item": `${numberOf(group)}-${tray}`,
      "aria-label": `Add a group to “${WORDS[tray].title.toLowerCase()}”`,
      onclick: (event) => openMenu(event.currentTarget, newGroups(group, tray)),
    },
    icon("group"),
  );

const newGroups = (group, tray) => [
  { label: "A group of pictures", icon: "group", act: () => query.add(emptyGroup(), tray, group) },
  {
    label: "What at least two of some share",
    icon: "items",
    act: () => query.add({ kind: "at_least", k: 2, items: [] }, tray, group),
  },
];

const drawItem = (item, tray) => (item.kind === "picture" ? drawChip(item, tray) : drawGroup(item));

function drawChip(picture, tray) {
  const said = picture.not ? `${picture.file}, by NOT` : picture.file;
  const chip = h(
    "div",
    {
      class: "chip",
      role: "button",
      tabindex: 0,
      draggable: "true",
      title: picture.file,
      "aria-label": said,
      "aria-haspopup": "true",
      "data-item": numberOf(picture),
      onclick: () => openMenu(chip, chipEntries(picture, tray)),
    },
    h("img", { src: thumbnail(picture), alt: "", draggable: "false" }),
    picture.not && h("span", { class: "not" }, "not"),
  );
  chip.addEventListener("dragstart", (event) => {
    event.stopPropagation();
    carry(event, picture, { moves: true });
  });
  chip.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") chip.click();
    else if (event.key === "Delete" || event.key === "Backspace") takeOut(picture);
    else if (MOVES[event.key]) query.move(picture, MOVES[event.key], placeOf(picture, query.root()).group);
    else return;
    event.preventDefault();
  });
  const out = h(
    "button",
    {
      type: "button",
      class: "out",
      tabindex: -1,
      title: "Remove",
      "aria-label": `Remove ${picture.file}`,
      onclick: () => takeOut(picture),
    },
    icon("close"),
  );
  return h("div", { class: "holder" }, chip, out);
}

function takeOut(item) {
  query.remove(item);
  announce(`${item.file ?? titleOf(item)} removed`);
}

function chipEntries(picture, tray) {
  const others = picturesOf(query.root()).filter((other) => other !== picture);
  return [
    picture.id !== null && { label: "Look closer", icon: "closer", act: () => go({ picture: String(picture.id) }) },
    others.length > 0 && {
      label: `Compare with ${others[0].file}`,
      icon: "compare",
      act: () => go({ view: "compare", a: nameOf(picture), b: nameOf(others[0]), picture: "" }),
    },
    ...moves(picture),
    tray === "without" && switchNot(picture),
    { label: "Put it into a group", icon: "group", act: () => query.replace(picture, grouped(picture)) },
    removal(picture),
  ];
}

const groupEntries = (group) => [
  ...moves(group),
  placeOf(group, query.root()).tray === "without" && switchNot(group),
  removal(group),
];

/** There are two ways to take something away. */
const switchNot = (item) => ({
  label: item.not ? "Subtract it instead of NOT" : "NOT instead of subtracting it",
  icon: item.not ? "without" : "not",
  act: () =>
    query.edit(() => {
      item.not = !item.not;
    }),
});

const grouped = (picture) => ({ ...emptyGroup(), with: [{ ...picture, not: undefined }], not: picture.not });

const removal = (item) => ({ label: "Remove", icon: "close", act: () => takeOut(item) });

/** Entries that bring an item to another tray of its own group. */
function moves(item) {
  const { group } = placeOf(item, query.root());
  if (group.kind !== "group") return [];
  return TRAYS.filter((tray) => !group[tray].includes(item)).map((tray) => ({
    label: `Move to “${WORDS[tray].title.toLowerCase()}”`,
    icon: tray,
    act: () => query.move(item, tray, group),
  }));
}

function numberOf(item) {
  if (!numbers.has(item)) numbers.set(item, (lastNumber += 1));
  return numbers.get(item);
}

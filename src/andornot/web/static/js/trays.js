/** Draws the three trays of the query, its sentence, and the question about examples whenever the query changes. */

import { drawChip, face, titleOf } from "./chips.js";
import { openItem } from "./chip_menu.js";
import { announce, byId, h, icon, redraw } from "./dom.js";
import { carry, dropOn } from "./drag.js";
import { atomsOf, isEmpty, TRAYS } from "./formula.js";
import * as query from "./query.js";
import { addFiles } from "./uploads.js";
import { trays } from "./labels.js";
import { t } from "./texts.js";

/** Starts drawing the trays. */
export function startTrays() {
  byId("clear").addEventListener("click", query.clear);
  byId("undo").addEventListener("click", query.undo);
  addEventListener("keydown", (event) => {
    const isUndo = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "z";
    const isOther = event.target.matches?.("input:not(#formula), textarea, select");
    if (!isUndo || isOther || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    query.undo();
    announce(t("Undone"));
  });
  query.queryChanged.on(draw);
  draw();
}

function draw() {
  const root = query.root();
  redraw(byId("trays"), h("div", { class: "group is-root" }, TRAYS.map((tray) => drawTray(root, tray))));
  byId("clear").hidden = query.isBlank();
  byId("undo").hidden = !query.canUndo();
  drawQuestion();
  drawSummary();
}

/** The question, asked once, whether several images show one thing, or all of them are wanted. */
function drawQuestion() {
  const examples = query.question();
  const place = byId("question");
  const isNew = place.hidden && examples;
  place.hidden = !examples;
  if (!examples) return;
  const button = (words, reading) =>
    h("button", { type: "button", "data-item": reading, onclick: () => query.answer(reading) }, words);
  redraw(
    place,
    ...examples.items.slice(0, 3).map((item) => h("span", { class: "thumb" }, face(item))),
    h("span", {}, t("Same thing, or both together?")),
    button(t("Same thing"), "same"),
    button(examples.items.length > 2 ? t("All together") : t("Both together"), "both"),
  );
  if (isNew) announce(t("Same thing, or both together?"));
}

/** The summary of the query on narrow screens while it is collapsed. */
function drawSummary() {
  const all = isEmpty(query.root()) ? [] : atomsOf(query.root());
  const shown = all.slice(0, 5).map((item) => h("span", { class: "thumb" }, face(item)));
  const more = all.length > shown.length ? `+${all.length - shown.length}` : "";
  byId("summary").replaceChildren(...shown, more || (all.length ? "" : t("Type a word, or tap + on a photo")));
}

function drawTray(group, tray) {
  const items = group[tray];
  const isAimed = query.aim() === tray && group === query.root();
  const element = h("div", { class: `tray ${tray}`, role: "group", "aria-label": trays[tray].title });
  dropOn(
    element,
    ({ item, moves }) => (moves ? query.move(item, tray, group) : query.add(item, tray, group)),
    (files) => addFiles(files, tray, group),
  );
  if (!items.length && !isAimed) {
    element.classList.add("is-folded");
    element.append(opener(tray));
    return element;
  }
  const heading = h("div", { class: "tray-heading" }, icon(tray), h("h3", {}, trays[tray].title));
  if (group === query.root()) heading.append(aimer(tray, isAimed));
  element.append(
    heading,
    items.length
      ? h(
          "ul",
          {},
          items.map((item) => h("li", { class: item.kind === "group" ? "wide" : "" }, drawItem(item))),
        )
      : h("p", { class: "hint" }, `${trays[tray].hint}. ${t("Add photos with +, or drag them here.")}`),
  );
  return element;
}

const opener = (tray) =>
  h(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-expanded": "false",
      "data-item": `open-${tray}`,
      title: trays[tray].hint,
      onclick: () => query.aimAt(tray),
    },
    icon(tray),
    trays[tray].title,
  );

/** Shows which tray clicked images are added to; the default is the first. */
function aimer(tray, isAimed) {
  if (tray === "all" && !query.aim()) return "";
  const isHere = isAimed || (tray === "all" && !query.aim());
  return h(
    "button",
    {
      type: "button",
      class: "here",
      "aria-pressed": String(isHere),
      "data-item": `aim-${tray}`,
      title: t("Photos that you add with + go here"),
      onclick: () => query.aimAt(isHere || tray === "all" ? null : tray),
    },
    isHere ? t("Photos go here") : t("Add here"),
  );
}

function drawItem(item) {
  if (item.kind !== "group") return drawChip(item);
  const more = h(
    "button",
    {
      type: "button",
      class: "plain",
      "aria-label": t("{name}: more", { name: titleOf(item) }),
      "aria-haspopup": "true",
      onclick: () => openItem(more, item),
    },
    icon("more"),
  );
  const inner = TRAYS.filter((tray) => item[tray].length).map((tray) => drawTray(item, tray));
  const element = h("section", { class: "group", "aria-label": titleOf(item), draggable: "true" }, more, inner);
  element.addEventListener("dragstart", (event) => {
    event.stopPropagation();
    carry(event, item, { moves: true });
  });
  return element;
}

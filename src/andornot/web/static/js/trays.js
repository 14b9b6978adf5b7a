/** The three trays of the query, drawn anew whenever it changes, and what else shows it: the sentence, the question. */

import { drawChip, face, titleOf } from "./chips.js";
import { openItem } from "./chip_menu.js";
import { announce, byId, h, icon, redraw } from "./dom.js";
import { carry, dropOn } from "./drag.js";
import { atomsOf, isEmpty, TRAYS } from "./formula.js";
import * as query from "./query.js";
import { addFiles } from "./uploads.js";
import { WORDS } from "./labels.js";

/** Draws the trays from now on. */
export function startTrays() {
  byId("clear").addEventListener("click", query.clear);
  byId("undo").addEventListener("click", query.undo);
  addEventListener("keydown", (event) => {
    const isUndo = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "z";
    const isOther = event.target.matches?.("input:not(#formula), textarea, select");
    if (!isUndo || isOther || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    query.undo();
    announce("Undone");
  });
  query.queryChanged.on(draw);
  draw();
}

function draw() {
  const root = query.root();
  redraw(byId("trays"), h("div", { class: "group is-root" }, TRAYS.map((tray) => drawTray(root, tray))));
  byId("clear").hidden = query.isBlank();
  byId("undo").hidden = !query.canUndo();
  const sentence = query.error() ? "" : query.sentence();
  byId("sentence").textContent = sentence;
  byId("sentence").hidden = !sentence;
  drawQuestion();
  drawSummary();
}

/** Asked once, where one looks: are several images one thing, or all of them wanted? */
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
    h("span", {}, "Same thing, or both together?"),
    button("Same thing", "same"),
    button(examples.items.length > 2 ? "All together" : "Both together", "both"),
  );
  if (isNew) announce("Same thing, or both together?");
}

/** What a narrow screen shows of the query while it is folded. */
function drawSummary() {
  const all = isEmpty(query.root()) ? [] : atomsOf(query.root());
  const shown = all.slice(0, 5).map((item) => h("span", { class: "thumb" }, face(item)));
  const more = all.length > shown.length ? `+${all.length - shown.length}` : "";
  byId("summary").replaceChildren(...shown, more || (all.length ? "" : "Type a word, or tap a photo"));
}

function drawTray(group, tray) {
  const items = group[tray];
  const isAimed = query.aim() === tray && group === query.root();
  const element = h("div", { class: `tray ${tray}`, role: "group", "aria-label": WORDS[tray].title });
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
  const heading = h("div", { class: "tray-heading" }, icon(tray), h("h3", {}, WORDS[tray].title));
  if (group === query.root()) heading.append(aimer(tray, isAimed));
  element.append(
    heading,
    items.length
      ? h(
          "ul",
          {},
          items.map((item) => h("li", { class: item.kind === "group" ? "wide" : "" }, drawItem(item))),
        )
      : h("p", { class: "hint" }, `${WORDS[tray].hint}. Click photos, or drag them here.`),
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
      title: WORDS[tray].hint,
      onclick: () => query.aimAt(tray),
    },
    icon(tray),
    WORDS[tray].title,
  );

/** Says where images go that are clicked; the first tray is the usual place. */
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
      title: "Photos that you click are added here",
      onclick: () => query.aimAt(isHere || tray === "all" ? null : tray),
    },
    isHere ? "Clicks go here" : "Add here",
  );
}

function drawItem(item) {
  if (item.kind !== "group") return drawChip(item);
  const more = h(
    "button",
    {
      type: "button",
      class: "plain",
      "aria-label": `${titleOf(item)}: more`,
      "aria-haspopup": "true",
      onclick: () => openItem(more, item),
    },
    icon("more"),
  );
  const trays = TRAYS.filter((tray) => item[tray].length).map((tray) => drawTray(item, tray));
  const element = h("section", { class: "group", "aria-label": titleOf(item), draggable: "true" }, more, trays);
  element.addEventListener("dragstart", (event) => {
    event.stopPropagation();
    carry(event, item, { moves: true });
  });
  return element;
}

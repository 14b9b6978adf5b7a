/** The lightbox: one photo as large as the window, with its words, actions, and why it was found. */

import { addressOf, go, here, moved } from "./address.js";
import { ask, isAborted, newestOnly } from "./api.js";
import { nameOf } from "./compare.js";
import { openCrop } from "./crop.js";
import { byId, h, icon } from "./dom.js";
import { imagesOf } from "./formula.js";
import { drawFrames, placesOf, separateLabels } from "./frames.js";
import { thumbnail } from "./gallery.js";
import { stacked } from "./grid_sources.js";
import { dated, percent } from "./labels.js";
import { ratioOf } from "./layout.js";
import { tell } from "./notices.js";
import { moreLike, notThisKind, notThisOne } from "./photo_actions.js";
import { focusOn, neighbour } from "./photos_view.js";
import * as query from "./query.js";
import { found, grown, result, why } from "./search.js";
import { t } from "./texts.js";
import { drawFeatures, drawWhy } from "./why.js";

/** The length of a swipe to another photo, in pixels. */
const SWIPE = 50;

const newest = newestOnly();
/** Whether the photo was opened from this page, so that going back closes it. */
let wasOpenedHere = false;
/** Whether "Advanced" is unfolded: it stays so from photo to photo, and when the facts are drawn again. */
let isAdvancedOpen = false;

/** Opens and closes the lightbox according to the address. */
export function startLightbox() {
  const dialog = byId("lightbox");
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    close();
  });
  dialog.addEventListener("click", (event) => {
    const button = event.target.closest("[data-step], .close");
    if (button?.matches(".close") || event.target.matches("#lightbox, #lightbox-stage")) close();
    else if (button) step(Number(button.dataset.step));
  });
  dialog.addEventListener("keydown", (event) => {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const act = { m: moreLike, "+": moreLike, n: notThisOne, "-": notThisOne, k: notThisKind }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
    if (direction) step(direction);
    else if (act && dialog.image) act(dialog.image);
  });
  startSwipes(byId("lightbox-stage"));
  moved.on(({ now, before }) => {
    if (now.image && !before.image) wasOpenedHere = true;
    if (now.image !== before.image || now.view !== before.view) show();
  });
  found.on(() => here().image && show());
  grown.on(showArrows);
  show();
}

/** Closes by going back in the history, so that Back does not open the photo again. */
function close() {
  if (wasOpenedHere) history.back();
  else go({ image: "" }, { replace: true });
}

function startSwipes(stage) {
  let from = null;
  stage.addEventListener("touchstart", ({ touches }) => {
    from = touches.length === 1 ? touches[0] : null;
  }, { passive: true });
  stage.addEventListener("touchend", ({ changedTouches: [to] }) => {
    if (!from) return;
    const [across, down] = [to.clientX - from.clientX, to.clientY - from.clientY];
    from = null;
    if (Math.abs(across) > SWIPE && Math.abs(across) > 2 * Math.abs(down)) step(across < 0 ? 1 : -1);
  });
}

/** Goes to the previous or next photo of the grid. */
function step(direction) {
  const next = neighbour(Number(here().image), direction);
  if (next) go({ image: String(next.id) }, { replace: true });
}

function showArrows() {
  for (const button of byId("lightbox").querySelectorAll("[data-step]")) {
    button.hidden = !neighbour(Number(here().image), Number(button.dataset.step));
  }
}

async function show() {
  const dialog = byId("lightbox");
  const id = here().image;
  if (!id) {
    newest(() => {});
    wasOpenedHere = false;
    if (!dialog.open) return;
    const last = dialog.image;
    dialog.close();
    dialog.image = null;
    byId("lightbox-facts").replaceChildren();
    if (last) focusOn(last.id);
    return;
  }
  if (!dialog.open) dialog.showModal();
  showArrows();
  const hit = hitOf(Number(id));
  if (hit) drawPhoto(hit, hit);
  if (dialog.image && String(dialog.image.id) !== id) byId("lightbox-facts").replaceChildren();
  try {
    const [image, reasons] = await newest((signal) =>
      Promise.all([ask(`/api/images/${encodeURIComponent(id)}`, {}, { signal }), why(Number(id))]),
    );
    if (here().image !== id) return;
    dialog.image = image;
    drawPhoto(image, hitOf(image.id));
    byId("lightbox-facts").replaceChildren(...drawFacts(image, hitOf(image.id), reasons ?? []));
    showArrows();
  } catch (error) {
    if (isAborted(error)) return;
    byId("lightbox-photo").replaceChildren();
    byId("lightbox-facts").replaceChildren(h("h2", {}, t("This photo cannot be shown")), h("p", {}, error.message));
  }
}

const hitOf = (id) => result()?.hits.find((hit) => hit.id === id);

/** The photo with frames where terms were found; shows the thumbnail until the large image is loaded. */
function drawPhoto(image, hit) {
  const host = byId("lightbox-photo");
  if (host.image?.id === image.id && host.hit === hit) return;
  Object.assign(host, { image, hit });
  const large = h("img", { src: `/api/images/${image.id}/image`, alt: image.name });
  const small = h("img", { src: thumbnail(image), alt: "", class: "small" });
  host.style.setProperty("--ratio", ratioOf(image));
  large.addEventListener("load", () => small.remove());
  large.addEventListener("error", () => host.replaceChildren(h("p", { class: "hint" }, t("The file is gone."))));
  host.replaceChildren(small, large);
  if (!hit?.boxes.length) return;
  const frames = drawFrames(placesOf(hit, result().names));
  host.append(frames);
  separateLabels(frames);
}

function drawFacts(image, hit, reasons) {
  const { name, label, width, height, features, words = [] } = image;
  const facts = [dated(image), label, width && `${width} × ${height}`].filter(Boolean).join(" · ");
  return [
    h("h2", {}, name),
    facts && h("p", { class: "hint" }, facts),
    drawPath(image),
    drawActions(image),
    words.length > 0 && drawWords(words),
    hit && drawWhy(hit, reasons, wordsAsked(), words),
    hit && drawNearDuplicates(hit),
    drawAdvanced(image, reasons, features),
  ].filter(Boolean);
}

/** The words of the query, each once. */
const wordsAsked = () => [
  ...new Set(result().names.flatMap(({ kind, name }) => (kind === "word" ? [name] : []))),
];

/** The words for the photo with their truths in percent; a click adds a word to the query. */
const drawWords = (words) =>
  h(
    "section",
    {},
    h("h3", {}, t("It shows")),
    h(
      "ul",
      { class: "cloud", "aria-label": t("What it shows") },
      words.map(({ word, term, truth }) =>
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", class: "word", title: t("Search for {word}", { word }), onclick: () => query.addWord(word, term) },
            h("span", {}, word),
            h("span", { class: "count" }, percent(truth)),
          ),
        ),
      ),
    ),
  );

/** The path of the photo, which the server returns only to local requests. */
function drawPath({ path }) {
  if (!path) return null;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(path);
      tell(t("Path copied."));
    } catch {
      getSelection().selectAllChildren(text);
      tell(t("The browser does not allow copying. The path is selected, so you can copy it yourself."));
    }
  };
  const text = h("code", {}, path);
  return h(
    "p",
    { class: "path" },
    text,
    h("button", { type: "button", class: "quiet", onclick: copy }, icon("copy"), t("Copy path")),
  );
}

function drawActions(image) {
  const button = (words, drawing, act) => h("button", { type: "button", onclick: () => act(image) }, icon(drawing), words);
  const file = `/api/images/${image.id}/image`;
  return h(
    "div",
    { class: "actions" },
    button(t("More like this"), "add", moreLike),
    here().q && button(t("Not this one"), "minus", notThisOne),
    button(t("Not this kind"), "none", notThisKind),
    button(t("Search for a part"), "crop", (one) => openCrop(one)),
    h("a", { class: "button", href: file, download: image.name }, icon("save"), t("Download")),
    h("a", { class: "button", href: file, target: "_blank" }, icon("open"), t("Open full size")),
  );
}

/** Near duplicates of a hit. */
function drawNearDuplicates(hit) {
  const stack = stacked(result().hits, new Set()).find(({ hit: first, others }) => [first, ...others].includes(hit));
  const others = [stack.hit, ...stack.others].filter((other) => other !== hit);
  if (!others.length) return null;
  return h(
    "section",
    {},
    h("h3", {}, t("Near duplicates")),
    h(
      "ul",
      { class: "same" },
      others.map((other) =>
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: "thumb",
              title: other.name,
              "aria-label": other.name,
              onclick: () => go({ image: String(other.id) }, { replace: true }),
            },
            h("img", { src: thumbnail(other), alt: "" }),
          ),
        ),
      ),
    ),
  );
}

function drawAdvanced(image, reasons, features) {
  const compared = imagesOf(query.root()).find(({ id }) => id !== image.id);
  const comparison =
    compared && addressOf({ view: "compare", a: nameOf(compared), b: String(image.id), image: "" });
  return h(
    "details",
    { open: isAdvancedOpen, ontoggle: ({ target }) => (isAdvancedOpen = target.open) },
    h("summary", {}, t("Advanced")),
    comparison && h("p", {}, h("a", { href: comparison }, t("Compare with {name}", { name: compared.file }))),
    drawFeatures(reasons, features),
  );
}

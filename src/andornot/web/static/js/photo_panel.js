/** The panel of one photo: large, with its tags, its actions, and why it was found. */

import { addressOf, go, here, moved } from "./address.js";
import { ask, isAborted, newestOnly } from "./api.js";
import { moreLike, notThis } from "./photo_actions.js";
import { nameOf } from "./compare.js";
import { openCrop } from "./crop.js";
import { byId, h, icon } from "./dom.js";
import { imagesOf } from "./formula.js";
import { drawFrames, placesOf } from "./frames.js";
import { thumbnail } from "./gallery.js";
import { tell } from "./notices.js";
import * as query from "./query.js";
import { found, result, why } from "./search.js";
import { stacked } from "./stacks.js";
import { drawFeatures, drawWhy } from "./why.js";
import { dated } from "./labels.js";

const newest = newestOnly();

/** Opens and closes the panel as the address says. */
export function startPhotoPanel() {
  const panel = byId("photo-panel");
  const close = () => go({ image: "" });
  panel.addEventListener("cancel", (event) => {
    event.preventDefault();
    close();
  });
  panel.addEventListener("click", (event) => {
    if (event.target === panel || event.target.closest(".close")) close();
  });
  panel.addEventListener("keydown", (event) => {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (direction) step(direction);
  });
  moved.on(({ now, before }) => {
    if (now.image !== before.image || now.view !== before.view) show();
  });
  found.on(() => here().image && show());
  show();
}

/** Goes to the previous or next hit. */
function step(direction) {
  const hits = result()?.hits ?? [];
  const place = hits.findIndex((hit) => String(hit.id) === here().image);
  const next = hits[place + direction];
  if (place >= 0 && next) go({ image: String(next.id) }, { replace: true });
}

async function show() {
  const panel = byId("photo-panel");
  const id = here().image;
  if (!id) {
    newest(() => {});
    if (panel.open) panel.close();
    return;
  }
  if (!panel.open) panel.showModal();
  const body = byId("photo-panel-body");
  try {
    const [image, reasons] = await newest((signal) =>
      Promise.all([ask(`/api/images/${encodeURIComponent(id)}`, {}, { signal }), why(Number(id))]),
    );
    if (here().image === id) body.replaceChildren(...draw(image, reasons));
  } catch (error) {
    if (!isAborted(error)) body.replaceChildren(h("h2", {}, "This photo cannot be shown"), h("p", {}, error.message));
  }
}

function draw(image, reasons) {
  const { id, name, label, width, height, features, words = [] } = image;
  const facts = [label, dated(image), width && `${width} × ${height}`].filter(Boolean).join(" · ");
  const hit = result()?.hits.find((other) => other.id === id);
  return [
    drawLarge(image, hit),
    h("h2", {}, name),
    words.length > 0 && drawTags(words),
    facts && h("p", { class: "hint" }, facts),
    drawPath(image),
    drawActions(image),
    hit && drawWhy(hit, reasons ?? [], wordsAsked(), words),
    hit && drawNearDuplicates(hit),
    drawFeatures(reasons ?? [], features),
  ].filter(Boolean);
}

/** The words of the query, each once. */
const wordsAsked = () => [
  ...new Set(result().names.flatMap(({ kind, name }) => (kind === "word" ? [name] : []))),
];

/** The photo, with frames where terms were found. */
function drawLarge({ id, name, width, height }, hit) {
  const img = h("img", { src: `/api/images/${id}/image`, alt: name });
  const figure = h("figure", { class: "large" }, img);
  const shape = (across, down) => across && down && figure.style.setProperty("--ratio", `${across / down}`);
  shape(width, height);
  img.addEventListener("load", () => {
    shape(img.naturalWidth, img.naturalHeight); // upright, as the EXIF orientation says
    if (hit?.boxes.length) figure.append(drawFrames(placesOf(hit, result().names)));
  });
  img.addEventListener("error", () => figure.replaceWith(h("p", { class: "hint" }, "The file is gone.")));
  return figure;
}

/** Its tags; a click adds one to the query. */
const drawTags = (words) =>
  h(
    "ul",
    { class: "cloud", "aria-label": "What it shows" },
    words.map(({ word, term }) =>
      h(
        "li",
        {},
        h("button", { type: "button", class: "word", title: `Search for ${word}`, onclick: () => addTag(word, term) }, word),
      ),
    ),
  );

function addTag(word, term) {
  query.addWord(word, term);
  tell(`Added “${word}” to the search.`);
}

/** Its path, which the server returns only to local requests. */
function drawPath({ path }) {
  if (!path) return null;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(path);
      tell("Path copied.");
    } catch {
      getSelection().selectAllChildren(text);
      tell("The browser does not allow copying. The path is selected, so you can copy it yourself.");
    }
  };
  const text = h("code", {}, path);
  return h(
    "p",
    { class: "path" },
    text,
    h("button", { type: "button", class: "quiet", onclick: copy }, icon("copy"), "Copy path"),
  );
}

function drawActions(image) {
  const compared = imagesOf(query.root()).find(({ id }) => id !== image.id);
  const button = (words, drawing, act) => h("button", { type: "button", onclick: act }, icon(drawing), words);
  /** Closes the panel first, to show the results. */
  const closing = (act) => () => {
    go({ image: "" }, { replace: true });
    act(image);
  };
  return h(
    "div",
    { class: "actions" },
    button("More like this", "add", closing(moreLike)),
    button("Not this", "minus", closing(notThis)),
    button("Search for a part", "crop", closing(openCrop)),
    h(
      "a",
      { class: "button", href: `/api/images/${image.id}/image`, target: "_blank" },
      icon("open"),
      "Open full size",
    ),
    compared &&
      h(
        "a",
        {
          class: "button",
          href: addressOf({ view: "compare", a: nameOf(compared), b: String(image.id), image: "" }),
        },
        icon("compare"),
        `Compare with ${compared.file}`,
      ),
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
    h("h3", {}, "Near duplicates"),
    h(
      "ul",
      { class: "same" },
      others.map((other) =>
        h(
          "li",
          {},
          h(
            "a",
            { href: addressOf({ image: String(other.id) }), title: other.name, "aria-label": other.name },
            h("img", { src: thumbnail(other), alt: "" }),
          ),
        ),
      ),
    ),
  );
}

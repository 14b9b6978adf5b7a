/** One picture in a panel of its own: large, what it shows, what can be done with it, why it was found. */

import { addressOf, go, here, moved } from "./address.js";
import { ask, isAborted, newestOnly } from "./api.js";
import { moreLike, notThis } from "./choosing.js";
import { nameOf } from "./compare.js";
import { openCrop } from "./crop.js";
import { byId, h, icon } from "./dom.js";
import { picturesOf } from "./formula.js";
import { drawFrames, placesOf } from "./frames.js";
import { thumbnail } from "./gallery.js";
import { tell } from "./notices.js";
import * as query from "./query.js";
import { found, result, why } from "./search.js";
import { stacked } from "./stacks.js";
import { drawFeatures, drawWhy } from "./why.js";
import { dated } from "./words.js";

const newest = newestOnly();

/** Opens and closes the panel as the address says. */
export function startCloser() {
  const panel = byId("closer");
  const close = () => go({ picture: "" });
  panel.addEventListener("cancel", (event) => {
    event.preventDefault();
    close();
  });
  panel.addEventListener("click", (event) => {
    if (event.target === panel || event.target.closest(".close")) close();
  });
  panel.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) walk(step);
  });
  moved.on(({ now, before }) => {
    if (now.picture !== before.picture || now.view !== before.view) show();
  });
  found.on(() => here().picture && show());
  show();
}

/** Goes to the hit before or after. */
function walk(step) {
  const hits = result()?.hits ?? [];
  const place = hits.findIndex((hit) => String(hit.id) === here().picture);
  const next = hits[place + step];
  if (place >= 0 && next) go({ picture: String(next.id) }, { replace: true });
}

async function show() {
  const panel = byId("closer");
  const id = here().picture;
  if (!id) {
    newest(() => {});
    if (panel.open) panel.close();
    return;
  }
  if (!panel.open) panel.showModal();
  const body = byId("closer-body");
  try {
    const [picture, reasons] = await newest((signal) =>
      Promise.all([ask(`/api/pictures/${encodeURIComponent(id)}`, {}, { signal }), why(Number(id))]),
    );
    if (here().picture === id) body.replaceChildren(...draw(picture, reasons));
  } catch (error) {
    if (!isAborted(error)) body.replaceChildren(h("h2", {}, "This picture cannot be shown"), h("p", {}, error.message));
  }
}

function draw(picture, reasons) {
  const { id, name, label, width, height, features, words = [] } = picture;
  const facts = [label, dated(picture), width && `${width} × ${height}`].filter(Boolean).join(" · ");
  const hit = result()?.hits.find((other) => other.id === id);
  return [
    drawLarge(picture, hit),
    h("h2", {}, name),
    words.length > 0 && drawTags(words),
    facts && h("p", { class: "hint" }, facts),
    drawPath(picture),
    drawActions(picture),
    hit && drawWhy(hit, reasons ?? [], wordsAsked(), words),
    hit && drawNearlySame(hit),
    drawFeatures(reasons ?? [], features),
  ].filter(Boolean);
}

/** The words of the query, each once. */
const wordsAsked = () => [
  ...new Set(result().names.flatMap(({ kind, name }) => (kind === "word" ? [name] : []))),
];

/** The picture, with frames where terms were found. */
function drawLarge({ id, name, width, height }, hit) {
  const image = h("img", { src: `/api/pictures/${id}/picture`, alt: name });
  const figure = h("figure", { class: "large" }, image);
  const shape = (across, down) => across && down && figure.style.setProperty("--ratio", `${across / down}`);
  shape(width, height);
  image.addEventListener("load", () => {
    shape(image.naturalWidth, image.naturalHeight); // as it is held, and not as it is stored
    if (hit?.where.length) figure.append(drawFrames(placesOf(hit, result().names)));
  });
  image.addEventListener("error", () => figure.replaceWith(h("p", { class: "hint" }, "The file is no longer there.")));
  return figure;
}

/** What it shows in words; a click looks for that, too. */
const drawTags = (words) =>
  h(
    "ul",
    { class: "cloud", "aria-label": "What it shows" },
    words.map(({ word }) =>
      h(
        "li",
        {},
        h("button", { type: "button", class: "word", title: `Look for ${word}`, onclick: () => addTag(word) }, word),
      ),
    ),
  );

function addTag(word) {
  query.addWord(word);
  tell(`Looking for “${word}”, too.`);
}

/** Where its file is: only who may know that is told. */
function drawPath({ path }) {
  if (!path) return null;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(path);
      tell("The path is copied.");
    } catch {
      getSelection().selectAllChildren(text);
      tell("The browser does not let it be copied: it is marked for you.");
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

function drawActions(picture) {
  const compared = picturesOf(query.root()).find(({ id }) => id !== picture.id);
  const button = (words, drawing, act) => h("button", { type: "button", onclick: act }, icon(drawing), words);
  /** The answer is to be seen, so that the panel makes place for it. */
  const closing = (act) => () => {
    go({ picture: "" }, { replace: true });
    act(picture);
  };
  return h(
    "div",
    { class: "actions" },
    button("More like this", "add", closing(moreLike)),
    button("Not this", "minus", closing(notThis)),
    button("Choose a part", "crop", closing(openCrop)),
    h(
      "a",
      { class: "button", href: `/api/pictures/${picture.id}/picture`, target: "_blank" },
      icon("open"),
      "Open full size",
    ),
    compared &&
      h(
        "a",
        {
          class: "button",
          href: addressOf({ view: "compare", a: nameOf(compared), b: String(picture.id), picture: "" }),
        },
        icon("compare"),
        `Compare with ${compared.file}`,
      ),
  );
}

/** What lies in the same stack. */
function drawNearlySame(hit) {
  const stack = stacked(result().hits, new Set()).find(({ hit: first, others }) => [first, ...others].includes(hit));
  const others = [stack.hit, ...stack.others].filter((other) => other !== hit);
  if (!others.length) return null;
  return h(
    "section",
    {},
    h("h3", {}, "Nearly the same"),
    h(
      "ul",
      { class: "same" },
      others.map((other) =>
        h(
          "li",
          {},
          h(
            "a",
            { href: addressOf({ picture: String(other.id) }), title: other.name, "aria-label": other.name },
            h("img", { src: thumbnail(other), alt: "" }),
          ),
        ),
      ),
    ),
  );
}

/** One picture in a panel of its own: large, why it was found, what it shows. */

import { addressOf, go, here, moved } from "./address.js";
import { ask, isAborted, newestOnly } from "./api.js";
import { bar } from "./bars.js";
import { nameOf } from "./compare.js";
import { byId, h, icon } from "./dom.js";
import { picturesOf, TRAYS } from "./formula.js";
import { thumbnail } from "./gallery.js";
import * as query from "./query.js";
import { found, result, why } from "./search.js";
import { addTo } from "./tile.js";
import { dated, decimal, percent, WORDS } from "./words.js";

const SHOWN = 3;

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
  const { id, name, label, width, height, features } = picture;
  const facts = [label, dated(picture), width && `${width} × ${height}`].filter(Boolean).join(" · ");
  const hit = result()?.hits.find((other) => other.id === id);
  const image = h("img", { class: "large", src: `/api/pictures/${id}/picture`, alt: name });
  image.addEventListener("error", () => image.replaceWith(h("p", { class: "hint" }, "The file is no longer there.")));
  const compared = picturesOf(query.root())[0];
  return [
    image,
    h("h2", {}, name),
    facts && h("p", { class: "hint" }, facts),
    h(
      "div",
      { class: "actions" },
      TRAYS.map((tray) =>
        h("button", { type: "button", onclick: () => addTo(tray, picture) }, icon(tray), WORDS[tray].title),
      ),
      compared &&
        compared.id !== id &&
        h(
          "a",
          { class: "button", href: addressOf({ view: "compare", a: nameOf(compared), b: String(id), picture: "" }) },
          icon("compare"),
          `Compare with ${compared.file}`,
        ),
    ),
    reasons &&
      section(
        "Why this one",
        `A match of ${percent(hit.truth)}. These features gave most to the match, beyond what an average one gives:`,
        reasons.map(({ feature, contribution, shown_by: shownBy }) =>
          row(feature, contribution / reasons[0].contribution, "", shownBy),
        ),
      ),
    section(
      "What it shows most",
      "Its strongest features, compared with the rest of the gallery:",
      features.map(({ feature, degree, shown_by: shownBy }) => row(feature, degree, decimal(degree, 2), shownBy)),
    ),
  ].filter(Boolean);
}

const section = (title, words, rows) =>
  h("section", {}, h("h3", {}, title), h("p", { class: "hint" }, words), h("ul", { class: "features" }, rows));

/** A feature has no name: the pictures that show it most say what it is. */
function row(feature, length, value, shownBy) {
  return h(
    "li",
    {},
    h(
      "a",
      { href: addressOf({ view: "feature", feature, picture: "" }) },
      h("span", { class: "number" }, `Feature ${feature}`),
      bar(length),
      h("span", { class: "value" }, value),
      h(
        "span",
        { class: "shown-by" },
        shownBy.slice(0, SHOWN).map((shown) => h("img", { src: thumbnail(shown), alt: "", title: shown.name })),
      ),
    ),
  );
}

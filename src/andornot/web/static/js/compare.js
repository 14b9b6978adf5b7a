/** Compares two images: their features, and the results of OR, AND, NOT and the difference. */

import { addressOf, go, here } from "./address.js";
import { ask, isAborted, newestOnly } from "./api.js";
import { bar, distribution } from "./charts.js";
import { h, icon } from "./dom.js";
import { dropOn } from "./drag.js";
import { imagesOf } from "./formula.js";
import { gallery, thumbnail } from "./gallery.js";
import * as query from "./query.js";
import { result } from "./search.js";
import { decimal } from "./labels.js";
import { t } from "./texts.js";

/** Columns of the table: the key in the answer, the title, and the sign. */
const COLUMNS = [
  ["a", "a", "", "first"],
  ["b", "b", "", "second"],
  ["or", t("a or b"), "a | b", "with"],
  ["and", t("a and b"), "a & b", "common"],
  ["not_a", t("not a"), "~a", "not"],
  ["a_minus_b", t("a without b"), "a - b", "without"],
  ["b_minus_a", t("b without a"), "b - a", "flipped"],
];
const FEATURES = 15;
const SHOWN = 3;
const CHOICES = 24;
const LEAD =
  t("Each row is a feature, with the photos that show it most: first what only a has, then what both share, then what only b has.") +
  ` ${t("A bar shows how strong the feature is in each photo and in each combination of the two.")}`;

const newest = newestOnly();

/** Draws the comparison into `main`. Without images in the address, it compares the first two of the query. */
export async function showCompare(main) {
  const [first, second] = imagesOf(query.root());
  const a = here().a || nameOf(first);
  const b = here().b || nameOf(second);
  const heading = h("div", { class: "heading" }, h("h1", {}, t("Compare two photos")));
  try {
    if (!a || !b) {
      const choices = await newest((signal) => drawChoices(a, b, signal));
      main.replaceChildren(heading, slots({ asked: a }, { asked: b }), ...choices);
      return;
    }
    const answer = await newest((signal) => ask("/api/compare", { a, b, features: FEATURES }, { signal }));
    heading.append(h("p", { class: "facts" }, t("distance {n}, 0 for identical photos", { n: decimal(answer.distance) })), switches());
    main.replaceChildren(heading, slots({ asked: a, ...answer.a }, { asked: b, ...answer.b }), table(answer));
  } catch (error) {
    if (isAborted(error)) return;
    main.replaceChildren(
      heading,
      slots({ asked: a }, { asked: b }),
      h("p", { class: "empty", role: "alert" }, error.message),
    );
  }
}

/** Images to choose from: those of the query, the hits, or the first of the gallery. */
async function drawChoices(a, b, signal) {
  if (!gallery()?.images) return [h("p", { class: "empty" }, t("This gallery is empty: there is nothing to compare yet."))];
  const known = [...imagesOf(query.root()), ...(result()?.hits ?? [])];
  const enough = known.length > 1;
  const offered = enough ? known : (await ask("/api/images", { limit: CHOICES }, { signal })).images;
  const choose = (image) => go(a ? { a, b: nameOf(image) } : { a: nameOf(image), b });
  const words = a || b ? t("Click the other photo here, or type its file name above.") : t("Click two photos here, or type file names above.");
  return [
    h("h2", {}, words),
    h(
      "ul",
      { class: "choices" },
      offered.slice(0, CHOICES).map((image) =>
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", "aria-label": image.name ?? image.file, onclick: () => choose(image) },
            h("img", { src: thumbnail(image), alt: "" }),
          ),
        ),
      ),
    ),
  ];
}

/** The unique name of an image in the address. */
export const nameOf = (image) => String(image?.id ?? image?.upload ?? "");

function switches() {
  const one = (show, words) =>
    h("a", { href: addressOf({ show }), "aria-current": here().show === show && "true" }, words);
  return h(
    "nav",
    { class: "tabs", "aria-label": t("What to show") },
    one("degrees", t("Degrees")),
    one("distributions", t("Distributions")),
  );
}

function slots(a, b) {
  const swap = h(
    "button",
    {
      type: "button",
      class: "plain swap",
      title: t("Swap"),
      "aria-label": t("Swap"),
      onclick: () => go({ a: b.asked, b: a.asked }),
    },
    icon("swap"),
  );
  return h("div", { class: "slots" }, slot("a", a, b), swap, slot("b", b, a), h("p", { class: "lead" }, LEAD));
}

function slot(key, image, other) {
  const choose = (name) => go(key === "a" ? { a: name, b: other.asked } : { a: other.asked, b: name });
  const isKnown = image.id || image.upload;
  const field = h("input", {
    value: image.name ?? image.asked,
    placeholder: t("file name or id"),
    "aria-label": t("Photo {key}", { key }),
    spellcheck: "false",
    autocomplete: "off",
    onchange: () => choose(field.value.trim()),
  });
  const element = h(
    "div",
    { class: "slot" },
    isKnown
      ? h("img", { src: thumbnail(image), alt: image.name ?? "" })
      : h("div", { class: "nothing" }, icon("add")),
    h("label", {}, h("b", {}, key), field),
  );
  dropOn(
    element,
    ({ item }) => item.kind === "image" && choose(nameOf(item)),
    () => {},
  );
  return element;
}

function table({ features, degrees, distributions, shown_by: shownBy }) {
  // Sort from features of a only, over those of both, to those of b only.
  const order = [...features.keys()].sort((one, other) => excess(degrees, other) - excess(degrees, one));
  const cell = (key, place) => {
    const degree = degrees[key][place];
    const drawing = here().show === "degrees" ? bar(degree) : distribution(distributions[key][place]);
    return h("td", {}, h("div", { class: "cell" }, drawing, h("span", { class: "value" }, decimal(degree, 2))));
  };
  const head = COLUMNS.map(([, words, sign, drawing]) =>
    h("th", { scope: "col" }, icon(drawing), h("span", {}, words), sign && h("code", {}, sign)),
  );
  const rows = order.map((place) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, link(features[place], shownBy[place])),
      COLUMNS.map(([key]) => cell(key, place)),
    ),
  );
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": t("Features of the two photos") },
    h(
      "table",
      { class: "logic" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("feature")), head)),
      h("tbody", {}, rows),
    ),
  );
}

const excess = (degrees, place) => degrees.a[place] - degrees.b[place];

const link = (feature, shownBy) =>
  h(
    "a",
    { href: addressOf({ view: "feature", feature: String(feature) }), "aria-label": t("Feature {n}", { n: feature }) },
    shownBy.slice(0, SHOWN).map((image) => h("img", { src: thumbnail(image), alt: "", loading: "lazy" })),
    h("span", { class: "number" }, feature),
  );

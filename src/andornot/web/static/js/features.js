/** The list of all features, and the page of one feature: its top images, and a histogram of its degrees. */

import { addressOf, go, here } from "./address.js";
import { ask, isAborted, newestOnly } from "./api.js";
import { histogram } from "./charts.js";
import { h, icon } from "./dom.js";
import { gallery, thumbnail } from "./gallery.js";
import { makeGrid } from "./grid.js";
import { listed } from "./grid_sources.js";
import { count, decimal } from "./labels.js";
import { t } from "./texts.js";

const PAGE = 60;
const SORTS = { spread: t("largest differences between photos"), mean: t("most common") };

const LEAD =
  t("Photos are described by features that were learned without labels and have no names. The photos that show a feature most often tell what it is.");

const grid = makeGrid(t("Photos that show this feature most"));
const newest = newestOnly();

/** Draws the list of all features into `main`. */
export function showFeatures(main) {
  if (!gallery()?.images) {
    const words = t("This gallery is empty.");
    main.replaceChildren(h("div", { class: "empty" }, h("h1", {}, t("Features")), h("p", {}, words)));
    return;
  }
  const sort = h(
    "select",
    { "aria-label": t("Sort features by"), onchange: () => go({ sort: sort.value }) },
    Object.entries(SORTS).map(([value, words]) => h("option", { value, selected: value === here().sort }, words)),
  );
  const cards = h("ul", { class: "cards" });
  const more = h("button", { type: "button", class: "more", onclick: () => load() }, t("Show more"));
  main.replaceChildren(
    h(
      "div",
      { class: "heading" },
      h("h1", {}, t("Features")),
      h("p", { class: "facts" }, facts()),
      h("p", { class: "save" }, `${t("Sort by")} `, sort),
    ),
    h("p", { class: "lead" }, LEAD),
    cards,
    more,
  );
  const load = async () => {
    try {
      const { total, features } = await newest((signal) =>
        ask("/api/features", { order: here().sort, offset: cards.childElementCount, limit: PAGE }, { signal }),
      );
      cards.append(...features.map(card));
      more.hidden = cards.childElementCount >= total;
    } catch (error) {
      if (!isAborted(error)) more.textContent = `${error.message} ${t("Try again")}`;
    }
  };
  load();
}

const facts = () => (gallery() ? t("{n} features", { n: count(gallery().features) }) : "");

const card = ({ feature, mean, images }) =>
  h(
    "li",
    {},
    h(
      "a",
      { class: "card", href: addressOf({ view: "feature", feature, image: "" }) },
      h(
        "span",
        { class: "mosaic" },
        images.map((image) => h("img", { src: thumbnail(image), alt: "", loading: "lazy" })),
      ),
      h("span", { class: "number" }, t("Feature {n}", { n: feature })),
      h("span", { class: "value", title: t("Average degree") }, decimal(mean, 2)),
    ),
  );

/** Draws the page of one feature into `main`. */
export async function showFeature(main) {
  const { feature } = here();
  try {
    const answer = await newest((signal) =>
      ask(`/api/features/${encodeURIComponent(feature)}`, { top: 60 }, { signal }),
    );
    main.replaceChildren(
      h(
        "div",
        { class: "heading" },
        h("h1", {}, t("Feature {n}", { n: answer.feature })),
        h("p", { class: "facts" }, t("average degree {n}", { n: decimal(answer.mean, 2) })),
        h(
          "nav",
          { class: "save", "aria-label": t("Other features") },
          h("a", { href: addressOf({ view: "features" }) }, t("All features")),
          neighbour(answer.feature - 1, "back", t("Previous feature")),
          neighbour(answer.feature + 1, "next", t("Next feature")),
        ),
      ),
      h("section", { class: "degrees" }, h("h2", {}, t("Distribution of degrees")), histogram(answer.histogram)),
      h("h2", {}, t("Photos that show it most")),
      grid.element,
    );
    grid.show(listed(answer.images, ({ degree }) => decimal(degree), t("degree")));
  } catch (error) {
    if (isAborted(error)) return;
    main.replaceChildren(
      h(
        "div",
        { class: "empty" },
        h("h1", {}, t("There is no such feature")),
        h("p", {}, error.message),
        h("p", {}, h("a", { href: addressOf({ view: "features" }) }, t("All features"))),
      ),
    );
  }
}

function neighbour(feature, drawing, words) {
  if (feature < 0 || feature >= (gallery()?.features ?? 0)) return "";
  return h("a", { href: addressOf({ feature: String(feature) }), "aria-label": words, title: words }, icon(drawing));
}

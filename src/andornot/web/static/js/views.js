/** Shows the view of the address. */

import { addressOf, here, moved } from "./address.js";
import { showCompare } from "./compare.js";
import { byId } from "./dom.js";
import { showFeature, showFeatures } from "./features.js";
import { showDuplicates } from "./duplicates_view.js";
import { changed } from "./gallery.js";
import { showHelp } from "./help.js";
import { draw as drawImages, peek, showImages } from "./photos_view.js";
import { queryChanged } from "./query.js";
import { found } from "./search.js";
import { t } from "./texts.js";

const VIEWS = {
  images: showImages,
  features: showFeatures,
  feature: showFeature,
  compare: showCompare,
  duplicates: showDuplicates,
  help: showHelp,
};
const TITLES = {
  images: t("Photos"),
  features: t("Features"),
  feature: t("Feature"),
  compare: t("Compare"),
  duplicates: t("Duplicates"),
  help: t("Help"),
};

/** The parameters that each view depends on; the first view updates itself. */
const DEPENDS = {
  images: [],
  features: ["sort"],
  feature: ["feature"],
  compare: ["a", "b", "show"],
  duplicates: [],
  help: [],
};

/** Starts following the address. */
export function startViews() {
  moved.on(({ now, before }) => {
    const isOther = now.view !== before.view;
    if (isOther || DEPENDS[now.view].some((name) => now[name] !== before[name])) show();
    else if (now.view === "images") drawImages();
    if (now.view !== "images" && (isOther || now.feature !== before.feature)) scrollTo(0, 0);
    showAround();
  });
  changed.on(show);
  found.on(showAround);
  queryChanged.on(() => {
    if (here().view === "compare" && !here().a) show();
  });
  show();
}

function show() {
  VIEWS[here().view](byId("main"));
  showAround();
}

/** Updates the page around the view: links, title, and the best hits. */
function showAround() {
  const { view, feature, q } = here();
  for (const link of document.querySelectorAll("[data-view]")) {
    const isHere = link.dataset.view === view || (link.dataset.view === "features" && view === "feature");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    const isStart = link.matches(".brand");
    link.href = addressOf({ view: link.dataset.view, image: "", all: "", a: "", b: "", ...(isStart && { q: "", exclude: "" }) });
  }
  const title = view === "feature" ? t("Feature {n}", { n: feature }) : q && view === "images" ? q : TITLES[view];
  document.title = `${title} · andornot`;
  byId("peek").replaceChildren(peek());
}

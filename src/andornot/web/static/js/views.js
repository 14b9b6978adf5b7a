/** Which view is shown. */

import { addressOf, here, moved } from "./address.js";
import { showCompare } from "./compare.js";
import { byId } from "./dom.js";
import { showFeature, showFeatures } from "./features.js";
import { changed } from "./gallery.js";
import { showHelp } from "./help.js";
import { draw as drawImages, peek, showImages } from "./photos_view.js";
import { queryChanged } from "./query.js";
import { found } from "./search.js";

const VIEWS = {
  images: showImages,
  features: showFeatures,
  feature: showFeature,
  compare: showCompare,
  help: showHelp,
};
const TITLES = { images: "Photos", features: "Features", feature: "Feature", compare: "Compare", help: "Help" };

/** The parameters that each view depends on; the first view follows its query by itself. */
const DEPENDS = { images: [], features: ["sort"], feature: ["feature"], compare: ["a", "b", "show"], help: [] };

/** Follows the address from now on. */
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

/** What stands around the view: links, title, the nearest hits. */
function showAround() {
  const { view, feature, q } = here();
  for (const link of document.querySelectorAll("#views a")) {
    const isHere = link.dataset.view === view || (link.dataset.view === "features" && view === "feature");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.href = addressOf({ view: link.dataset.view, image: "", all: "", a: "", b: "" });
  }
  const title = view === "feature" ? `Feature ${feature}` : q && view === "images" ? q : TITLES[view];
  document.title = `${title} · andornot`;
  byId("peek").replaceChildren(peek());
}

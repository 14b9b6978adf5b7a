/** The help page. */

import { addressOf } from "./address.js";
import { byId } from "./dom.js";

/** Draws the help into `main`; its text is in index.html. */
export function showHelp(main) {
  main.replaceChildren(byId("help-text").content.cloneNode(true));
  main.querySelector(".to-start").href = addressOf({ view: "images", q: "", all: "", image: "" });
}

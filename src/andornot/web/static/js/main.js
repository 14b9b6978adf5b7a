/** Starts the page. */

import { followLinks } from "./address.js";
import { byId, keepIcons } from "./dom.js";
import { startFilters } from "./filters.js";
import { startFrame } from "./frame.js";
import { changed, watchGallery } from "./gallery.js";
import { startSearchField } from "./search_field.js";
import { startLightbox } from "./lightbox.js";
import { startMenu } from "./menu.js";
import { startNotices } from "./notices.js";
import { startOptions } from "./options.js";
import { startQuery } from "./query.js";
import { translatePage } from "./texts.js";
import { startUnderstood } from "./understood.js";
import { startTrays } from "./trays.js";
import { startUploads } from "./uploads.js";
import { startViews } from "./views.js";

translatePage();
keepIcons();
startNotices();
startMenu();
startFrame();
startOptions();
startFilters();

changed.on(({ name }) => {
  byId("gallery-name").textContent = name;
});

// Everything else waits until the gallery is loaded.
const isKnown = changed.on(() => {
  isKnown();
  followLinks();
  startSearchField();
  startTrays();
  startUnderstood();
  startUploads();
  startViews();
  startLightbox();
  startQuery();
});

watchGallery();

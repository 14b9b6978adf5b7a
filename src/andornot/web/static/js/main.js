/** Starts the page. */

import { followLinks } from "./address.js";
import { startCloser } from "./closer.js";
import { byId, keepIcons } from "./dom.js";
import { startFilters } from "./filters.js";
import { changed, watchGallery } from "./gallery.js";
import { startKeys } from "./keys.js";
import { startLine } from "./line.js";
import { startMenu } from "./menu.js";
import { startNotices } from "./notices.js";
import { startOptions } from "./options.js";
import { startQuery } from "./query.js";
import { startSearch } from "./search.js";
import { startSticky } from "./sticky.js";
import { startTheme } from "./theme.js";
import { startTrays } from "./trays.js";
import { startUploads } from "./uploads.js";
import { startViews } from "./views.js";

keepIcons();
startTheme();
startSticky();
startNotices();
startMenu();
startKeys();
startOptions();
startFilters();

changed.on(({ name }) => {
  byId("gallery-name").textContent = name;
});

// All else waits until the gallery is known.
const isKnown = changed.on(() => {
  isKnown();
  followLinks();
  startLine();
  startTrays();
  startUploads();
  startViews();
  startCloser();
  startQuery();
  startSearch();
});

watchGallery();

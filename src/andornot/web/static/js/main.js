/** Starts the page. */

import { followLinks } from "./address.js";
import { startPhotoPanel } from "./photo_panel.js";
import { byId, keepIcons } from "./dom.js";
import { startFilters } from "./filters.js";
import { changed, watchGallery } from "./gallery.js";
import { startShortcuts } from "./shortcuts.js";
import { startSearchField } from "./search_field.js";
import { startMenu } from "./menu.js";
import { startNotices } from "./notices.js";
import { startOptions } from "./options.js";
import { startQuery } from "./query.js";
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
startShortcuts();
startOptions();
startFilters();

changed.on(({ name }) => {
  byId("gallery-name").textContent = name;
});

// All else waits until the gallery is known.
const isKnown = changed.on(() => {
  isKnown();
  followLinks();
  startSearchField();
  startTrays();
  startUploads();
  startViews();
  startPhotoPanel();
  startQuery();
});

watchGallery();

/** Notices that disappear after a few seconds, and a banner while the server has a problem. */

import { trouble } from "./api.js";
import { byId, h } from "./dom.js";
import { changed, gallery } from "./gallery.js";
import { photos } from "./labels.js";
import { t } from "./texts.js";

const SHOWN = 6000;

/** Shows a notice for a few seconds, optionally with a button. */
export function tell(text, action = null) {
  const act = () => {
    notice.remove();
    action.act();
  };
  const button = action && h("button", { type: "button", class: "link", onclick: act }, action.label);
  const notice = h("p", {}, text, button);
  const host = byId("notices");
  host.append(notice);
  // Show the popover again, so that it is above dialogs that were opened since.
  if (host.matches(":popover-open")) host.hidePopover();
  host.showPopover();
  setTimeout(() => {
    notice.remove();
    if (!host.childElementCount) host.hidePopover();
  }, SHOWN);
}

/** Shows when the gallery has changed and while the server is unavailable; reloads everything when it is back. */
export function startNotices() {
  let images = null;
  changed.on((now) => {
    if (images !== null && images !== now.images) {
      tell(t("The gallery has changed: it now has {photos}.", { photos: photos(now.images) }));
    };
    ({ images } = now);
  });
  const banner = byId("trouble");
  trouble.on((text) => {
    const isBack = text === null && !banner.hidden;
    if (text !== null && banner.textContent !== text) banner.textContent = text;
    banner.hidden = text === null;
    if (isBack && gallery()) changed.send(gallery());
  });
}

/** Notices that disappear after a few seconds, and a banner while the server has a problem. */

import { trouble } from "./api.js";
import { byId, h } from "./dom.js";
import { changed, gallery } from "./gallery.js";
import { photos } from "./labels.js";

const SHOWN = 6000;

/** Says something for a few seconds. */
export function tell(text) {
  const notice = h("p", {}, text);
  const host = byId("notices");
  host.append(notice);
  // Shown anew, it lies above a dialog that was opened since.
  if (host.matches(":popover-open")) host.hidePopover();
  host.showPopover();
  setTimeout(() => {
    notice.remove();
    if (!host.childElementCount) host.hidePopover();
  }, SHOWN);
}

/** Says when the gallery has changed, and that the server is gone for as long as it is; then all is loaded again. */
export function startNotices() {
  let state = null;
  changed.on((now) => {
    if (state !== null && state !== now.state) tell(`The gallery has changed: it now has ${photos(now.images)}.`);
    ({ state } = now);
  });
  const banner = byId("trouble");
  trouble.on((text) => {
    const isBack = text === null && !banner.hidden;
    if (text !== null && banner.textContent !== text) banner.textContent = text;
    banner.hidden = text === null;
    if (isBack && gallery()) changed.send(gallery());
  });
}

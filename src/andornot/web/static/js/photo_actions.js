/** Actions on photos. */

import { go, here } from "./address.js";
import { announce } from "./dom.js";
import { tell } from "./notices.js";
import * as query from "./query.js";
import { t } from "./texts.js";

/** The server's limit of images in a query. */
const MOST = 64;

/** Whether one more photo can be added to the query; shows a notice if not. */
export function isRoom() {
  if (query.size() < MOST) return true;
  tell(t("A query can have at most {n} photos. Remove one first.", { n: MOST }));
  return false;
}

const acting = (act, words) => (image) => {
  if (!isRoom()) return;
  act(image);
  announce(`${image.name}: ${words}`);
};

/** Searches for photos like this one, or adds it as an example. */
export const moreLike = acting((image) => query.click(image), t("added to the query"));

/** Adds the photo as a negative example. */
export const notThisKind = acting((image) => query.notThis(image), t("not this kind"));

/** The ids of excluded photos. */
export const leftOut = () => here().exclude.split(",").filter(Boolean).map(Number);

/** Excludes a photo from the results; without results, adds it as a negative example. */
export function notThisOne(image) {
  if (!here().q) return notThisKind(image);
  if (leftOut().includes(image.id)) return undefined;
  go({ exclude: [...leftOut(), image.id].join(","), image: "" }, { replace: true });
  announce(`${image.name}: ${t("left out")}`);
  return tell(t("Left out: {name}", { name: image.name }), {
    label: t("Not this kind"),
    act: () => {
      undoLeftOut(image.id);
      notThisKind(image);
    },
  });
}

/** Restores an excluded photo: the last one, or the one with this id. */
export function undoLeftOut(id = leftOut().at(-1)) {
  go({ exclude: leftOut().filter((other) => other !== id).join(",") }, { replace: true });
}

/** What can be done with a photo, wherever it is shown. */

import { announce } from "./dom.js";
import { tell } from "./notices.js";
import * as query from "./query.js";

/** The limit of the server. */
const MOST = 64;

/** Whether one more photo can be added to the query; shows a notice if not. */
export function isRoom() {
  if (query.size() < MOST) return true;
  tell(`A query can have at most ${MOST} photos. Remove one first.`);
  return false;
}

const acting = (act, words) => (image) => {
  if (!isRoom()) return;
  act(image);
  announce(`${image.name}: ${words}`);
};

/** A click: search for photos like this, or add it as an example. */
export const chosen = acting((image) => query.click(image), "added to the query");

/** Adds an example. */
export const moreLike = acting((image) => query.moreLikeThis(image), "more like this");

/** Adds an example of what is not wanted. */
export const notThis = acting((image) => query.notThis(image), "not like this");

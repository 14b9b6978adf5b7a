/** What a picture does to the query when it is chosen, wherever it is shown. */

import { announce } from "./dom.js";
import { tell } from "./notices.js";
import * as query from "./query.js";

/** The server takes no longer ones. */
const MOST = 64;

/** Whether one more picture may enter the query; says so if not. */
export function isRoom() {
  if (query.size() < MOST) return true;
  tell(`A query holds at most ${MOST} pictures. Remove one first.`);
  return false;
}

const acting = (act, words) => (picture) => {
  if (!isRoom()) return;
  act(picture);
  announce(`${picture.name}: ${words}`);
};

/** A plain click: look for what is like the picture, or take it as one more example. */
export const chosen = acting((picture) => query.click(picture), "added to the query");

/** One more example of what is looked for. */
export const moreLike = acting((picture) => query.moreLikeThis(picture), "more like this");

/** An example of what is not looked for. */
export const notThis = acting((picture) => query.notThis(picture), "not like this");

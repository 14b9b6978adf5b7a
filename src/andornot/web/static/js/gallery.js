/** What is known of the gallery, and whether it changed or the server went away. */

import { ask, ApiError, trouble, withParameters } from "./api.js";
import { signal } from "./signal.js";

/** Sent when the gallery is known, and again when its pictures changed. */
export const changed = signal();

const EVERY = 4000;

let known = null;

/** What the server says about the gallery; null before its first answer. */
export const gallery = () => known;

/** The small picture of something with an id or the name of an upload; browsers keep it until the picture changes. */
export function thumbnail({ id, upload, version }) {
  if (upload) return `/api/uploads/${encodeURIComponent(upload)}/thumbnail`;
  return withParameters(`/api/pictures/${id}/thumbnail`, { v: version });
}

/** Asks now, and again and again as long as somebody looks at the page. */
export async function watchGallery() {
  if (!known || !document.hidden) await look();
  setTimeout(watchGallery, EVERY);
}

async function look() {
  try {
    const answer = await ask("/api/gallery");
    const isNews = answer.state !== known?.state;
    known = answer;
    if (isNews) changed.send(known);
  } catch (error) {
    if (error instanceof ApiError) trouble.send(error.message);
  }
}

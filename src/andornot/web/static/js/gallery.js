/** Facts about the gallery, polled from the server. */

import { ask, ApiError, trouble, withParameters } from "./api.js";
import { signal } from "./signal.js";

/** Sent when the gallery is first loaded, and whenever its images have changed. */
export const changed = signal();

const EVERY = 4000;

let known = null;

/** The server's description of the gallery; null before its first answer. */
export const gallery = () => known;

/** The address of the thumbnail of an image or upload; browsers cache it until the image changes. */
export function thumbnail({ id, upload, version }) {
  if (upload) return `/api/uploads/${encodeURIComponent(upload)}/thumbnail`;
  return withParameters(`/api/images/${id}/thumbnail`, { v: version });
}

/** Polls the server while the page is visible. */
export async function watchGallery() {
  if (!known || !document.hidden) await look();
  setTimeout(watchGallery, EVERY);
}

/** Asks the server now whether the gallery has changed. */
export const lookNow = () => look();

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

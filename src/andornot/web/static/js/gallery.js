/** Facts about the gallery, polled from the server. */

import { ask, ApiError, trouble, withParameters } from "./api.js";
import { signal } from "./signal.js";

/** Sent when the gallery is known, and again when its images changed. */
export const changed = signal();

const EVERY = 4000;

let known = null;

/** What the server says about the gallery; null before its first answer. */
export const gallery = () => known;

/** The small image of something with an id or the name of an upload; browsers keep it until the image changes. */
export function thumbnail({ id, upload, version }) {
  if (upload) return `/api/uploads/${encodeURIComponent(upload)}/thumbnail`;
  return withParameters(`/api/images/${id}/thumbnail`, { v: version });
}

/** Polls the server while the page is visible. */
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

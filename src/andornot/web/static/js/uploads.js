/** Uploads from a file, a drop, the clipboard or the camera, which are added to the query. */

import { go } from "./address.js";
import { ask } from "./api.js";
import { takePhoto } from "./camera.js";
import { isRoom } from "./photo_actions.js";
import { announce, byId } from "./dom.js";
import { dropOn } from "./drag.js";
import { tell } from "./notices.js";
import * as query from "./query.js";

/** The server keeps no longer names. */
const LONGEST = 200;

/** Uploads images and adds each to a tray, one after the other; without a tray, as if they were clicked. */
export async function addFiles(files, tray, group) {
  // Browsers do not know all that the server does, such as RAW: it decides about files of which they say nothing.
  const images = files.filter(({ type }) => !type || type.startsWith("image/"));
  if (files.length && !images.length) tell("That is not an image file.");
  for (const file of images) {
    if (!isRoom()) return;
    const name = file.name || "pasted photo";
    announce(`Uploading ${name}`);
    document.body.classList.add("is-uploading");
    try {
      const { upload, term = upload } = await ask(
        "/api/uploads",
        { name: name.slice(-LONGEST) },
        {
          method: "POST",
          body: file,
          headers: { "Content-Type": file.type || "image/unknown" },
        },
      );
      const image = { upload, term, name };
      if (tray) query.add(query.asItem(image), tray, group);
      else query.click(image);
      announce(`${name} added to the query`);
      if (query.size() === 1) go({ view: "images", all: "" });
    } catch (error) {
      tell(`${name}: ${error.message}`);
    } finally {
      document.body.classList.remove("is-uploading");
    }
  }
}

/** Brings the buttons, the clipboard and dropped files to life. */
export function startUploads() {
  for (const input of [byId("file"), byId("photo")]) {
    input.addEventListener("change", () => {
      addFiles([...input.files]);
      input.value = "";
    });
  }
  byId("choose").addEventListener("click", () => byId("file").click());
  const hasTouch = matchMedia("(pointer: coarse)").matches;
  const hasCamera = Boolean(navigator.mediaDevices?.getUserMedia);
  byId("camera").hidden = !hasTouch && !hasCamera;
  byId("camera").addEventListener("click", async () => {
    // A phone's own camera is better than ours.
    if (hasTouch) byId("photo").click();
    else addFiles(await takePhoto());
  });
  addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    addFiles(files);
  });
  dropOn(
    document.body,
    () => {},
    (files) => addFiles(files),
  );
}

/** Uploads from a file, a drop, the clipboard or the camera, which are added to the query. */

import { go } from "./address.js";
import { ask } from "./api.js";
import { isRoom } from "./photo_actions.js";
import { announce, byId } from "./dom.js";
import { dropOn } from "./drag.js";
import { tell } from "./notices.js";
import * as query from "./query.js";
import { t } from "./texts.js";

/** The server's limit for the length of names. */
const LONGEST = 200;

/** Uploads images and adds each to a tray, one after another; without a tray, as if they were clicked. */
export async function addFiles(files, tray, group) {
  // Browsers do not know the types of some images, such as RAW: let the server decide about files without a type.
  const images = files.filter(({ type }) => !type || type.startsWith("image/"));
  if (files.length && !images.length) tell(t("That is not an image file."));
  for (const file of images) {
    if (!isRoom()) return;
    const name = file.name || t("pasted photo");
    announce(t("Uploading {name}", { name }));
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
      announce(t("{name} added to the query", { name }));
      if (query.size() === 1) go({ view: "images", all: "" });
    } catch (error) {
      tell(`${name}: ${error.message}`);
    } finally {
      document.body.classList.remove("is-uploading");
    }
  }
}

/** Sets up the buttons, the clipboard and dropped files. */
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
    // The camera app of a phone is better than our dialog.
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

// --- the camera ----------------------------------------------------------------------------------------------------

/** Takes a photo with the camera on devices without a camera app; returns a list of one file, or none if cancelled. */
async function takePhoto() {
  const [dialog, video] = [byId("camera-dialog"), byId("viewfinder")];
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    tell(
      error.name === "NotAllowedError"
        ? t("The browser blocked the camera. You can allow it next to the address bar.")
        : t("No camera was found."),
    );
    return [];
  }
  video.srcObject = stream;
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  const files = dialog.returnValue === "take" ? [await still(video)] : [];
  for (const track of stream.getTracks()) track.stop();
  video.srcObject = null;
  return files;
}

async function still(video) {
  const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
  canvas.getContext("2d").drawImage(video, 0, 0);
  const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 });
  return new File([blob], "photo.jpg", { type: blob.type });
}

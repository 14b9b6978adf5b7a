/** A picture from the camera, where the browser has no app for it. */

import { byId } from "./dom.js";
import { tell } from "./notices.js";

/** What was taken, as a list of one file; an empty list if nothing was. */
export async function takePhoto() {
  const [dialog, video] = [byId("camera-dialog"), byId("viewfinder")];
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    tell(
      error.name === "NotAllowedError"
        ? "The camera was not allowed. You can allow it in the browser, beside the address."
        : "No camera was found.",
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

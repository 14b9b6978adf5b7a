/** A photo from the camera, for devices without a camera app. */

import { byId } from "./dom.js";
import { tell } from "./notices.js";

/** Returns the photo as a list of one file; an empty list if none was taken. */
export async function takePhoto() {
  const [dialog, video] = [byId("camera-dialog"), byId("viewfinder")];
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    tell(
      error.name === "NotAllowedError"
        ? "The browser blocked the camera. You can allow it next to the address bar."
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

/** The folders of the gallery as a tree, to choose one of. */

import { h, icon } from "./dom.js";
import { count } from "./labels.js";

/**
 * Draws a tree; what is inside a folder is made when it is opened, because there may be many.
 * @param {{name: string, folder: string, images: number, folders: object[]}} root
 * @param {string} chosen  the folder that is chosen
 * @param {(folder: string) => void} choose
 */
export function drawFolders(root, chosen, choose) {
  return h("ul", { class: "folders" }, root.folders.map((folder) => drawFolder(folder, chosen, choose)));
}

function drawFolder(folder, chosen, choose) {
  const isInside = chosen.startsWith(`${folder.folder}/`);
  const item = h("li", {});
  const inner = () => drawFolders(folder, chosen, choose);
  const toggle = h(
    "button",
    {
      type: "button",
      class: "plain",
      "aria-label": `Folders in ${folder.name}`,
      "aria-expanded": String(isInside),
      onclick: () => {
        const isOpen = toggle.getAttribute("aria-expanded") === "true";
        toggle.setAttribute("aria-expanded", String(!isOpen));
        if (isOpen) item.lastChild.remove();
        else item.append(inner());
      },
    },
    icon("next"),
  );
  const isChosen = folder.folder === chosen;
  item.append(
    folder.folders.length ? toggle : h("span", { class: "leaf" }),
    h(
      "button",
      {
        type: "button",
        class: "folder",
        "aria-pressed": String(isChosen),
        onclick: () => choose(isChosen ? "" : folder.folder),
      },
      h("span", {}, folder.name),
      h("span", { class: "count" }, count(folder.images)),
    ),
  );
  if (isInside) item.append(inner());
  return item;
}

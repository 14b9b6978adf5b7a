/** Drag and drop within the page; files are handled in uploads.js. */

let carried = null;
let over = null;

/** Starts dragging an item; `from` means that it is moved within the query. */
export function carry(event, item, { moves = false } = {}) {
  carried = { item, moves };
  event.dataTransfer.setData("text/plain", item.term ?? "");
  event.dataTransfer.effectAllowed = moves ? "move" : "copy";
  document.body.classList.add("is-dragging");
  addEventListener("dragend", putDown, { once: true });
}

/** Makes an element a drop target: `accept({item, moves})` for items, `acceptFiles(files)` for files. */
export function dropOn(element, accept, acceptFiles) {
  element.addEventListener("dragover", (event) => {
    if (!carried && !hasFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    hover(element);
    event.dataTransfer.dropEffect = carried?.moves ? "move" : "copy";
  });
  element.addEventListener("dragleave", (event) => {
    if (over === element && !element.contains(event.relatedTarget)) hover(null);
  });
  element.addEventListener("drop", (event) => {
    hover(null);
    if (!carried && !hasFiles(event)) return;
    event.preventDefault();
    event.stopPropagation();
    const what = carried;
    putDown();
    if (what) accept(what);
    else acceptFiles([...event.dataTransfer.files]);
  });
}

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

/** Highlights the innermost drop target. */
function hover(element) {
  over?.classList.remove("is-over");
  over = element;
  over?.classList.add("is-over");
}

function putDown() {
  carried = null;
  document.body.classList.remove("is-dragging");
}

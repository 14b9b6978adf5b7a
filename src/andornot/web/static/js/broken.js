/** The files that could not be read, and why. */

import { ask } from "./api.js";
import { byId, h } from "./dom.js";
import { count } from "./labels.js";
import { t } from "./texts.js";

const PAGE = 200;

/** Opens the list of unreadable files. */
export function showBroken() {
  const list = h("ul", { class: "broken" });
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: () => load() }, t("Show more"));
  const words = h("p", { class: "hint", role: "status" }, t("Reading…"));
  const load = async () => {
    try {
      const { total, files } = await ask("/api/broken", { offset: list.childElementCount, limit: PAGE });
      list.append(...files.map(drawFile));
      words.textContent = t("They are not in the gallery. Repair or remove them, then index again.");
      byId("broken-title").textContent = t("{n} files could not be read", { n: count(total) });
      more.hidden = list.childElementCount >= total;
    } catch (error) {
      words.textContent = error.message;
    }
  };
  byId("broken-body").replaceChildren(words, list, more);
  byId("broken").showModal();
  load();
}

const drawFile = ({ name, path, reason }) =>
  h("li", {}, h("b", { title: path }, path ?? name), h("span", { class: "hint" }, reason));

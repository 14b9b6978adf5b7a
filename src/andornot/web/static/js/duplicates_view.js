/** Copies and near duplicates in groups. The page never deletes files. */

import { addressOf } from "./address.js";
import { ask, isAborted, newestOnly } from "./api.js";
import { h, icon } from "./dom.js";
import { thumbnail } from "./gallery.js";
import { count, photos } from "./labels.js";
import { t } from "./texts.js";

const PAGE = 50;
const newest = newestOnly();

/** Draws the view into `main`. */
export function showDuplicates(main) {
  const list = h("ol", { class: "duplicates" });
  const words = h("p", { class: "lead", role: "status" }, t("Comparing all photos…"));
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: () => load() }, t("Show more"));
  const tools = h(
    "p",
    { class: "tools", hidden: true },
    h("a", { class: "tool", href: "/api/duplicates/list", download: "" }, icon("save"), t("Save as a list")),
  );
  main.replaceChildren(h("div", { class: "heading" }, h("h1", {}, t("Duplicates")), tools), words, list, more);
  const load = async () => {
    try {
      const { total, images, groups } = await newest((signal) =>
        ask("/api/duplicates", { offset: list.childElementCount, limit: PAGE }, { signal }),
      );
      list.append(...groups.map(drawGroup));
      words.textContent = total
        ? t("{n} groups of copies and near duplicates, {photos} in all, the largest first. Nothing is deleted here.", {
            n: count(total),
            photos: photos(images),
          })
        : t("No duplicates were found.");
      tools.hidden = !total;
      more.hidden = list.childElementCount >= total;
    } catch (error) {
      if (!isAborted(error)) words.textContent = error.message;
    }
  };
  load();
}

const drawGroup = ({ images }) =>
  h(
    "li",
    {},
    h("h2", {}, photos(images.length)),
    h("ul", {}, images.map(drawImage)),
  );

function drawImage(image) {
  const kind = { exact: t("copy"), near: t("near duplicate") }[image.copy];
  const facts = [kind, `${image.width} × ${image.height}`, t("{n} KB", { n: count(Math.ceil(image.bytes / 1000)) })];
  return h(
    "li",
    {},
    h(
      "a",
      { href: addressOf({ image: String(image.id) }), "aria-label": image.name },
      h("img", { src: thumbnail(image), alt: "", loading: "lazy" }),
    ),
    h("p", { title: image.path }, image.path ?? `${image.label}/${image.name}`),
    h("p", { class: "hint" }, facts.filter(Boolean).join(" · ")),
  );
}

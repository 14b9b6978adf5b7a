/** Taught words and saved searches: create, list, rename and remove them. */

import { addressOf, here } from "./address.js";
import { ask } from "./api.js";
import { byId, h, icon } from "./dom.js";
import { gallery, lookNow, thumbnail } from "./gallery.js";
import { count } from "./labels.js";
import { openMenu } from "./menu.js";
import { tell } from "./notices.js";
import * as query from "./query.js";
import { result } from "./search.js";
import { t } from "./texts.js";

const CANDIDATES = 60;
const COVER = 4;

/** All defined names. */
export const definitions = async () =>
  (await ask("/api/definitions").catch(() => ({ definitions: [] }))).definitions;

/** Whether the query can be saved: uploads expire after an hour. */
export const canSave = () => gallery().can_define && !query.formula().includes("upload-");

/** Asks for a name and saves the query under it. */
export async function saveSearch() {
  const name = await askName(t("Save this search"), "");
  if (name) await store({ name, formula: query.formula() }, t("Saved as “{name}”. You find it on the start page.", { name }));
}

/** Lets the user pick photos that show a word, and saves them as its examples. */
export async function teach(word) {
  const dialog = byId("teach-dialog");
  const [field, list] = [byId("teach-name"), byId("teach-photos")];
  const picked = new Map();
  const save = dialog.querySelector(".main");
  const show = () => {
    save.disabled = !picked.size || !field.value.trim();
    byId("teach-count").textContent = t("{n} picked", { n: picked.size });
  };
  const offer = (images) =>
    list.append(
      ...images.map((image) => {
        const button = h(
          "button",
          { type: "button", class: "thumb", "aria-pressed": "false", "aria-label": image.name },
          h("img", { src: thumbnail(image), alt: "", loading: "lazy" }),
          icon("check"),
        );
        button.addEventListener("click", () => {
          if (!picked.delete(image.id)) picked.set(image.id, image);
          button.setAttribute("aria-pressed", String(picked.has(image.id)));
          show();
        });
        return button;
      }),
    );
  let offset = 0;
  const load = async () => {
    const { images } = await ask("/api/images", { offset, limit: CANDIDATES });
    offset += images.length;
    offer(images);
  };
  list.replaceChildren();
  field.value = word;
  field.oninput = show;
  byId("teach-more").onclick = load;
  show();
  dialog.returnValue = "";
  dialog.showModal();
  const hits = here().q ? (result()?.hits ?? []) : [];
  if (hits.length) offer(hits.slice(0, CANDIDATES));
  else await load();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  if (dialog.returnValue !== "save") return;
  const [name, terms] = [field.value.trim(), [...picked.values()].map(({ term }) => term)];
  const formula = terms.length > 1 ? `like(${terms.join(", ")})` : terms[0];
  const isSaved = await store({ name, formula }, t("“{name}” is a word now.", { name }));
  if (isSaved) query.setText(isSaved.term);
}

/** Cards of taught words and saved searches, each with its best photos. */
export const drawAlbums = (albums, changed) =>
  h(
    "ul",
    { class: "examples albums" },
    albums.map((album) => drawAlbum(album, changed)),
  );

function drawAlbum({ name, term, formula, images, hits }, changed) {
  const entries = () => [
    { label: t("Rename"), icon: "word", act: () => rename({ name, formula }, changed) },
    { label: t("Remove"), icon: "close", act: () => remove(name, changed) },
  ];
  const label = t("{name}: more", { name });
  const more = h("button", { type: "button", class: "plain", "aria-label": label, title: label }, icon("more"));
  more.addEventListener("click", () => openMenu(more, entries()));
  return h(
    "li",
    {},
    h(
      "a",
      { href: addressOf({ view: "images", q: term, all: "", image: "" }), title: formula },
      h("b", {}, name, typeof images === "number" && h("span", { class: "count" }, ` ${count(images)}`)),
      h(
        "span",
        { class: "found-images" },
        hits.slice(0, COVER).map((hit) => h("img", { src: thumbnail(hit), alt: "" })),
      ),
    ),
    gallery().can_define && more,
  );
}

async function rename({ name, formula }, changed) {
  const next = await askName(t("Rename “{name}”", { name }), name);
  if (next && next !== name && (await store({ name: next, formula, replaces: name }, t("Renamed.")))) changed();
}

async function remove(name, changed) {
  try {
    await ask(`/api/definitions/${encodeURIComponent(name)}`, {}, { method: "DELETE" });
    tell(t("Removed: {name}", { name }));
    await lookNow();
    changed();
  } catch (error) {
    tell(error.message);
  }
}

/** Stores a definition and returns it; shows a notice and returns undefined if that is not possible. */
async function store(definition, words) {
  try {
    const answer = await ask("/api/definitions", {}, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(definition),
    });
    tell(words);
    await lookNow();
    return answer.definitions.find(({ name }) => name === definition.name);
  } catch (error) {
    tell(error.message);
    return undefined;
  }
}

/** Returns the name that was typed; "" if none was. */
async function askName(title, name) {
  const dialog = byId("name-dialog");
  byId("name-title").textContent = title;
  byId("name-field").value = name;
  dialog.returnValue = "";
  dialog.showModal();
  byId("name-field").select();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue === "save" ? byId("name-field").value.trim() : "";
}

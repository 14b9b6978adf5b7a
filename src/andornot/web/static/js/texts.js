/**
 * The texts of the page. They are written in English where they are used, as t("Not this one"); a translation is a
 * table from these texts to those of another language, in /static/texts/.
 */

const KEY = "andornot-language";

export const LANGUAGES = { en: "English", de: "Deutsch" };

/** The language of the page: the chosen one, or else the preferred language of the browser. */
export const language = () => {
  const wanted = [localStorage.getItem(KEY), ...navigator.languages.map((tag) => tag.slice(0, 2))];
  return wanted.find((tag) => tag in LANGUAGES) ?? "en";
};

/** The locale for dates and numbers. */
export const locale = () => ({ en: "en-GB", de: "de-DE" })[language()];

const table = language() === "en" ? {} : await load(language());

/** A text in the language of the page; `{name}` in it is replaced by a value. */
export const t = (text, values = {}) =>
  (table[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

/** Chooses another language. */
export function chooseLanguage(tag) {
  localStorage.setItem(KEY, tag);
  location.reload();
}

const ATTRIBUTES = ["aria-label", "title", "placeholder", "content"];

/** Translates the texts of index.html. */
export function translatePage() {
  document.documentElement.lang = language();
  if (language() === "en") return;
  const roots = [document, ...[...document.querySelectorAll("template")].map(({ content }) => content)];
  for (const root of roots) {
    const walker = document.createTreeWalker(root.documentElement ?? root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const text = node.data.replace(/\s+/g, " ").trim();
      if (table[text]) node.data = node.data.replace(/\S[^]*\S|\S/, table[text]);
    }
    for (const name of ATTRIBUTES) {
      for (const element of root.querySelectorAll(`[${name}]`)) {
        element.setAttribute(name, t(element.getAttribute(name)));
      }
    }
  }
}

async function load(tag) {
  const response = await fetch(`/static/texts/${tag}.json`).catch(() => null);
  return response?.ok ? response.json() : {};
}

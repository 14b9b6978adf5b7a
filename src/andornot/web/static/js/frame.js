/** The frame of the page: its menu, theme and language, its sticky head, and keys that work anywhere. */

import { byId, h } from "./dom.js";
import { aim, aimAt } from "./query.js";
import { chooseLanguage, language, LANGUAGES } from "./texts.js";

/** Sets up the frame. */
export function startFrame() {
  startTheme();
  startSticky();
  startShortcuts();
  byId("language").replaceChildren(
    ...Object.entries(LANGUAGES).map(([tag, name]) => h("option", { value: tag, selected: tag === language() }, name)),
  );
  byId("language").addEventListener("change", ({ target }) => chooseLanguage(target.value));
  byId("views").addEventListener("click", () => byId("main-menu").hidePopover());
}

// --- theme: the default is that of the system; `initial_theme.js` applies a choice before the page is drawn ----------

const KEY = "andornot-theme";

function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const button = byId("theme");
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(KEY, theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}

// --- the sticky head ----------------------------------------------------------------------------------------------

/** Makes the height of the head available to the style sheets. */
function startSticky() {
  const head = byId("top");
  new ResizeObserver(() => {
    document.documentElement.style.setProperty("--head", `${head.getBoundingClientRect().height}px`);
  }).observe(head);
}

// --- keys, and the collapsible query on narrow screens ---------------------------------------------------------------

const isWriting = (element) => element.matches?.("input, textarea, select");

function startShortcuts() {
  byId("unfold").addEventListener("click", () => fold(byId("query").classList.contains("is-open")));
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !isWriting(event.target) && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      fold(false);
      byId("formula").focus();
    } else if (event.key === "Escape" && !event.defaultPrevented) {
      escape(event.target);
    }
  });
}

function escape(element) {
  if (isWriting(element)) element.blur();
  else if (aim()) aimAt(null);
  else fold(true);
}

function fold(isFolded) {
  byId("query").classList.toggle("is-open", !isFolded);
  byId("unfold").setAttribute("aria-expanded", String(!isFolded));
}

/** Dark or light: as the system has it, until somebody chooses. `initial_theme.js` applies the choice before all else. */

import { byId } from "./dom.js";

const KEY = "andornot-theme";

/** Brings the switch to life. */
export function startTheme() {
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

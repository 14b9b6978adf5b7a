/** A small context menu. */

import { byId, h, icon } from "./dom.js";

/**
 * Opens a menu at `anchor`, which gets the focus back when it is closed.
 * @param {({label: string, icon: string, act: () => void} | undefined | false)[]} entries
 * @param {Element[]} head  elements above the entries
 */
export function openMenu(anchor, entries, head = []) {
  const menu = byId("menu");
  const choose = (act) => () => {
    menu.hidePopover();
    act();
  };
  const buttons = entries
    .filter(Boolean)
    .map((entry) => h("button", { type: "button", onclick: choose(entry.act) }, icon(entry.icon), entry.label));
  menu.replaceChildren(...head, ...buttons);
  menu.setAttribute("aria-label", anchor.getAttribute("aria-label"));
  menu.showPopover();
  const at = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = at.bottom + 4 + height < innerHeight;
  menu.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
  menu.style.top = `${Math.max(8, below ? at.bottom + 4 : at.top - height - 4)}px`;
  buttons[0].focus();
}

/** Moves the focus in the menu by arrow keys. */
export function startMenu() {
  byId("menu").addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.matches("input")) return;
    event.preventDefault();
    const buttons = [...event.currentTarget.querySelectorAll(":scope > button")];
    const next = buttons.indexOf(document.activeElement) + step;
    buttons[(next + buttons.length) % buttons.length].focus();
  });
}

/** Making elements. Nothing is ever made from a string of HTML, so that a file's name is only ever text. */

/**
 * An element: `h("button", { class: "quiet", onclick: close }, "Close")`. Properties that are undefined, null or false
 * are left out, and so are such children.
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for drawings. */
export function s(tag, properties = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const ICONS = "/static/icons.svg";
/** Where the drawings are: in the page, once they came, so that they are there when the server is not. */
let drawings = `${ICONS}#`;

/** One of the drawings in icons.svg. */
export const icon = (name) =>
  s("svg", { class: "icon", "aria-hidden": "true" }, s("use", { href: `${drawings}${name}` }));

/** Takes the drawings into the page. */
export async function keepIcons() {
  const text = await fetch(ICONS).then((response) => (response.ok ? response.text() : ""), () => "");
  const sheet = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  const symbols = [...sheet.querySelectorAll("symbol")];
  if (!symbols.length) return;
  for (const symbol of symbols) symbol.id = `icon-${symbol.id}`;
  sheet.setAttribute("class", "said");
  sheet.setAttribute("aria-hidden", "true");
  document.body.append(sheet);
  drawings = "#icon-";
}

/** The element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** Draws the content of an element anew; what had the focus is found again by its `data-item`. */
export function redraw(host, ...children) {
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.item : undefined;
  host.replaceChildren(...children);
  if (focused) host.querySelector(`[data-item="${focused}"]`)?.focus();
}

/** Calls `act` once, when `milliseconds` have passed without another call. */
export function debounced(act, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...values), milliseconds);
  };
}

/** Says something to who cannot see the page. */
export function announce(text) {
  byId("announcements").textContent = text;
}

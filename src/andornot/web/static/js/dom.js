/** Creates elements, never from HTML strings, so that file names cannot inject markup. */

/**
 * Creates an element: `h("button", { class: "quiet", onclick: close }, "Close")`. Properties and children that are
 * undefined, null or false are left out.
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

/** Creates an SVG element in the same way. */
export function s(tag, properties = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const ICONS = "/static/icons.svg";
/** The location of the icons: in the page once they are loaded, so that they work without the server. */
let drawings = `${ICONS}#`;

/** An icon of icons.svg. */
export const icon = (name) =>
  s("svg", { class: "icon", "aria-hidden": "true" }, s("use", { href: `${drawings}${name}` }));

/** Loads the icons into the page. */
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

/** Redraws the content of an element; the focus is restored by `data-item`. */
export function redraw(host, ...children) {
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.item : undefined;
  host.replaceChildren(...children.filter(Boolean));
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

/** Announces something to screen readers. */
export function announce(text) {
  byId("announcements").textContent = text;
}

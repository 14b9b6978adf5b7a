/** Small charts of degrees and distributions. */

import { h, s } from "./dom.js";
import { count, decimal } from "./labels.js";
import { t } from "./texts.js";

/** A horizontal bar for a number from 0 to 1. */
export function bar(value) {
  const width = Math.max(0, Math.min(100, 100 * value));
  return s(
    "svg",
    { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "rail", width: 100, height: 6 }),
    s("rect", { class: "fill", width, height: 6 }),
  );
}

/** Probabilities of the truth values from 0 to 1, side by side. */
export function distribution(probabilities) {
  const width = 100 / probabilities.length;
  return s(
    "svg",
    { class: "distribution", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" },
    ...probabilities.map((probability, place) => {
      const height = Math.max(0.6, 30 * probability);
      return s("rect", { class: "fill", x: place * width + 0.06 * width, y: 30 - height, width: 0.88 * width, height });
    }),
  );
}

/** A histogram of degrees. Bars are square roots of counts, because the many images near 0 would hide all others. */
export function histogram(bins) {
  const most = Math.sqrt(Math.max(1, ...bins.map(({ images }) => images)));
  const width = 100 / bins.length;
  const drawing = s(
    "svg",
    { class: "histogram", viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" },
    ...bins.map((bin, place) => {
      const height = bin.images ? Math.max(0.5, (40 * Math.sqrt(bin.images)) / most) : 0;
      const title = s("title");
      title.textContent = `${decimal(bin.from, 2)} to ${decimal(bin.to, 2)}: ${count(bin.images)}`;
      return s(
        "rect",
        { class: "fill", x: place * width + 0.04 * width, y: 40 - height, width: 0.92 * width, height },
        title,
      );
    }),
  );
  const rows = bins.map((bin) =>
    h("tr", {}, h("td", {}, `${decimal(bin.from, 2)} to ${decimal(bin.to, 2)}`), h("td", {}, count(bin.images))),
  );
  return h(
    "figure",
    { class: "spread" },
    drawing,
    h(
      "div",
      { class: "axis", "aria-hidden": "true" },
      h("span", {}, t("0 · not at all")),
      h("span", {}, t("degree")),
      h("span", {}, t("fully · 1")),
    ),
    h(
      "table",
      { class: "said" },
      h("caption", {}, t("Photos by degree")),
      h("thead", {}, h("tr", {}, h("th", {}, t("degree")), h("th", {}, t("photos")))),
      h("tbody", {}, rows),
    ),
  );
}

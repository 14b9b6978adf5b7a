/** Labels and number formats of the page. */

import { language, locale, t } from "./texts.js";

export const trays = {
  all: { title: t("All of these"), hint: t("What a photo must show") },
  any: { title: t("Any of these"), hint: t("One of them is enough") },
  none: { title: t("None of these"), hint: t("What a photo must not show") },
};

/** The strengths of hits, strongest first. */
export const STRENGTHS = { strong: t("Strong matches"), maybe: t("Maybe"), weak: t("Weak matches") };

export const SCORES = {
  centered: t("what it has beyond the average photo"),
  degrees: t("the same features, as strong"),
  containment: t("at least these features"),
  "cross-entropy": t("the paper’s distance"),
  "reverse-cross-entropy": t("the paper’s distance, read the other way round"),
};

export const ORDERS = {
  id: t("as indexed"),
  name: t("by name"),
  "-taken": t("newest first"),
  taken: t("oldest first"),
};

/** 12345 as 12,345. */
export const count = (number) => number.toLocaleString(language());

/** "1 photo", "2 photos". */
export const photos = (number) => t(number === 1 ? "{n} photo" : "{n} photos", { n: count(number) });

/** Formats a distance or degree. */
export const decimal = (number, digits = 3) => number.toFixed(digits);

/** Formats a truth in percent; only exact values are shown as 0 % or 100 %. */
export const percent = (truth) =>
  `${truth > 0 && truth < 1 ? Math.min(99, Math.max(1, Math.round(100 * truth))) : 100 * truth} %`;

/** "31 May 2024"; a date without a day is returned unchanged. */
export const day = (date) =>
  /^\d{4}-\d\d-\d\d$/.test(date)
    ? new Date(date).toLocaleDateString(locale(), { dateStyle: "long", timeZone: "UTC" })
    : date;

/** "May 2024" of "2024-05". */
export const month = (text) =>
  new Date(`${text}-01`).toLocaleDateString(locale(), { month: "long", year: "numeric", timeZone: "UTC" });

/** "taken 31 May 2024", or "file of 31 May 2024" where the camera recorded no date. */
export function dated({ taken, taken_from }) {
  const date = new Date(taken);
  if (Number.isNaN(date.valueOf())) return "";
  const shown = date.toLocaleDateString(locale(), { dateStyle: "long" });
  return taken_from === "camera" ? t("taken {date}", { date: shown }) : t("file of {date}", { date: shown });
}

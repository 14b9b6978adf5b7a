/** Labels and number formats of the page. */

export const WORDS = {
  all: { title: "All of these", hint: "What a photo must show" },
  any: { title: "Any of these", hint: "One of them is enough" },
  none: { title: "None of these", hint: "What a photo must not show" },
};

export const SCORES = {
  centered: "what it has beyond the average image",
  degrees: "the same features, as strong",
  containment: "at least these features",
  "cross-entropy": "the paper’s distance",
};

export const ORDERS = { id: "as indexed", name: "by name", "-taken": "newest first", taken: "oldest first" };

/** 12345 as 12,345. */
export const count = (number) => number.toLocaleString("en");

/** "1 photo", "2 photos". */
export const photos = (number) => `${count(number)} ${number === 1 ? "photo" : "photos"}`;

/** A distance or degree, as it is shown everywhere. */
export const decimal = (number, digits = 3) => number.toFixed(digits);

/** A truth as a match in percent; only what is certain is 0 % or 100 %. */
export const percent = (truth) =>
  `${truth > 0 && truth < 1 ? Math.min(99, Math.max(1, Math.round(100 * truth))) : 100 * truth} %`;

/** "31 May 2024"; what is less than a day is left as it is. */
export const day = (date) =>
  /^\d{4}-\d\d-\d\d$/.test(date) ? new Date(date).toLocaleDateString("en-GB", { dateStyle: "long", timeZone: "UTC" }) : date;

/** "taken 31 May 2024", or "file of 31 May 2024" where no camera noted it. */
export function dated({ taken, taken_from }) {
  const date = new Date(taken);
  if (Number.isNaN(date.valueOf())) return "";
  const words = { camera: "taken ", file: "file of " }[taken_from] ?? "";
  return words + date.toLocaleDateString("en-GB", { dateStyle: "long" });
}

/** Rows of photos that fill the width: each row has its own height, and no photo is cropped. */

export const GAP = 6;

/** Photos with more extreme aspect ratios are laid out as if they had this one. */
const LONGEST = 5;
/** A row of few photos is at most this much higher than the target height. */
const HIGHEST = 1.4;

/** The assumed aspect ratio of photos whose size is not known yet. */
export const USUAL = 4 / 3;

/** The aspect ratio (width / height) of a photo. */
export const ratioOf = ({ width, height }) =>
  width && height ? Math.max(1 / LONGEST, Math.min(LONGEST, width / height)) : USUAL;

/** The target height of rows in a window of this width. */
export const wantedHeight = (width) => Math.max(110, Math.min(210, width / 5.5));

/**
 * Divides photos with these aspect ratios into rows of about the target height.
 * @param {number[]} ratios  width / height of each photo
 * @returns {{from: number, to: number, height: number}[]}  the photos of each row, and its height
 */
export function justify(ratios, width, wanted) {
  const widths = ratios.map((ratio) => ratio * wanted + GAP);
  const whole = widths.reduce((sum, one) => sum + one, 0);
  const count = Math.max(1, Math.round(whole / (width + GAP)));
  const rows = [];
  let before = 0;
  widths.forEach((one, index) => {
    const number = Math.min(count - 1, Math.floor(((before + one / 2) / whole) * count));
    before += one;
    if (rows.at(-1)?.number === number) rows.at(-1).to = index + 1;
    else rows.push({ number, from: index, to: index + 1 });
  });
  return rows.map(({ from, to }) => {
    const sum = ratios.slice(from, to).reduce((total, ratio) => total + ratio, 0);
    const filling = (width - GAP * (to - from - 1)) / sum;
    return { from, to, height: Math.min(filling, HIGHEST * wanted) };
  });
}

// Where the tiles of a justified grid stand: rows of about one height, each as wide as the grid.

/** A row that is not full enough is stretched to this many times its height at most. */
const STRETCH = 1.8;

/**
 * Aspect ratios → rows of {top, height, from, to, lefts}, tiles from..to. `row` is how high a row is at least, `below`
 * what stands under each picture. The last row is not stretched; `open`: others will follow it, so it is left out.
 */
export function justify(ratios, { width, row, gap, below, open = false }) {
  const rows = [];
  let top = 0;
  const close = (from, to, sum, stretch) => {
    const height = Math.min((width - gap * (to - from - 1)) / sum, row * stretch);
    const lefts = [];
    for (let number = from, left = 0; number < to; number += 1) {
      lefts.push(left);
      left += ratios[number] * height + gap;
    }
    rows.push({ top, height, from, to, lefts });
    top += height + below + gap;
  };
  let from = 0;
  let sum = 0;
  ratios.forEach((ratio, number) => {
    if (number > from && (sum + ratio) * row + gap * (number - from) > width) {
      close(from, number, sum, STRETCH);
      [from, sum] = [number, 0];
    }
    sum += ratio;
  });
  if (from < ratios.length && !open) close(from, ratios.length, sum, 1);
  return rows;
}

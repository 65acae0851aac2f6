// Where in an image: the edge of a mask, or a box, as one SVG path over the picture.

import { svg } from "./dom.js";

/** Runs of zeros and ones, column by column → Uint8Array, column by column. */
export function pixels({ size: [height, width], counts }) {
  const flat = new Uint8Array(height * width);
  let place = 0;
  counts.forEach((length, number) => {
    if (number % 2) flat.fill(1, place, place + length);
    place += length;
  });
  return flat;
}

/** The edges between inside and outside, as straight strokes. */
export function edges(mask) {
  const [height, width] = mask.size;
  const flat = pixels(mask);
  const inside = (x, y) => (x >= 0 && y >= 0 && x < width && y < height ? flat[x * height + y] : 0);
  const strokes = [];
  for (let y = 0; y <= height; y += 1) {
    for (let x = 0, from = -1; x <= width; x += 1) {
      const edge = x < width && inside(x, y) !== inside(x, y - 1);
      if (edge && from < 0) from = x;
      if (!edge && from >= 0) { strokes.push(`M${from} ${y}H${x}`); from = -1; }
    }
  }
  for (let x = 0; x <= width; x += 1) {
    for (let y = 0, from = -1; y <= height; y += 1) {
      const edge = y < height && inside(x, y) !== inside(x - 1, y);
      if (edge && from < 0) from = y;
      if (!edge && from >= 0) { strokes.push(`M${x} ${from}V${y}`); from = -1; }
    }
  }
  return strokes.join("");
}

/** An overlay for a hit, or null where nothing is known about where it matched. */
export function outline(hit) {
  let view = [1000, 1000];
  let path = "";
  if (hit.mask) {
    view = [hit.mask.size[1], hit.mask.size[0]];
    path = edges(hit.mask);
  } else if (hit.box) {
    const [x1, y1, x2, y2] = hit.box.map((value) => Math.round(1000 * value));
    path = `M${x1} ${y1}H${x2}V${y2}H${x1}Z`;
  }
  if (!path) return null;
  return svg("svg", { class: "outline", viewBox: `0 0 ${view[0]} ${view[1]}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { d: path, class: "halo" }), svg("path", { d: path, class: "line" }));
}

// Where in an image: the edge of a mask as one smooth SVG path over the picture.

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

const STEPS = [[1, 0], [0, 1], [-1, 0], [0, -1]];

/** The closed loops between inside and outside, along pixel edges with the inside on the right, each corner once. */
export function loops(mask) {
  const [height, width] = mask.size;
  const flat = pixels(mask);
  const inside = (x, y) => (x >= 0 && y >= 0 && x < width && y < height ? flat[x * height + y] : 0);
  // An edge leads from (x, y) in one of four directions; its number is that of the corner, times four, plus it.
  const leaving = new Set();
  const number = (x, y, way) => 4 * (y * (width + 1) + x) + way;
  for (let y = 0; y <= height; y += 1) {
    for (let x = 0; x <= width; x += 1) {
      if (inside(x, y) && !inside(x, y - 1)) leaving.add(number(x, y, 0));
      if (inside(x - 1, y) && !inside(x, y)) leaving.add(number(x, y, 1));
      if (inside(x - 1, y - 1) && !inside(x - 1, y)) leaving.add(number(x, y, 2));
      if (inside(x, y - 1) && !inside(x - 1, y - 1)) leaving.add(number(x, y, 3));
    }
  }
  const found = [];
  for (const first of leaving) {
    const loop = [];
    let way = first % 4;
    let [x, y] = [((first - way) / 4) % (width + 1), Math.floor((first - way) / 4 / (width + 1))];
    let edge = first;
    while (leaving.delete(edge)) {
      loop.push([x, y]);
      x += STEPS[way][0];
      y += STEPS[way][1];
      const turn = [1, 0, 3].find((one) => leaving.has(number(x, y, (way + one) % 4)));
      if (turn === undefined) break;
      way = (way + turn) % 4;
      edge = number(x, y, way);
    }
    found.push(loop);
  }
  return found;
}

const REACH = 3;

/** A loop without its stairs: each corner at the mean of its neighbours on both sides, drawn as a curve through them. */
function smooth(loop, [width, height]) {
  const count = loop.length;
  const at = (number) => loop[(number + count) % count];
  const mean = (number) => {
    const [x, y] = at(number);
    // What lies on the frame of the picture stays there.
    if (x === 0 || y === 0 || x === width || y === height || count <= 4 * REACH) return [x, y];
    let [sumX, sumY] = [0, 0];
    for (let step = -REACH; step <= REACH; step += 1) {
      sumX += at(number + step)[0];
      sumY += at(number + step)[1];
    }
    return [sumX / (2 * REACH + 1), sumY / (2 * REACH + 1)];
  };
  const points = loop.map((_, number) => mean(number)).filter((_, number) => number % 2 === 0 || count <= 4 * REACH);
  const middle = ([x1, y1], [x2, y2]) => `${((x1 + x2) / 2).toFixed(2)} ${((y1 + y2) / 2).toFixed(2)}`;
  const curves = points.map(([x, y], number) => `Q${x.toFixed(2)} ${y.toFixed(2)} ${middle([x, y], points[(number + 1) % points.length])}`);
  return `M${middle(points.at(-1), points[0])}${curves.join("")}Z`;
}

/**
 * An overlay for a hit, or null where no pixels are known. A box alone is the cell of a grid that was searched, not the
 * outline of anything; `box` draws it all the same.
 */
export function outline(hit, { box = false } = {}) {
  let view = [1000, 1000];
  let path = "";
  if (hit.mask) {
    view = [hit.mask.size[1], hit.mask.size[0]];
    path = loops(hit.mask).map((loop) => smooth(loop, view)).join("");
  } else if (box && hit.box) {
    const [x1, y1, x2, y2] = hit.box.map((value) => Math.round(1000 * value));
    path = `M${x1} ${y1}H${x2}V${y2}H${x1}Z`;
  }
  if (!path) return null;
  return svg("svg", { class: "outline", viewBox: `0 0 ${view[0]} ${view[1]}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { d: path, class: "halo" }), svg("path", { d: path, class: "line" }));
}

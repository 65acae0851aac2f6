// The collection as a map: look-alikes lie close together. Wheel or + and − zoom, drag or arrows move, Enter opens.

import { at, get, thumbUrl } from "./api.js";
import { baseName, count, h, iconButton, say } from "./dom.js";
import * as large from "./large.js";
import { go, onChange, state } from "./state.js";

const CELL = 64;
const AT_ONCE = 8;
const NEAR_DOT = 8; // pixels: a fingertip beside a dot of two

/** The map stays while images are opened and closed over it. */
export const stays = (before) => before.view === state.view && before.collection === state.collection;

let shown = null;

export async function show(view) {
  if (view.querySelector(".map")) {
    if (state.open) large.open(state.open, walkWith(shown, state.open));
    return;
  }
  const canvas = h("canvas", { class: "map", tabindex: "0", role: "application", "aria-label": "Map of the collection: arrows move, plus and minus zoom, Enter opens the image in the middle" });
  const line = h("p", { class: "summary" }, "Computing the map…");
  const map = { canvas, pictures: new Map(), waiting: [], loading: 0, scale: 1, x: 0.5, y: 0.5, points: null };
  view.replaceChildren(h("div", { class: "row" }, line, h("span", { class: "grow" }),
    iconButton("minus", "Zoom out", () => zoom(map, 1 / 1.5)), iconButton("plus", "Zoom in", () => zoom(map, 1.5))), canvas);
  map.points = await get(at(state.collection, "/map"));
  const { image_ids: ids, total } = map.points;
  line.textContent = `${count(ids.length)}${ids.length < total ? ` of ${count(total)}` : ""} images, look-alikes close together`;
  shown = map;
  listen(map);
  const watcher = new ResizeObserver(() => (canvas.isConnected ? draw(map) : watcher.disconnect()));
  watcher.observe(canvas);
  if (state.open) large.open(state.open, walkWith(map, state.open));
}

/** What the arrows of the large view go through: from the image that was opened on the map to ever farther ones. */
function walkWith(map, imageId) {
  if (map?.walk?.place(imageId) >= 0) return map.walk;
  return map?.points ? walkFrom(map, imageId) : null;
}

function walkFrom(map, imageId) {
  const { image_ids: ids, x, y } = map.points;
  const here = ids.indexOf(imageId);
  if (here < 0) return null;
  const away = ids.map((_, number) => Math.hypot(x[number] - x[here], y[number] - y[here]));
  away[here] = -1; // of images in one place, the one that was opened comes first
  const hits = ids.map((_, number) => number).sort((a, b) => away[a] - away[b]).map((number) => ({ image_id: ids[number] }));
  const places = new Map(hits.map((hit, place) => [hit.image_id, place]));
  const place = (id) => places.get(id) ?? -1;
  map.walk = { hits, place, hit: (id) => hits[place(id)], focus: () => map.canvas.focus() };
  return map.walk;
}

/** Screen places: the shorter side of the canvas shows the whole map at scale 1. */
function place(map, number) {
  const { clientWidth: width, clientHeight: height } = map.canvas;
  return [
    width / 2 + (map.points.x[number] - map.x) * (width - CELL) * map.scale,
    height / 2 + (map.points.y[number] - map.y) * (height - CELL) * map.scale,
  ];
}

function draw(map) {
  if (map.due || !map.points) return;
  map.due = requestAnimationFrame(() => {
    map.due = 0;
    const { canvas } = map;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = getComputedStyle(canvas).color;
    // One picture per cell; the others are dots until somebody zooms in.
    const taken = new Set();
    [map.shown, map.dots, map.areas, map.waiting] = [[], [], [], []];
    const side = Math.min(CELL * 2, CELL * (0.75 + 0.25 * map.scale)) - 4;
    for (let number = 0; number < map.points.image_ids.length; number += 1) {
      const [x, y] = place(map, number);
      if (x < -side || y < -side || x > width + side || y > height + side) continue;
      const cell = `${Math.round(x / side)} ${Math.round(y / side)}`;
      if (taken.has(cell)) {
        pen.globalAlpha = 0.35;
        pen.fillRect(x - 1, y - 1, 2, 2);
        map.dots.push([x, y, number]);
        continue;
      }
      taken.add(cell);
      map.shown.push([x, y, number]);
    }
    pen.globalAlpha = 1;
    for (const [x, y, number] of map.shown) {
      const picture = map.pictures.get(number);
      if (!picture) {
        map.waiting.push(number);
        pen.fillRect(x - 2, y - 2, 4, 4);
        map.dots.push([x, y, number]);
      } else if (picture.complete && picture.naturalWidth) {
        const fit = side / Math.max(picture.naturalWidth, picture.naturalHeight);
        const [wide, high] = [picture.naturalWidth * fit, picture.naturalHeight * fit];
        map.areas.push({ left: x - wide / 2, top: y - high / 2, width: wide, height: high, number });
        pen.drawImage(picture, x - wide / 2, y - high / 2, wide, high);
      }
    }
    canvas.dataset.shown = map.shown.length;
    fetchMore(map);
  });
}

function fetchMore(map) {
  while (map.loading < AT_ONCE && map.waiting.length) {
    const number = map.waiting.shift();
    const picture = new Image();
    map.pictures.set(number, picture);
    map.loading += 1;
    const done = () => {
      map.loading -= 1;
      draw(map);
    };
    picture.onload = done;
    picture.onerror = done;
    picture.src = thumbUrl(state.collection, map.points.image_ids[number], 128);
  }
}

function zoom(map, by, at_ = null) {
  const { clientWidth: width, clientHeight: height } = map.canvas;
  const [px, py] = at_ ?? [width / 2, height / 2];
  const next = Math.min(60, Math.max(1, map.scale * by));
  const keep = (middle, point, size) => middle + ((point - size / 2) / (size - CELL)) * (1 / map.scale - 1 / next);
  map.x = keep(map.x, px, width);
  map.y = keep(map.y, py, height);
  map.scale = next;
  move(map, 0, 0);
}

function move(map, dx, dy) {
  const { clientWidth: width, clientHeight: height } = map.canvas;
  map.x = Math.min(1, Math.max(0, map.x - dx / (width * map.scale)));
  map.y = Math.min(1, Math.max(0, map.y - dy / (height * map.scale)));
  draw(map);
}

/** Of points [x, y, number], the number of the one nearest to a place, if it is within `reach` pixels. */
function nearest(points, x, y, reach) {
  const gap = ([px, py]) => Math.hypot(px - x, py - y);
  const [found] = [...points].sort((a, b) => gap(a) - gap(b));
  return found && gap(found) <= reach ? found[2] : undefined;
}

/** The number of the image that is seen at a place: the uppermost picture there, or a dot close by. */
function under(map, x, y) {
  const inside = ({ left, top, width, height }) => x >= left && y >= top && x <= left + width && y <= top + height;
  return map.areas.findLast(inside)?.number ?? nearest(map.dots, x, y, NEAR_DOT);
}

function listen(map) {
  const { canvas } = map;
  const point = (event) => [event.offsetX, event.offsetY];
  const open = (number) => {
    if (number === undefined) return;
    const id = map.points.image_ids[number];
    walkFrom(map, id);
    say(baseName(id));
    go({ open: id });
  };
  const openMiddle = () => {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const found = nearest(map.shown, width / 2, height / 2, Math.min(width, height) / 2);
    if (found === undefined) say("No image is near the middle: move, or zoom out.");
    open(found);
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(map, Math.exp(-event.deltaY / 300), point(event));
  }, { passive: false });
  let from = null;
  canvas.addEventListener("pointerdown", (event) => {
    from = { x: event.clientX, y: event.clientY, moved: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!from) return;
    from.moved += Math.abs(event.clientX - from.x) + Math.abs(event.clientY - from.y);
    move(map, event.clientX - from.x, event.clientY - from.y);
    Object.assign(from, { x: event.clientX, y: event.clientY });
  });
  canvas.addEventListener("pointerup", (event) => {
    if (from && from.moved < 6) open(under(map, ...point(event)));
    from = null;
  });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] };
    if (event.key in steps) move(map, ...steps[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(map, 1.5);
    else if (event.key === "-") zoom(map, 1 / 1.5);
    else if (event.key === "Enter") openMiddle();
    else return;
    event.preventDefault();
  });
  onChange(() => draw(map));
}

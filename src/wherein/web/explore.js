// The collection as a map: look-alikes lie close together. Wheel or + and − zoom, drag or arrows move, Enter opens.

import { at, get, thumbUrl } from "./api.js";
import { baseName, count, h, iconButton, say } from "./dom.js";
import * as large from "./large.js";
import { go, onChange, state } from "./state.js";

const CELL = 64;
const AT_ONCE = 8;

/** The map stays while images are opened and closed over it. */
export const stays = (before) => before.view === state.view && before.collection === state.collection;

export async function show(view) {
  if (view.querySelector(".map")) {
    if (state.open) large.open(state.open, null);
    else large.close();
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
  listen(map);
  const watcher = new ResizeObserver(() => (canvas.isConnected ? draw(map) : watcher.disconnect()));
  watcher.observe(canvas);
  if (state.open) large.open(state.open, null);
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
    map.shown = [];
    map.waiting = [];
    const side = Math.min(CELL * 2, CELL * (0.75 + 0.25 * map.scale)) - 4;
    for (let number = 0; number < map.points.image_ids.length; number += 1) {
      const [x, y] = place(map, number);
      if (x < -side || y < -side || x > width + side || y > height + side) continue;
      const cell = `${Math.round(x / side)} ${Math.round(y / side)}`;
      if (taken.has(cell)) {
        pen.globalAlpha = 0.35;
        pen.fillRect(x - 1, y - 1, 2, 2);
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
      } else if (picture.complete && picture.naturalWidth) {
        const fit = side / Math.max(picture.naturalWidth, picture.naturalHeight);
        pen.drawImage(picture, x - (picture.naturalWidth * fit) / 2, y - (picture.naturalHeight * fit) / 2, picture.naturalWidth * fit, picture.naturalHeight * fit);
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

function nearest(map, x, y) {
  const gap = ([px, py]) => Math.hypot(px - x, py - y);
  return [...map.shown].sort((a, b) => gap(a) - gap(b))[0];
}

function listen(map) {
  const { canvas } = map;
  const point = (event) => [event.offsetX, event.offsetY];
  const open = (x, y) => {
    const found = nearest(map, x, y);
    if (!found) return;
    const id = map.points.image_ids[found[2]];
    say(baseName(id));
    go({ open: id });
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
    if (from && from.moved < 6) open(...point(event));
    from = null;
  });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] };
    if (event.key in steps) move(map, ...steps[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(map, 1.5);
    else if (event.key === "-") zoom(map, 1 / 1.5);
    else if (event.key === "Enter") open(canvas.clientWidth / 2, canvas.clientHeight / 2);
    else return;
    event.preventDefault();
  });
  onChange(() => draw(map));
}

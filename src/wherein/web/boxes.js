// Drawing boxes on a picture or a blank canvas: by pointer (corners resize), or by keyboard (arrows move, Shift + arrows resize).

import { h, say } from "./dom.js";

const clamp = (value) => Math.min(1, Math.max(0, value));
const STEP = 0.02;
const LEAST = 0.015;
/** Each corner, and which of a box's four sides it holds: x1, y1, x2, y2. */
const CORNERS = { nw: [0, 1], ne: [2, 1], sw: [0, 3], se: [2, 3] };

const between = ([ax, ay], [bx, by]) => [Math.min(ax, bx), Math.min(ay, by), Math.max(ax, bx), Math.max(ay, by)];
const tiny = ([x1, y1, x2, y2]) => x2 - x1 < LEAST || y2 - y1 < LEAST;

/**
 * A surface over `stage` (position: relative). `change(items, {drawn})` is called after every change; `drawn`: by pointer, just now.
 * An item is {box, about}: what its owner notes in `about` goes where the box goes, and with it when it is removed.
 */
export class Boxes {
  constructor(stage, { most = 1, change = () => {}, label = "box", maxArea = 1, done = () => {} } = {}) {
    Object.assign(this, { stage, most, change, label, maxArea, done, items: [] });
    this.layer = h("div", { class: "boxes" });
    this.layer.addEventListener("pointerdown", (event) => this.#begin(event));
    stage.append(this.layer);
  }

  get boxes() {
    return this.items.map((item) => item.box);
  }

  clear() {
    for (const item of this.items) item.element.remove();
    this.items = [];
  }

  remove(index) {
    this.items[index].element.remove();
    this.items.splice(index, 1);
    this.items.forEach((item, number) => this.#name(item, number));
    this.change(this.items);
  }

  /** Add a box; without one, in the middle, for the keyboard. A single box gives way to the next; of several none does. */
  add(box = [0.35, 0.35, 0.65, 0.65], { focus = false, quiet = false, about = {} } = {}) {
    if (this.items.length >= this.most) {
      if (this.most > 1) {
        say(`There is room for ${this.most}: remove one first.`, { error: true });
        return null;
      }
      this.clear();
    }
    const element = h("div", { class: "box", tabindex: "0", role: "group", onkeydown: (event) => this.#key(event, item) },
      Object.keys(CORNERS).map((corner) => h("span", { class: `corner ${corner}`, "data-corner": corner, "aria-hidden": "true" })));
    const item = { box: [...box], element, about };
    this.items.push(item);
    this.items.forEach((one, number) => this.#name(one, number));
    this.layer.append(element);
    this.#place(item);
    if (focus) element.focus();
    if (!quiet) this.change(this.items);
    return item;
  }

  #name(item, number) {
    item.element.setAttribute("aria-label", `${this.label} ${number + 1}: arrows move it, Shift and arrows resize it, Delete removes it`);
    item.element.dataset.number = number + 1;
  }

  #place({ box, element }) {
    const [x1, y1, x2, y2] = box.map((value) => 100 * value);
    element.style.left = `${x1}%`;
    element.style.top = `${y1}%`;
    element.style.width = `${x2 - x1}%`;
    element.style.height = `${y2 - y1}%`;
    element.classList.toggle("too-large", (x2 - x1) * (y2 - y1) / 1e4 > this.maxArea + 1e-9);
  }

  #point(event) {
    const area = this.layer.getBoundingClientRect();
    return [clamp((event.clientX - area.left) / area.width), clamp((event.clientY - area.top) / area.height)];
  }

  #begin(event) {
    if (event.button !== 0) return;
    const held = this.items.find((item) => item.element.contains(event.target));
    const sides = CORNERS[event.target.dataset.corner];
    const [x, y] = this.#point(event);
    const from = held ? [...held.box] : null;
    let item = held;
    this.layer.setPointerCapture(event.pointerId);
    event.preventDefault();
    const move = (moved) => {
      const [nx, ny] = this.#point(moved);
      if (held && sides) {
        const opposite = [from[2 - sides[0]], from[4 - sides[1]]];
        held.box = between(opposite, [clamp(from[sides[0]] + nx - x), clamp(from[sides[1]] + ny - y)]);
      } else if (held) {
        const dx = Math.min(1 - from[2], Math.max(-from[0], nx - x));
        const dy = Math.min(1 - from[3], Math.max(-from[1], ny - y));
        held.box = [from[0] + dx, from[1] + dy, from[2] + dx, from[3] + dy];
      } else {
        const box = between([x, y], [nx, ny]);
        if (!item && !tiny(box)) item = this.add(box, { quiet: true });
        if (item) item.box = box;
      }
      if (item) this.#place(item);
    };
    const until = new AbortController();
    const end = () => {
      until.abort();
      if (!item) return;
      if (tiny(item.box) && !held) {
        this.remove(this.items.indexOf(item));
        return;
      }
      // A box that was drawn once does not vanish because a corner went too far.
      if (tiny(item.box)) item.box = from;
      this.#place(item);
      item.element.focus();
      this.change(this.items, { drawn: !held });
    };
    for (const [name, act] of [["pointermove", move], ["pointerup", end], ["pointercancel", end]]) this.layer.addEventListener(name, act, { signal: until.signal });
  }

  #key(event, item) {
    const sides = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
    if (event.key === "Delete" || event.key === "Backspace") this.remove(this.items.indexOf(item));
    else if (event.key === "Enter") this.done(this.boxes);
    else if (event.key in sides) {
      const [dx, dy] = sides[event.key];
      const [x1, y1, x2, y2] = item.box;
      if (event.shiftKey) item.box = [x1, y1, clamp(Math.max(x1 + STEP, x2 + dx)), clamp(Math.max(y1 + STEP, y2 + dy))];
      else if (x1 + dx >= 0 && x2 + dx <= 1 && y1 + dy >= 0 && y2 + dy <= 1) item.box = [x1 + dx, y1 + dy, x2 + dx, y2 + dy];
      this.#place(item);
      this.change(this.items);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

export const rounded = (box) => box.map((value) => Math.round(value * 1000) / 1000);

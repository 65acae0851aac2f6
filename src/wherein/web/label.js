// The pixel paper's labelling tool: a mask for every pair of a selection, in three stages by three people.

import { at, get, post, thumbUrl } from "./api.js";
import { h, named, oneAtATime, percent, plural, say, tell } from "./dom.js";
import { outline } from "./outline.js";
import { state } from "./state.js";
import { batches, check } from "./reviews.js";
import { ballot, summary } from "./votes.js";

const SIDE = 512;

export async function show(view) {
  const [found, voted, quality] = await Promise.all([get(at(state.collection, "/labels/agreement")), summary(), batches()]);
  const author = h("input", { type: "text", value: localStorage.getItem("author") ?? "", required: true, maxlength: "60", "aria-label": "Your name", placeholder: "your name" });
  const once = oneAtATime();
  const back = () => show(view).catch(tell);
  const begin = once(async () => {
    const name = named(author.value);
    localStorage.setItem("author", name);
    await step(view, name);
  });
  const asSomebody = (act) => once(async () => author.reportValidity() && act(view, named(author.value), back));
  view.replaceChildren(h("section", { class: "sheet" },
    h("h1", {}, "Label pixels"),
    h("p", { class: "quiet" }, "A selection is a group of pairs: its first image is the query, and in each of the others the same thing is outlined. One person annotates, a second and a third refine what is there and inspect it. Propose lets the collection find it first; Snap moves the edges to those of the picture."),
    h("form", { class: "row wrap", onsubmit: (event) => {
      event.preventDefault();
      begin();
    } }, author, h("button", { type: "submit", class: "solid" }, "Begin"),
    h("a", { class: "plain", href: `/api/v1${at(state.collection, "/labels/export")}`, download: "" }, "Download labels (PROxford)")),
    found.pairs.length ? h("p", {}, `${plural(found.pairs.length, "pair")} labelled; agreement between stages: ${found.mean === null ? "–" : `IoU ${percent(found.mean)}`}.`) : "",
    found.pairs.length ? h("table", { class: "figures" }, h("thead", {}, h("tr", {}, ["Pair", "by", "IoU of the stages"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, found.pairs.map((one) => h("tr", {}, h("th", { scope: "row" }, `${one.selection}: ${one.image_id}`), h("td", {}, one.authors.join(", ")), h("td", {}, one.ious.map((iou) => percent(iou)).join(", ") || "–"))))) : "",
    h("h2", {}, "Are the labels right?"),
    h("p", { class: "quiet" }, "Every labelled box of a selection is looked at by two people, and a tenth by a third; a batch passes when 98 % of that sample are right, as in SearchAD."),
    quality,
    h("div", { class: "row wrap" }, h("button", { type: "button", class: "plain", onclick: asSomebody(check) }, "Check labels")),
    h("h2", {}, "How difficult?"),
    h("p", { class: "quiet" }, "Several people say of each image how hard it is as a query; most votes decide, as in FORB."),
    h("p", {}, voted),
    h("div", { class: "row wrap" },
      h("button", { type: "button", class: "plain", onclick: asSomebody(ballot) }, "Vote"),
      h("a", { class: "plain", href: `/api/v1${at(state.collection, "/votes/export")}`, download: "" }, "Download difficulties"))));
}

/** COCO's run lengths, column by column, from the canvas of a mask; and back. */
export function runs(canvas) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const counts = [];
  let last = false, run = 0;
  for (let x = 0; x < width; x += 1) {
    for (let y = 0; y < height; y += 1) {
      const on = data[4 * (y * width + x) + 3] > 127;
      if (on === last) run += 1;
      else { counts.push(run); run = 1; last = on; }
    }
  }
  return { size: [height, width], counts: [...counts, run] };
}

export function paint(canvas, mask) {
  const [height, width] = mask.size;
  const small = new OffscreenCanvas(width, height), pen = small.getContext("2d");
  const pixels = pen.createImageData(width, height);
  let place = 0, on = false;
  for (const run of mask.counts) {
    for (let n = 0; n < run; n += 1, place += 1) if (on) pixels.data.set([255, 80, 60, 255], 4 * ((place % height) * width + Math.floor(place / height)));
    on = !on;
  }
  pen.putImageData(pixels, 0, 0);
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** A mask that is drawn: by polygon (clicks, closed by the first point or Enter), by brush, by eraser; every change can be undone. */
class Drawing {
  constructor(stage, picture) {
    Object.assign(this, { stage, tool: "polygon", size: 24, points: [], past: [] });
    const scale = SIDE / Math.max(picture.naturalWidth, picture.naturalHeight);
    const sides = { width: Math.max(1, Math.round(picture.naturalWidth * scale)), height: Math.max(1, Math.round(picture.naturalHeight * scale)) };
    this.mask = h("canvas", { ...sides, class: "mask", "aria-hidden": "true" });
    this.line = h("canvas", { ...sides, class: "trace", tabindex: "0", role: "img", "aria-label": "The mask: draw with the pointer, Enter closes a polygon, Backspace takes a point back" });
    this.pen = this.mask.getContext("2d", { willReadFrequently: true });
    stage.append(this.mask, this.line);
    this.line.addEventListener("pointerdown", (event) => this.#down(event));
    this.line.addEventListener("pointermove", (event) => this.#move(event));
    this.line.addEventListener("pointerup", () => { this.stroke = null; });
    this.line.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.close();
      else if (event.key === "Backspace") { this.points.pop(); this.#trace(); }
      else return;
      event.preventDefault();
    });
  }

  remember() {
    this.past.push(this.pen.getImageData(0, 0, this.mask.width, this.mask.height));
    if (this.past.length > 30) this.past.shift();
  }

  undo() {
    if (this.points.length) this.points = [];
    else if (this.past.length) this.pen.putImageData(this.past.pop(), 0, 0);
    this.#trace();
  }

  set(mask) {
    this.remember();
    paint(this.mask, mask);
  }

  clear() {
    this.remember();
    this.points = [];
    this.pen.clearRect(0, 0, this.mask.width, this.mask.height);
    this.#trace();
  }

  close() {
    if (this.points.length < 3) return;
    this.remember();
    this.pen.globalCompositeOperation = "source-over";
    this.pen.fillStyle = "rgb(255,80,60)";
    this.pen.beginPath();
    this.points.forEach(([x, y]) => this.pen.lineTo(x, y));
    this.pen.fill();
    this.points = [];
    this.#trace();
  }

  #at(event) {
    const frame = this.line.getBoundingClientRect();
    return [(event.clientX - frame.left) / frame.width * this.line.width, (event.clientY - frame.top) / frame.height * this.line.height];
  }

  #down(event) {
    const point = this.#at(event);
    if (this.tool === "polygon") {
      const [first] = this.points;
      if (this.points.length > 2 && Math.hypot(point[0] - first[0], point[1] - first[1]) < 10) this.close();
      else { this.points.push(point); this.#trace(); }
      return;
    }
    this.remember();
    this.line.setPointerCapture(event.pointerId);
    this.stroke = point;
    this.#brush(point);
  }

  #move(event) {
    if (this.stroke) this.#brush(this.#at(event));
  }

  #brush(point) {
    const pen = this.pen;
    pen.globalCompositeOperation = this.tool === "erase" ? "destination-out" : "source-over";
    Object.assign(pen, { strokeStyle: "rgb(255,80,60)", lineWidth: this.size, lineCap: "round" });
    pen.beginPath();
    pen.moveTo(...this.stroke);
    pen.lineTo(point[0] + 0.01, point[1]); // a line of no length would leave no dot
    pen.stroke();
    pen.globalCompositeOperation = "source-over";
    this.stroke = point;
  }

  #trace() {
    const pen = this.line.getContext("2d");
    pen.clearRect(0, 0, this.line.width, this.line.height);
    Object.assign(pen, { strokeStyle: "white", fillStyle: "white", lineWidth: 2 });
    pen.beginPath();
    this.points.forEach(([x, y]) => pen.lineTo(x, y));
    pen.stroke();
    this.points.forEach(([x, y]) => pen.fillRect(x - 3, y - 3, 6, 6));
  }
}

async function step(view, author, given) {
  const next = given ?? await get(at(state.collection, "/labels/next"), { author });
  if (!next.image_id) {
    const rest = next.left ? `${plural(next.left, "pair")} wait for somebody else.` : "Every pair has its three stages.";
    view.replaceChildren(h("div", { class: "none" }, h("h2", {}, "Nothing left for you"), h("p", {}, rest),
      h("button", { type: "button", class: "plain", onclick: () => show(view).catch(tell) }, "To the start")));
    return;
  }
  const picture = h("img", { src: thumbUrl(state.collection, next.image_id, 1024), alt: "The image to label", draggable: "false" });
  await picture.decode();
  const stage = h("div", { class: "stage" }, picture);
  const drawing = new Drawing(stage, picture);
  if (next.mask) drawing.set(next.mask);
  const started = performance.now();
  const tools = h("div", { class: "row wrap", role: "group", "aria-label": "Tool" }, [["polygon", "Polygon"], ["brush", "Brush"], ["erase", "Erase"]].map(([tool, label]) => {
    const button = h("button", { type: "button", class: "plain", "aria-pressed": String(tool === drawing.tool), onclick: () => {
      drawing.tool = tool;
      for (const other of tools.children) other.setAttribute("aria-pressed", String(other === button));
    } }, label);
    return button;
  }));
  const busy = async (button, work) => {
    button.disabled = true;
    try { await work(); } catch (error) { tell(error); }
    button.disabled = false;
  };
  const asked = { image_id: next.query.image_id, ...(next.query.mask ? { mask: next.query.mask } : next.query.box ? { box: next.query.box } : {}) };
  const propose = async () => {
    const { hits } = await post(at(state.collection, "/locate"), { parts: [asked], among: [next.image_id], k: 1 });
    const [hit] = hits;
    if (hit?.mask) drawing.set(hit.mask);
    else say("Nothing was found in this image: draw it yourself.", { error: true });
  };
  const snap = (by) => async () => drawing.set(await post(at(state.collection, "/labels/snap"), { image_id: next.image_id, mask: runs(drawing.mask), by }));
  const save = async () => {
    drawing.close();
    const body = { author, selection: next.selection, image_id: next.image_id, mask: runs(drawing.mask), seconds: (performance.now() - started) / 1000 };
    await step(view, author, await post(at(state.collection, "/labels"), body));
  };
  const button = (label, work, kind = "plain") => h("button", { type: "button", class: kind, onclick: (event) => busy(event.currentTarget, work) }, label);
  view.replaceChildren(h("section", { class: "annotate labelling" },
    h("div", { class: "fit" }, stage),
    h("div", { class: "panel" },
      h("p", { class: "quiet" }, `${author} · ${next.selection} · ${plural(next.left, "pair")} left`),
      h("h2", {}, `${next.doing[0].toUpperCase()}${next.doing.slice(1)}`),
      h("p", { class: "quiet" }, "This is what is meant:"),
      h("div", { class: "stage" }, h("img", { src: thumbUrl(state.collection, next.query.image_id, 512), alt: "The query", draggable: "false" }), outline(next.query, { box: true })),
      tools,
      h("label", { class: "row" }, "Brush ", h("input", { type: "range", min: "4", max: "96", value: "24", "aria-label": "Size of the brush", oninput: (event) => { drawing.size = Number(event.target.value); } })),
      h("div", { class: "row wrap" }, button("Propose", propose), button("Snap to edges", snap("edges")), ...(next.segmenter ? [button("Snap by the segmenter", snap("segmenter"))] : []), button("Undo", async () => drawing.undo()), button("Clear", async () => drawing.clear())),
      h("div", { class: "row wrap" }, h("span", { class: "grow" }), button("Save and go on", save, "solid")))));
  drawing.line.focus();
}

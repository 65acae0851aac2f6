// One image, large: what matched, what is known, its neighbours in the video; draw a box to search for that.

import { at, get, originalUrl, thumbUrl } from "./api.js";
import { ask } from "./bar.js";
import { Boxes, rounded } from "./boxes.js";
import { baseName, bytes, fill, h, icon, iconButton, percent, say } from "./dom.js";
import { examples, toggle as matchLines } from "./matches.js";
import { outline } from "./outline.js";
import { keptIds, onSelection, putTag, toggle } from "./selection.js";
import { closeOpen, go, state } from "./state.js";

const dialog = document.getElementById("large");
let now = null;

dialog.addEventListener("cancel", (event) => {
  event.preventDefault(); // the dialog is closed when the address names no image any more
  closeOpen();
});
dialog.addEventListener("close", () => {
  const was = now;
  now = null;
  // A browser closes a dialog without asking where nothing was clicked or typed since the page was loaded.
  if (state.open) closeOpen();
  was?.grid?.focus(was.id);
});
dialog.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input") || event.target.closest(".boxes")) return;
  if (event.key === "ArrowRight") step(1);
  else if (event.key === "ArrowLeft") step(-1);
  else if (event.key === "y") mark("liked");
  else if (event.key === "n") mark("disliked");
  else if (event.key === "s") keep();
  else return;
  event.preventDefault();
});
onSelection(() => press());

/** The next image or the one before; where the next is not here yet, it is asked for. */
async function step(by) {
  const from = now;
  if (!from?.grid) return;
  const next = () => from.grid.hits[from.place + by];
  while (!next() && by > 0 && await from.grid.more?.()) if (now !== from) return;
  if (now !== from) return;
  if (next()) go({ open: next().image_id }, { replace: true });
  else say(by > 0 ? "That was the last one." : "This is the first one.");
}

function mark(kind) {
  now?.grid?.acts?.mark?.(now.hit, kind);
}

function keep() {
  if (now) toggle(now.hit);
}

/** Show in the buttons whether the open image is marked or kept. */
function press() {
  if (!now) return;
  const held = { liked: state.liked.includes(now.id), disliked: state.disliked.includes(now.id), kept: keptIds().has(now.id) };
  for (const button of dialog.querySelectorAll("[data-held]")) button.setAttribute("aria-pressed", String(held[button.dataset.held]));
}

/** `grid`: what the arrows go through: {hits, hit(id), place(id)}, and where there is more than that, more(). */
export async function open(id, grid) {
  const hit = grid?.hit(id) ?? { image_id: id };
  const place = grid?.place(id) ?? -1;
  // Who looks at a neighbour in the video goes on from the hit that led there.
  const found = { id, grid, hit, place: place < 0 ? now?.place ?? -1 : place };
  if (now?.id === id) {
    // The same image in another ranking, as after a mark: what is drawn on it stays.
    Object.assign(now, found);
    now.told?.();
    press();
    return;
  }
  now = found;
  if (!dialog.open) dialog.showModal();
  const tell = draw(hit);
  try {
    const details = await get(at(state.collection, "/image"), { image_id: id });
    if (now?.id === id) tell(details);
  } catch (error) {
    say(error.message, { error: true });
  }
}

/** The outline of the open image may come after it. */
export function outlined() {
  const overlay = now && outline(now.hit);
  if (!overlay || !dialog.open) return;
  dialog.querySelector(".stage .outline")?.remove();
  dialog.querySelector(".stage img").after(overlay);
}

/** Show a hit at once; what comes back adds what the collection knows of it, and leaves boxes and match lines alone. */
function draw(hit) {
  const name = baseName(hit.image_id);
  const image = h("img", { src: thumbUrl(state.collection, hit.image_id, 1024), alt: name, draggable: "false" });
  const stage = h("div", { class: "stage" }, image, outline(hit));
  const size = ([width, height]) => {
    stage.style.setProperty("--ratio", String(width / height));
    Object.assign(image, { width, height });
  };
  size(hit.size_wh ?? [3, 2]);
  const about = h("div", { class: "about" }, facts(hit, null));
  const find = h("button", { type: "button", class: "solid float", hidden: true, onclick: () => search() }, "Search for this");
  const boxes = new Boxes(stage, {
    label: "region", done: () => search(),
    change: (drawn) => { find.hidden = drawn.length === 0; },
  });
  const search = () => {
    const [box] = boxes.boxes;
    ask([{ image_id: hit.image_id, ...(box ? { box: rounded(box) } : {}) }]);
  };
  dialog.setAttribute("aria-label", name);
  const restore = dialog.contains(document.activeElement) ? document.activeElement.dataset.focus : "";
  fill(dialog,
    h("div", { class: "look" },
      iconButton("left", "The one before (←)", () => step(-1), { class: "icon side", "data-focus": "left" }),
      h("div", { class: "fit" }, stage, find),
      iconButton("right", "The next one (→)", () => step(1), { class: "icon side", "data-focus": "right" })),
    h("div", { class: "facts" },
      h("div", { class: "row" }, h("h2", {}, name), iconButton("no", "Close (Esc)", closeOpen, { "data-focus": "close" })),
      h("div", { class: "row wrap" },
        now.grid?.acts?.mark ? [held("yes", "Right", "More like this (y)", "liked", () => mark("liked")), held("no", "Wrong", "Less like this (n)", "disliked", () => mark("disliked"))] : "",
        held("keep", "Keep", "Keep in the selection (s)", "kept", keep)),
      h("div", { class: "row wrap" },
        act("similar", "More like this", () => ask([{ image_id: hit.image_id }])),
        act("crop", "Search for a part", () => { boxes.add(undefined, { focus: true }); say("Arrows move the box, Shift and arrows resize it, Enter searches."); }),
        examples().length ? act("lines", "Match lines", () => matchLines(stage.parentElement, stage, hit.image_id)) : "",
        h("a", { class: "plain", href: originalUrl(state.collection, hit.image_id), target: "_blank", rel: "noopener" }, icon("open"), "Original")),
      about));
  (dialog.querySelector(`[data-focus="${restore}"]`) ?? dialog.querySelector("[data-focus=close]")).focus();
  press();
  return (details) => {
    size(details.size_wh);
    about.replaceChildren(facts(hit, details), tags(details), neighbours(details));
    now.told = () => about.querySelector("dl").replaceWith(facts(now.hit, details));
  };
}

const held = (glyph, label, title, what, onclick) => {
  const button = act(glyph, label, onclick);
  button.title = title;
  button.dataset.held = what;
  button.dataset.focus = what;
  return button;
};

const act = (glyph, label, onclick) => h("button", { type: "button", class: "plain", onclick }, icon(glyph), label);

function facts(hit, details) {
  const rows = [];
  if (hit.confidence !== null && hit.confidence !== undefined) rows.push(["Confidence", percent(hit.confidence)]);
  if (hit.score !== undefined) rows.push(["Raw score", hit.score.toFixed(4)]);
  if (hit.inliers) rows.push(["Matches that agree", String(hit.inliers)]);
  if (hit.box) rows.push(["Where", hit.box.map((value) => value.toFixed(2)).join(", ")]);
  if (details) {
    rows.push(["Size", `${details.size_wh[0]} × ${details.size_wh[1]} px, ${bytes(details.file_bytes)}`]);
    rows.push(["Date", new Date(1000 * details.taken).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })]);
    if (details.seconds !== null) rows.push(["At", `${details.seconds.toFixed(2)} s`]);
    rows.push(["Id", details.image_id]);
    if (details.path) rows.push(["File", details.path]);
  }
  return h("dl", {}, rows.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
}

function tags(details) {
  const list = h("ul", { class: "tags", "aria-label": "Tags" });
  const change = async (path, tag) => {
    try {
      await putTag(path, tag, [details.image_id]);
      details.tags = path === "/tags" ? [...new Set([...details.tags, tag])].sort() : details.tags.filter((one) => one !== tag);
      fill();
    } catch (error) {
      say(error.message, { error: true });
    }
  };
  const input = h("input", { type: "text", placeholder: "add a tag", "aria-label": "Add a tag", size: "10" });
  const form = h("li", {}, h("form", { onsubmit: (event) => { event.preventDefault(); if (input.value.trim()) change("/tags", input.value.trim()); input.value = ""; } }, input));
  list.append(form);
  const fill = () => {
    for (const chip of list.querySelectorAll(".chip")) chip.remove();
    form.before(...details.tags.map((tag) => h("li", { class: "chip" }, tag, iconButton("no", `Take off ${tag}`, () => change("/untag", tag), { class: "icon small" }))));
  };
  fill();
  return list;
}

function neighbours(details) {
  if (details.frames.length < 2) return "";
  const here = details.frames.indexOf(details.image_id);
  const near = details.frames.slice(Math.max(0, here - 6), here + 7);
  return h("div", { class: "frames", role: "group", "aria-label": "Neighbours in the video" }, near.map((id) =>
    h("button", { type: "button", "aria-current": id === details.image_id ? "true" : null, "aria-label": `Frame ${id.split("#t=")[1]} s`, onclick: () => go({ open: id }, { replace: true }) },
      h("img", { src: thumbUrl(state.collection, id, 128), alt: "", loading: "lazy" }))));
}

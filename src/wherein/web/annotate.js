// The sub-region study's tool: draw regions, describe each in short and in long, in two runs.

import { at, get, post, thumbUrl } from "./api.js";
import { Boxes, rounded } from "./boxes.js";
import { count, h, iconButton, named, oneAtATime, percent, plural, say, tell } from "./dom.js";
import { state } from "./state.js";

const RUNS = [["skippable", "First run: images may be skipped"], ["non-skippable", "Second run: every image"]];

export async function show(view) {
  const authors = await get(at(state.collection, "/annotations"));
  const author = h("input", { type: "text", value: localStorage.getItem("author") ?? "", required: true, maxlength: "60", "aria-label": "Your name", placeholder: "your name" });
  const run = h("select", { "aria-label": "Run" }, RUNS.map(([value, label]) => h("option", { value }, label)));
  const seen = h("input", { type: "number", min: "1", max: "600", step: "1", value: "8", "aria-label": "Seconds to look" });
  const memory = h("input", { type: "checkbox" });
  const begin = oneAtATime()(async () => {
    const name = named(author.value);
    localStorage.setItem("author", name);
    await step(view, name, run.value, undefined, memory.checked ? Number(seen.value) || 8 : null);
  });
  view.replaceChildren(h("section", { class: "sheet" },
    h("h1", {}, "Describe regions"),
    h("p", { class: "quiet" }, "Draw a box around something of interest, at most 30 % of the image, and describe it twice: in a few words, and at length. Several regions per image are welcome; the study asks for at least 20 in all."),
    h("form", { class: "row wrap", onsubmit: (event) => {
      event.preventDefault();
      begin();
    } }, author, run, h("label", { class: "row" }, memory, "from memory, after ", seen, " s"), h("button", { type: "submit", class: "solid" }, "Begin"),
    h("a", { class: "plain", href: `/api/v1${at(state.collection, "/annotations/export")}`, download: "" }, "Download all annotations")),
    authors.length ? h("table", { class: "figures" }, h("thead", {}, h("tr", {}, ["Author", "first run", "second run", ""].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, authors.map((one) => h("tr", {}, h("th", { scope: "row" }, one.author), h("td", {}, one.skippable), h("td", {}, one.non_skippable),
        h("td", {}, one.missing ? `${count(one.missing)} to go` : "enough"))))) : ""));
}

function thanks(view, { done, needed }, last = "") {
  const short = done < needed ? ` The study asks for ${needed}: ${plural(needed - done, "region")} more, in the other run or of new images.` : "";
  view.replaceChildren(h("div", { class: "none" }, h("h2", {}, done < needed ? "Not enough yet" : "Thank you"), h("p", {}, `${last}${plural(done, "region")} described.${short}`),
    h("button", { type: "button", class: "plain", onclick: () => show(view).catch(tell) }, "To the start")));
}

/** Show an image for some seconds, then a blank canvas of its shape: what is drawn and written comes from memory. */
function fading(stage, picture, seconds, ready) {
  stage.classList.add("looking");
  const rest = h("p", { class: "hint", role: "status" }, `Look: ${Math.ceil(seconds)} s`);
  stage.append(rest);
  const until = performance.now() + 1000 * seconds;
  const tick = setInterval(() => {
    const left = (until - performance.now()) / 1000;
    if (left > 0 && stage.isConnected) { rest.textContent = `Look: ${Math.ceil(left)} s`; return; }
    clearInterval(tick);
    if (!stage.isConnected) return;
    stage.style.setProperty("--aspect", `${picture.naturalWidth} / ${picture.naturalHeight}`);
    stage.classList.replace("looking", "blank");
    rest.remove();
    picture.remove();
    ready();
  }, 200);
}

async function step(view, author, run, prompt, memory = null) {
  const next = prompt ?? await get(at(state.collection, "/annotations/next"), { author, set: run });
  if (!next.image_id) {
    thanks(view, next, "That was the last image. ");
    return;
  }
  let listed = [];
  const list = h("ol", { class: "regions" });
  const picture = h("img", { src: thumbUrl(state.collection, next.image_id, 1024), alt: "The image to describe", draggable: "false" });
  const stage = h("div", { class: "stage" }, picture);
  const boxes = new Boxes(stage, { most: 20, maxArea: next.largest, label: "region", change: (items, { drawn = false } = {}) => {
    // A box that moves must not take the focus from itself, nor from what is being written.
    if (items.length !== listed.length || items.some((item, number) => item !== listed[number])) list.replaceChildren(...items.map(line));
    listed = [...items];
    items.forEach(({ box }, number) => list.children[number].querySelector(".area").replaceWith(areaOf(box)));
    if (drawn) list.querySelector("li:last-child input")?.focus();
  } });
  const area = (box) => (box[2] - box[0]) * (box[3] - box[1]);
  const areaOf = (box) => {
    const large = area(box) > next.largest + 1e-9;
    return h("span", { class: `area ${large ? "problem-text" : "quiet"}` }, `${percent(area(box))} of the image${large ? `: at most ${percent(next.largest)}` : ""}`);
  };
  const line = ({ box, about }, number) => {
    const field = (kind, label) => h(kind === "short" ? "input" : "textarea", {
      value: about[kind] ?? "", placeholder: label, "aria-label": `${label} of region ${number + 1}`, maxlength: kind === "short" ? "200" : "2000",
      oninput: (event) => { about[kind] = event.target.value; },
    });
    return h("li", {}, h("div", { class: "row" }, h("span", { class: "number" }, number + 1), areaOf(box), h("span", { class: "grow" }),
      iconButton("no", `Remove region ${number + 1}`, () => boxes.remove(number), { class: "icon small" })),
    field("short", "Short description"), field("long", "Long description"));
  };
  const send = oneAtATime()(async (regions) => {
    const following = await post(at(state.collection, "/annotations"), { author, set: run, image_id: next.image_id, regions, ...(memory ? { memory_seconds: memory } : {}) });
    await step(view, author, run, following, memory);
  });
  const save = () => {
    const regions = boxes.items.map(({ box, about }) => ({ box: rounded(box), short: about.short?.trim(), long: about.long?.trim() }));
    if (!regions.length) say("Draw at least one region first.", { error: true });
    else if (regions.some((region) => !region.short || !region.long)) say("Every region needs a short and a long description.", { error: true });
    else send(regions);
  };
  const missing = next.needed - next.done;
  const meter = h("progress", { max: String(next.needed), "aria-label": "Annotations so far" });
  meter.value = Math.min(next.done, next.needed);
  view.replaceChildren(h("section", { class: "annotate" },
    h("div", { class: "fit" }, stage),
    h("div", { class: "panel" },
      h("p", { class: "quiet" }, `${author} · ${next.done} of at least ${next.needed}${next.may_skip ? "" : " · every image counts"}`), meter, list,
      h("div", { class: "row wrap" },
        h("button", { type: "button", class: "plain", onclick: () => boxes.add([0.4, 0.4, 0.6, 0.6], { focus: true }) }, "Place a box"),
        next.may_skip ? h("button", { type: "button", class: "plain", onclick: () => send([]) }, "Nothing here: skip") : "",
        h("span", { class: "grow" }),
        h("button", { type: "button", class: "plain", disabled: missing > 0, title: missing > 0 ? `${plural(missing, "region")} more first` : "", onclick: () => thanks(view, next) }, "Finish"),
        h("button", { type: "button", class: "solid", onclick: save }, "Save and go on")))));
  if (memory) {
    const panel = view.querySelector(".panel");
    panel.inert = true;
    boxes.layer.hidden = true;
    await picture.decode().catch(() => {});
    fading(stage, picture, memory, () => {
      panel.inert = false;
      boxes.layer.hidden = false;
    });
  }
}

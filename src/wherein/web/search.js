// Searching: results as they stream in, filters, marks that refine, pages to the last image.

import { at, get, post, streamSearch } from "./api.js";
import { count, h, percent, plural, problem, say } from "./dom.js";
import { Grid } from "./grid.js";
import * as large from "./large.js";
import { keptIds, onSelection, onTags, toggle } from "./selection.js";
import { asked, dayAfter, EMPTY, go, question, state } from "./state.js";

const PAGE = 60;
const AT_ONCE = 6;
const FIRST = 12;
const UNLIKELY = 0.05;
let run = 0;
let shown = "";
let grid = null;
let folded = null;
let acts = {};
let stop = null;
let about = {};
let refocus = "";

/** Hits less likely to be right than this are folded away. */
const least = () => (state.sure === "" ? UNLIKELY : Number(state.sure) || 0);
const likely = (hit) => (hit.confidence ?? 1) >= least();

onSelection((kept) => {
  grid?.tell({ kept });
  folded?.tell({ kept });
});
onTags((tags) => {
  about.tags = tags;
  document.querySelector(".filters [aria-label=Tag]")?.replaceChildren(...tagOptions());
});

/** The grid that an image is in: it may be among the rejected. */
const holder = (imageId) => (folded?.known.has(imageId) ? folded : grid);

export function describe(collection) {
  about = collection;
}

/** Draw the view for the address; the same question again only opens or closes an image. */
export function show(view) {
  if (question(state) === shown && view.querySelector(".grid")) {
    if (state.open) large.open(state.open, holder(state.open));
    else large.close();
    return;
  }
  shown = question(state);
  run += 1;
  stop?.abort();
  stop = new AbortController();
  // Pictures nobody will see any more must not keep the new search waiting for a connection.
  for (const picture of view.querySelectorAll(".grid img")) if (!picture.complete) picture.removeAttribute("src");
  const mine = run;
  acts = { open: (hit) => go({ open: hit.image_id }), keep: toggle, unfolded: (hits) => locate(mine, hits) };
  if (state.parts.length) acts.mark = mark;
  [grid, folded] = [new Grid(state.collection, acts), null];
  const summary = h("p", { class: "summary" }, " ");
  const more = h("div", { class: "more" });
  const used = view.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  view.replaceChildren(filters(), summary, grid.element, more);
  // Who changed a filter from the keyboard stays at it.
  if (used) view.querySelector(`.filters [aria-label="${CSS.escape(used)}"]`)?.focus();
  fill({ mine, summary, more, view });
}

export function forget() {
  shown = "";
}

function mark(hit, kind) {
  const other = kind === "liked" ? "disliked" : "liked";
  const marked = state[kind].includes(hit.image_id);
  say(marked ? "Mark taken back." : kind === "liked" ? "More like this." : "Less like this.");
  refocus = hit.image_id;
  go({
    [kind]: marked ? state[kind].filter((one) => one !== hit.image_id) : [...state[kind], hit.image_id],
    [other]: state[other].filter((one) => one !== hit.image_id),
  });
}

/** Marks say which hits are right: what is learned from them moves the confidence of later searches. */
async function learn() {
  const { parts } = asked(state);
  try {
    const [made] = await post(at(state.collection, "/calibrate"), { method: state.method, judgements: [{ parts, right: state.liked, wrong: state.disliked }] });
    say(`${count(made.right)} right and ${count(made.wrong)} wrong hits are judged.${made.curve ? "" : " More are needed before hits get a confidence."}`);
    if (made.curve) go({ liked: [], disliked: [] });
  } catch (error) {
    say(error.message, { error: true });
  }
}

async function* pages(offset) {
  if (state.parts.length) {
    yield* streamSearch(state.collection, asked(state, { k: PAGE, offset }), stop.signal);
    return;
  }
  const { folder, after, before, min_side } = state;
  const found = await get(at(state.collection, "/images"), { folder, after, before: dayAfter(before), min_side, tags: state.tag, offset, limit: PAGE }, stop.signal);
  yield [{ searched: found.total, notes: [] }, ...found.images];
}

async function fill({ mine, summary, more, view }) {
  let offset = 0;
  let total = Infinity;
  let busy = false;
  const unsure = [];
  const load = async () => {
    if (busy || offset >= total || mine !== run) return;
    busy = true;
    let got = 0;
    const shownBefore = grid.hits.length;
    try {
      let head = null;
      for await (const lines of pages(offset)) {
        if (mine !== run) return;
        const hits = head ? lines : lines.slice(1);
        if (!head) {
          [head] = lines;
          total = head.searched;
          if (offset === 0) sum(summary, head);
        }
        got += hits.length;
        const sure = hits.filter(likely);
        unsure.push(...hits.filter((hit) => !likely(hit)));
        grid.add(sure.slice(0, FIRST), { more: true });
        if (sure.length > FIRST) {
          await new Promise(requestAnimationFrame); // what is seen first is drawn first
          if (mine !== run) return;
          grid.add(sure.slice(FIRST), { more: true });
        }
      }
      offset += got;
      locate(mine, grid.hits.slice(shownBefore));
      // Confidence falls with the score: what follows an unlikely hit is no likelier.
      if (!got || unsure.length) total = offset;
      grid.add([], { more: offset < total });
      grid.tell(told());
      if (offset <= PAGE && !grid.hits.length) nothing(more, unsure);
      else if (offset >= total) more.replaceChildren(h("p", { class: "quiet" }, ended(offset - unsure.length, unsure.length)), rejected(unsure));
      if (refocus && document.activeElement === document.body) grid.focus(refocus);
      refocus = "";
    } catch (error) {
      total = offset;
      if (error.name === "AbortError") return;
      if (!offset) shown = ""; // asking the same again asks again
      more.replaceChildren(problem(error, () => {
        total = Infinity;
        more.replaceChildren();
        load();
      }));
    } finally {
      busy = false;
    }
    if (mine === run && offset === got && state.open) large.open(state.open, holder(state.open));
    if (mine === run && offset < total && more.getBoundingClientRect().top < innerHeight * 2) load();
  };
  const watcher = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && load(), { rootMargin: "800px" });
  watcher.observe(more);
  view.addEventListener("viewchange", () => watcher.disconnect(), { once: true });
  await load();
}

/** Outlines are asked for when the hits are there, so that nobody waits for them. */
async function locate(mine, hits) {
  const among = hits.filter((hit) => !hit.mask).map((hit) => hit.image_id);
  if (!state.parts.length || !among.length || !(about.steps ?? []).includes("locate") || !(about.layers ?? []).includes("patches")) return;
  try {
    // A few at a time: a search that comes in between waits only for those.
    for (let from = 0; from < among.length && mine === run; from += AT_ONCE) {
      const some = among.slice(from, from + AT_ONCE);
      const found = await post(at(state.collection, "/locate"), asked(state, { k: some.length, among: some, group: false }), stop.signal);
      if (mine !== run) return;
      grid.outlined(found.hits);
      large.outlined();
    }
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, { error: true });
  }
}

function sum(line, head) {
  const took = head.seconds === undefined ? "" : ` · ${Math.max(1, Math.round(1000 * head.seconds))} ms`;
  const how = head.method ? ` · ${head.encoder} · ${head.method}${took}` : "";
  const marks = state.liked.length + state.disliked.length;
  line.replaceChildren(`${plural(head.searched, "image")}${how}`,
    ...head.notes.map((note) => h("span", { class: "note" }, note)),
    ...(marks ? [h("button", { type: "button", class: "link", onclick: learn }, `learn from ${plural(marks, "mark")}`),
      h("button", { type: "button", class: "link", onclick: () => go({ liked: [], disliked: [] }) }, `forget ${marks === 1 ? "it" : "them"}`)] : []));
}

const ended = (found, unsure) => (unsure ? `${plural(found, "image")}; all others are right with less than ${percent(least())}.` : `${plural(found, "image")}, that is all.`);

const told = () => ({ liked: state.liked, disliked: state.disliked, kept: keptIds() });

function nothing(more, unsure) {
  if (about.images === 0) {
    more.replaceChildren(h("div", { class: "none" }, h("h2", {}, "Nothing is indexed yet"),
      h("p", {}, "Choose a folder, and its images can be searched as they come in."),
      h("button", { type: "button", class: "solid", onclick: () => go({ ...EMPTY, collection: state.collection, view: "index" }) }, "Index a folder")));
    return;
  }
  more.replaceChildren(h("div", { class: "none" },
    h("h2", {}, "No match"),
    h("p", {}, unsure.length ? `Nothing here is likely to be what you look for: the best is right with ${percent(unsure[0].confidence)} only.` : "No image passes. Try other words or fewer filters.")), rejected(unsure));
}

function rejected(unsure) {
  if (!unsure.length) return "";
  folded = new Grid(state.collection, acts);
  folded.add(unsure);
  folded.tell(told());
  return h("details", { class: "rejected" }, h("summary", {}, unsure.length === 1 ? "The one that was rejected" : `The best ${count(unsure.length)} that were rejected`), folded.element);
}

function optionOf(key, text, value) {
  const option = h("option", { value: key }, text);
  option.selected = key === value;
  return option;
}

const tagOptions = () => [["", "any"], ...Object.entries(about.tags ?? {}).map(([tag, number]) => [tag, `${tag} (${count(number)})`])]
  .map(([tag, text]) => optionOf(tag, text, state.tag[0] ?? ""));

function filters() {
  const field = (name, label, attributes) => h("label", {}, h("span", {}, label),
    h("input", { value: state[name], "aria-label": label, onchange: (event) => go({ [name]: event.target.value }), ...attributes }));
  const sure = h("b", {}, percent(least()));
  const slider = h("label", {}, h("span", {}, "Confidence, at least ", sure),
    h("input", { type: "range", min: "0", max: "0.95", step: "0.05", "aria-label": "Confidence", value: String(least()), oninput: (event) => { sure.textContent = percent(event.target.value); }, onchange: (event) => go({ sure: Number(event.target.value) === UNLIKELY ? "" : event.target.value }) }));
  const choice = (label, value, options, change) => h("label", {}, h("span", {}, label),
    h("select", { "aria-label": label, onchange: (event) => change(event.target.value) }, options.map(([key, text]) => optionOf(key, text, value))));
  const active = ["folder", "after", "before", "min_side", "method", "sure"].filter((name) => state[name]).length + state.tag.length;
  const details = h("details", { class: "filters" },
    h("summary", {}, "Filters", active ? h("span", { class: "badge" }, active) : ""),
    h("div", { class: "fields" },
      field("folder", "Folder", { type: "text", placeholder: "holiday/*" }),
      field("after", "From", { type: "date" }), field("before", "Until", { type: "date" }),
      h("label", {}, h("span", {}, "Tag"), h("select", { "aria-label": "Tag", onchange: (event) => go({ tag: event.target.value ? [event.target.value] : [] }) }, tagOptions())),
      choice("Size", state.min_side, [["", "any"], ["640", "640 px and more"], ["1280", "1280 px and more"], ["1920", "1920 px and more"], ["3840", "3840 px and more"]], (side) => go({ min_side: side })),
      choice("Method", state.method, [["", "as fits the query"], ...(about.methods ?? []).map((method) => [method, method])], (method) => go({ method })),
      slider));
  details.open = sessionStorage.getItem("filters") === "1";
  details.addEventListener("toggle", () => sessionStorage.setItem("filters", details.open ? "1" : "0"));
  const group = h("button", { type: "button", class: "switch", "aria-pressed": String(state.group), onclick: () => go({ group: !state.group }) }, "Group look-alikes");
  const outlines = h("button", {
    type: "button", class: "switch", id: "outlines", title: "o", "aria-pressed": String(!document.body.classList.contains("no-outlines")), onclick: () => toggleOutlines(),
  }, "Outlines");
  return h("div", { class: "tools" }, details, h("div", { class: "switches" }, group, outlines));
}

export function toggleOutlines() {
  const off = document.body.classList.toggle("no-outlines");
  localStorage.setItem("outlines", off ? "off" : "on");
  document.getElementById("outlines")?.setAttribute("aria-pressed", String(!off));
  say(off ? "Outlines off." : "Outlines on.");
}

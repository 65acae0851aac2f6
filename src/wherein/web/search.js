// Searching: results as they stream in, marks that refine, pages to the last image.

import { at, get, post, streamSearch } from "./api.js";
import { baseName, count, h, percent, plural, problem, say } from "./dom.js";
import { filters, least, likely, measureBy, tagOptions, tellSlider, whyUncut } from "./filters.js";
import { Grid } from "./grid.js";
import * as large from "./large.js";
import { keptIds, onSelection, onTags, toggle } from "./selection.js";
import { asked, dayAfter, EMPTY, go, onLeave, question, returned, state } from "./state.js";

const PAGE = 60;
/** The longest page that the server gives, of images to browse and of hits. */
const LONGEST = { browse: 1000, search: 5000 };
/** How far below the window the end of the hits may be before more are fetched, in pixels. */
const NEAR = 800;
const AT_ONCE = 6;
const FIRST = 12;
let run = 0;
let shown = "";
let grid = null;
let folded = null;
let acts = {};
let stop = null;
let about = {};
/** A mark that was just set or taken back: what is told of it when its ranking is there. */
let marked = null;
/** What each mark taught confidence while the page lives, to be taken back with it. */
const taught = new Map();
/** Ends the message about a mark: it is of the question that the mark was set in. */
let unsay = () => {};
let [toOutline, outlining] = [[], 0];
/** How many hits were asked for so far, and whether all of a former page are back yet. */
let [loaded, settled] = [0, true];

onSelection((kept) => {
  grid?.tell({ kept });
  folded?.tell({ kept });
});
onTags((tags) => {
  about.tags = tags;
  document.querySelector(".filters [aria-label=Tag]")?.replaceChildren(...tagOptions(about));
});
onLeave(() => (settled ? { y: scrollY, loaded } : null));

/** The grid that an image is in: it may be among the rejected. */
const holder = (imageId) => (folded?.known.has(imageId) ? folded : grid);

export function describe(collection) {
  about = collection;
}

/** Draw the view for the address; the same question again only opens or closes an image. */
export function show(view) {
  if (question(state) === shown && view.querySelector(".grid")) {
    if (state.open) large.open(state.open, holder(state.open));
    return;
  }
  shown = question(state);
  run += 1;
  unsay();
  if (marked?.run !== run) marked = null;
  stop?.abort();
  stop = new AbortController();
  // Pictures nobody will see any more must not keep the new search waiting for a connection.
  for (const picture of view.querySelectorAll(".grid img")) if (!picture.complete) picture.removeAttribute("src");
  for (const old of [grid, folded]) old?.leave();
  const mine = run;
  acts = { open: (hit) => go({ open: hit.image_id }), keep: toggle, drawn: (hits) => locate(mine, hits) };
  if (state.parts.length) acts.mark = mark;
  [grid, folded, toOutline] = [new Grid(state.collection, acts), null, []];
  const summary = h("p", { class: "summary" }, " ");
  const more = h("div", { class: "more" });
  const used = view.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  // Who comes back, or marks a hit, stays where they were; who asks something new begins at the top.
  const stand = returned ?? (marked ? { y: scrollY, loaded } : { y: 0, loaded: 0 });
  view.style.minHeight = stand.y ? `${stand.y + innerHeight}px` : "";
  view.replaceChildren(filters(about), summary, grid.element, more);
  scrollTo(0, stand.y);
  // Who changed a filter from the keyboard stays at it.
  if (used) view.querySelector(`.filters [aria-label="${CSS.escape(used)}"]`)?.focus();
  fill({ mine, summary, more, view, stand });
}

export function forget() {
  shown = "";
  run += 1;
  unsay();
  [loaded, settled] = [0, true];
}

/** The ranking as a mark finds it, to compare the next one with. */
const rankingNow = (id) => ({ run: run + 1, place: grid.place(id), hits: grid.hits.map((hit) => hit.image_id) });

const mark = ({ image_id: id }, kind) => put([id], state[kind].includes(id) ? "" : kind);

/** What is asked, whatever is marked; with the image that is judged by it. */
const subject = (id = "") => JSON.stringify([state.collection, state.method, asked(state).parts, id]);

/** Mark images as liked or disliked, or ("") take their marks back, with what those taught. */
async function put(ids, kind) {
  const asking = subject();
  await Promise.all(ids.map(unteach));
  if (subject() !== asking) return; // something else was asked meanwhile
  const [id] = ids;
  const was = ["liked", "disliked"].find((one) => state[one].includes(id)) ?? "";
  const left = (one) => state[one].filter((other) => !ids.includes(other));
  const judged = kind ? teach(id, kind === "liked") : null;
  if (ids.length === 1) marked = { id, kind, was, judged, ...rankingNow(id) };
  go({ liked: left("liked"), disliked: left("disliked"), ...(kind ? { [kind]: [...left(kind), ...ids] } : {}) });
}

/** A mark also says whether a hit is right: confidence follows at once. What changed, or null where nothing can. */
function teach(id, right) {
  const judgement = { parts: asked(state).parts, right: right ? [id] : [], wrong: right ? [] : [id] };
  const judged = post(at(state.collection, "/calibrate"), { method: state.method, judgements: [judgement] })
    .then(([learned]) => learned, () => null); // it is not among the first hits of the question alone, so nothing is measured
  taught.set(subject(id), judged);
  return judged;
}

async function unteach(id) {
  const [key, path] = [subject(id), at(state.collection, "/uncalibrate")];
  const judged = taught.get(key);
  taught.delete(key);
  const learned = await judged;
  if (learned) await post(path, { step: learned.step }).catch(() => null);
}

/** How the first hits differ from those before, both by their ids. */
function compared(before, now) {
  const fresh = now.filter((id) => !before.includes(id)).length;
  const gone = before.filter((id) => !now.includes(id)).length;
  const are = (number) => `${number} of the first ${FIRST} ${number === 1 ? "is" : "are"}`;
  if (!now.length) return before.length ? "no hit is likely any more" : "still no hit is likely";
  if (gone > fresh) return `${are(gone)} gone`;
  return fresh ? `${are(fresh)} new` : `the first ${Math.min(FIRST, now.length)} stay`;
}

/** What a mark changed, in a sentence, with the way back. */
async function tellMark({ id, run: mine, place, kind, was, hits, judged }) {
  const learned = await judged;
  if (mine !== run) return;
  const now = grid.place(id);
  const shorter = grid.hits.length ? `it left the first ${count(grid.hits.length)}, and ` : "";
  const moved = place < 0 || now === place ? "" : now < 0 ? shorter : `it went from place ${place + 1} to ${now + 1}, and `;
  const others = compared(hits.slice(0, FIRST), grid.hits.slice(0, FIRST).map((hit) => hit.image_id));
  const said = { liked: "counts as right", disliked: "counts as wrong", "": "is no longer marked" }[kind];
  unsay = say(`${baseName(id)} ${said}: ${moved}${others}. ${learned?.changed ?? ""}`.trim(), { undo: () => put([id], was) });
}

async function* pages(offset, length, signal) {
  if (state.parts.length) {
    yield* streamSearch(state.collection, asked(state, { k: length, offset }), signal);
    return;
  }
  const { folder, after, before, min_side } = state;
  const found = await get(at(state.collection, "/images"), { folder, after, before: dayAfter(before), min_side, tags: state.tag, group: state.group, offset, limit: length }, signal);
  yield [{ searched: found.total, notes: [] }, ...found.images];
}

/** A sign that something is being looked for, and the way to end it. */
function running(text, ceasing) {
  const cancel = h("button", { type: "button", class: "link", onclick: () => ceasing.abort() }, "Cancel");
  return h("span", { class: "running", role: "status" }, text, cancel);
}

async function fill({ mine, summary, more, view, stand }) {
  let offset = 0;
  let total = Infinity;
  let busy = null;
  let [tiles, found] = [0, 0];
  const unsure = [];
  [loaded, settled] = [0, false];

  /** The next page; whether it brought anything. */
  const page = async () => {
    if (offset >= total || mine !== run) return false;
    let got = 0;
    const last = [];
    tiles = grid.hits.length;
    // The first page is one that everybody asks for; the way back to a place far below is made in few steps.
    const length = offset ? Math.min(LONGEST[state.parts.length ? "search" : "browse"], Math.max(PAGE, stand.loaded - offset)) : PAGE;
    const ceasing = new AbortController();
    const wait = running(offset ? "Looking for more…" : "Searching…", ceasing);
    (offset ? more : summary).replaceChildren(wait);
    try {
      let head = null;
      for await (const lines of pages(offset, length, AbortSignal.any([stop.signal, ceasing.signal]))) {
        if (mine !== run) return false;
        const hits = head ? lines : lines.slice(1);
        if (!head) {
          [head] = lines;
          total = head.searched;
          if (offset === 0) sum(summary, head);
          const rejected = head.rejected ?? [];
          unsure.push(...rejected);
          got += rejected.length; // they take places of the ranking too
        }
        got += hits.length;
        last.push(...hits);
        last.splice(0, last.length - FIRST);
        const sure = hits.filter(likely);
        unsure.push(...hits.filter((hit) => !likely(hit)));
        found += sure.length;
        grid.add(sure.slice(0, FIRST), { more: true });
        if (sure.length > FIRST) {
          await new Promise(requestAnimationFrame); // what is seen first is drawn first
          if (mine !== run) return false;
          grid.add(sure.slice(FIRST), { more: true });
        }
      }
      measureBy([...grid.hits, ...unsure]);
      if (!offset) tellSlider(whyUncut(head, [...grid.hits, ...unsure]));
      offset += got;
      // Confidence mostly falls with the score: where a whole row of hits is unlikely, no more is looked for.
      if (got < length || last.every((hit) => !likely(hit))) total = offset;
      loaded = offset;
      grid.add([], { more: offset < total });
      grid.tell(told());
      more.replaceChildren();
      if (offset <= PAGE && !grid.hits.length) nothing(more, unsure);
      else if (offset >= total) more.replaceChildren(h("p", { class: "quiet" }, ended(found, unsure.length)), rejected(unsure));
      return got > 0;
    } catch (error) {
      if (mine !== run) return false;
      if (!offset) shown = ""; // asking the same again asks again
      marked = null; // what it changes is not known
      const [end, again] = [total, () => { total = end; more.replaceChildren(); load(); }];
      total = offset;
      if (wait.parentElement === summary) summary.replaceChildren(" ");
      more.replaceChildren(ceasing.signal.aborted ? ceased(again) : problem(error, again));
      return false;
    }
  };
  const load = () => (busy ??= page().finally(() => { busy = null; }).then((brought) => {
    after(brought);
    return brought;
  }));
  const after = (brought) => {
    if (mine !== run) return;
    if (brought && offset < Math.min(stand.loaded, total)) {
      load();
      return;
    }
    settle(view);
    if (!brought || offset >= total || !isNear()) return;
    if (grid.hits.length > tiles) load();
    // All of it stands behind what is shown already, as the frames of one long film do: nobody need wait for the rest.
    else more.replaceChildren(h("button", { type: "button", class: "plain", onclick: load }, "Look further"));
  };
  acts.more = load;
  const isNear = () => more.isConnected && more.getBoundingClientRect().top < innerHeight + NEAR;
  addEventListener("scroll", () => settled && isNear() && load(), { passive: true, signal: stop.signal });
  await load();
}

/** The hits that somebody stood at are there again: go there, and tell what a mark changed. */
function settle(view) {
  if (settled) return;
  settled = true;
  view.style.minHeight = "";
  const mark = marked;
  marked = null;
  if (mark) tellMark(mark);
  if (mark && document.activeElement === document.body) grid.resume(mark.id, mark.place);
  if (state.open) large.open(state.open, holder(state.open));
}

function ceased(again) {
  return h("div", { class: "none" }, h("h2", {}, "Cancelled"), h("p", {}, "The search was ended before its answer came."),
    h("button", { type: "button", class: "plain", onclick: again }, "Search again"));
}

/** Outlines are asked for when hits are drawn, so that nobody waits for them, and only for what is looked at. */
async function locate(mine, hits) {
  if (!state.parts.length || !(about.steps ?? []).includes("locate") || !(about.layers ?? []).includes("patches")) return;
  toOutline.push(...hits.filter((hit) => !hit.mask && !hit.outlined).map((hit) => hit.image_id));
  if (outlining === mine) return;
  outlining = mine;
  const isDrawn = (id) => holder(id).known.get(id)?.element;
  try {
    // A few at a time: a search that comes in between waits only for those.
    while (mine === run) {
      toOutline = toOutline.filter(isDrawn);
      const some = toOutline.splice(0, AT_ONCE);
      if (!some.length) break;
      const found = await post(at(state.collection, "/locate"), asked(state, { k: some.length, among: some, group: false, min_confidence: null }), stop.signal);
      if (mine !== run) return;
      for (const one of [grid, folded]) one?.outlined(found.hits);
      large.outlined();
    }
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, { error: true });
  } finally {
    if (outlining === mine) outlining = 0;
  }
}

function sum(line, head) {
  const took = head.seconds === undefined ? "" : ` · ${Math.max(1, Math.round(1000 * head.seconds))} ms`;
  const how = head.method ? ` · ${head.encoder} · ${head.method}${took}` : "";
  const marks = state.liked.length + state.disliked.length;
  line.replaceChildren(h("span", { class: "about" }, expected(head)), `${plural(head.searched, "image")}${how}`,
    ...head.notes.map((note) => h("span", { class: "note" }, note)),
    ...(marks ? [h("button", { type: "button", class: "link", onclick: () => put([...state.liked, ...state.disliked], "") }, `forget ${marks === 1 ? "it" : "them"}`)] : []));
}

/** About how many images match; "" where none is likely to, or nobody knows. */
function expected(head) {
  const { about: number, low, high } = head.expected ?? { about: 0 };
  if (number < 0.5) return "";
  const match = Math.round(number) === 1 ? "image matches" : "images match";
  return `About ${count(Math.max(1, Math.round(number)))} ${match} (${count(Math.floor(low))} to ${count(Math.ceil(high))}) · `;
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
  document.querySelector(".summary .about")?.replaceChildren(); // none is likely, so none is counted
  const nearest = unsure.reduce((best, hit) => (best && best.confidence >= hit.confidence ? best : hit), null);
  more.replaceChildren(h("div", { class: "none" },
    h("h2", {}, "No match"),
    h("p", {}, nearest ? `Nearest is ${baseName(nearest.image_id)} (${percent(nearest.confidence)}).` : "No image passes. Try other words or fewer filters.")), rejected(unsure));
}

function rejected(unsure) {
  if (!unsure.length) return "";
  folded = new Grid(state.collection, { ...acts, more: null, drawn: null }); // what is unlikely is never outlined
  folded.add(unsure);
  folded.tell(told());
  return h("details", { class: "rejected" }, h("summary", {}, plural(unsure.length, "weaker hit")), folded.element);
}

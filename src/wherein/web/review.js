// Reviewing what trained labels say: the least certain images first, answered by keyboard, and trained again with one key.

import { at, get, post, thumbUrl } from "./api.js";
import { offerLabels } from "./bar.js";
import { baseName, count, h, named, oneAtATime, percent, plural, say, tell, withModifier } from "./dom.js";
import { toggle } from "./selection.js";
import { EMPTY, go, state } from "./state.js";

const AHEAD = 20;
const TICK_MS = 150;
const of = (name, rest = "") => at(state.collection, `/trained/${encodeURIComponent(name)}${rest}`);

export async function show(view) {
  const cards = await get(at(state.collection, "/trained"));
  const name = h("input", { type: "text", required: true, maxlength: "64", placeholder: "a name, as mine", "aria-label": "Name of what is trained" });
  const begin = oneAtATime()(async () => {
    await train(named(name.value), "tags");
    await show(view);
  });
  view.replaceChildren(h("section", { class: "sheet" },
    h("h1", {}, "Review labels"),
    h("p", { class: "quiet" }, "A trained label is asked about the images that it is least sure of. Your answers become tags, and the next training learns from them."),
    cards.filter((card) => card.labels.length).map((card) => table(view, card)),
    h("form", { class: "row wrap", onsubmit: (event) => {
      event.preventDefault();
      begin();
    } }, name, h("button", { type: "submit", class: "plain" }, "Train from the tags"))));
}

function table(view, card) {
  const figure = (value) => (value === null ? "–" : percent(value));
  const lines = card.labels.map((one) => h("tr", {},
    h("th", { scope: "row" }, one.label), h("td", {}, count(one.right)), h("td", {}, count(one.wrong)), h("td", {}, figure(one.by_text)), h("td", {}, figure(one.trained)),
    h("td", { class: "row" },
      h("button", { type: "button", class: "plain", "aria-label": `Review ${one.label} of ${card.name}`, onclick: () => ask(view, card, one.label).catch(tell) }, "Review"),
      h("button", { type: "button", class: "plain", "aria-label": `Search for ${one.label} by ${card.name}`, onclick: () => go({ ...EMPTY, collection: state.collection, parts: [{ words: `label:${one.label}` }], method: card.spec }) }, "Search"))));
  return h("table", { class: "figures" }, h("caption", {}, `${card.spec}, from ${card.source}`),
    h("thead", {}, h("tr", {}, ["label", "right", "wrong", "by text", "trained", ""].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, lines));
}

/** Train, and wait until that is done: it takes seconds. */
async function train(name, source) {
  say(`Training ${name}…`);
  let job = await post(at(state.collection, "/train"), { name, source });
  while (job.state === "running") {
    await new Promise((done) => setTimeout(done, TICK_MS));
    job = await get(`/jobs/${job.id}`);
  }
  if (job.error) throw new Error(job.error.message);
  await offerLabels(state.collection);
  say(`${name} is trained: ${plural(job.report.labels.length, "label")} from ${plural(job.report.images, "image")}.`);
}

async function ask(view, card, label, { answered = 0, skipped = new Set() } = {}) {
  const waiting = await get(of(card.name, "/review"), { label, limit: AHEAD + skipped.size });
  const queue = waiting.filter((one) => !skipped.has(one.image_id));
  const steps = [];
  const room = h("section", { class: "annotate labelling", tabindex: "-1", "aria-label": `Review of ${label}` });
  const once = oneAtATime();
  const again = (more) => ask(view, card, label, { answered, skipped, ...more });
  const said = (right) => once(async () => {
    const { step } = await post(of(card.name, "/answers"), { label, image_id: queue[0].image_id, right });
    steps.push({ step, one: queue.shift() });
    answered += 1;
    await draw();
  });
  const skip = once(async () => {
    skipped.add(queue.shift().image_id);
    await draw();
  });
  const undo = once(async () => {
    const last = steps.pop();
    if (!last) return say("There is no answer here to take back.");
    say((await post(at(state.collection, "/untag-labels"), { step: last.step })).changed);
    queue.unshift(last.one);
    answered -= 1;
    return draw();
  });
  const retrain = once(async () => {
    await train(card.name, "again");
    await again();
  });
  const keep = once(() => toggle(queue[0], label));
  const keys = { y: said(true), n: said(false), s: keep, ArrowRight: skip, u: undo, t: retrain };
  room.addEventListener("keydown", (event) => {
    if (withModifier(event) || !(event.key in keys) || (!queue.length && !["u", "t"].includes(event.key))) return;
    event.preventDefault();
    keys[event.key]();
  });

  async function draw() {
    if (!queue.length && answered + skipped.size && waiting.length >= AHEAD) return again();
    const [one] = queue;
    const act = (key, text, kind = "plain") => h("button", { type: "button", class: kind, onclick: keys[key] }, h("kbd", {}, key === "ArrowRight" ? "→" : key), ` ${text}`);
    const sure = one && (one.confidence === null ? "no confidence yet" : `${percent(one.confidence)} sure`);
    room.replaceChildren(
      h("div", { class: "fit" }, one ? h("div", { class: "stage" }, h("img", { src: thumbUrl(state.collection, one.image_id, 1024), alt: "The image to check", draggable: "false" }))
        : h("div", { class: "none" }, h("h2", {}, "Nothing is left to ask"), h("p", {}, "People have said something of every image."))),
      h("div", { class: "panel" },
        h("p", { class: "quiet" }, `${card.spec} · ${plural(answered, "answer")}`),
        one ? h("h2", {}, `Is this “${label}”?`) : "",
        one ? h("p", { class: "quiet name", title: one.image_id }, `${baseName(one.image_id)} · ${sure}`) : "",
        one ? h("div", { class: "row wrap" }, act("y", "yes", "solid"), act("n", "no", "solid")) : "",
        one ? h("div", { class: "row wrap" }, act("ArrowRight", "skip"), act("s", "keep")) : "",
        h("div", { class: "row wrap" }, act("u", "undo"), act("t", "train again")),
        h("button", { type: "button", class: "plain", onclick: () => show(view).catch(tell) }, "To the start")));
    room.focus();
    return null;
  }
  view.replaceChildren(room);
  await draw();
}

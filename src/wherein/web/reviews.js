// Quality control of labelled boxes: two people look at each, and a third at a sample.

import { at, get, post, thumbUrl } from "./api.js";
import { h, oneAtATime, percent, plural, withModifier } from "./dom.js";
import { outline } from "./outline.js";
import { state } from "./state.js";

const VERDICTS = ["right", "wrong"];

export async function batches() {
  const found = await get(at(state.collection, "/reviews"));
  if (!found.length) return h("p", {}, "No selection has labels yet: label hits in Curate.");
  const quality = (one) => (one.accuracy === null ? "–" : `${percent(one.accuracy)} of ${one.checked}${one.passes === null ? ` (${one.sample} in all)` : one.passes ? ": passes" : ": does not pass"}`);
  return h("table", { class: "figures" }, h("thead", {}, h("tr", {}, ["Selection", "boxes", "reviewed twice", "accepted", "sample right"].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, found.map((one) => h("tr", {}, h("th", { scope: "row" }, one.selection), h("td", {}, one.boxes), h("td", {}, one.reviewed), h("td", {}, one.accepted), h("td", {}, quality(one))))));
}

export async function check(view, author, back, given) {
  const next = given ?? await get(at(state.collection, "/reviews/next"), { author });
  if (!next.item) {
    view.replaceChildren(h("div", { class: "none" }, h("h2", {}, "Nothing left for you"), h("button", { type: "button", class: "plain", onclick: back }, "To the start")));
    return;
  }
  const { item } = next;
  const send = oneAtATime()((verdict) => post(at(state.collection, "/reviews"), { author, selection: next.selection, image_id: item.image_id, verdict })
    .then((following) => check(view, author, back, following)));
  const room = h("section", { class: "annotate labelling", tabindex: "-1", onkeydown: (event) => { if (!withModifier(event) && VERDICTS[Number(event.key) - 1]) send(VERDICTS[Number(event.key) - 1]); } },
    h("div", { class: "fit" }, h("div", { class: "stage" }, h("img", { src: thumbUrl(state.collection, item.image_id, 1024), alt: "The image to check", draggable: "false" }), outline(item, { box: true }))),
    h("div", { class: "panel" },
      h("p", { class: "quiet" }, `${author} · ${next.selection} · ${plural(next.left, "label")} left${next.stage > 1 ? " · sample" : ""}`),
      h("h2", {}, `Is this “${item.label}”?`),
      h("div", { class: "row wrap" }, VERDICTS.map((verdict, number) => h("button", { type: "button", class: "solid", onclick: () => send(verdict) }, `${number + 1} ${verdict}`))),
      h("button", { type: "button", class: "plain", onclick: back }, "To the start")));
  view.replaceChildren(room);
  room.focus();
}

// Votes on how difficult an image is as a query: easy, medium or hard, by several people.

import { at, get, post, thumbUrl } from "./api.js";
import { h, oneAtATime, plural, withModifier } from "./dom.js";
import { state } from "./state.js";

const LEVELS = ["easy", "medium", "hard"];

export async function summary() {
  const cast = await get(at(state.collection, "/votes"));
  const decided = cast.filter((one) => one.difficulty);
  const counted = LEVELS.map((level) => `${decided.filter((one) => one.difficulty === level).length} ${level}`).join(", ");
  return cast.length ? `${plural(cast.length, "image")} voted on: ${counted}, ${cast.length - decided.length} undecided.` : "No votes yet.";
}

export async function ballot(view, author, back, given) {
  const next = given ?? await get(at(state.collection, "/votes/next"), { author });
  if (!next.image_id) {
    view.replaceChildren(h("div", { class: "none" }, h("h2", {}, "Thank you"), h("p", {}, "You have voted on every image."), h("button", { type: "button", class: "plain", onclick: back }, "To the start")));
    return;
  }
  const cast = oneAtATime()((difficulty) => post(at(state.collection, "/votes"), { author, image_id: next.image_id, difficulty })
    .then((following) => ballot(view, author, back, following)));
  const room = h("section", { class: "annotate labelling", tabindex: "-1", onkeydown: (event) => { if (!withModifier(event) && LEVELS[Number(event.key) - 1]) cast(LEVELS[Number(event.key) - 1]); } },
    h("div", { class: "fit" }, h("div", { class: "stage" }, h("img", { src: thumbUrl(state.collection, next.image_id, 1024), alt: "The image to judge", draggable: "false" }))),
    h("div", { class: "panel" },
      h("p", { class: "quiet" }, `${author} · ${plural(next.left, "image")} left`),
      h("h2", {}, "How hard is it to find what this shows?"),
      h("p", { class: "quiet" }, `Weigh ${next.factors.join(", ")}.`),
      h("div", { class: "row wrap" }, LEVELS.map((level, number) => h("button", { type: "button", class: "solid", onclick: () => cast(level) }, `${number + 1} ${level}`))),
      h("button", { type: "button", class: "plain", onclick: back }, "To the start")));
  view.replaceChildren(room);
  room.focus();
}

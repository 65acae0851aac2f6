// What stands above the images: filters, how sure hits must be, and two switches.

import { count, h, percent, plural, say } from "./dom.js";
import { go, question, state } from "./state.js";
import { trust } from "./trust.js";

/** As likely right as wrong: what is below is folded away unless the slider says otherwise. */
const EVEN = 0.5;

/** Hits less likely to be right than this are folded away. */
export const least = () => (state.sure === "" ? EVEN : Number(state.sure) || 0);

/** Whether a hit passes the slider, by the whole percents that it shows; one without confidence cannot be cut. */
export const likely = (hit) => (hit.confidence ?? null) === null || hit.confidence >= least();

/** What a cut means, read three ways: the confidence, the share that is right, and how many are wrong. */
export function readings(hits, cut) {
  const sure = hits.map((hit) => hit.confidence ?? null).filter((known) => known !== null && known >= cut);
  if (!sure.length) return "No hit is as sure.";
  const right = sure.reduce((sum, known) => sum + known, 0);
  return `${plural(sure.length, "hit")}: ${percent(right / sure.length)} of them right, ${(sure.length - right).toFixed(1)} wrong.`;
}

function optionOf(key, text, value) {
  const option = h("option", { value: key }, text);
  option.selected = key === value;
  return option;
}

/** The tags there are, and the one that is filtered by, which may be gone. */
export function tagOptions(about) {
  const tags = { ...Object.fromEntries(state.tag.map((tag) => [tag, 0])), ...about.tags };
  return [["", "any"], ...Object.entries(tags).map(([tag, number]) => [tag, `${tag} (${count(number)})`])]
    .map(([tag, text]) => optionOf(tag, text, state.tag[0] ?? ""));
}

const hasNone = (hits) => hits.length > 0 && hits.every((hit) => (hit.confidence ?? null) === null);

/** Why the slider does not cut these hits, or "" where it does. The server's own notes say it where it was asked. */
export function whyUncut(head, hits) {
  if (!state.parts.length) return "Images that are only browsed have no confidence.";
  if (!hasNone(hits)) return "";
  return state.sure === "" ? "Nothing is cut: these hits have no confidence of their own. Move this to measure them by the words or the example alone." : head.notes.at(-1) ?? "";
}

/** Say under the slider why it does not cut; where nothing could be cut, it does not move either. */
export function tellSlider(why) {
  const slider = document.querySelector(".sure-at-least");
  if (!slider) return;
  slider.querySelector("input").disabled = !state.parts.length;
  slider.querySelector(".why").textContent = why;
  read(slider.querySelector("input").value);
}

let measured = [];

/** The hits that the slider's readings are of. */
export function measureBy(hits) {
  measured = hits;
}

function read(cut) {
  const told = document.querySelector(".sure-at-least .readings");
  if (told) told.textContent = measured.some((hit) => (hit.confidence ?? null) !== null) ? readings(measured, Number(cut)) : "";
}

function slider() {
  const sure = h("b", {}, percent(least()));
  return h("label", { class: "sure-at-least" }, h("span", {}, "Confidence, at least ", sure), h("input", {
    type: "range", min: "0", max: "0.95", step: "0.05", "aria-label": "Confidence", "aria-describedby": "why-uncut", value: String(least()),
    oninput: (event) => { sure.textContent = percent(event.target.value); read(event.target.value); },
    onchange: (event) => go({ sure: Number(event.target.value) === EVEN ? "" : event.target.value }),
  }), h("span", { class: "readings" }), h("span", { class: "why", id: "why-uncut" }));
}

/** A day can be typed digit by digit: what is typed counts when it is left or Enter is pressed, what is picked counts at once. */
function day(name, label) {
  const asking = question(state);
  let typed = false;
  const take = ({ target }) => question(state) === asking && target.value !== state[name] && go({ [name]: target.value });
  return h("label", {}, h("span", {}, label), h("input", {
    type: "date", value: state[name], "aria-label": label,
    onkeydown: (event) => (event.key === "Enter" ? take(event) : (typed = true)),
    onpointerdown: () => { typed = false; },
    onchange: (event) => typed || take(event),
    onblur: take,
  }));
}

export function filters(about) {
  const field = (name, label, attributes) => h("label", {}, h("span", {}, label),
    h("input", { value: state[name], "aria-label": label, onchange: (event) => go({ [name]: event.target.value }), ...attributes }));
  const choice = (label, value, options, change) => h("label", {}, h("span", {}, label),
    h("select", { "aria-label": label, onchange: (event) => change(event.target.value) }, options.map(([key, text]) => optionOf(key, text, value))));
  const active = ["folder", "after", "before", "min_side", "method", "sure"].filter((name) => state[name]).length + state.tag.length;
  const details = h("details", { class: "filters" },
    h("summary", {}, "Filters", active ? h("span", { class: "badge" }, active) : ""),
    h("div", { class: "fields" },
      field("folder", "Folder", { type: "text", placeholder: "holiday/*" }),
      day("after", "From"), day("before", "Until"),
      h("label", {}, h("span", {}, "Tag"), h("select", { "aria-label": "Tag", onchange: (event) => go({ tag: event.target.value ? [event.target.value] : [] }) }, tagOptions(about))),
      choice("Size", state.min_side, [["", "any"], ["640", "640 px and more"], ["1280", "1280 px and more"], ["1920", "1920 px and more"], ["3840", "3840 px and more"]], (side) => go({ min_side: side })),
      choice("Method", state.method, [["", "as fits the query"], ...(about.methods ?? []).map((method) => [method, method])], (method) => go({ method })),
      slider(), state.parts.length ? trust() : ""));
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

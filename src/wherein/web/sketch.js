// A blank canvas to draw where things should be: every box is a part of the query, with its own words.

import { ask, partsNow } from "./bar.js";
import { Boxes, rounded } from "./boxes.js";
import { fill, h, iconButton, say, svg } from "./dom.js";
import { state } from "./state.js";

const dialog = document.getElementById("sketch");

const placed = (part) => Array.isArray(part.where) && part.words !== undefined;

export function sketch() {
  const list = h("ol", { class: "labels" });
  const stage = h("div", { class: "stage blank" },
    svg("svg", { viewBox: "0 0 3 3", preserveAspectRatio: "none", class: "thirds", "aria-hidden": "true" }, svg("path", { d: "M1 0V3M2 0V3M0 1H3M0 2H3" })),
    h("p", { class: "hint" }, "Draw a box where it should be"));
  const search = () => {
    const drawn = boxes.items.map(({ box, about }) => ({ ...about, words: about.words?.trim(), where: rounded(box) }));
    const silent = drawn.findIndex((part) => !part.words);
    if (!drawn.length) say("Draw a box first, and say what is in it.", { error: true });
    if (silent >= 0) {
      list.querySelectorAll("input")[silent].focus();
      say(`Say what is in place ${silent + 1}, or remove it.`, { error: true });
    }
    if (!drawn.length || silent >= 0) return;
    dialog.close();
    ask([...partsNow().filter((part) => !placed(part)), ...drawn]);
  };
  const boxes = new Boxes(stage, {
    most: 8, label: "place",
    change: (items, { drawn = false } = {}) => {
      stage.classList.toggle("used", items.length > 0);
      list.replaceChildren(...items.map(line));
      if (drawn) list.querySelector("li:last-child input").focus();
      else if (!stage.contains(document.activeElement)) [...list.querySelectorAll("input")].find((input) => !input.value)?.focus();
    },
  });
  const line = ({ about }, number) => h("li", {},
    h("span", { class: "number", "aria-hidden": "true" }, number + 1),
    h("input", {
      type: "text", value: about.words ?? "", placeholder: "What is there?", "aria-label": `What is in place ${number + 1}`,
      oninput: (event) => { about.words = event.target.value; },
      onkeydown: (event) => event.key === "Enter" && (event.preventDefault(), search()),
    }),
    iconButton("no", `Remove place ${number + 1}`, () => boxes.remove(number), { class: "icon small" }));
  for (const part of state.parts.filter(placed)) boxes.add(part.where, { quiet: true, about: { ...part } });
  boxes.change(boxes.items);
  fill(dialog,
    h("div", { class: "sketch" }, stage, list),
    h("div", { class: "row" },
      h("button", { type: "button", class: "plain", onclick: () => boxes.add(undefined, { focus: true }) }, "Place a box"),
      h("span", { class: "grow" }),
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "button", class: "solid", onclick: search }, "Search")));
  dialog.showModal();
  stage.querySelector(".box")?.focus();
}

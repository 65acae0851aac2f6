// A blank canvas to draw where things should be: every box is a part of the query, with its own words.

import { ask, chipLabel } from "./bar.js";
import { Boxes, rounded } from "./boxes.js";
import { h, iconButton, svg } from "./dom.js";
import { state } from "./state.js";

const dialog = document.getElementById("sketch");

export function sketch() {
  const labels = [];
  const list = h("ol", { class: "labels" });
  const stage = h("div", { class: "stage blank" },
    svg("svg", { viewBox: "0 0 3 3", preserveAspectRatio: "none", class: "thirds", "aria-hidden": "true" }, svg("path", { d: "M1 0V3M2 0V3M0 1H3M0 2H3" })),
    h("p", { class: "hint" }, "Draw a box where it should be"));
  const search = () => {
    const drawn = boxes.boxes.map((box, number) => ({ words: labels[number]?.trim(), where: rounded(box) })).filter((part) => part.words);
    if (!drawn.length) {
      list.querySelector("input")?.focus();
      return;
    }
    dialog.close();
    ask([...state.parts.filter((part) => !part.where || part.words === undefined), ...drawn]);
  };
  const boxes = new Boxes(stage, {
    most: 8, label: "place",
    change: (drawn) => {
      stage.classList.toggle("used", drawn.length > 0);
      list.replaceChildren(...drawn.map(line));
      const empty = [...list.querySelectorAll("input")].find((input) => !input.value);
      if (empty && !stage.contains(document.activeElement)) empty.focus();
    },
  });
  const line = (_, number) => h("li", {},
    h("span", { class: "number", "aria-hidden": "true" }, number + 1),
    h("input", {
      type: "text", value: labels[number] ?? "", placeholder: "What is there?", "aria-label": `What is in place ${number + 1}`,
      oninput: (event) => { labels[number] = event.target.value; },
      onkeydown: (event) => event.key === "Enter" && (event.preventDefault(), search()),
    }),
    iconButton("no", `Remove place ${number + 1}`, () => { labels.splice(number, 1); boxes.remove(number); }, { class: "icon small" }));
  for (const part of state.parts.filter((one) => Array.isArray(one.where) && one.words !== undefined)) {
    labels.push(chipLabel(part));
    boxes.add(part.where, { quiet: true });
  }
  boxes.change(boxes.boxes);
  dialog.replaceChildren(
    h("div", { class: "sketch" }, stage, list),
    h("div", { class: "row" },
      h("button", { type: "button", class: "plain", onclick: () => boxes.add(undefined, { focus: true }) }, "Place a box"),
      h("span", { class: "grow" }),
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "button", class: "solid", onclick: search }, "Search")));
  dialog.showModal();
  stage.querySelector(".box")?.focus();
}

// How far confidence can be trusted in this collection: what was said of judged hits, beside what was right.

import { at, get } from "./api.js";
import { h, percent, plural } from "./dom.js";
import { state } from "./state.js";

const SIDE = 120;

const svg = (name, attributes, ...inside) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
};

/** The reliability diagram: a dot a tenth, as large as it has hits; on the diagonal, what is said is true. */
export function diagram(tenths) {
  const most = Math.max(...tenths.map((tenth) => tenth.hits));
  const dots = tenths.map((tenth) => svg("circle", {
    cx: SIDE * tenth.said, cy: SIDE * (1 - tenth.right / tenth.hits), r: 2 + 5 * Math.sqrt(tenth.hits / most),
  }, svg("title", {}, `said ${percent(tenth.said)}: ${tenth.right} of ${tenth.hits} right`)));
  return svg("svg", { class: "reliability", viewBox: `-8 -8 ${SIDE + 16} ${SIDE + 16}`, role: "img", "aria-label": "Said against right" },
    svg("path", { class: "frame", d: `M0,0V${SIDE}H${SIDE}` }), svg("path", { class: "diagonal", d: `M0,${SIDE}L${SIDE},0` }), ...dots);
}

async function fill(panel) {
  const found = await get(at(state.collection, "/reliability"));
  panel.replaceChildren(...(found.length ? found.map((one) => h("div", { class: "trusted" },
    h("p", {}, `${one.told} ${plural(one.right, "hit")} judged right, ${one.wrong} wrong (${one.source}).`), diagram(one.tenths)))
    : [h("p", {}, "Nothing is judged yet. Mark hits ✓ or ✗: confidence follows, and this says how well.")]));
}

/** The panel, filled when it is opened. */
export function trust() {
  const panel = h("div", { class: "panel" });
  const details = h("details", { class: "trust" }, h("summary", {}, "How far to trust it"), panel);
  details.addEventListener("toggle", () => details.open && fill(panel).catch((error) => panel.replaceChildren(error.message)));
  return details;
}

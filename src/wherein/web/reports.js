// Benchmark reports: a list, and the one that is chosen.

import { get } from "./api.js";
import { h } from "./dom.js";

export async function show(view) {
  const all = await get("/reports");
  if (!all.length) {
    view.replaceChildren(h("div", { class: "none" }, h("h2", {}, "No reports"), h("p", {}, "Start the server with ", h("code", {}, "--reports FOLDER"), " to browse the pages that ", h("code", {}, "wherein bench"), " writes.")));
    return;
  }
  const place = h("div", {});
  const lines = all.map((report) => h("button", { type: "button", class: "line", onclick: () => open(report) }, h("span", {}, report.title), h("span", { class: "quiet" }, report.modified.slice(0, 10))));
  const open = (report) => {
    // A frame of its own: one that goes from report to report would take Back for itself.
    place.replaceChildren(h("iframe", { class: "report", title: report.title, sandbox: "allow-scripts", src: `/api/v1/report?${new URLSearchParams({ path: report.path })}` }));
    lines.forEach((line, number) => (all[number] === report ? line.setAttribute("aria-current", "true") : line.removeAttribute("aria-current")));
  };
  view.replaceChildren(h("div", { class: "reports" }, h("nav", { class: "side", "aria-label": "Reports" }, h("ul", {}, lines.map((line) => h("li", {}, line)))), place));
  open(all[0]);
}

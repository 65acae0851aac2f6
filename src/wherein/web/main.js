// The page: reads the address, draws the view that it names, and listens to keys.

import { get, unanswered } from "./api.js";
import * as bar from "./bar.js";
import { h, icon, problem, say } from "./dom.js";
import { toggleOutlines } from "./filters.js";
import * as search from "./search.js";
import * as selection from "./selection.js";
import { sketch } from "./sketch.js";
import { EMPTY, go, onChange, returned, start, state } from "./state.js";

const VIEWS = { search: "Search", explore: "Explore", curate: "Curate", annotate: "Annotate", label: "Label", review: "Review", study: "Study", reports: "Reports", index: "Index" };
const view = document.getElementById("view");
const picker = document.getElementById("collection");
let collections = null; // not known yet
let drawn = "";

const here = () => collections.find((one) => one.name === state.collection) ?? collections[0];

async function reload() {
  collections = await get("/collections");
  picker.replaceChildren(...collections.map((one) => h("option", { value: one.name }, one.name)));
  picker.hidden = collections.length < 2;
}

/** A dialog belongs to the address it was opened at; the large view stays while the address names an image. */
function closeDialogs(now) {
  for (const dialog of document.querySelectorAll("dialog[open]")) if (!now.open || dialog.id !== "large") dialog.close();
}

async function draw(now, before = {}) {
  closeDialogs(now);
  if (!collections) return; // what is asked for is drawn when they are known
  if (!here()) {
    view.replaceChildren(h("p", { class: "problem" }, "No collection is served."));
    return;
  }
  if (now.collection !== here().name) {
    go({ collection: here().name }, { replace: true });
    return;
  }
  picker.value = now.collection;
  if (drawn !== now.collection) {
    await selection.load(now.collection);
    if (now !== state) return;
    bar.offerLabels(now.collection);
    drawn = now.collection;
  }
  bar.render();
  selection.showTray();
  for (const link of document.querySelectorAll("#views a")) {
    link.removeAttribute("aria-current");
    if (link.dataset.view !== now.view) continue;
    link.setAttribute("aria-current", "page");
    link.scrollIntoView({ inline: "nearest", block: "nearest" });
  }
  search.describe(here());
  document.title = now.view === "search" ? [now.parts.map(bar.chipLabel).join(" + "), "wherein"].filter(Boolean).join(" — ") : `${VIEWS[now.view] ?? "wherein"} — wherein`;
  if (now.view === "search") {
    search.show(view);
    return;
  }
  search.forget();
  const other = now.view in VIEWS ? now.view : "curate";
  const module = await import(`./${other === "index" ? "indexing" : other}.js`).catch(unanswered);
  if (now !== state) return;
  // A room of its own: an answer that comes late is drawn where nobody is any more, not over the next view.
  const stays = module.stays?.(before) && view.firstElementChild;
  const room = stays || h("div");
  if (!stays) view.replaceChildren(room);
  const { y } = returned ?? { y: 0 };
  await module.show(room, { collection: here(), reload });
  if (!stays && now === state) scrollTo(0, y);
}

function trouble(error) {
  say(error.message, { error: true });
  view.replaceChildren(problem(error, begin));
}

const redraw = (now, before) => draw(now, before).catch(trouble);
const begin = () => reload().then(() => redraw(state, {}), trouble);

function themed(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

function setUp() {
  document.getElementById("theme").append(icon("theme"));
  themed(localStorage.getItem("theme"));
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = dark === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    themed(next);
  });
  document.getElementById("views").append(...Object.entries(VIEWS).map(([name, label]) =>
    h("a", { href: `?view=${name}`, "data-view": name, onclick: (event) => { event.preventDefault(); go({ view: name, open: "" }); } }, label)));
  document.querySelector(".mark").addEventListener("click", (event) => {
    event.preventDefault();
    go({ ...EMPTY, collection: state.collection });
  });
  document.getElementById("place").addEventListener("click", sketch);
  picker.addEventListener("change", () => go({ ...EMPTY, collection: picker.value, view: state.view }));
  document.body.classList.toggle("no-outlines", localStorage.getItem("outlines") === "off");
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, .boxes")) return;
    if (event.key === "/" && !document.querySelector("dialog[open]")) document.getElementById("words").focus();
    else if (event.key === "o") toggleOutlines();
    else return;
    event.preventDefault();
  });
  bar.setUp();
}

start();
setUp();
onChange(redraw);
begin();

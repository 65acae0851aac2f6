// Curating: selections that are kept with the collection, tags, and exports.

import { at, get, thumbUrl } from "./api.js";
import { baseName, count, h, iconButton, named, plural, say, tell } from "./dom.js";
import * as selection from "./selection.js";
import { EMPTY, go, state } from "./state.js";

export async function show(view, context) {
  const all = await selection.load(state.collection);
  const tags = Object.entries(await get(at(state.collection, "/tags")));
  const current = all.find((one) => one.name === selection.currentName()) ?? all[0];
  if (current && current.name !== selection.currentName()) await selection.load(state.collection, current.name);
  const again = () => show(view, context);
  view.replaceChildren(h("div", { class: "curate" }, side(all, current, tags, again, context.collection), current?.items.length ? chosen(current, again) : empty()));
}

function side(all, current, tags, again, about) {
  // The one that is open already is not drawn again: somebody may be typing in it.
  const pick = (one) => one === current || selection.load(state.collection, one.name).then(again).catch(tell);
  const fresh = h("input", { type: "text", placeholder: "New selection", "aria-label": "Name of a new selection" });
  const begin = async () => {
    const name = named(fresh.value);
    await selection.load(state.collection, name);
    say(`Now keeping in ${name}: mark hits with s.`);
    go({ ...EMPTY, collection: state.collection });
  };
  return h("nav", { class: "side", "aria-label": "Selections and tags" },
    h("h2", {}, "Selections"),
    h("ul", {}, all.map((one) => h("li", {}, h("button", { type: "button", class: "line", "aria-current": one === current ? "true" : null, onclick: () => pick(one) },
      h("span", {}, one.name), h("span", { class: "quiet" }, count(one.items.length)))))),
    h("form", { onsubmit: (event) => {
      event.preventDefault();
      begin().catch(tell);
    } }, fresh),
    h("h2", {}, "Tags"),
    tags.length ? "" : h("p", { class: "quiet" }, "None yet. Open an image to add one."),
    h("ul", {}, tags.map(([tag, number]) => h("li", { class: "tagline" },
      h("button", { type: "button", class: "line", onclick: () => go({ ...EMPTY, collection: state.collection, tag: [tag] }) }, h("span", {}, tag), h("span", { class: "quiet" }, count(number))),
      selection.exports({ tag })))),
    about.searchad ? submission(about) : "");
}

/** What is kept in a selection named like a label comes first in it, then what the label's default query finds. */
function submission(about) {
  const field = (name, label) => h("label", {}, h("span", {}, label), h("input", { type: "text", name, required: true, maxlength: "200" }));
  return h("form", { class: "submission", action: `/api/v1${at(state.collection, "/searchad")}`, method: "get", target: "_blank" },
    h("h2", {}, "SearchAD submission"), field("team", "Team"), field("model", "Model"), field("affiliation", "Paper, code or affiliation"),
    h("label", {}, h("span", {}, "Search mode"), h("select", { name: "mode" }, ["Language", "Vision", "Multimodal"].map((mode) => h("option", {}, mode)))),
    h("label", {}, h("span", {}, "Method"), h("select", { name: "method" }, h("option", { value: "" }, "as fits the query"), about.methods.map((method) => h("option", {}, method)))),
    h("label", { class: "row" }, h("input", { type: "checkbox", name: "trained", value: "true" }), "trained on its train split"),
    h("button", { type: "submit", class: "plain" }, "Write it"));
}

function chosen(current, again) {
  const name = h("input", { type: "text", class: "title", value: current.name, "aria-label": "Name of the selection",
    onchange: (event) => event.target.value.trim() && selection.rename(event.target.value).catch((error) => { event.target.value = current.name; throw error; }).then(again).catch(tell) });
  return h("section", { class: "chosen", "aria-label": current.name },
    h("div", { class: "row wrap" }, name, h("span", { class: "quiet" }, plural(current.items.length, "image")), h("span", { class: "grow" }),
      selection.exports({ selection: current.name }),
      iconButton("trash", `Forget the selection ${current.name}`, () => selection.forget().then((did) => did && again()).catch(tell))),
    current.gone.length ? h("p", { class: "quiet" }, `${current.gone.length === 1 ? "One is" : `${count(current.gone.length)} are`} no longer in the collection; exports leave ${current.gone.length === 1 ? "it" : "them"} out.`) : "",
    h("ul", { class: "cards" }, current.items.map((item) => card(item, again))));
}

function card(item, again) {
  const name = baseName(item.image_id);
  return h("li", { class: "card" },
    selection.isGone(item.image_id) ? h("div", { class: "gone" }, "gone")
      : h("img", { src: thumbUrl(state.collection, item.image_id), alt: name, loading: "lazy", width: "220", height: "150" }),
    h("div", { class: "row" },
      h("input", { type: "text", value: item.label ?? "", placeholder: "label", "aria-label": `Label of ${name}`, onchange: (event) => selection.setLabel(item.image_id, event.target.value.trim()).catch(tell) }),
      iconButton("no", `Take ${name} out`, () => selection.toggle(item).then(again).catch(tell), { class: "icon small" })),
    h("p", { class: "quiet name", title: item.image_id }, name));
}

function empty() {
  return h("section", { class: "none" }, h("h2", {}, "Nothing kept yet"),
    h("p", {}, "Search, then press ", h("kbd", {}, "s"), " on a hit or click its bookmark. What you keep stays with the collection and can be exported as paths, CSV, COCO or YOLO."));
}

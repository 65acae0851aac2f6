// The selection at hand: kept on the server with the collection, changed by one key.

import { at, drop, exportUrl, get, post, put } from "./api.js";
import { h, iconButton, plural, say } from "./dom.js";
import { state } from "./state.js";

const tray = document.getElementById("tray");
const listeners = [];
let name = "Selection";
let items = new Map();
let loaded = "";
let turn = Promise.resolve();

export const onSelection = (listener) => listeners.push(listener);
export const keptIds = () => new Set(items.keys());
export const currentName = () => name;

const changed = () => {
  render();
  for (const listener of listeners) listener(keptIds());
};

export async function load(collection, wanted = localStorage.getItem(`selection:${collection}`) ?? "Selection") {
  const all = await get(at(collection, "/selections"));
  name = wanted;
  loaded = collection;
  localStorage.setItem(`selection:${collection}`, name);
  items = new Map((all.find((one) => one.name === name)?.items ?? []).map((item) => [item.image_id, item]));
  changed();
  return all;
}

/** One change after the other, so that none overtakes the next. */
function inTurn(act) {
  const done = turn.then(act);
  turn = done.catch(() => {});
  return done;
}

function save() {
  const [path, body] = [at(loaded, `/selections/${encodeURIComponent(name)}`), { items: [...items.values()] }];
  return inTurn(() => put(path, body));
}

/** Put a hit into the selection, or take it out. */
export async function toggle(hit) {
  const taken = items.has(hit.image_id);
  if (taken) items.delete(hit.image_id);
  else items.set(hit.image_id, { image_id: hit.image_id, box: hit.box ?? null, mask: hit.mask ?? null, label: state.parts.find((part) => part.words && !part.negative)?.words ?? null });
  changed();
  try {
    await save();
    say(taken ? `Taken out of ${name}.` : `Kept in ${name}.`);
  } catch (error) {
    say(error.message, { error: true });
  }
}

export async function setLabel(imageId, label) {
  items.set(imageId, { ...items.get(imageId), label: label || null });
  await save();
}

export async function rename(next) {
  const old = name;
  name = next;
  localStorage.setItem(`selection:${loaded}`, name);
  await save();
  if (old !== next) await inTurn(() => drop(at(loaded, `/selections/${encodeURIComponent(old)}`))).catch(() => {});
  changed();
}

export async function forget() {
  await inTurn(() => drop(at(loaded, `/selections/${encodeURIComponent(name)}`)));
  items = new Map();
  changed();
}

export async function tagAll(tag) {
  await post(at(loaded, "/tags"), { tag, image_ids: [...items.keys()] });
  say(`${plural(items.size, "image")} tagged ${tag}.`);
}

export const FORMATS = { paths: "Paths", csv: "CSV", coco: "COCO", yolo: "YOLO" };

export function exports(query) {
  return h("span", { class: "exports" }, Object.entries(FORMATS).map(([format, label]) =>
    h("a", { class: "plain", href: exportUrl(loaded, { format, ...query }), download: "", "aria-label": `Export as ${label}` }, label)));
}

const tag = h("input", { type: "text", placeholder: "tag…", "aria-label": "Tag all of the selection", size: "8" });
const said = [h("strong", {}), h("span", { class: "in" }), h("span", {})];
tray.append(said[0], said[1],
  h("form", { onsubmit: (event) => { event.preventDefault(); if (tag.value.trim()) tagAll(tag.value.trim()).then(() => { tag.value = ""; }, (error) => say(error.message, { error: true })); } }, tag),
  said[2], iconButton("trash", "Empty the selection", () => forget().catch((error) => say(error.message, { error: true }))));

function render() {
  tray.hidden = items.size === 0 || state.view !== "search";
  said[0].textContent = plural(items.size, "image");
  said[1].textContent = `in ${name}`;
  said[2].replaceChildren(exports({ selection: name }));
}

export const showTray = render;

// The selection at hand: kept on the server with the collection, changed by one key.

import { at, drop, exportUrl, get, post } from "./api.js";
import { confirmed, h, iconButton, named, plural, say } from "./dom.js";
import { state } from "./state.js";

const tray = document.getElementById("tray");
const listeners = [];
const tagListeners = [];
const FIRST = "Selection";
let name = FIRST;
let items = new Map();
let gone = new Set();
let loaded = "";
let turn = Promise.resolve();
let waiting = 0;

export const onSelection = (listener) => listeners.push(listener);
export const onTags = (listener) => tagListeners.push(listener);
export const keptIds = () => new Set(items.keys());
export const isGone = (imageId) => gone.has(imageId);
export const currentName = () => name;

const changed = () => {
  render();
  for (const listener of listeners) listener(keptIds());
};

/** The selection that was used last in this browser; a name that cannot be kept under is not gone on with. */
function remembered(collection) {
  try {
    return named(localStorage.getItem(`selection:${collection}`) ?? FIRST);
  } catch {
    return FIRST;
  }
}

export async function load(collection, wanted = remembered(collection)) {
  const all = await get(at(collection, "/selections"));
  loaded = collection;
  call(wanted);
  hold(all.find((one) => one.name === name));
  return all;
}

function call(wanted) {
  name = wanted;
  localStorage.setItem(`selection:${loaded}`, name);
}

/** What the server has is what is held, also what another tab put there. */
function hold(selection) {
  items = new Map((selection?.items ?? []).map((item) => [item.image_id, item]));
  gone = new Set(selection?.gone ?? []);
  changed();
}

/** One change after the other, so that none overtakes the next. */
function inTurn(act) {
  waiting += 1;
  const done = turn.then(act).finally(() => { waiting -= 1; });
  turn = done.catch(() => {});
  return done;
}

/** What one tab renames is not kept under its old name in another. */
const renames = new BroadcastChannel("renamed selections");
renames.addEventListener("message", ({ data: { collection, from, to } }) => {
  if (collection !== loaded || from !== name) return;
  call(to);
  changed();
});

const here = (act = "") => at(loaded, `/selections/${encodeURIComponent(name)}${act}`);

/** Send a change of the images; the server's answer stands unless more was changed meanwhile. */
async function send(act, body) {
  const [path, mine] = [here(act), items];
  const answer = await inTurn(() => post(path, body));
  if (!waiting && mine === items) hold(answer);
}

/** The words of a search are the label of what is kept from it; nothing else was searched for. */
const searchedFor = () => (state.view === "search" && state.parts.find((part) => part.words && !part.negative)?.words) || null;

/** Put a hit into the selection, or take it out. */
export async function toggle(hit, label = searchedFor()) {
  const [mine, { image_id: id }] = [items, hit];
  const taken = mine.get(id);
  const item = { image_id: id, box: hit.box ?? null, mask: hit.mask ?? null, label };
  if (taken) mine.delete(id);
  else mine.set(id, item);
  changed();
  try {
    await (taken ? send("/drop", { image_ids: [id] }) : send("/keep", { items: [item] }));
    say(taken ? `Taken out of ${name}.` : `Kept in ${name}.`);
  } catch (error) {
    if (taken) mine.set(id, taken);
    else mine.delete(id);
    changed();
    // Where the server did answer, it knows something that is not known here, such as that the selection was forgotten.
    if (error.status && mine === items) await load(loaded, name).catch(() => {});
    say(error.message, { error: true });
  }
}

export async function setLabel(imageId, label) {
  const item = { ...items.get(imageId), label: label || null };
  items.set(imageId, item);
  await send("/keep", { items: [item] });
}

export async function rename(wanted) {
  const next = named(wanted);
  const path = here("/rename");
  await inTurn(() => post(path, { to: next }));
  renames.postMessage({ collection: loaded, from: name, to: next });
  call(next);
  changed();
}

/** Forget the whole selection, once that is confirmed; whether it was. */
export async function forget() {
  if (!await confirmed(`Forget ${name}? ${plural(items.size, "image")} will be taken out of it; the images themselves stay.`, "Forget it")) return false;
  const path = here();
  await inTurn(() => drop(path));
  hold(null);
  return true;
}

/** Put a tag on images ("/tags") or take it off ("/untag"); who listens learns which tags there are now. */
export async function putTag(path, tag, ids) {
  const tags = await post(at(loaded, path), { tag, image_ids: ids });
  for (const listener of tagListeners) listener(tags);
}

export async function tagAll(tag) {
  const ids = [...items.keys()].filter((id) => !gone.has(id));
  await putTag("/tags", tag, ids);
  say(`${plural(ids.length, "image")} tagged ${tag}.`);
}

export const FORMATS = { paths: "Paths", csv: "CSV", coco: "COCO", yolo: "YOLO" };

export function exports(query) {
  return h("span", { class: "exports" }, Object.entries(FORMATS).map(([format, label]) =>
    h("a", { class: "plain", href: exportUrl(loaded, { format, ...query }), download: "", "aria-label": `Export as ${label}` }, label)));
}

const tag = h("input", { type: "text", placeholder: "tag…", "aria-label": "Tag all of the selection", size: "8" });
const said = [h("strong", {}), h("span", { class: "in" }), h("span", { class: "formats" })];
tray.append(said[0], said[1],
  h("form", { onsubmit: (event) => { event.preventDefault(); if (tag.value.trim()) tagAll(tag.value.trim()).then(() => { tag.value = ""; }, (error) => say(error.message, { error: true })); } }, tag),
  said[2], iconButton("trash", "Forget the selection", () => forget().catch((error) => say(error.message, { error: true }))));

function render() {
  tray.hidden = items.size === 0 || state.view !== "search";
  said[0].textContent = plural(items.size, "image");
  said[1].textContent = `in ${name}`;
  said[2].replaceChildren(exports({ selection: name }));
}

export const showTray = render;

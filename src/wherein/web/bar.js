// The search bar: words, chips with signs and weights, images that are picked, dropped or pasted.

import { at, exampleUrl, get, sendExample, thumbUrl } from "./api.js";
import { Boxes, rounded } from "./boxes.js";
import { baseName, fill, h, icon, iconButton, say } from "./dom.js";
import { go, state } from "./state.js";

const form = document.getElementById("ask");
const words = document.getElementById("words");
const file = document.getElementById("file");

/** Words that were not kept as a chip stay in the input; all else is a chip. */
const isPlain = (part) => part.words !== undefined && !part.chip && !part.negative && !part.where && (part.weight ?? 1) === 1;

function split(parts) {
  const plain = parts.findIndex(isPlain);
  return { text: plain < 0 ? "" : parts[plain].words, chips: parts.filter((_, number) => number !== plain) };
}

function joined(text, chips) {
  return [...(text.trim() ? [{ words: text.trim() }] : []), ...chips];
}

export function ask(parts) {
  go({ parts, view: "search", open: "", liked: [], disliked: [] });
}

const chipsNow = () => split(state.parts).chips;

/** What stands in the bar, also what was typed and not asked for yet. */
export const partsNow = () => joined(words.value, chipsNow());

function replaceChip(index, part) {
  ask(joined(words.value, chipsNow().map((chip, number) => (number === index ? part : chip)).filter(Boolean)));
}

export function chipLabel(part) {
  return part.words ?? part.text ?? (part.image_id ? baseName(part.image_id) : "image");
}

function chip(part, index) {
  const label = chipLabel(part);
  const source = part.image_id ? thumbUrl(state.collection, part.image_id, 64) : part.example ? exampleUrl(state.collection, part.example) : null;
  const sign = h("button", {
    type: "button", class: "sign", "aria-label": part.negative ? `Avoid ${label}: look for it instead` : `Look for ${label}: avoid it instead`,
    onclick: () => replaceChip(index, { ...part, chip: true, negative: !part.negative }),
  }, part.negative ? "−" : "+");
  const weight = h("input", {
    type: "number", class: "weight", min: "0.25", max: "100", step: "0.25", value: part.weight ?? 1, "aria-label": `Weight of ${label}`,
    onchange: (event) => replaceChip(index, { ...part, chip: true, weight: Math.max(0.01, Number(event.target.value) || 1) }),
  });
  const body = source
    ? h("button", { type: "button", class: "what", title: "Choose the part that counts", "aria-label": `Choose the part of ${label} that counts`, onclick: () => crop(part, index) },
      h("img", { src: source, alt: "", width: "28", height: "28" }), part.box ? icon("crop") : null)
    : h("span", { class: "what" }, label);
  const where = part.where ? h("span", { class: "at", role: "img", title: `where: ${part.where}`, "aria-label": "with a place" }, icon("place")) : null;
  const remove = iconButton("no", `Remove ${label}`, () => replaceChip(index, null), { class: "icon small" });
  return h("li", { class: `chip${part.negative ? " negative" : ""}` }, sign, body, where, weight, remove);
}

export function render() {
  const { text, chips } = split(state.parts);
  // What somebody typed and has not asked for yet stays, unless the question itself changed.
  if (text !== (render.text ?? "")) words.value = text;
  render.text = text;
  const list = document.getElementById("chips");
  const [used, place] = [document.activeElement, [...list.children].findIndex((one) => one.contains(document.activeElement))];
  list.replaceChildren(...chips.map(chip));
  // Who turns or weighs a chip stays at it; who removes the last goes on in the words.
  if (place >= 0) (list.children[place]?.getElementsByClassName(used.className)[0] ?? words).focus();
  words.placeholder = chips.length ? "and…" : "What are you looking for?";
}

/** Trained labels are offered while somebody types; where they cannot be read, typing goes on without them. */
export async function offerLabels(collection) {
  const cards = await get(at(collection, "/trained")).catch(() => []);
  const labels = new Set(cards.flatMap((card) => card.labels.map((one) => `label:${one.label}`)));
  document.getElementById("labels").replaceChildren(...[...labels].sort().map((label) => h("option", { value: label })));
}

function keepAsChip(negative) {
  const text = words.value.trim();
  if (!text) {
    words.focus();
    say("Type what to add first.");
    return;
  }
  words.value = "";
  ask([...chipsNow(), negative ? { words: text, negative } : { words: text, chip: true }]);
  words.focus();
}

export async function addImage(blob) {
  try {
    say("Reading the image…");
    const { example } = await sendExample(state.collection, blob);
    ask([...partsNow(), { example }]);
    say("Searching with the image. Click its chip to choose a part of it.");
  } catch (error) {
    say(error.message, { error: true });
  }
}

/** Choose the part of an example that counts. */
function crop(part, index) {
  const dialog = document.getElementById("crop");
  const source = part.image_id ? thumbUrl(state.collection, part.image_id, 1024) : exampleUrl(state.collection, part.example);
  const stage = h("div", { class: "stage" }, h("img", { src: source, alt: "The example image", draggable: "false" }));
  const use = (boxes) => {
    dialog.close();
    const { box: _, ...rest } = part;
    replaceChip(index, boxes.length ? { ...rest, box: rounded(boxes[0]) } : rest);
  };
  const boxes = new Boxes(stage, { label: "part", done: use });
  if (part.box) boxes.add(part.box, { quiet: true });
  fill(dialog,
    h("p", { class: "hint" }, "Draw a box around what counts."),
    h("div", { class: "fit" }, stage),
    h("div", { class: "row" },
      h("button", { type: "button", class: "plain", onclick: () => boxes.add(undefined, { focus: true }) }, "Place a box"),
      h("button", { type: "button", class: "plain", onclick: () => { boxes.clear(); use([]); } }, "Whole image"),
      h("span", { class: "grow" }),
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "button", class: "solid", onclick: () => use(boxes.boxes) }, "Search with this part")));
  dialog.showModal();
}

export function setUp() {
  for (const [id, name] of [["plus", "plus"], ["minus", "minus"], ["pick", "image"], ["place", "place"]]) document.getElementById(id).append(icon(name));
  form.querySelector(".go").append(icon("search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(partsNow());
  });
  document.getElementById("plus").addEventListener("click", () => keepAsChip(false));
  document.getElementById("minus").addEventListener("click", () => keepAsChip(true));
  document.getElementById("pick").addEventListener("click", () => file.click());
  file.addEventListener("change", () => file.files[0] && addImage(file.files[0]).then(() => { file.value = ""; }));
  words.addEventListener("keydown", (event) => {
    if (event.altKey && (event.key === "+" || event.key === "=")) keepAsChip(false);
    else if (event.altKey && event.key === "-") keepAsChip(true);
    else if (event.key === "Backspace" && !words.value && chipsNow().length) replaceChip(chipsNow().length - 1, null);
    else return;
    event.preventDefault();
  });
  const pictured = (list) => [...(list ?? [])].find((one) => one.type.startsWith("image/"));
  addEventListener("paste", (event) => {
    const image = pictured(event.clipboardData?.files);
    if (image) addImage(image);
  });
  // Words that are dragged go where words go, by the browser's own hand.
  const holdsFiles = (event) => (event.dataTransfer?.types ?? []).includes("Files");
  addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && document.body.classList.remove("dropping"));
  addEventListener("drop", (event) => {
    document.body.classList.remove("dropping");
    if (!holdsFiles(event)) return;
    event.preventDefault();
    const image = pictured(event.dataTransfer.files);
    if (image) addImage(image);
    else say(`${event.dataTransfer.files[0]?.name ?? "That"} is no image file.`, { error: true });
  });
}

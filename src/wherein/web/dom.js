// Elements without markup strings: names and texts from files can never become HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("button", {class: "icon", onclick: f}, "text", child…) */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (["value", "checked", "disabled", "hidden", "textContent"].includes(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const PATHS = {
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  image: "M2 3.5h12v9H2zM2 11l3.5-3.5 3 3L11 8l3 3M10.5 6h.01",
  place: "M2 3h12v10H2zM5 8V6h4v4H5z",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.4 10.4 14 14",
  theme: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  yes: "m3 8.5 3.2 3.2L13 4.8",
  no: "m4 4 8 8M12 4l-8 8",
  keep: "M4 2.5h8v11L8 10.6 4 13.5z",
  left: "M10 3 5 8l5 5",
  right: "m6 3 5 5-5 5",
  similar: "M2 5h7v7H2zM6 2h8v8h-2",
  open: "M6 3H3v10h10v-3M9 3h4v4M13 3 7 9",
  crop: "M4 1v11h11M1 4h11v11",
  lines: "M2 4h3v3H2zM11 9h3v3h-3zM5 5l6 5M3.5 7 11 12",
  film: "M2 3h12v10H2zM5 3v10M11 3v10M2 8h3M11 8h3",
  trash: "M3 4h10M6 4V2.5h4V4M4.5 4l.6 9.5h5.8l.6-9.5",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 16 16", class: "glyph", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

export function iconButton(name, label, onclick, attributes = {}) {
  return h("button", { type: "button", class: "icon", title: label, "aria-label": label, onclick, ...attributes }, icon(name));
}

const line = document.getElementById("say");

/** Everything outside an open dialog is behind it and silent, so the message stands in the topmost one. */
function bringForward() {
  const home = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (line.parentElement !== home) home.append(line);
}
addEventListener("close", bringForward, { capture: true });

/** Said aloud by screen readers and shown for a moment; `undo` takes back what it tells of. What comes back ends the message. */
export function say(text, { error = false, undo = null } = {}) {
  bringForward();
  const mine = (say.now = {});
  const hide = () => say.now === mine && line.classList.remove("shown");
  const back = undo && h("button", { type: "button", onclick: () => { hide(); undo(); } }, "Undo");
  line.replaceChildren(text, ...(back ? [back] : []));
  line.classList.toggle("error", error);
  line.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(hide, error || undo ? 8000 : 3000);
  return hide;
}

export const tell = (error) => say(error.message, { error: true });

/** Acts of which one is done at a time: what is pressed meanwhile is not done too. What fails is told. */
export function oneAtATime() {
  let busy = false;
  return (act) => async (...given) => {
    if (busy) return;
    busy = true;
    try {
      await act(...given);
    } catch (error) {
      tell(error);
    }
    busy = false;
  };
}

/** Whether a key was pressed with one that makes it the browser's. */
export const withModifier = (event) => event.ctrlKey || event.metaKey || event.altKey;

/** What a dialog shows from now on; a message that stands in it stays. */
export function fill(dialog, ...children) {
  dialog.replaceChildren(...children, ...(line.parentElement === dialog ? [line] : []));
}

/** What went wrong, where it can be read for as long as it takes; `again` tries once more. */
export function problem(error, again) {
  // A request that the server refuses is refused again.
  const helps = !(error.status < 500);
  return h("div", { class: "problem", role: "alert" }, h("p", {}, error.message), helps && h("button", { type: "button", class: "plain", onclick: again }, "Try again"));
}

/** Ask before something is lost; true where it was confirmed, false where it was not, or Esc was pressed. */
export function confirmed(question, act) {
  return new Promise((done) => {
    const button = (label, kind, value) => h("button", { type: "button", class: kind, onclick: () => dialog.close(value) }, label);
    const dialog = h("dialog", { class: "confirm", "aria-label": act, onclose: () => {
      dialog.remove();
      done(dialog.returnValue === "yes");
    } }, h("p", {}, question), h("div", { class: "row" }, h("span", { class: "grow" }), button("Cancel", "plain", ""), button(act, "solid", "yes")));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A number of bytes as people say it. */
export function bytes(value) {
  const [unit, size] = value < 1e3 ? ["bytes", 1] : value < 1e6 ? ["kB", 1e3] : ["MB", 1e6];
  const scaled = value / size;
  return `${size === 1 || scaled >= 100 ? Math.round(scaled) : Number(scaled.toPrecision(2))} ${unit}`;
}

const LONGEST_NAME = 100;

/** A name that the server can keep things under, or an error that says what is wrong with it: it is a part of an address. */
export function named(text) {
  const name = text.trim();
  if (!name) throw new Error("A name is needed.");
  if (/[/\\\u0000-\u001f]/.test(name)) throw new Error(`“${name}” holds a slash: a name has none. Write for example “${name.replace(/[/\\\u0000-\u001f]+/g, " ").trim() || "cars"}”.`);
  if (name === "." || name === "..") throw new Error(`“${name}” is no name. Use letters.`);
  if (name.length > LONGEST_NAME) throw new Error(`A name has at most ${LONGEST_NAME} letters; this one has ${name.length}.`);
  return name;
}

export const percent = (value) => `${Math.round(100 * value)} %`;
export const count = (value) => value.toLocaleString("en");
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
export const baseName = (imageId) => imageId.split("/").pop();

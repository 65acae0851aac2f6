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
  trash: "M3 4h10M6 4V2.5h4V4M4.5 4l.6 9.5h5.8l.6-9.5",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 16 16", class: "glyph", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

export function iconButton(name, label, onclick, attributes = {}) {
  return h("button", { type: "button", class: "icon", title: label, "aria-label": label, onclick, ...attributes }, icon(name));
}

/** Said aloud by screen readers and shown for a moment. */
export function say(text, { error = false } = {}) {
  const line = document.getElementById("say");
  line.textContent = text;
  line.classList.toggle("error", error);
  line.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => line.classList.remove("shown"), error ? 8000 : 3000);
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

export const percent = (value) => `${Math.round(100 * value)} %`;
export const count = (value) => value.toLocaleString("en");
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
export const baseName = (imageId) => imageId.split("/").pop();

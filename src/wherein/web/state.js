// What is on the page, as the address says it: a search can be shared, and the back button works.

const LISTS = ["tag", "liked", "disliked"];
const TEXTS = ["folder", "after", "before", "min_side", "method", "sure", "open"];

export const EMPTY = Object.freeze({
  view: "search", collection: "", parts: [], folder: "", after: "", before: "", min_side: "", method: "", sure: "",
  tag: [], liked: [], disliked: [], group: false, open: "",
});

export let state = { ...EMPTY };
const listeners = [];

/** Called with (now, before) whenever the address changes. */
export const onChange = (listener) => listeners.push(listener);

export function read(search) {
  const params = new URLSearchParams(search);
  const found = { ...EMPTY, view: params.get("view") ?? "search", collection: params.get("in") ?? "" };
  try {
    const parts = JSON.parse(params.get("q") ?? "[]");
    found.parts = Array.isArray(parts) ? parts.filter((part) => part && typeof part === "object") : [];
  } catch {
    found.parts = [];
  }
  for (const name of TEXTS) found[name] = params.get(name) ?? "";
  for (const name of LISTS) found[name] = params.getAll(name);
  found.group = params.get("group") === "1";
  return found;
}

export function write(values) {
  const params = new URLSearchParams();
  if (values.collection) params.set("in", values.collection);
  if (values.view !== "search") params.set("view", values.view);
  if (values.parts.length) params.set("q", JSON.stringify(values.parts));
  for (const name of TEXTS) if (values[name]) params.set(name, values[name]);
  for (const name of LISTS) for (const one of values[name]) params.append(name, one);
  if (values.group) params.set("group", "1");
  const text = params.toString();
  return text ? `?${text}` : location.pathname;
}

/** Change the state, and with it the address. `replace` leaves no step for the back button. */
export function go(change, { replace = false } = {}) {
  const before = state;
  state = { ...state, ...change };
  const address = write(state);
  if (address !== location.search) history[replace ? "replaceState" : "pushState"](null, "", address);
  for (const listener of listeners) listener(state, before);
}

export function start() {
  addEventListener("popstate", () => {
    const before = state;
    state = read(location.search);
    for (const listener of listeners) listener(state, before);
  });
  state = read(location.search);
}

/** *Until* takes in the day it names, the API's `before` does not. */
export function dayAfter(day) {
  const date = new Date(`${day}T00:00:00Z`);
  if (Number.isNaN(date.getTime())) return day;
  date.setUTCDate(date.getUTCDate() + 1);
  return date.toISOString().slice(0, 10);
}

/** What /search takes. */
export function asked(values, more = {}) {
  return {
    parts: values.parts.map(({ chip, ...part }) => part),
    method: values.method,
    folder: values.folder || null,
    after: values.after || null,
    before: dayAfter(values.before) || null,
    tags: values.tag,
    min_side: Number(values.min_side) || 0,
    liked: values.liked,
    disliked: values.disliked,
    group: values.group,
    ...more,
  };
}

/** The same question as before, whatever image is open. */
export function question(values) {
  const { open, ...rest } = values;
  return JSON.stringify(rest);
}

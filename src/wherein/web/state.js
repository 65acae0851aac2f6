// What is on the page, as the address says it: a search can be shared, and the back button works.

const LISTS = ["tag", "liked", "disliked"];
const TEXTS = ["folder", "after", "before", "min_side", "method", "sure", "open"];

const RESTS_MS = 150; // short enough to be noted before somebody clicks, long enough not to run while scrolling

export const EMPTY = Object.freeze({
  view: "search", collection: "", parts: [], folder: "", after: "", before: "", min_side: "", method: "", sure: "",
  tag: [], liked: [], disliked: [], group: false, open: "",
});

export let state = { ...EMPTY };
const listeners = [];

/** Called with (now, before) whenever the address changes. */
export const onChange = (listener) => listeners.push(listener);

/** The parts of a query as an address has them: a list in JSON, or plain words that somebody typed. */
function partsOf(text) {
  let parts = null;
  try {
    parts = JSON.parse(text);
  } catch {
    // plain words
  }
  if (Array.isArray(parts)) return parts.filter((part) => part && typeof part === "object");
  return text.trim() ? [{ words: text.trim() }] : [];
}

export function read(search) {
  const params = new URLSearchParams(search);
  const found = { ...EMPTY, view: params.get("view") ?? "search", collection: params.get("in") ?? "" };
  found.parts = partsOf(params.get("q") ?? "");
  for (const name of TEXTS) found[name] = params.get(name) ?? "";
  for (const name of LISTS) found[name] = params.getAll(name).filter(Boolean);
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

/** Where somebody stood when they left what the address shows now: {y, loaded}; null where they come to it anew. */
export let returned = null;
let standing = () => null;

/** `tell` says where somebody stands, for the way back: {y, loaded}, or null while that is not known. */
export const onLeave = (tell) => { standing = tell; };

function remember() {
  const place = standing();
  if (place) history.replaceState({ ...history.state, place }, "");
}

/** Whether the browser is on its way back from an image that was closed. */
let closing = false;

/** Change the state, and with it the address. `replace` leaves no step for the back button. */
export function go(change, { replace = false } = {}) {
  const before = state;
  state = { ...state, ...change };
  const address = write(state);
  if (!replace) returned = null;
  if (address !== location.search) {
    if (!replace) remember();
    // What lies below an image that was opened here is the same page without it.
    const opens = !before.open && question(state) === question(before);
    history[replace ? "replaceState" : "pushState"](replace ? history.state : { opens }, "", address);
  }
  for (const listener of listeners) listener(state, before);
}

/** Close the open image: the step that opened it is taken back, so that Back never leads to the same page once more. */
export function closeOpen() {
  if (history.state?.opens && !closing) {
    closing = true;
    history.back();
  } else go({ open: "" }, { replace: true });
}

export function start() {
  history.scrollRestoration = "manual";
  let rest = 0;
  addEventListener("popstate", (event) => {
    clearTimeout(rest);
    closing = false;
    const before = state;
    state = read(location.search);
    returned = event.state?.place ?? null;
    for (const listener of listeners) listener(state, before);
  });
  // Back and Forward leave a page without asking, so its place is noted whenever scrolling rests.
  addEventListener("scroll", () => {
    clearTimeout(rest);
    rest = setTimeout(remember, RESTS_MS);
  }, { passive: true });
  state = read(location.search);
  returned = history.state?.place ?? null;
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
    min_confidence: values.sure === "" ? null : Number(values.sure) || 0,
    ...more,
  };
}

/** The same question as before, whatever image is open. */
export function question(values) {
  const { open, ...rest } = values;
  return JSON.stringify(rest);
}

// The HTTP API. Every failure is an Error whose message is the server's own sentence.

export class ApiError extends Error {
  constructor(error) {
    super(error.message);
    this.kind = error.kind;
    this.status = error.status;
  }
}

const ROOT = "/api/v1";

/** The browser's own words for a server that is not there say nothing; a request that was given up is no failure. */
export function unanswered(error) {
  throw error.name === "AbortError" ? error : new Error("The server does not answer. Is `wherein serve` running?");
}

async function answered(response) {
  if (response.ok) return response;
  let error = { kind: "Error", message: `the server answered ${response.status}`, status: response.status };
  try {
    error = (await response.json()).error ?? error;
  } catch {
    // not JSON: the plain message stands
  }
  // The server's own sentence is for programs; people have an address to open.
  if (response.status === 401) error.message = "This server asks for its token: open the address that `wherein serve` printed.";
  throw new ApiError(error);
}

export async function call(method, path, { query = {}, body, signal, bytes, priority = "auto" } = {}) {
  const url = new URL(ROOT + path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
    }
  }
  const options = { method, signal, priority, headers: {} };
  if (bytes) options.body = bytes;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  return answered(await fetch(url, options).catch(unanswered));
}

/** The API, as OpenAPI describes it. */
export const description = async () => (await answered(await fetch("/openapi.json").catch(unanswered))).json();

export const get = async (path, query = {}, signal) => (await call("GET", path, { query, signal })).json();
export const post = async (path, body, signal) => (await call("POST", path, { body, signal })).json();
export const drop = (path) => call("DELETE", path);

export const at = (collection, rest = "") => `/collections/${encodeURIComponent(collection)}${rest}`;

const picture = (collection, kind, imageId, more) =>
  `${ROOT}${at(collection, kind)}?${new URLSearchParams({ image_id: imageId, ...more })}`;
export const thumbUrl = (collection, imageId, side = 256) => picture(collection, "/thumb", imageId, { side });
export const originalUrl = (collection, imageId) => picture(collection, "/original", imageId, {});
export const exampleUrl = (collection, name) => `${ROOT}${at(collection, `/examples/${name}`)}`;
export const exportUrl = (collection, query) => `${ROOT}${at(collection, "/export")}?${new URLSearchParams(query)}`;

/** Keep an image on the server, so that a search with it has an address. */
export async function sendExample(collection, file) {
  return (await call("POST", at(collection, "/examples"), { bytes: file })).json();
}

/** The ranking first, then its hits one by one, as they arrive. */
export async function* streamSearch(collection, asked, signal) {
  const response = await call("POST", at(collection, "/search/stream"), { body: asked, signal, priority: "high" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch(unanswered);
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop();
    if (lines.length) yield lines.map((line) => JSON.parse(line));
    if (done) return;
  }
}

// Indexing from the page: choose a folder, watch it live, cancel, go on.

import { get, post } from "./api.js";
import { count, h, say, tell } from "./dom.js";
import { go } from "./state.js";

let source = null;

export async function show(view, context, path = "") {
  const [folder, jobs, encoders] = await Promise.all([get("/folders", { path }), get("/jobs"), get("/encoders")]);
  const live = h("section", { class: "jobs", "aria-label": "Jobs" });
  view.replaceChildren(h("div", { class: "indexing" }, chooser(view, context, folder, encoders, live), live));
  live.replaceChildren(...jobs.reverse().map((job) => line(job, context)));
  const running = jobs.find((job) => job.state === "running");
  if (running) follow(running.id, live, context);
}

function chooser(view, context, folder, encoders, live) {
  const into = h("select", { "aria-label": "Index into" }, h("option", { value: context.collection.name }, `into ${context.collection.name}`), h("option", { value: "" }, "as a collection of its own"));
  const encoder = h("select", { "aria-label": "Encoder", hidden: true }, encoders.map((one) => h("option", { value: one }, one)));
  into.addEventListener("change", () => { encoder.hidden = into.value !== ""; });
  const name = (path) => path.replace(/\/$/, "").split("/").pop() || path;
  const begin = async () => {
    try {
      const job = await post("/jobs", { folder: folder.path, collection: into.value || null, encoder: into.value ? null : encoder.value });
      live.prepend(line(job, context));
      follow(job.id, live, context);
    } catch (error) {
      tell(error);
    }
  };
  return h("section", { class: "chooser", "aria-label": "Choose a folder" },
    h("h2", {}, folder.path ? folder.path : "Folders that may be indexed"),
    h("ul", {},
      folder.parent === null ? "" : h("li", {}, h("button", { type: "button", class: "line", onclick: () => show(view, context, folder.parent).catch(tell) }, "↑ up")),
      folder.folders.map((path) => h("li", {}, h("button", { type: "button", class: "line", onclick: () => show(view, context, path).catch(tell) }, folder.path ? name(path) : path))),
      folder.path && !folder.folders.length ? h("li", { class: "quiet" }, "no folders inside") : ""),
    folder.path ? h("div", { class: "row wrap" }, into, encoder, h("button", { type: "button", class: "solid", onclick: begin }, "Index this folder")) : "");
}

function words(job) {
  if (job.state === "failed") return job.error.message;
  const files = `${count(job.done)} of ${count(job.total)} files`;
  const skipped = job.skipped ? `, ${count(job.skipped)} skipped` : "";
  if (job.state === "cancelled") return `Cancelled after ${files}. What is indexed stays.`;
  if (job.state === "running") return `${files}${skipped}`;
  const { added, changed, removed, unchanged, seconds } = job.report;
  return `${count(added)} added, ${count(changed)} changed, ${count(removed)} removed, ${count(unchanged)} unchanged${skipped} in ${seconds.toFixed(1)} s`;
}

/** A job's line. It changes in place, so that a button does not vanish under the finger. */
function line(job, context) {
  const bar = h("progress", { "aria-label": `Indexing ${job.folder}` });
  const again = async () => {
    try {
      const next = await post(`/jobs/${job.id}/resume`, {});
      const live = document.querySelector(".jobs");
      live.prepend(line(next, context));
      follow(next.id, live, context);
    } catch (error) {
      tell(error);
    }
  };
  const button = (label, onclick) => h("button", { type: "button", class: "plain", onclick }, label);
  const acts = {
    running: () => button("Cancel", () => post(`/jobs/${job.id}/cancel`, {}).catch(tell)),
    done: () => button("Look at it", () => context.reload().then(() => go({ view: "search", collection: job.collection, parts: [] })).catch(tell)),
    cancelled: () => button("Go on", again),
    failed: () => button("Go on", again),
  };
  const [act, told, skipped] = [h("span", {}), h("p", { class: "quiet" }), h("p", { class: "quiet skip" })];
  const element = h("article", { "data-job": job.id, "aria-label": job.folder },
    h("div", { class: "row" }, h("strong", {}, job.folder), h("span", { class: "grow" }), act), bar, told, skipped);
  element.update = (now) => {
    if (element.className !== `job ${now.state}`) act.replaceChildren(acts[now.state]());
    element.className = `job ${now.state}`;
    [bar.max, bar.value] = [Math.max(1, now.total), now.done];
    told.textContent = words(now);
    skipped.textContent = now.last_skip ? `last skipped: ${now.last_skip}` : "";
  };
  element.update(job);
  return element;
}

function follow(id, live, context) {
  source?.close();
  source = new EventSource(`/api/v1/jobs/${id}/events`);
  source.addEventListener("progress", (event) => {
    const job = JSON.parse(event.data);
    live.querySelector(`[data-job="${id}"]`)?.update(job);
    if (job.state === "running") return;
    source.close();
    say(words(job), { error: job.state === "failed" });
    context.reload().catch(tell);
  });
}

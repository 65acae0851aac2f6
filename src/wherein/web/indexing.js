// Indexing from the page: choose a folder, watch it live, cancel, go on.

import { get, post } from "./api.js";
import { count, h, say } from "./dom.js";
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
      say(error.message, { error: true });
    }
  };
  return h("section", { class: "chooser", "aria-label": "Choose a folder" },
    h("h2", {}, folder.path ? folder.path : "Folders that may be indexed"),
    h("ul", {},
      folder.parent === null ? "" : h("li", {}, h("button", { type: "button", class: "line", onclick: () => show(view, context, folder.parent) }, "↑ up")),
      folder.folders.map((path) => h("li", {}, h("button", { type: "button", class: "line", onclick: () => show(view, context, path) }, folder.path ? name(path) : path))),
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

function line(job, context) {
  const bar = h("progress", { max: String(Math.max(1, job.total)), "aria-label": `Indexing ${job.folder}` });
  bar.value = job.done;
  const again = async () => {
    try {
      const next = await post(`/jobs/${job.id}/resume`, {});
      const live = document.querySelector(".jobs");
      live.prepend(line(next, context));
      follow(next.id, live, context);
    } catch (error) {
      say(error.message, { error: true });
    }
  };
  const act = job.state === "running"
    ? h("button", { type: "button", class: "plain", onclick: () => post(`/jobs/${job.id}/cancel`, {}).catch((error) => say(error.message, { error: true })) }, "Cancel")
    : job.state === "done"
      ? h("button", { type: "button", class: "plain", onclick: () => context.reload().then(() => go({ view: "search", collection: job.collection, parts: [] })) }, "Look at it")
      : h("button", { type: "button", class: "plain", onclick: again }, "Go on");
  return h("article", { class: `job ${job.state}`, "data-job": job.id, "aria-label": job.folder },
    h("div", { class: "row" }, h("strong", {}, job.folder), h("span", { class: "grow" }), act), bar,
    h("p", { class: "quiet" }, words(job)), job.last_skip ? h("p", { class: "quiet skip" }, `last skipped: ${job.last_skip}`) : "");
}

function follow(id, live, context) {
  source?.close();
  source = new EventSource(`/api/v1/jobs/${id}/events`);
  source.addEventListener("progress", (event) => {
    const job = JSON.parse(event.data);
    live.querySelector(`[data-job="${id}"]`)?.replaceWith(line(job, context));
    if (job.state === "running") return;
    source.close();
    say(words(job), { error: job.state === "failed" });
    context.reload();
  });
}

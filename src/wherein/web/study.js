// The pixel paper's user study: which three of twelve show the query, with and without outlines; and its results.

import { at, call, get, post, thumbUrl } from "./api.js";
import { baseName, h, named, oneAtATime, percent, tell } from "./dom.js";
import { outline } from "./outline.js";
import { state } from "./state.js";

const path = (study, rest = "") => at(state.collection, `/studies/${encodeURIComponent(study)}${rest}`);

export async function show(view) {
  const all = await get(at(state.collection, "/studies"));
  const once = oneAtATime();
  const name = h("input", { type: "text", placeholder: "name of a new study", "aria-label": "Name of a new study", required: true });
  const begin = once(() => make(name.value).then(() => show(view)));
  view.replaceChildren(h("section", { class: "sheet" },
    h("h1", {}, "User study"),
    h("p", { class: "quiet" }, "Sixteen questions: which three of twelve candidates show the query? Half of them come with outlines, counterbalanced over four groups. A study is made from selections of at least four images each; the first image is the query, the others were kept with their outlines."),
    h("ul", { class: "studies" }, all.map((study) => h("li", { class: "row wrap" },
      h("strong", {}, study.name), h("span", { class: "quiet" }, `${study.questions} questions, ${study.participants} begun`), h("span", { class: "grow" }),
      h("button", { type: "button", class: "solid", onclick: once(() => take(view, study.name)) }, "Take part"),
      h("button", { type: "button", class: "plain", onclick: () => evaluate(view, study.name).catch(tell) }, "Results")))),
    h("form", { class: "row wrap", onsubmit: (event) => {
      event.preventDefault();
      begin();
    } }, name, h("button", { type: "submit", class: "plain" }, "Make it from the selections"))));
}

const make = async (name) => post(path(named(name)), {});

async function take(view, study) {
  const sheet = await post(path(study, "/participants"), {});
  for (const question of sheet.questions) await answer(view, study, sheet, question);
  await finish(view, study, sheet);
}

function figure(item, side) {
  return [h("img", { src: thumbUrl(state.collection, item.image_id, side), alt: "", draggable: "false" }), outline(item, { box: true })];
}

function answer(view, study, sheet, question) {
  return new Promise((done) => {
    const chosen = new Set();
    const next = h("button", { type: "button", class: "solid", disabled: true, onclick: async () => {
      next.disabled = true;
      try {
        await call("POST", path(study, `/participants/${sheet.participant}/answers`), { body: { question: question.number, chosen: [...chosen], seconds: (performance.now() - started) / 1000 } });
        done();
      } catch (error) {
        tell(error);
        next.disabled = false;
      }
    } }, "Next");
    const pick = (item, button) => {
      if (chosen.has(item.image_id)) chosen.delete(item.image_id);
      else if (chosen.size < sheet.choose) chosen.add(item.image_id);
      button.setAttribute("aria-pressed", String(chosen.has(item.image_id)));
      next.disabled = chosen.size !== sheet.choose;
    };
    const candidates = question.candidates.map((item, number) => {
      const button = h("button", { type: "button", "aria-pressed": "false", "aria-label": `Candidate ${number + 1}`, onclick: () => pick(item, button) }, h("span", { class: "stage" }, figure(item, 256)));
      return h("li", {}, button);
    });
    const asked = h("section", { class: "question loading", "aria-busy": "true", "aria-label": `Question ${question.number + 1}` },
      h("div", { class: "asked" }, h("p", { class: "quiet" }, `Question ${question.number + 1} of ${sheet.questions.length}`), h("h2", {}, `Choose the ${sheet.choose} images that show this`),
        h("div", { class: "stage" }, figure(question.query, 512)), next),
      h("ul", { class: "candidates" }, candidates));
    view.replaceChildren(asked);
    let started = 0;
    // Nobody is timed while pictures load: they are shown together, and then the clock starts.
    Promise.allSettled([...asked.querySelectorAll("img")].map((picture) => picture.decode())).then(() => {
      asked.classList.remove("loading");
      asked.removeAttribute("aria-busy");
      started = performance.now();
    });
  });
}

async function finish(view, study, sheet) {
  const send = oneAtATime()((helpful) => call("POST", path(study, `/participants/${sheet.participant}/finish`), { body: { helpful } })
    .then(() => view.replaceChildren(h("div", { class: "none" }, h("h2", {}, "Thank you"), h("p", {}, "Your answers are kept.")))));
  view.replaceChildren(h("section", { class: "none" }, h("h2", {}, "One last question"), h("p", {}, "Were the outlines helpful? 1 is not at all, 7 is very much."),
    h("div", { class: "scale", role: "group", "aria-label": "Helpfulness from 1 to 7" }, [1, 2, 3, 4, 5, 6, 7].map((value) => h("button", { type: "button", class: "plain", onclick: () => send(value) }, value)))));
}

const spread = ({ mean, deviation }, unit = "") => (mean === null ? "–" : `${mean.toFixed(2)}${unit}${deviation === null ? "" : ` ± ${deviation.toFixed(2)}`}`);

async function evaluate(view, study) {
  const found = await get(path(study, "/results"));
  const row = (label, ...cells) => h("tr", {}, h("th", { scope: "row" }, label), cells.map((cell) => h("td", {}, cell)));
  const most = Math.max(1e-9, ...found.pairs.flat());
  view.replaceChildren(h("section", { class: "sheet" },
    h("h1", {}, `Results of ${study}`),
    h("p", { class: "quiet" }, `${found.participants} finished of ${found.begun} who began, ${found.questions} questions each.`),
    h("table", { class: "figures" }, h("thead", {}, h("tr", {}, ["", "with outlines", "without"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, row("Seconds per question", spread(found.with_outlines, " s"), spread(found.without_outlines, " s")),
        row("Chosen rightly", found.right_with === null ? "–" : percent(found.right_with), found.right_without === null ? "–" : percent(found.right_without)))),
    h("p", {}, "Helpful, from 1 to 7: ", h("strong", {}, spread(found.helpful))),
    h("ul", {}, found.tests.map((test) => h("li", {}, `${test.name}: statistic ${test.statistic.toFixed(3)}, p = ${test.p.toPrecision(3)}, n = ${test.n} participants`))),
    found.pairs.length ? h("h2", {}, "Mean seconds of each participant, with outlines and without") : "",
    h("ol", { class: "pairs" }, found.pairs.map(([fast, slow], number) => h("li", { "aria-label": `${baseName(String(number + 1))}: ${fast.toFixed(1)} s with, ${slow.toFixed(1)} s without` },
      h("span", { class: "with", style: { width: `${(100 * fast) / most}%` } }), h("span", { class: "without", style: { width: `${(100 * slow) / most}%` } })))),
    h("button", { type: "button", class: "plain", onclick: () => show(view).catch(tell) }, "All studies")));
}

// Match lines: which points of the example are seen again in the image.

import { at, exampleUrl, post, thumbUrl } from "./api.js";
import { h, plural, say, svg } from "./dom.js";
import { state } from "./state.js";

/** The parts of the query that points can be matched with. */
export const examples = () => state.parts.filter((part) => !part.negative && (part.image_id || part.example)).map(({ chip, weight, where, ...part }) => part);

/** Lay the example over a corner of `fit` and join what matches; again takes it away. */
export async function toggle(fit, stage, imageId) {
  if (fit.querySelector(".matches")) {
    fit.querySelector(".matches").remove();
    return;
  }
  const parts = examples();
  try {
    const found = await post(at(state.collection, "/matches"), { parts, image_id: imageId });
    if (!found.inliers) {
      say("No points of the example agree with this image.");
      return;
    }
    const part = parts[found.part];
    const example = h("img", { src: part.image_id ? thumbUrl(state.collection, part.image_id, 512) : exampleUrl(state.collection, part.example), alt: "The example" });
    const lines = svg("svg", { "aria-hidden": "true" });
    const layer = h("div", { class: "matches" }, example, lines);
    fit.append(layer);
    await example.decode();
    const draw = () => {
      const [whole, from, to] = [layer, example, stage].map((one) => one.getBoundingClientRect());
      lines.setAttribute("viewBox", `0 0 ${whole.width} ${whole.height}`);
      lines.replaceChildren(...found.lines.map(([x1, y1, x2, y2], number) => svg("line", {
        x1: from.left - whole.left + x1 * from.width, y1: from.top - whole.top + y1 * from.height,
        x2: to.left - whole.left + x2 * to.width, y2: to.top - whole.top + y2 * to.height, class: `line-${number % 4}`,
      })));
    };
    draw();
    new ResizeObserver(draw).observe(layer);
    say(`${plural(found.inliers, "point")} seen again.`);
  } catch (error) {
    say(error.message, { error: true });
  }
}

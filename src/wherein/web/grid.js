// A justified grid: rows of one height, pictures as wide as they are. Arrow keys walk through it.

import { thumbUrl } from "./api.js";
import { baseName, h, icon, percent } from "./dom.js";
import { outline } from "./outline.js";

/** `acts`: open(hit), and where hits can be marked mark(hit, "liked" | "disliked"), keep(hit); unfolded(hits) where look-alikes are shown. */
export class Grid {
  constructor(collection, acts) {
    Object.assign(this, { collection, acts, hits: [], known: new Map(), coming: [], state: { liked: [], disliked: [], kept: new Set() } });
    this.element = h("ol", { class: "grid", "aria-label": "Images", onkeydown: (event) => this.#key(event) });
  }

  /** `more`: others follow. A last row that is not full yet would be laid out again under them, so it is not shown yet. */
  add(hits, { more = false } = {}) {
    const fresh = document.createDocumentFragment();
    for (const hit of hits) {
      if (this.known.has(hit.image_id)) continue;
      const like = hit.like && this.known.get(hit.like);
      const leader = like?.leader ?? like;
      if (leader) {
        this.#stack(leader, hit);
        this.known.set(hit.image_id, { hit, leader });
        continue;
      }
      const element = this.#item(hit, this.hits.length + 1);
      this.known.set(hit.image_id, { element, hit, likes: [] });
      this.hits.push(hit);
      fresh.append(element);
    }
    this.element.append(fresh);
    for (const item of this.coming) item.classList.remove("coming");
    const items = [...this.element.children];
    this.coming = more ? items.filter((item) => item.offsetTop === items.at(-1).offsetTop) : [];
    for (const item of this.coming) item.classList.add("coming");
  }

  /** Where in them hits matched, which comes after the hits themselves. */
  outlined(hits) {
    for (const { image_id: imageId, box, mask } of hits) {
      const known = this.known.get(imageId);
      if (!known?.element) continue;
      Object.assign(known.hit, { box, mask });
      const overlay = outline(known.hit);
      known.element.querySelector(".outline")?.remove();
      if (overlay) known.element.querySelector(".open").append(overlay);
    }
  }

  focus(imageId) {
    const known = this.known.get(imageId);
    (known?.element ?? known?.leader.element)?.querySelector(".open").focus();
  }

  /** Say which hits are marked and kept: {liked, disliked, kept}. */
  tell(change) {
    Object.assign(this.state, change);
    for (const [imageId, { element }] of this.known) if (element) this.#press(imageId, element);
  }

  #press(imageId, element) {
    const { liked, disliked, kept } = this.state;
    element.querySelector(".yes")?.setAttribute("aria-pressed", liked.includes(imageId));
    element.querySelector(".no")?.setAttribute("aria-pressed", disliked.includes(imageId));
    element.querySelector(".keep")?.setAttribute("aria-pressed", kept.has(imageId));
  }

  #item(hit, number) {
    const [width, height] = hit.size_wh;
    const ratio = Math.min(4, Math.max(0.4, width && height ? width / height : 1.5));
    const name = baseName(hit.image_id);
    const sure = hit.confidence === null || hit.confidence === undefined ? "" : `, confidence ${percent(hit.confidence)}`;
    const scored = hit.score === undefined ? "" : `, score ${hit.score.toFixed(3)}${sure}`;
    const picture = h("img", {
      src: thumbUrl(this.collection, hit.image_id), alt: `${name}${scored}`, loading: "lazy", decoding: "async", fetchpriority: "low",
      width: Math.round(200 * ratio), height: 200, draggable: "false",
    });
    const open = h("button", { type: "button", class: "open", tabindex: number === 1 ? "0" : "-1", onclick: () => this.acts.open(hit) },
      picture, outline(hit));
    const caption = h("div", { class: "caption" },
      hit.score === undefined ? null : h("span", { class: "score" }, hit.score.toFixed(3)),
      sure ? h("span", { class: hit.confidence < 0.5 ? "sure low" : "sure" }, percent(hit.confidence)) : null,
      h("span", { class: "name", title: hit.image_id }, name),
      hit.others?.length ? h("span", { class: "others", title: hit.others.join("\n") }, `+${hit.others.length} of this clip`) : null);
    return h("li", { class: "hit", "data-id": hit.image_id, style: { "--ratio": ratio.toFixed(4) } }, open, this.#buttons(hit, name), caption);
  }

  #buttons(hit, name) {
    if (!this.acts.keep) return null;
    const toggle = (glyph, kind, label, act) => h("button", {
      type: "button", class: `icon ${kind}`, tabindex: "-1", title: label, "aria-label": `${label}: ${name}`, "aria-pressed": "false", onclick: act,
    }, icon(glyph));
    return h("div", { class: "marks" },
      this.acts.mark ? toggle("yes", "yes", "More like this (y)", () => this.acts.mark(hit, "liked")) : null,
      this.acts.mark ? toggle("no", "no", "Less like this (n)", () => this.acts.mark(hit, "disliked")) : null,
      toggle("keep", "keep", "Keep in the selection (s)", () => this.acts.keep(hit)));
  }

  #stack(leader, hit) {
    leader.likes.push(hit);
    leader.element.querySelector(".stack")?.remove();
    const more = h("button", {
      type: "button", class: "stack", "aria-label": `${leader.likes.length} more that look nearly the same: show them`,
      onclick: () => {
        more.remove();
        const likes = leader.likes.splice(0);
        leader.element.after(...likes.map((one) => {
          const element = this.#item(one, 2);
          this.known.set(one.image_id, { element, hit: one, likes: [], leader });
          this.#press(one.image_id, element);
          return element;
        }));
        this.hits.splice(this.hits.indexOf(leader.hit) + 1, 0, ...likes);
        this.focus(likes[0].image_id);
        this.acts.unfolded?.(likes);
      },
    }, `+${leader.likes.length}`);
    leader.element.append(more);
  }

  #key(event) {
    const item = event.target.closest(".hit");
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
    const hit = this.known.get(item.dataset.id)?.hit;
    if (event.key === "y" && hit && this.acts.mark) this.acts.mark(hit, "liked");
    else if (event.key === "n" && hit && this.acts.mark) this.acts.mark(hit, "disliked");
    else if (event.key === "s" && hit && this.acts.keep) this.acts.keep(hit);
    else {
      const next = this.#next(item, event.key);
      if (!next) return;
      item.querySelector(".open").tabIndex = -1;
      const target = next.querySelector(".open");
      target.tabIndex = 0;
      target.focus();
    }
    event.preventDefault();
  }

  #next(item, key) {
    const items = [...this.element.children];
    if (key === "ArrowRight") return item.nextElementSibling;
    if (key === "ArrowLeft") return item.previousElementSibling;
    if (key === "Home") return items[0];
    if (key === "End") return items.at(-1);
    if (key !== "ArrowDown" && key !== "ArrowUp") return null;
    const here = item.getBoundingClientRect();
    const middle = here.left + here.width / 2;
    const beyond = items
      .map((one) => ({ one, area: one.getBoundingClientRect() }))
      .filter(({ area }) => (key === "ArrowDown" ? area.top > here.bottom - 8 : area.bottom < here.top + 8));
    const nearest = ({ area }) => Math.abs(area.top - here.top) * 4 + Math.abs(area.left + area.width / 2 - middle);
    return beyond.sort((a, b) => nearest(a) - nearest(b))[0]?.one;
  }
}

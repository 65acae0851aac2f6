// A grid of hits that may be very long: only the tiles near the window are in the page. Arrow keys walk through it.

import { thumbUrl } from "./api.js";
import { baseName, h, icon, percent } from "./dom.js";
import { justify } from "./layout.js";
import { outline } from "./outline.js";

const CAPTION_REM = 1.35;
/** How high rows are, in rem: this share of the window's width, between two bounds. */
const ROW_REM = { least: 8, share: 0.15, most: 13 };
/** How many windows above and below what is seen are drawn too. */
const AHEAD = 1;

/** The film that an image is a frame of, or nothing. */
const clipOf = (imageId) => (imageId.includes("#t=") ? imageId.slice(0, imageId.lastIndexOf("#t=")) : null);

function ratioOf({ size_wh: [width, height] }) {
  return Math.min(4, Math.max(0.4, width && height ? width / height : 1.5));
}

/**
 * `acts`: open(hit), and where hits can be marked mark(hit, "liked" | "disliked"), keep(hit); drawn(hits) when tiles
 * come into the page; more(), which brings further hits and says whether there were any.
 */
export class Grid {
  #rows = [];
  #ratios = [];
  #current = 0;
  #due = 0;
  #left = new AbortController();

  constructor(collection, acts) {
    Object.assign(this, { collection, acts, hits: [], known: new Map(), clips: new Map(), open: false, state: { liked: [], disliked: [], kept: new Set() } });
    this.element = h("ol", { class: "grid", "aria-label": "Images", onkeydown: (event) => this.#key(event), onfocusin: (event) => this.#entered(event) });
    addEventListener("scroll", () => this.#soon(), { passive: true, signal: this.#left.signal });
    new ResizeObserver(() => this.#resized()).observe(this.element);
  }

  /** Nothing is drawn in this grid any more. */
  leave() {
    this.#left.abort();
  }

  /** `more`: others follow. A last row that is not full yet would be laid out again under them, so it is not shown yet. */
  add(hits, { more = false } = {}) {
    const grown = new Set();
    for (const hit of hits) {
      // Other images of a film are named only; they are as large as the one that stands for it.
      for (const one of [hit, ...(hit.others ?? []).map((id) => ({ image_id: id, size_wh: hit.size_wh }))]) {
        if (this.known.has(one.image_id)) continue;
        const leader = this.#leaderOf(one);
        const entry = { hit: one, leader, folded: Boolean(leader), likes: [], element: null };
        this.known.set(one.image_id, entry);
        if (leader) {
          leader.likes.push(entry);
          grown.add(leader);
        } else this.hits.push(one);
      }
    }
    for (const leader of grown) this.#stack(leader);
    this.open = more;
    this.#lay();
  }

  /** What a hit stands behind: a better one that looks nearly the same, or a better frame of the same film. */
  #leaderOf(hit) {
    const like = hit.like && this.known.get(hit.like);
    const clip = clipOf(hit.image_id);
    const first = clip && this.known.get(this.clips.get(clip));
    if (clip && !first) this.clips.set(clip, hit.image_id);
    const found = like || first;
    return found?.leader ?? found ?? null;
  }

  /** Where in them hits matched, which comes after the hits themselves. */
  outlined(hits) {
    for (const { image_id: imageId, box, mask } of hits) {
      const known = this.known.get(imageId);
      if (!known) continue;
      Object.assign(known.hit, { box, mask, outlined: true });
      if (!known.element) continue;
      const overlay = outline(known.hit);
      known.element.querySelector(".outline")?.remove();
      if (overlay) known.element.querySelector(".open").append(overlay);
    }
  }

  hit(imageId) {
    return this.known.get(imageId)?.hit;
  }

  /** The place of a hit among all, from 0 on; of one that is folded away, the place of what it stands behind; −1 for none. */
  place(imageId) {
    const known = this.known.get(imageId);
    return known ? this.hits.indexOf(known.folded ? known.leader.hit : known.hit) : -1;
  }

  more() {
    return this.acts.more?.() ?? Promise.resolve(false);
  }

  focus(imageId) {
    const place = this.place(imageId);
    if (place >= 0) this.#focus(place);
  }

  /** Go on at a hit if it is in sight, else at whatever stands in its former place; the page does not scroll. */
  resume(imageId, place) {
    const now = this.place(imageId);
    const stays = Math.min(now >= 0 && this.#inSight(now) ? now : place, this.hits.length - 1);
    if (stays >= 0) this.#focus(stays, { preventScroll: true });
  }

  /** Say which hits are marked and kept: {liked, disliked, kept}. */
  tell(change) {
    Object.assign(this.state, change);
    for (const { hit, element } of this.known.values()) if (element) this.#press(hit.image_id, element);
  }

  #press(imageId, element) {
    const { liked, disliked, kept } = this.state;
    element.querySelector(".yes")?.setAttribute("aria-pressed", liked.includes(imageId));
    element.querySelector(".no")?.setAttribute("aria-pressed", disliked.includes(imageId));
    element.querySelector(".keep")?.setAttribute("aria-pressed", kept.has(imageId));
  }

  #lay() {
    const width = this.element.clientWidth;
    if (!width) return; // nobody sees it yet
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const row = Math.min(ROW_REM.most * rem, Math.max(ROW_REM.least * rem, ROW_REM.share * innerWidth));
    this.below = CAPTION_REM * rem;
    this.laidWidth = width;
    this.#ratios = this.hits.map(ratioOf);
    this.#rows = justify(this.#ratios, { width, row, gap: parseFloat(getComputedStyle(this.element).rowGap) || 0, below: this.below, open: this.open });
    const last = this.#rows.at(-1);
    this.element.style.height = `${last ? last.top + last.height + this.below : 0}px`;
    this.#draw();
  }

  /** A window of another width lays the rows out anew; what stood at its top stays there. */
  #resized() {
    if (!this.element.isConnected || this.element.clientWidth === this.laidWidth) return;
    const top = -this.element.getBoundingClientRect().top;
    const anchor = top > 0 ? this.#rows.find((row) => row.top + row.height > top) : null;
    this.#lay();
    if (anchor) scrollBy(0, this.#rowOf(anchor.from).top - anchor.top);
  }

  #soon() {
    if (!this.#due) this.#due = requestAnimationFrame(() => { this.#due = 0; this.#draw(); });
  }

  /** Put the tiles near the window into the page, and take the others out; the one that Tab leads to always stays. */
  #draw() {
    if (!this.element.isConnected || !this.#rows.length) {
      if (!this.#rows.length) this.element.replaceChildren();
      return;
    }
    const above = -this.element.getBoundingClientRect().top;
    const near = this.#rows.filter(({ top, height }) => top + height > above - AHEAD * innerHeight && top < above + (1 + AHEAD) * innerHeight);
    const current = this.#rowOf(this.#current) ?? this.#rows[0];
    if (!near.includes(current)) near.push(current);
    const wanted = new Map();
    for (const row of near.sort((a, b) => a.top - b.top)) {
      for (let place = row.from; place < row.to; place += 1) wanted.set(this.hits[place].image_id, [place, row]);
    }
    for (const tile of [...this.element.children]) {
      if (wanted.has(tile.dataset.id)) continue;
      this.known.get(tile.dataset.id).element = null;
      tile.remove();
    }
    const fresh = [];
    let cursor = this.element.firstElementChild;
    for (const [imageId, [place, row]] of wanted) {
      const entry = this.known.get(imageId);
      if (!entry.element) {
        this.#make(entry);
        fresh.push(entry.hit);
      }
      this.#stand(entry.element, place, row);
      if (entry.element === cursor) cursor = cursor.nextElementSibling;
      else this.element.insertBefore(entry.element, cursor);
    }
    if (fresh.length) this.acts.drawn?.(fresh);
  }

  #rowOf(place) {
    return this.#rows.find((row) => place >= row.from && place < row.to);
  }

  #stand(tile, place, row) {
    tile.style.left = `${row.lefts[place - row.from]}px`;
    tile.style.top = `${row.top}px`;
    tile.style.width = `${this.#ratios[place] * row.height}px`;
    tile.style.setProperty("--height", `${row.height}px`);
    tile.setAttribute("aria-posinset", place + 1);
    tile.setAttribute("aria-setsize", this.open ? -1 : this.hits.length);
    tile.querySelector(".open").tabIndex = place === this.#current ? 0 : -1;
  }

  #inSight(place) {
    const row = this.#rowOf(place);
    if (!row) return false; // the last row is not shown while more may follow in it
    const top = this.element.getBoundingClientRect().top + row.top;
    return top >= 0 && top + row.height <= innerHeight;
  }

  #make(entry) {
    const { hit } = entry;
    const [name, ratio] = [baseName(hit.image_id), ratioOf(hit)];
    const sure = hit.confidence === null || hit.confidence === undefined ? "" : `, confidence ${percent(hit.confidence)}`;
    const picture = h("img", {
      src: thumbUrl(this.collection, hit.image_id), alt: `${name}${sure}`, loading: "lazy", decoding: "async", fetchpriority: "low",
      width: Math.round(200 * ratio), height: 200, draggable: "false",
    });
    const open = h("button", { type: "button", class: "open", tabindex: "-1", onclick: () => this.acts.open(hit) }, picture, outline(hit));
    const caption = h("div", { class: "caption" },
      sure ? h("span", { class: hit.confidence < 0.5 ? "sure low" : "sure" }, percent(hit.confidence)) : null,
      h("span", { class: "name", title: hit.image_id }, name));
    entry.element = h("li", { class: "hit", "data-id": hit.image_id }, open, this.#buttons(hit, name), caption);
    this.#press(hit.image_id, entry.element);
    this.#stack(entry);
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

  /** Say on a tile how many stand behind it, and show those to who asks. */
  #stack(leader) {
    leader.element?.querySelector(".stack")?.remove();
    if (!leader.element || !leader.likes.length) return;
    const clip = clipOf(leader.hit.image_id);
    const ofClip = clip !== null && leader.likes.every(({ hit }) => clipOf(hit.image_id) === clip);
    const said = ofClip ? `${leader.likes.length} more of ${baseName(clip)}` : `${leader.likes.length} more that look nearly the same`;
    leader.element.append(h("button", { type: "button", class: "stack", title: said, "aria-label": `${said}: show them`, onclick: () => this.#unfold(leader) },
      ofClip ? icon("film") : null, `+${leader.likes.length}`));
  }

  #unfold(leader) {
    const likes = leader.likes.splice(0);
    for (const entry of likes) entry.folded = false;
    this.hits.splice(this.hits.indexOf(leader.hit) + 1, 0, ...likes.map(({ hit }) => hit));
    this.#stack(leader);
    this.#lay();
    this.focus(likes[0].hit.image_id);
  }

  #focus(place, how = {}) {
    this.#current = place;
    this.#draw();
    this.known.get(this.hits[place].image_id).element?.querySelector(".open").focus(how);
  }

  #entered(event) {
    const tile = event.target.closest(".hit");
    const place = tile ? this.place(tile.dataset.id) : -1;
    if (place < 0 || place === this.#current) return;
    this.#current = place;
    this.#soon();
  }

  #key(event) {
    const tile = event.target.closest(".hit");
    if (!tile || event.ctrlKey || event.metaKey || event.altKey) return;
    const hit = this.hit(tile.dataset.id);
    if (event.key === "y" && this.acts.mark) this.acts.mark(hit, "liked");
    else if (event.key === "n" && this.acts.mark) this.acts.mark(hit, "disliked");
    else if (event.key === "s" && this.acts.keep) this.acts.keep(hit);
    else {
      const next = this.#next(this.place(hit.image_id), event.key);
      if (next === null) return;
      this.#focus(next);
    }
    event.preventDefault();
  }

  /** The place that a key leads to; up and down go to the tile whose middle is nearest. */
  #next(place, key) {
    const last = (this.#rows.at(-1)?.to ?? 0) - 1;
    const straight = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: last };
    if (key in straight) return straight[key] >= 0 && straight[key] <= last ? straight[key] : null;
    if (key !== "ArrowDown" && key !== "ArrowUp") return null;
    const here = this.#rows.findIndex((row) => place >= row.from && place < row.to);
    const row = this.#rows[here + (key === "ArrowDown" ? 1 : -1)];
    if (here < 0 || !row) return null;
    const middle = ({ lefts, from, height }, one) => lefts[one - from] + (this.#ratios[one] * height) / 2;
    const aim = middle(this.#rows[here], place);
    let best = row.from;
    for (let one = row.from; one < row.to; one += 1) if (Math.abs(middle(row, one) - aim) < Math.abs(middle(row, best) - aim)) best = one;
    return best;
  }
}

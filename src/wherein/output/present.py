"""Hits for people and programs: a terminal table, JSON, a page with thumbnails."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wherein.arrays import Mask
from wherein.files import unwritable_told, write_durably
from wherein.values.masks import outline

if TYPE_CHECKING:
    from rich.table import Table

    from wherein.values.ranking import Hit, Ranking

ThumbOf = Callable[[str], bytes | None]


def as_json(ranking: Ranking) -> str:
    """The ranking as one JSON document, outlines of masks drawn as polygons too."""
    return json.dumps(ranking.to_dict(polygons=True), indent=2, ensure_ascii=False)


def as_table(ranking: Ranking, *, scores: bool = False) -> Table:
    """The hits that count as a table for the terminal; `scores` adds the method's own, whose scales differ."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    hits = ranking.strong
    located = any(hit.box is not None for hit in hits)
    verified = any(hit.inliers is not None for hit in hits)
    calibrated = any(hit.confidence is not None for hit in hits)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("", justify="right", style="dim")
    if calibrated:
        table.add_column("sure", justify="right")
    if scores:
        table.add_column(ranking.score_kind, justify="right")
    table.add_column("image", overflow="fold")
    if verified:
        table.add_column("inliers", justify="right")
    if located:
        table.add_column("where", style="dim")
    for number, hit in enumerate(hits, 1):
        where = "" if hit.box is None else ",".join(f"{value:.2f}" for value in hit.box.xyxy)
        name = Text(f"{visible(hit.image_id)}{_more(hit)}")
        inliers = "" if hit.inliers is None else str(hit.inliers)
        before = [*([_percent(hit)] if calibrated else []), *([f"{hit.score:.3f}"] if scores else [])]
        after = [*([inliers] if verified else []), *([where] if located else [])]
        table.add_row(str(number), *before, name, *after)
    return table


def no_match(ranking: Ranking) -> str:
    """Why nothing was found, in one line."""
    if ranking.nothing_indexed:
        return "no match: the collection is empty. Run `wherein index FOLDER` to fill it."
    if not ranking.searched:
        return "no match: no image passes the filters."
    if not ranking.weaker:
        return f"no match: none of {ranking.searched:,} images shares anything with it."
    nearest = max(ranking.weaker, key=lambda hit: hit.confidence or 0.0)
    return f"no match; nearest is {visible(nearest.image_id)} ({_percent(nearest)})."


def in_one_line(ranking: Ranking) -> str:
    """The hits that count, each with its confidence; where none does, the nearest."""
    named = [f"{visible(hit.image_id)} {_percent(hit)}".rstrip() for hit in ranking.strong or ranking.weaker[:1]]
    return ("" if ranking.strong or not named else "nothing is likely right; the nearest: ") + ", ".join(named)


def how_many(ranking: Ranking) -> list[str]:
    """About how many images match, and how many weaker hits are not shown, a line each."""
    said = [] if ranking.expected is None or not ranking.strong else [f"{ranking.expected}."]
    if ranking.weaker:
        number = len(ranking.weaker)
        hits, them = ("hit", "it") if number == 1 else ("hits", "them")
        said.append(f"{number:,} weaker {hits}" + (" rejected." if ranking.decided else f"; --weaker shows {them}."))
    return said


def _percent(hit: Hit) -> str:
    return "" if hit.confidence is None else f"{100 * hit.confidence:.0f} %"


def _more(hit: Hit) -> str:
    """How many other images of the clip answer too."""
    return f" (+{len(hit.others)} of this clip)" if hit.others else ""


def visible(name: str) -> str:
    """A file name safe to print: control characters become escapes, so that no name can drive the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)


def write_page(ranking: Ranking, path: Path, *, thumb_of: ThumbOf) -> None:
    """A self-contained HTML page: every hit with its thumbnail and, where known, its confidence and outline or box."""
    strong, weaker = ranking.strong, ranking.weaker
    figures = "\n".join(_figure(number, hit, thumb_of(hit.image_id)) for number, hit in enumerate(strong, 1))
    about = "" if ranking.expected is None or not strong else f" · {ranking.expected}"
    summary = f"{len(strong)} of {ranking.searched} images · {ranking.encoder}{about}"
    page = _PAGE.format(
        title=html.escape(visible(ranking.query)),
        summary=html.escape(summary),
        figures=figures or f'<p class="none">{html.escape(no_match(ranking).capitalize())}</p>',
        weaker=_folded(weaker, thumb_of) if weaker else "",
    )
    with unwritable_told(path):
        write_durably(path, page.encode("utf-8", "replace"))


def _folded(hits: Sequence[Hit], thumb_of: ThumbOf) -> str:
    """Weaker hits, folded away and without outlines."""
    plain = [replace(hit, mask=None, box=None) for hit in hits]
    figures = "\n".join(_figure(number, hit, thumb_of(hit.image_id)) for number, hit in enumerate(plain, 1))
    hits_ = "1 weaker hit" if len(hits) == 1 else f"{len(hits):,} weaker hits"
    return f"<details><summary>{hits_}</summary><main>{figures}</main></details>"


def _svg(mask: Mask) -> str:
    """The outline over the picture, and the rest dimmed: one path inside, the same cut out of a rectangle outside."""
    path = "".join("M" + "L".join(f"{x:g},{y:g}" for x, y in loop) + "Z" for loop in outline(mask))
    return (
        '<svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="rest" d="M0,0L1,0L1,1L0,1Z{path}"/><path class="edge" d="{path}"/></svg>'
    )


def _figure(number: int, hit: Hit, thumb: bytes | None) -> str:
    name = html.escape(visible(hit.image_id))
    width, height = hit.size_wh
    picture = '<div class="missing">no thumbnail</div>'
    if thumb is not None:
        data = base64.b64encode(thumb).decode()
        picture = f'<img alt="{name}" width="{width}" height="{height}" src="data:image/jpeg;base64,{data}">'
    if hit.mask is not None and hit.mask.any():
        picture += _svg(hit.mask)
    elif hit.box is not None:
        x1, y1, x2, y2 = (100 * value for value in hit.box.xyxy)
        picture += f'<span class="box" style="left:{x1:g}%;top:{y1:g}%;width:{x2 - x1:g}%;height:{y2 - y1:g}%"></span>'
    if hit.path is not None:
        picture = f'<a href="{html.escape(hit.path.as_uri())}">{picture}</a>'
    ratio = width / height if height else 1.5
    name += _more(hit)
    return (
        f'<figure style="--ratio:{ratio:.4f}"><div class="picture">{picture}</div>'
        f'<figcaption><b>{number}</b> <span class="score">{_percent(hit)}</span> {name}</figcaption>'
        "</figure>"
    )


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} — wherein</title>
<style>
:root {{ color-scheme: light dark; --ink: light-dark(#1c1c1e, #ececef); --quiet: light-dark(#63636b, #a3a3ad);
  --paper: light-dark(#fbfbfa, #141416); --mark: light-dark(#d2410f, #ff8a4c); }}
body {{ margin: 0; padding: 2rem clamp(1rem, 4vw, 3rem); background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }}
h1 {{ font-size: 1.5rem; font-weight: 600; margin: 0 0 .25rem; overflow-wrap: anywhere; }}
p {{ margin: 0 0 1.5rem; color: var(--quiet); }}
main {{ display: flex; flex-wrap: wrap; gap: 1rem; }}
main::after {{ content: ""; flex: 1000 1 0; }}
figure {{ margin: 0; flex: calc(var(--ratio) * 100) 1 calc(var(--ratio) * 11rem); min-width: 7rem;
  max-width: calc(var(--ratio) * 18rem); }}
.picture {{ position: relative; border-radius: 6px; overflow: hidden; }}
.picture a {{ display: block; position: relative; }}
img {{ display: block; width: 100%; height: auto; aspect-ratio: var(--ratio); object-fit: cover; }}
.missing {{ aspect-ratio: var(--ratio); display: grid; place-items: center; color: var(--quiet);
  border: 1px dashed currentColor; border-radius: 6px; }}
svg {{ position: absolute; inset: 0; width: 100%; height: 100%; }}
.rest {{ fill: #0009; fill-rule: evenodd; }}
.edge {{ fill: none; stroke: var(--mark); stroke-width: 2px; vector-effect: non-scaling-stroke; }}
.box {{ position: absolute; border: 2px solid var(--mark); border-radius: 2px; box-shadow: 0 0 0 1px #0006; }}
figcaption {{ margin-top: .35rem; font-size: .8rem; color: var(--quiet); overflow-wrap: anywhere; }}
details {{ margin-top: 2rem; }} summary {{ cursor: pointer; color: var(--quiet); margin-bottom: 1rem; }}
figcaption b {{ color: var(--ink); }}
.score {{ font-variant-numeric: tabular-nums; margin: 0 .35rem; }}
</style></head>
<body><h1>{title}</h1><p>{summary}</p><main>
{figures}
</main>{weaker}</body></html>
"""

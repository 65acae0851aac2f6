"""`bench best`: the first hits of several methods side by side, as the SearchAD paper's Figures 12–15."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from wherein.bench.compare import Run, load_runs
from wherein.bench.evaluation import QueryScore
from wherein.bench.html import page, section
from wherein.bench.pictures import thumbnail
from wherein.bench.registry import load_task
from wherein.bench.tables import figure
from wherein.bench.task import Variant
from wherein.errors import DataError

SHOWN: Final = 5
"""Hits of each method, as many as the paper shows."""

MOST_QUERIES: Final = 12
"""Queries on a page where none is named: those on which the methods differ most."""

LISTS: Final = ("first", "ranking", "best_pairs")
"""Where the details of a query keep what was ranked."""


def best_page(folders: Sequence[Path], *, queries: Sequence[str] = (), k: int = SHOWN) -> str:
    """A page with a row per method and its first `k` images for each query; right ones have a green frame."""
    runs = load_runs(folders)
    by_run = [{query.query_id: query for query in run.evaluation.queries} for run in runs]
    shared = [name for name in by_run[0] if all(name in found for found in by_run)]
    unknown = [name for name in queries if name not in shared]
    if unknown:
        known = ", ".join(shared[:5])
        raise DataError(f"no query {unknown[0]!r} is in every run; queries are called like {known}")
    chosen = list(queries) or _most_different(by_run, shared)
    files = _files(runs[0])
    pictures: dict[str, str | None] = {}
    sections = []
    for name in chosen:
        rows = "".join(_row(run, found[name], files, pictures, k=k) for run, found in zip(runs, by_run, strict=True))
        sections.append(section(name, f'<div class="scroll"><table class="best"><tbody>{rows}</tbody></table></div>'))
    title = f"The first {k} of {len(runs)} methods"
    said = f"{runs[0].evaluation.benchmark} · a green frame: right"
    return page(title=title, subtitle=said, sections=[_STYLE, *sections])


_STYLE: Final = (
    "<style>.best img{height:96px;max-width:170px;object-fit:cover;display:block;border-radius:5px;"
    "border:3px solid var(--rule)}.best .right img{border-color:var(--good)}"
    ".best td{vertical-align:top;text-align:left}"
    ".best small{display:block;max-width:170px;overflow:hidden;text-overflow:ellipsis;color:var(--soft)}</style>"
)


def _most_different(by_run: Sequence[Mapping[str, QueryScore]], shared: Sequence[str]) -> list[str]:
    """The queries whose first figure differs most between the runs, at most as many as fit a page."""

    def spread(name: str) -> float:
        values = [next(iter(found[name].metrics.values()), 0.0) for found in by_run]
        return max(values) - min(values)

    return sorted(shared, key=lambda name: (-spread(name), name))[:MOST_QUERIES]


def _files(run: Run) -> dict[str, Path]:
    """The image files of a run, as its benchmark finds them."""
    data = Path(str(run.asked.get("data", "")))
    if not data.is_dir():
        raise DataError(f"the data of the run, {data}, is not there any more; the page needs its images")
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in run.asked["options"].items()
    }
    return dict(load_task(run.evaluation.benchmark, data, Variant(**known)).images())


def _row(run: Run, query: QueryScore, files: Mapping[str, Path], pictures: dict[str, str | None], *, k: int) -> str:
    listed: Sequence[Any] = next((query.detail[key] for key in LISTS if key in query.detail), ())
    relevant = set(map(str, query.detail.get("relevant", ())))
    name, value = next(iter(query.metrics.items()), ("", 0.0))
    head = f"<th>{escape(run.name)}<small>{escape(name)} {figure(value, name)}</small></th>"
    return f"<tr>{head}{''.join(_cell(entry, relevant, files, pictures) for entry in listed[:k])}</tr>"


def _cell(entry: Any, relevant: set[str], files: Mapping[str, Path], pictures: dict[str, str | None]) -> str:
    image_id = str(entry["image_id"]) if isinstance(entry, Mapping) else str(entry)
    right = (isinstance(entry, Mapping) and entry.get("relevant") is True) or image_id in relevant
    path = files.get(image_id)
    if image_id not in pictures:
        pictures[image_id] = None if path is None else thumbnail(path)
    picture = pictures[image_id]
    shown = f'<img src="{picture}" alt="">' if picture else ""
    return f'<td class="{"right" if right else "wrong"}">{shown}<small>{escape(image_id)}</small></td>'

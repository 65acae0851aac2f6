"""Exploring: the collection as a map, and the reports of benchmarks."""

from __future__ import annotations

import hashlib
import html
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from wherein.arrays import Floats
from wherein.collection import Collection
from wherein.files import plain_files, write_durably
from wherein.server.problems import Problem
from wherein.server.routes import LibraryHere, ServedHere
from wherein.server.shapes import Shape

router = APIRouter(tags=["explore"])
MOST: Final = 20_000
"""Images that the map shows at most, spread evenly over the collection: on a map of 1,000 × 800
pixels each then has 40, and with twice as many they hide each other."""
REPORTS_MOST: Final = 500
"""Reports that are listed, the newest: more than a person scrolls through."""
# A report is one file with its own style and script; it may do nothing else, and may be shown inside the page.
_REPORT_HEADERS: Final = {
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'",
    "x-frame-options": "SAMEORIGIN",
}


class MapOut(Shape):
    """Where every image lies, x and y in [0, 1]; look-alikes lie close together."""

    projection: str
    total: int
    image_ids: list[str]
    x: list[float]
    y: list[float]


class ReportOut(Shape):
    """A report of a benchmark that can be opened on the page."""

    path: str
    title: str
    modified: str


@router.get("/collections/{name}/map")
async def map_of(served: ServedHere) -> MapOut:
    """A 2-D map, computed once and kept. Of more than 20,000 images, an even selection is shown."""

    def compute(collection: Collection) -> MapOut:
        image_ids, rows = collection.embeddings()
        signature = hashlib.blake2b(digest_size=8)
        signature.update(json.dumps([collection.encoder, image_ids]).encode("utf-8", "replace"))
        signature.update(rows[:1].tobytes())
        path = served.folder / "derived" / f"map.{signature.hexdigest()}.json"
        if path.exists():
            return MapOut.model_validate_json(path.read_bytes())
        chosen = np.unique(np.linspace(0, len(image_ids) - 1, min(len(image_ids), MOST)).astype(np.int64))
        x, y = project(rows[chosen])
        shown = [image_ids[number] for number in chosen.tolist()]
        found = MapOut(projection="pca", total=len(image_ids), image_ids=shown, x=x, y=y)
        write_durably(path, found.model_dump_json().encode("utf-8", "replace"))
        for other in path.parent.glob("map.*.json"):
            if other != path:
                other.unlink(missing_ok=True)
        return found

    return await served.searching(compute)


def project(rows: Floats) -> tuple[list[float], list[float]]:
    """The two directions in which images differ most, each spread evenly by rank so that no place is crowded."""
    if len(rows) < 3:
        return [(number + 0.5) / max(len(rows), 1) for number in range(len(rows))], [0.5] * len(rows)
    centred = rows - rows.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    places = centred @ directions[:, [-1, -2]]
    ranks = places.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    spread = (ranks + 0.5) / len(rows)
    low, high = places.min(axis=0), places.max(axis=0)
    straight = (places - low) / np.maximum(high - low, 1e-9)
    mixed = np.round(0.7 * spread + 0.3 * straight, 5)
    return mixed[:, 0].tolist(), mixed[:, 1].tolist()


@router.get("/reports")
def reports(library: LibraryHere) -> list[ReportOut]:
    """Every HTML report below the folder given with --reports, newest first."""
    folder = library.settings.reports
    if folder is None or not folder.is_dir():
        return []
    dated = sorted(
        ((path.stat().st_mtime, path) for path in plain_files(folder) if path.suffix == ".html"), reverse=True
    )
    return [
        ReportOut(
            path=path.relative_to(folder).as_posix(),
            title=_title(path),
            modified=datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds"),
        )
        for written, path in dated[:REPORTS_MOST]
    ]


@router.get("/report", response_class=HTMLResponse)
def report(library: LibraryHere, path: Annotated[str, Query(max_length=1000)]) -> HTMLResponse:
    """One report, as it was written."""
    folder = library.settings.reports
    known = {found.path for found in reports(library)}
    if folder is None or path not in known:
        raise Problem(404, f"there is no report {path!r}. Serve a folder of reports with --reports.")
    return HTMLResponse((folder / path).read_text("utf-8", "replace"), headers=_REPORT_HEADERS)


def _title(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(4000)
    _, _, rest = head.partition("<title>")
    return html.unescape(rest.partition("</title>")[0].strip()) or path.stem

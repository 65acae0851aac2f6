"""Small pictures for the page of a run: the queries that went worst, and what was found instead."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from wherein.bench.evaluation import QueryScore

WORST_QUERIES: Final = 24
"""Queries that a report shows, the worst first. Chosen by hand: a page that one still looks through."""
SHOWN_HITS: Final = 8
"""Hits of each that are shown."""
SIDE: Final = 168  # pixels, twice what is shown


def worst(queries: Sequence[QueryScore], most: int = WORST_QUERIES) -> list[QueryScore]:
    """The queries with the lowest first figure, which is what the page is sorted by."""
    scored = [query for query in queries if query.metrics]
    return sorted(scored, key=lambda query: (next(iter(query.metrics.values())), query.query_id))[:most]


def names_shown(query: QueryScore) -> Iterable[str]:
    """The names in a query's detail that a picture could stand for."""
    for value in query.detail.values():
        for entry in value[:SHOWN_HITS] if isinstance(value, list) else [value]:
            yield _name(entry)


def _name(entry: Any) -> str:
    return str(entry.get("image_id", "")) if isinstance(entry, Mapping) else str(entry)


def thumbnails(queries: Sequence[QueryScore], files: Mapping[str, Path]) -> dict[str, str]:
    """Data URIs by name, for the worst queries; an image that cannot be read has none."""
    made: dict[str, str] = {}
    for query in worst(queries):
        for name in names_shown(query):
            if name in files and name not in made:
                picture = thumbnail(files[name])
                if picture:
                    made[name] = picture
    return made


def thumbnail(path: Path) -> str | None:
    """A small picture of a file as a data URI, or None where it cannot be read."""
    import PIL.Image
    import PIL.ImageOps

    try:
        with PIL.Image.open(path) as picture:
            picture.draft("RGB", (SIDE, SIDE))
            upright = PIL.ImageOps.exif_transpose(picture).convert("RGB")
    except (OSError, ValueError, SyntaxError):
        return None
    upright.thumbnail((2 * SIDE, SIDE))
    data = io.BytesIO()
    upright.save(data, "WEBP", quality=60)
    return "data:image/webp;base64," + base64.b64encode(data.getvalue()).decode("ascii")

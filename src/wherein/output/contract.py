"""What every export must keep, checked by writing rankings into an empty folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from wherein.errors import SpecError
from wherein.images.image import decode
from wherein.images.thumbnail import thumbnail
from wherein.output.exports import export
from wherein.values.ranking import Hit, Ranking
from wherein.values.region import Box

_SIZE_WH: Final = (32, 24)
"""The size of the picture that every hit of the check shows."""


def check_export(kind: str, folder: Path) -> None:
    """Raise SpecError unless an export keeps the contract; it writes below `folder`, which must be there and be empty.

    For authors of exports and for our own tests.
    """
    picture = decode(np.full((_SIZE_WH[1], _SIZE_WH[0], 3), (200, 60, 20), np.uint8))
    small, source = thumbnail(picture), folder / "picture.jpg"
    source.write_bytes(small)
    for name, ranking in (("none", _ranking()), ("some", _ranking(*_hits(source)))):
        target = folder / name
        for time in ("first", "second"):
            export(ranking, f"{kind}:{target}", thumb_of=lambda _: small)
            _require(kind, target.exists(), f"wrote nothing the {time} time, where {name} was found")
        _require(kind, ranking == _ranking(*ranking.hits), "changes the ranking")
    _require(kind, source.read_bytes() == small, "changes the pictures")
    _require(kind, _size(folder / "some") > _size(folder / "none"), "writes no more of six hits than of none")


def _hits(source: Path) -> tuple[Hit, ...]:
    """Hits of every sort: with and without a file, a place, a mask, a confidence; names that no file may have."""
    mask = np.zeros((12, 16), np.bool_)
    mask[3:9, 4:12] = True
    return (
        Hit("plain.jpg", 1.0, size_wh=_SIZE_WH, path=source),
        Hit("placed.jpg", 0.9, 0.8, Box(0.25, 0.25, 0.75, 0.75), source, _SIZE_WH),
        Hit("outlined.jpg", 0.8, 0.7, Box(0.25, 0.25, 0.75, 0.75), source, _SIZE_WH, mask=mask),
        Hit('f/"odd" é\n.jpg', 0.7, size_wh=_SIZE_WH, path=source),
        Hit("from memory", 0.6, size_wh=_SIZE_WH),
        Hit("clip.mp4#t=1.50", 0.5, size_wh=_SIZE_WH, path=source.with_name("clip.mp4"), seconds=1.5),
    )


def _ranking(*hits: Hit) -> Ranking:
    return Ranking(hits, query="a red thing", encoder="toy", method="whole", score_kind="cosine", searched=len(hits))


def _size(target: Path) -> int:
    """The bytes that were written."""
    written = [target] if target.is_file() else [path for path in target.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in written)


def _require(kind: str, holds: bool, complaint: str) -> None:
    if not holds:
        raise SpecError(f"export {kind!r} breaks the contract: it {complaint}.")

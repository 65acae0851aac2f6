"""What a collection records and tells of itself, as values: files, images, reports, what may be returned."""

from __future__ import annotations

import math
import posixpath
import re
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import Final

from wherein.errors import InputError
from wherein.values.address import Location

_MONTH: Final = re.compile(r"(?P<year>\d{4})(-(?P<month>\d{1,2}))?")
"""A year, or a month of it."""
FOLDER: Final = ".wherein"
"""The folder that a collection keeps its own files in."""
MEMORY_ROOT: Final = ":memory:"
"""The root of images that were added from memory and have no file."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file as it was when it was read."""

    root: str
    path: str
    size: int
    mtime_ns: int
    hash: bytes = b""


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """One image of a file: the file itself, or a keyframe at `seconds`."""

    image_id: str
    size_wh: tuple[int, int]
    taken: float
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Details:
    """What a collection knows about one image."""

    image_id: str
    size_wh: tuple[int, int]
    taken: float
    """Time stamp: when the picture was taken, or else when its file was written."""
    seconds: float | None
    path: Location | None
    """Where its file lies; None for an image that was added from memory."""
    file_bytes: int
    digest: str
    """Changes when the file's content does."""
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """What one layer holds."""

    kind: str
    encoder: str
    images: int
    bytes_per_image: float
    index: str = "exact"
    """How its rows are searched: exact, or compressed to some bits a dimension."""
    recall: float | None = None
    """The share of the best 100 images that its compressed index found when that was measured."""


@dataclass(frozen=True, slots=True)
class Info:
    """What a collection holds."""

    folder: Path
    encoder: str
    roots: dict[str, Location]
    images: int
    tombstones: int
    skipped: int
    ignored: int
    """Files that were removed and that indexing leaves out."""
    tags: dict[str, int]
    layers: tuple[LayerInfo, ...]
    bytes: int

    @property
    def bytes_per_image(self) -> float:
        """Bytes on disk of all layers, per image."""
        return sum(layer.bytes_per_image for layer in self.layers)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` found and mended."""

    shards: int
    broken: tuple[Path, ...]
    """The files whose bytes are not those that were written: shards, the manifest, the catalogue, what is kept."""
    images_to_read_again: int
    """Files that the next `add` reads again, because rows of theirs were damaged or they were never read to the end."""
    doubled: int = 0
    """Images that had rows twice, which earlier versions did to duplicates; mended where that was asked for."""
    lost: tuple[str, ...] = ()
    """Images of which damaged rows were set aside that nothing can make again: their files are not there."""
    notes: tuple[str, ...] = ()
    """What was found and done beside that, in sentences."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that was left out, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class AddReport:
    """What an `add` did, in images; skipped and unchanged in files."""

    added: int = 0
    changed: int = 0
    completed: int = 0
    """Images that got layers they lacked; nothing else of them was made again."""
    renamed: int = 0
    duplicates: int = 0
    removed: int = 0
    unchanged: int = 0
    ignored: int = 0
    """Files that stay out because they were removed."""
    skipped: list[Skip] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a person should know beside the counts."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What is told of an image beside its embeddings."""

    image_id: str
    taken: float
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push of one layer to an index elsewhere did, in rows, and how well that index finds."""

    layer: str
    sent: int
    removed: int
    rows: int
    """Rows that it holds now."""
    kind: str
    """The type of index, as the server calls it."""
    recall: float
    """Of the best ten images of rows of the layer, how many it finds."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an `add` is, in files; or how far what a first search needs is, in pieces."""

    done: int
    total: int
    skip: Skip | None = None
    stage: str = ""
    """What is being made, where it is not the index of files."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which images a search may return. An empty filter lets all through."""

    folder: str | None = None
    """A glob over image_ids: `holiday` and `holiday/*` both mean everything below holiday."""
    after: float | None = None
    before: float | None = None
    """Time stamps: when the picture was taken, or else when its file was written."""
    tags: tuple[str, ...] = ()
    min_side: int = 0
    """The fewest pixels the longer side may have."""

    @property
    def empty(self) -> bool:
        """Whether every image passes."""
        return self == Filter()

    def sql(self) -> tuple[str, list[object]]:
        """A WHERE clause over `i` (images), and its parameters."""
        clauses, values = ["1"], list[object]()
        if self.folder is not None:
            folder = posixpath.normpath(self.folder).strip("/")
            glob = "*" if folder in ("", ".") else folder
            clauses.append("(i.image_id GLOB ? OR i.image_id GLOB ?)")
            values += [glob, f"{glob}/*"]
        if self.after is not None:
            clauses.append("i.taken >= ?")
            values.append(self.after)
        if self.before is not None:
            clauses.append("i.taken < ?")
            values.append(self.before)
        if self.min_side:
            clauses.append("MAX(i.width, i.height) >= ?")
            values.append(self.min_side)
        for tag in self.tags:
            clauses.append("i.id IN (SELECT image FROM tags WHERE tag = ?)")
            values.append(tag)
        return " AND ".join(clauses), values


_MIDDLE_YEAR: Final = 5000
"""Between the first year and the last: only days at either end have no time stamp."""


def stamp(day: date | str | int | None, *, option: str = "date") -> float | None:
    """The time stamp at which a day begins, or the month `2024-05`, or the year `2024` or 2024; of a moment, its own.

    A date and time may be given as 2024-05-01T13:30 or as a datetime.
    """
    if day is None:
        return None
    try:
        moment = _moment(day)
    except (ValueError, OverflowError):
        raise InputError(
            f"{option} = {day!r} is not a date: write it as 2024, 2024-05, 2024-05-01 or 2024-05-01T13:30."
        ) from None
    try:
        return (moment if isinstance(moment, datetime) else datetime.combine(moment, time())).timestamp()
    except (ValueError, OverflowError, OSError):  # the first and the last days there are, in some time zones
        return -math.inf if moment.year < _MIDDLE_YEAR else math.inf


def _moment(day: date | str | int) -> date:
    """The date or datetime that is meant; ValueError where none is."""
    if isinstance(day, date):
        return day
    if isinstance(day, int) and not isinstance(day, bool):
        return date(day, 1, 1)
    if not isinstance(day, str):
        raise ValueError("neither a date nor written as one")
    month = _MONTH.fullmatch(day.strip())
    if month is not None:
        return date(int(month["year"]), int(month["month"] or 1), 1)
    return datetime.fromisoformat(day.strip())

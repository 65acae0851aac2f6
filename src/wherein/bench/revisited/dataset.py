"""Revisited Oxford and Paris (`roxford5k`, `rparis6k`): truth pickles and rank arrays."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein.bench.pickles import read_npy, read_pickle
from wherein.errors import DataError

Ints = NDArray[np.int64]
NAMES: Final = ("roxford5k", "rparis6k")
PROTOCOLS: Final = ("easy", "medium", "hard")


@dataclass(frozen=True)
class RevisitedQuery:
    """One query: its image, the object's box in pixels (None when not given), and rows of the image list."""

    image: str
    xyxy: tuple[float, float, float, float] | None
    easy: Ints
    hard: Ints
    junk: Ints

    def under(self, protocol: str) -> tuple[Ints, Ints]:
        """(relevant, junk) under easy, medium or hard."""
        if protocol == "easy":
            return self.easy, np.concatenate([self.junk, self.hard])
        if protocol == "medium":
            return np.concatenate([self.easy, self.hard]), self.junk
        return self.hard, np.concatenate([self.junk, self.easy])


@dataclass(frozen=True)
class Revisited:
    """Images, queries and graded truth."""

    name: str
    images: tuple[str, ...]
    queries: tuple[RevisitedQuery, ...]
    warnings: tuple[str, ...]


def truth_path(root: Path, name: str) -> Path:
    """Where gnd_<name>.pkl lies: in the folder itself or where the official code keeps it."""
    file = f"gnd_{name}.pkl"
    places = [root / part / file for part in (".", name, f"datasets/{name}", f"data/datasets/{name}", f"data/{name}")]
    places += [root / "revisitop" / part / file for part in (f"data/{name}", f"data/datasets/{name}", name)]
    for place in places:
        if place.is_file():
            return place
    raise DataError(f"{file} is not in {root} nor in its {name}/ folder; download it from the revisitop page")


def load(root: Path, *, name: str) -> Revisited:
    """The truth of `roxford5k` or `rparis6k`."""
    path = truth_path(root, name)
    document = read_pickle(path)
    if not isinstance(document, dict) or not {"imlist", "qimlist", "gnd"} <= set(document):
        raise DataError(f"{path}: a dict with imlist, qimlist and gnd is needed")
    for part in ("imlist", "qimlist", "gnd"):
        if not isinstance(document[part], (list, tuple)) and getattr(document[part], "ndim", 0) != 1:
            raise DataError(f"{path}: {part} is not a list")
    images = tuple(map(str, document["imlist"]))
    query_images = tuple(map(str, document["qimlist"]))
    truth = list(document["gnd"])
    if len(query_images) != len(truth):
        raise DataError(f"{path}: {len(query_images)} query images but truth for {len(truth)}")
    swapped: list[int] = []
    queries = []
    for number, (image, entry) in enumerate(zip(query_images, truth, strict=True)):
        queries.append(_query(image, entry, size=len(images), where=f"{path}, query {number}"))
        if (box := _box(entry, where=f"{path}, query {number}")) and (box[0] > box[2] or box[1] > box[3]):
            swapped.append(number)
    warnings: tuple[str, ...] = ()
    if swapped:
        warnings = (f"the boxes of queries {', '.join(map(str, swapped))} had swapped corners; put in order",)
    return Revisited(name, images, tuple(queries), warnings)


def _query(image: str, entry: Any, *, size: int, where: str) -> RevisitedQuery:
    if not isinstance(entry, dict):
        raise DataError(f"{where}: a dict with easy, hard and junk is needed")
    parts = {}
    for kind in ("easy", "hard", "junk"):
        if kind not in entry:
            raise DataError(f"{where}: {kind!r} is missing; this is not a truth file of the revisited benchmark")
        try:
            rows = np.asarray(entry[kind])
        except ValueError:  # lists of several lengths
            rows = np.full(1, np.nan)
        if rows.size and (rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= size):
            raise DataError(f"{where}: {kind!r} must hold rows of the {size} images, counted from 0")
        parts[kind] = rows.reshape(-1).astype(np.int64)
    box = _box(entry, where=where)
    if box:
        box = (min(box[0], box[2]), min(box[1], box[3]), max(box[0], box[2]), max(box[1], box[3]))
    return RevisitedQuery(image, box, **parts)


def _box(entry: Any, *, where: str) -> tuple[float, float, float, float] | None:
    values = entry.get("bbx") if isinstance(entry, dict) else None
    if values is None:
        return None
    try:
        sides = np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        sides = np.empty(0)
    if len(sides) != 4 or not np.isfinite(sides).all():
        raise DataError(f"{where}: bbx {values!r} is not x1, y1, x2, y2")
    return float(sides[0]), float(sides[1]), float(sides[2]), float(sides[3])


def read_ranks(path: Path, *, data: Revisited) -> tuple[Ints, tuple[str, ...]]:
    """A ranks array (database × query) of rows of the image list, best first, and warnings about it.

    Rows beyond the image list are distractors.
    """
    ranks = read_npy(path)
    if not isinstance(ranks, np.ndarray) or ranks.ndim != 2 or ranks.dtype.kind not in "iu":
        found = f"{ranks.dtype} {ranks.shape}" if isinstance(ranks, np.ndarray) else type(ranks).__name__
        raise DataError(f"{path}: an integer array (database × query) is needed, found {found}")
    queries, images = len(data.queries), len(data.images)
    if ranks.shape[1] != queries:
        turned = "; it is turned: save its transpose" if ranks.shape[0] == queries else ""
        raise DataError(f"{path}: {ranks.shape[1]} columns for {queries} queries (database × query){turned}")
    order = ranks.astype(np.int64)
    if order.size and order.min() < 0:
        raise DataError(f"{path}: a rank of {order.min()}; rows of the image list count from 0")
    for number in range(queries):
        column = np.sort(order[:, number])
        double = np.flatnonzero(column[1:] == column[:-1])
        if len(double):
            raise DataError(f"{path}, query {number}: image {column[double[0]]} is ranked twice; rank every image once")
    known = np.count_nonzero(order < images, axis=0) if order.size else np.zeros(queries, dtype=np.int64)
    short = int(np.count_nonzero(known < images))
    warnings: tuple[str, ...] = ()
    if short:
        warnings = (
            f"the rankings of {short} of {queries} queries are truncated (as few as {int(known.min())} of "
            f"{images} images); relevant images that are not ranked count as never found",
        )
    return order, warnings

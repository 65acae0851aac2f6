"""A query → hits: encode its parts, score every image, combine, rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, overload

import numpy as np

from wherein.embed import detail
from wherein.encoders import Encoder, Floats, unit
from wherein.errors import QueryError
from wherein.image import decode
from wherein.index import Exact, Ints, Mask, best
from wherein.query import Method, Part, Query
from wherein.region import Box
from wherein.shards import Array


@dataclass(frozen=True, slots=True)
class Hit:
    """An image that answers a query. `box` says where in it, where the method knows."""

    image_id: str
    score: float
    confidence: float | None = None
    box: Box | None = None
    path: Path | None = None
    size_wh: tuple[int, int] = (0, 0)
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Ranking(Sequence[Hit]):
    """Hits, best first, and how they were scored."""

    hits: tuple[Hit, ...]
    query: str
    encoder: str
    method: str
    score_kind: str
    searched: int = field(default=0)
    """How many images passed the filters and were ranked."""

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


class Scorer(Protocol):
    """Scores every image of a layer, and says where the best score of an image lies."""

    def scores(self, queries: Floats) -> Floats:
        """(m, d) queries → (m, images)."""

    def where(self, query: Floats, images: Ints) -> list[Box | None]:
        """The region of each image that scored best for one query (d,)."""


class WholeScorer:
    """Method `whole`: the embedding of the image, or of its best tile."""

    def __init__(self, rows: Floats, owners: Ints, boxes: Sequence[Box | None]) -> None:
        self._index, self._boxes = Exact(rows, owners), boxes

    def scores(self, queries: Floats) -> Floats:
        """Cosines with each image's best row."""
        return self._index.scores(queries)

    def where(self, query: Floats, images: Ints) -> list[Box | None]:
        """The tile that matched; None for the whole image."""
        return [self._boxes[row] for row in self._index.best_rows(query, images)]


class PatchScorer:
    """Method `patches`: the best patch anywhere, so that small things are found.

    Grids stay on disk as 127ths and are scanned a shard at a time.
    """

    def __init__(self, grids: Sequence[tuple[Array, Ints]], owners: Ints, boxes: Sequence[Box | None]) -> None:
        """`grids`: (shard (n, gh, gw, c), its rows in use), which in order are the rows that `owners` names."""
        self._grids, self._owners, self._boxes = grids, owners, boxes
        self._count = int(owners.max(initial=-1)) + 1

    def scores(self, queries: Floats) -> Floats:
        """Cosines with each image's best patch; queries in the patches' own basis."""
        scores = np.full((self._count, len(queries)), -np.inf, np.float32)
        start = 0
        for grid, rows in self._grids:
            for piece in np.array_split(rows, max(1, len(rows) // 64)):
                flat = _floats(grid[piece]).reshape(len(piece), -1, queries.shape[1])
                found = (flat @ queries.T).max(axis=1)
                np.maximum.at(scores, self._owners[start : start + len(piece)], found)
                start += len(piece)
        return scores.T

    def where(self, query: Floats, images: Ints) -> list[Box | None]:
        """The best patch of each image."""
        return [self._best_patch(query, int(image)) for image in images]

    def _best_patch(self, query: Floats, image: int) -> Box | None:
        bounds = np.cumsum([0, *(len(rows) for _, rows in self._grids)])
        best_score, best_box = -np.inf, None
        for row in np.flatnonzero(self._owners == image).tolist():
            shard = int(np.searchsorted(bounds, row, side="right")) - 1
            grid, rows = self._grids[shard]
            heat = _floats(grid[rows[row - bounds[shard]]]) @ query
            if heat.max() > best_score:
                best_score = float(heat.max())
                y, x = np.unravel_index(int(heat.argmax()), heat.shape)
                best_box = _cell(int(x), int(y), heat.shape, self._boxes[row])
        return best_box


@dataclass(frozen=True, slots=True)
class _Group:
    """Parts of one modality and sign: what they are compared with, and how much they count."""

    vectors: Floats
    weight: float


def rank(
    query: Query, scorer: Scorer, *, encoder: Encoder, method: Method, k: int, allowed: Mask | None
) -> tuple[Ints, Floats, list[Box | None], str]:
    """The best k images: their numbers, scores, regions, and the kind of score."""
    groups = [group for group in _groups(query, encoder, method) if group.weight]
    spaces = [_in_scorer_space(group.vectors, scorer, encoder) for group in groups]
    each = [scorer.scores(vectors).max(axis=0) for vectors in spaces]
    if len(groups) == 1:
        total, kind = each[0], "cosine"
    else:
        parts = [group.weight * _standardised(scores) for group, scores in zip(groups, each, strict=True)]
        total, kind = np.asarray(np.sum(parts, axis=0), np.float32), "standardised"
    top = best(total, k=k, allowed=allowed)
    return top.images, top.scores, scorer.where(spaces[0][0], top.images), kind


def _groups(query: Query, encoder: Encoder, method: Method) -> list[_Group]:
    """Positive texts, positive images, negative texts, negative images: the first group always looks for."""
    groups = []
    for negative in (False, True):
        texts = [part for part in query.parts if part.text is not None and part.negative is negative]
        images = [part for part in query.parts if part.image is not None and part.negative is negative]
        if texts:
            if not encoder.embeds_text:
                raise QueryError(f"{encoder.spec} does not understand text: search with --image FILE.")
            groups.append(_group(encoder.texts([part.text or "" for part in texts]), texts, method))
        if images:
            groups.append(_group(_embed_images(images, encoder), images, method))
    return groups


def _group(vectors: Floats, parts: Sequence[Part], method: Method) -> _Group:
    weights = np.array([part.weight for part in parts], np.float32)
    if method.support == "mean":
        vectors = unit((weights[:, None] * vectors).sum(axis=0, keepdims=True))
    sign = -1.0 if parts[0].negative else 1.0
    return _Group(vectors, sign * float(weights.mean()))


def _embed_images(parts: Sequence[Part], encoder: Encoder) -> Floats:
    # A whole example is decoded as it was indexed, so that every image finds itself; a region needs all its pixels.
    whole = detail(encoder)
    examples = [
        (decode(part.image, at_least=whole if part.box is None else None), part.box)
        for part in parts
        if part.image is not None
    ]
    inputs = [encoder.prepare(image if box is None else image.crop(box)) for image, box in examples]
    return encoder.images(np.stack(inputs)).global_


def _in_scorer_space(vectors: Floats, scorer: Scorer, encoder: Encoder) -> Floats:
    if isinstance(scorer, PatchScorer) and encoder.patch_basis is not None:
        return vectors @ encoder.patch_basis
    return vectors


def _standardised(scores: Floats) -> Floats:
    spread = float(scores.std(dtype=np.float64))
    centred = scores - np.float32(scores.mean(dtype=np.float64))
    return centred / np.float32(spread) if spread > 1e-9 else np.zeros_like(scores)


def _floats(stored: Array) -> Floats:
    values = np.asarray(stored, np.float32)
    return values / np.float32(127) if stored.dtype == np.int8 else values


def _cell(x: int, y: int, shape: tuple[int, ...], tile: Box | None) -> Box:
    rows, columns = shape
    outer = tile or Box(0.0, 0.0, 1.0, 1.0)
    width, height = (outer.x2 - outer.x1) / columns, (outer.y2 - outer.y1) / rows
    left, top = outer.x1 + x * width, outer.y1 + y * height
    return Box(left, top, min(1.0, left + width), min(1.0, top + height))

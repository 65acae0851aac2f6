"""How well every image answers: one scorer per search word, over whole images or places in them.

Queries come as (m, d) unit vectors of the encoder's space. `where` says in which box of an image to look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.encoders import Encoder
from wherein.errors import ImageError, QueryError
from wherein.images.image import Detail, Pixels, decode
from wherein.index.cells import Cells, blocks
from wherein.index.exact import Exact
from wherein.limits import checkpoint
from wherein.search.evidence import standardised
from wherein.search.expansion import GRAPH_NEIGHBOURS, nearest
from wherein.store.originals import Original
from wherein.store.shards import Array, in_parallel
from wherein.values.region import Box, iou, overlap

WHOLE_SHARE: Final = 0.5
"""How much the whole image counts beside a place in it: what surrounds a thing says where to expect it;"""
GRID_WHOLE_SHARE: Final = 0.25
"""beside the cells of a grid and the patches under the box, which see some of that;"""
ANYWHERE_SHARE: Final = 2.0
"""and beside the best of hundreds of patches, one of which is always good by chance."""
PATCHES_SHARE: Final = 1.0
"""How much the patches right under a box count beside the cells it touches."""
_SAMPLE: Final = 4096
_BLOCK: Final = 64
WHOLE: Final = Box(0.0, 0.0, 1.0, 1.0)


class Scorer(Protocol):
    """Scores every image, and says where in it the best score lies."""

    kind: str
    """`cosine`, or `standardised` over the collection."""

    def scores(self, queries: Floats, where: Box | None) -> Floats:
        """(m, d) queries → (m, images)."""

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The region of each image that scored best for one query (d,); None is the whole image."""


class WholeScorer:
    """`whole`: the embedding of the image, or of its best tile. It looks everywhere, whatever `where` says."""

    kind = "cosine"

    def __init__(self, rows: Floats, owners: Ints, boxes: Sequence[Box | None]) -> None:
        self._index, self._boxes = Exact(rows, owners), boxes

    @property
    def embeddings(self) -> Floats:
        """(images, d): the embedding of each whole image."""
        return self._index.first_rows

    @cached_property
    def neighbours(self) -> tuple[Ints, Floats]:
        """Each image's nearest others, (images, k), and their cosines; found at first use."""
        return nearest(self.embeddings, neighbours=GRAPH_NEIGHBOURS)

    def scores(self, queries: Floats, where: Box | None) -> Floats:  # noqa: ARG002 — the baseline of the study
        """Cosines with each image's best row."""
        return self._index.scores(queries)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:  # noqa: ARG002
        """The tile that matched; None for the whole image."""
        return [self._boxes[row] for row in self._index.best_rows(query, images).tolist()]


_Alike = tuple[Array, Ints, Ints, Box | None]
"""A shard, some of its rows, their images, the tile they all are of."""


class PatchScorer:
    """`patches`: the mean patch under `where`, or the best one anywhere, so that small things are found.

    What is usually seen at a patch's place is taken out first: most pictures have sky above and ground below. `alone`
    leaves it in and takes the best patch under `where` too, as the papers do. Grids stay on disk, as 127ths in the
    encoder's compact basis, and are scanned a block at a time.
    """

    kind = "cosine"

    def __init__(
        self,
        grids: Sequence[tuple[Array, Ints]],
        owners: Ints,
        boxes: Sequence[Box | None],
        basis: Floats | None,
        *,
        alone: bool = False,
    ) -> None:
        """`grids`: (shard (n, gh, gw, c), its rows in use); in order they are the rows that `owners` names."""
        self._grids, self._owners, self._boxes, self._basis, self._alone = grids, owners, boxes, basis, alone
        self._bounds = np.cumsum([0, *(len(rows) for _, rows in grids)])
        self._count = int(owners.max(initial=-1)) + 1

    def scores(self, queries: Floats, where: Box | None) -> Floats:
        """Cosines with each image's best patch, or mean ones with what is under the box, less the usual ones."""
        coefficients = _projected(queries, self._basis)
        scores = np.full((self._count, len(queries)), -np.inf, np.float32)
        usual = None if self._alone else self._usual @ coefficients.T

        def look(alike: _Alike) -> list[tuple[Ints, Floats]]:
            return list(self._seen(alike, coefficients, usual, where))

        for found in in_parallel(look, self._alike):
            for owners, cosines in found:
                np.maximum.at(scores, owners, cosines)
        return scores.T

    def _seen(
        self, alike: _Alike, coefficients: Floats, usual: Floats | None, where: Box | None
    ) -> Iterator[tuple[Ints, Floats]]:
        """(images (b,), cosines (b, m)), a block at a time; nothing where `where` lies off the tile."""
        grid, rows, owners, tile = alike
        under = _under(grid.shape[1:3], tile, where)
        down, across = slice(*_ends(under.max(axis=1))), slice(*_ends(under.max(axis=0)))
        shares = under[down, across].ravel()
        for some in blocks(len(rows), size=len(shares) * grid.shape[-1]) if len(shares) else ():
            patches = grid[rows[some], down, across].astype(np.float32)
            heat = patches @ (_step(grid) * coefficients).T
            heat = (heat if usual is None else heat - usual[down, across]).reshape(len(patches), len(shares), -1)
            best = where is None or self._alone
            yield owners[some], heat.max(axis=1) if best else np.tensordot(heat, shares / shares.sum(), axes=(1, 0))

    @cached_property
    def _alike(self) -> list[_Alike]:
        alike = []
        for (grid, rows), start in zip(self._grids, self._bounds.tolist(), strict=False):
            of_tile = dict[Box | None, list[int]]()
            for number, tile in enumerate(self._boxes[start : start + len(rows)]):
                of_tile.setdefault(tile, []).append(number)
            alike += [(grid, rows[some], self._owners[start:][some], tile) for tile, some in of_tile.items()]
        return alike

    @cached_property
    def _usual(self) -> Floats:
        """(gh, gw, c): what is seen at each place on average, over a sample of the rows."""
        step = max(1, int(self._bounds[-1]) // _SAMPLE)
        sums = [as_floats(grid[rows[::step]]).sum(axis=0) for grid, rows in self._grids]
        counts = [len(rows[::step]) for _, rows in self._grids]
        return np.asarray(np.sum(sums, axis=0) / max(sum(counts), 1), np.float32)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The best patch of each image."""
        coefficients = _projected(query[None], self._basis)[0]
        return [self._best_patch(coefficients, where, image) for image in images.tolist()]

    def _best_patch(self, coefficients: Floats, where: Box | None, image: int) -> Box | None:
        best_score, best_box = -np.inf, None
        for row in np.flatnonzero(self._owners == image).tolist():
            shard = int(np.searchsorted(self._bounds, row, side="right")) - 1
            grid, rows = self._grids[shard]
            patches = as_floats(grid[rows[row - self._bounds[shard]]])
            heat = (patches if self._alone else patches - self._usual) @ coefficients
            heat[_under(heat.shape, self._boxes[row], where) <= 0.0] = -np.inf
            if heat.max() > best_score:
                best_score = float(heat.max())
                y, x = np.unravel_index(int(heat.argmax()), heat.shape)
                best_box = patch_box(int(x), int(y), heat.shape, tile=self._boxes[row])
        return best_box


@dataclass(frozen=True, slots=True)
class Look:
    """One of several ways to look at every image, and how much it counts beside the others."""

    scorer: Scorer
    share: float = 1.0
    anywhere: float | None = None
    """How much it counts where no place was asked for, if not `share`."""


def whole_embeddings(scorer: Scorer) -> Floats | None:
    """(images, d): the embeddings of whole images that a scorer looks at, alone or beside others; None: at none."""
    looks = [look.scorer for look in scorer.looks] if isinstance(scorer, SumScorer) else [scorer]
    return next((one.embeddings for one in looks if isinstance(one, WholeScorer)), None)


class SumScorer:
    """Several looks at an image, each standardised over the collection, and summed; the first says where."""

    kind = "standardised"

    def __init__(self, *looks: Look) -> None:
        self.looks = looks

    def scores(self, queries: Floats, where: Box | None) -> Floats:
        """How far each image stands out."""
        shares = [look.anywhere if where is None and look.anywhere is not None else look.share for look in self.looks]
        parts = [
            share * standardised(look.scorer.scores(queries, where))
            for look, share in zip(self.looks, shares, strict=True)
            if share
        ]
        return np.asarray(np.sum(parts, axis=0), np.float32)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The place that scored best in the first look."""
        return self.looks[0].scorer.regions(query, where, images)


class CellScorer:
    """`static-5`, `static-9`, `static-36`: the cells of a grid that `where` chooses.

    Cells are chosen by `soft` (all, each as much as it shares with the box, so that a sloppy box does not lose what
    lies just outside), `best` (the one of highest IoU) or `any` (the best of all that the box touches). Each cell's
    cosines are standardised over the collection first: what a corner usually shows must not win by being there.
    `alone` keeps the cosines, as the study scores.
    """

    def __init__(self, cells: Cells, boxes: Sequence[Box], *, choose: str, alone: bool = False) -> None:
        """`boxes` says where each of the `cells` is."""
        self._cells, self._boxes, self._choose = cells, boxes, choose
        self._last: tuple[bytes, Box | None, Floats] | None = None
        self.kind = "cosine" if alone else "standardised"

    def scores(self, queries: Floats, where: Box | None) -> Floats:
        """How far the chosen cells stand out."""
        chosen, weights = self._chosen(where)
        each = self._each(queries, where, chosen)
        soft = self._choose == "soft" and where is not None
        return np.asarray(np.einsum("c,cmn->mn", weights, each) if soft else each.max(axis=0), np.float32)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:
        """The chosen cell that stands out most; of soft ones, among those that count most."""
        chosen, weights = self._chosen(where)
        each = self._each(query[None], where, chosen)[:, 0, images]
        if self._choose == "soft":
            each = np.where(weights[:, None] >= weights.max() / 2, each, -np.inf)
        return [self._boxes[chosen[best]] for best in each.argmax(axis=0).tolist()]

    def _each(self, queries: Floats, where: Box | None, chosen: Sequence[int]) -> Floats:
        """(chosen cells, m, images) scores; the last are kept, because their regions are asked for next."""
        last, asked = self._last, queries.tobytes()
        if last is not None and last[:2] == (asked, where):
            return last[2]
        cosines = self._cells.cosines(queries, chosen)
        each = cosines if self.kind == "cosine" else standardised(cosines)
        self._last = (asked, where, each)
        return each

    def _chosen(self, where: Box | None) -> tuple[list[int], Floats]:
        if where is None:
            return list(range(len(self._boxes))), np.ones(len(self._boxes), np.float32)
        if self._choose == "best":
            scores = [iou(cell, where) for cell in self._boxes]
            return [scores.index(max(scores))], np.ones(1, np.float32)
        touched = [number for number, cell in enumerate(self._boxes) if overlap(cell, where) > 0.0]
        weights = np.array([iou(self._boxes[number], where) for number in touched], np.float32)
        return touched, weights / weights.sum()


class TheoreticalScorer:
    """`theoretical`: every image cropped to the query's box and encoded at query time; the study's upper bound."""

    kind = "cosine"

    def __init__(self, files: Sequence[Original | None], encoder: Encoder) -> None:
        self._files, self._encoder = files, encoder

    def scores(self, queries: Floats, where: Box | None) -> Floats:
        """Cosines with the crops; an image whose file cannot be read scores −1."""
        if where is None:
            raise QueryError("method theoretical crops every image to the query's box: say where with --where.")
        scores = np.full((len(queries), len(self._files)), -1.0, np.float32)
        for start in range(0, len(self._files), _BLOCK):
            checkpoint(start, of=len(self._files))
            read, rows = crop_embeddings(self._files[start : start + _BLOCK], where, self._encoder)
            scores[:, start + read] = queries @ rows.T
        return scores

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:  # noqa: ARG002
        """The box that was asked for."""
        return [where for _ in images]


def crop_embeddings(
    files: Sequence[Original | None], place: Box, encoder: Encoder, *, at_least: Detail | None = None
) -> tuple[Ints, Floats]:
    """A place in image files, cropped and encoded: which of them could be read (n,), and their embeddings (n, d)."""

    def crop(file: Original | None) -> Pixels | None:
        if file is None:
            return None
        try:
            image = decode(file.read(), at_least=at_least, name=str(file.path))
            return encoder.prepare(image.crop(place))
        except ImageError:
            return None

    crops = {number: made for number, made in enumerate(in_parallel(crop, files)) if made is not None}
    if not crops:
        return np.zeros(0, np.int64), np.zeros((0, encoder.dim), np.float32)
    return np.array(list(crops), np.int64), encoder.images(np.stack(list(crops.values()))).global_


def as_floats(stored: Array) -> Floats:
    """Stored rows as numbers: 127ths and halves back to floats."""
    return np.asarray(stored, np.float32) * _step(stored)


def patch_box(x: int, y: int, shape: tuple[int, ...], *, tile: Box | None) -> Box:
    """The box of patch (x, y) of a grid of `shape` (rows, columns), inside `tile`."""
    rows, columns = shape
    outer = tile or WHOLE
    width, height = (outer.x2 - outer.x1) / columns, (outer.y2 - outer.y1) / rows
    left, top = outer.x1 + x * width, outer.y1 + y * height
    return Box(left, top, min(1.0, left + width), min(1.0, top + height))


def _step(stored: Array) -> np.float32:
    """What one counts for in stored numbers."""
    return np.float32(1 / 127 if stored.dtype == np.int8 else 1)


def _ends(weights: Floats) -> tuple[int, int]:
    """The first place that weighs something and the one after the last; (0, 0) where none does."""
    places = np.flatnonzero(weights)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)


def _projected(queries: Floats, basis: Floats | None) -> Floats:
    return queries if basis is None else queries @ basis


def _under(shape: tuple[int, ...], tile: Box | None, where: Box | None) -> Floats:
    """(gh, gw): how much of each patch lies under `where`."""
    if where is None:
        return np.ones(shape, np.float32)
    outer = tile or WHOLE
    across = _spans(shape[1], outer.x1, outer.x2, low=where.x1, high=where.x2)
    down = _spans(shape[0], outer.y1, outer.y2, low=where.y1, high=where.y2)
    return np.asarray(np.outer(down, across), np.float32)


def _spans(count: int, first: float, last: float, *, low: float, high: float) -> Floats:
    """How much of [low, high] each of `count` equal steps from `first` to `last` covers."""
    edges = np.linspace(first, last, count + 1)
    return np.asarray(np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0.0, None), np.float32)

"""Layers as they are searched: what a method needs of a collection, loaded once and kept until it changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.encoders import Encoder
from wherein.errors import CollectionCorrupt, InputError, QueryError
from wherein.index.cells import Cells, PlaceRows, lengths_of, shares_of
from wherein.indexing.embed import PROPOSALS, features_of, layers_of, local_layer
from wherein.search.expansion import Weighting, augment
from wherein.search.local import LocalIndex, OnStep, Regions, load_local, no_step
from wherein.search.method import AUGMENT, Method
from wherein.search.scorers import (
    ANYWHERE_SHARE,
    GRID_WHOLE_SHARE,
    PATCHES_SHARE,
    WHOLE_SHARE,
    CellScorer,
    Look,
    PatchScorer,
    Scorer,
    SumScorer,
    TheoreticalScorer,
    WholeScorer,
    as_floats,
)
from wherein.store.shards import Array
from wherein.store.store import Layer, Store
from wherein.values.region import Box, Grid

_PLACES: Final = ("patches", PROPOSALS)
"""Searches, beside grids, that look at places in an image."""
_UNROWED: Final = ("patches", "theoretical")
"""Searches that compare no row of embeddings an image."""


@dataclass(frozen=True, slots=True)
class View:
    """What a method searches: the images it can rank, in the order of their ids, and their scorer."""

    images: Ints
    """(n,) the catalogue's keys"""
    scorer: Scorer
    store: Store
    local: LocalIndex | None = None
    """The local features, where the method uses them."""

    def thumb(self, image: int) -> bytes | None:
        """The small JPEG of image number `image`, where the collection keeps one."""
        return self.store.thumb(int(self.images[image]))

    def grid(self, image: int, *, kind: str, encoder: Encoder) -> Floats | None:
        """The stored `patches` or `dense` grid (gh, gw, c) of the whole image; None where the layer is not kept."""
        for layer in layers_of(encoder, [kind]):
            place = self.store.catalogue.place(int(self.images[image]), layer.name)
            if place is not None:
                shard, _, row = place
                return as_floats(self.store.array(layer.name, shard)[row])
        return None


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the rows of a layer lie: (rows, 3) image, shard, row; by image_id, the whole image first."""

    rows: Ints
    boxes: list[Box | None]
    images: Ints
    owners: Ints

    def of(self, images: Ints) -> _Places:
        """The rows of some images alone, in their order."""
        number = np.full(len(self.images), -1, np.int64)
        number[_numbers(self.images, images)] = np.arange(len(images))
        kept = np.flatnonzero(number[self.owners] >= 0)
        return _Places(self.rows[kept], [self.boxes[row] for row in kept.tolist()], images, number[self.owners[kept]])


class Views:
    """The views of one collection."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept = dict[tuple[str, str], tuple[int, View]]()
        self._on_step: OnStep = no_step

    def of(self, encoder: Encoder, method: Method, *, on_step: OnStep = no_step) -> View:
        """The view of a method, loaded anew when another process has changed the collection.

        `on_step` is told before each piece of what takes long and is kept under derived/; it may raise to stop there.
        """
        self._on_step = on_step
        key = (
            encoder.spec,
            f"{method.search}~{method.cells}~{method.fill}~{method.context}~{method.local}~{method.words}~{method.embeds}"
            f"~{method.weighting if method.augmented else None}",
        )
        version = self._store.catalogue.version()
        if key in self._kept and self._kept[key][0] == version:
            return self._kept[key][1]
        try:
            view = self._load(encoder, method)
        except CollectionCorrupt:
            if self._store.catalogue.version() == version:
                raise
            return self.of(encoder, method, on_step=on_step)  # another process compacted it meanwhile
        self._kept[key] = (version, view)
        return view

    def clear(self) -> None:
        """Forget everything that was loaded."""
        self._kept.clear()

    def _load(self, encoder: Encoder, method: Method) -> View:
        layer = self._layer(encoder, method.layer, method)
        places = self._places(layer)
        scorer: Scorer
        if method.augmented and (method.grid is not None or method.search in _UNROWED):
            raise QueryError(f"{AUGMENT} moves the embeddings of whole images: leave out {method.search}.")
        if not method.embeds:
            return self._worded(encoder, method, layer, places)
        if method.grid is not None:
            cells = self._cells(layer, places, method.grid, encoder)
            scorer = CellScorer(cells, method.grid.boxes(), choose=method.cells, alone=method.context == "alone")
        elif method.search == "patches":
            scorer = self._patches(layer, places, encoder, method)
        elif method.search == "theoretical":
            scorer = TheoreticalScorer([self._store.original(key) for key in places.images.tolist()], encoder)
        else:
            rows = self._augmented(layer, places, method) if method.augmented else self._matrix(layer, places.rows)
            scorer = WholeScorer(rows, places.owners, places.boxes)
        placed = method.grid is not None or method.search in _PLACES
        if placed and method.context == "beside":
            scorer = SumScorer(Look(scorer), *self._beside(encoder, method, places.images))
        return View(places.images, scorer, self._store, self._local(encoder, method, places.images))

    def _worded(self, encoder: Encoder, method: Method, layer: Layer, places: _Places) -> View:
        """The view of local features alone; where they make an embedding, steps ask that."""
        local = self._local(encoder, method, places.images)
        if local is not None and method.augmented:
            local = local.augmented(cast(Weighting, method.weighting))
        rows = None if local is None else local.embeddings
        if rows is None:
            scorer = WholeScorer(self._matrix(layer, places.rows), places.owners, places.boxes)
        else:
            scorer = WholeScorer(rows, np.arange(len(rows)), [None] * len(rows))
        return View(places.images, scorer, self._store, local)

    def _beside(self, encoder: Encoder, method: Method, images: Ints) -> Iterator[Look]:
        """What counts beside a look at places: the whole image and, beside a grid, the patches right under the box."""
        if method.grid is not None and encoder.grid_hw is not None:
            layer = self._layer(encoder, "patches", method)
            patches = self._patches(layer, self._places(layer).of(images), encoder, method)
            yield Look(patches, PATCHES_SHARE, anywhere=0.0)
        whole = self._whole(self._layer(encoder, "global", method), images)
        share = WHOLE_SHARE if method.grid is None else GRID_WHOLE_SHARE
        anywhere = ANYWHERE_SHARE if method.search == "patches" else WHOLE_SHARE
        yield Look(WholeScorer(whole, np.arange(len(whole)), [None] * len(whole)), share, anywhere)

    def _local(self, encoder: Encoder, method: Method, images: Ints) -> LocalIndex | None:
        if method.local is None:
            return None
        family = features_of([method.local])[method.local]
        layer = local_layer(method.local, family)
        if layer.name not in self._store.manifest.layers:
            raise InputError(
                f"{self._store.folder}: has no {method.local} layer of {family.spec}, which method {method} needs. Add "
                f"it with `wherein index --layers global,thumbs,{method.local}`."
            )
        regions = (None,) if method.embeds else self._regions(encoder, method)
        return load_local(
            self._store, layer, family, keys=images, words=method.words, regions=regions, on_step=self._on_step
        )

    def _regions(self, encoder: Encoder, method: Method) -> Regions | dict[int, Regions]:
        """What local features are gathered by: the whole image, and the cells of a grid or the image's proposals."""
        if method.search != PROPOSALS:
            return (None, *(method.grid.boxes() if method.grid is not None else ()))
        found: dict[int, Regions] = {}
        for row in self._store.catalogue.live_rows(self._layer(encoder, PROPOSALS, method).name).fetchall():
            box = None if row[3] is None else Box.parse(row[3])
            found[row[0]] = (*found.get(row[0], ()), None if box is None or box.area == 1.0 else box)
        return found

    def _places(self, layer: Layer) -> _Places:
        found = self._store.catalogue.live_rows(layer.name).fetchall()
        rows = np.array([row[:3] for row in found], np.int64).reshape(-1, 3)
        first = np.r_[True, rows[1:, 0] != rows[:-1, 0]] if len(rows) else np.zeros(0, np.bool_)
        boxes = [None if row[3] is None else Box.parse(row[3]) for row in found]
        return _Places(rows, boxes, rows[first, 0], np.cumsum(first) - 1)

    def _whole(self, layer: Layer, images: Ints) -> Floats:
        """(images, d): the rows of whole images in the order of `images`."""
        places = self._places(layer)
        first = np.searchsorted(places.owners, _numbers(places.images, images))
        return self._matrix(layer, places.rows[first])

    def _matrix(self, layer: Layer, rows: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        matrix = np.empty((len(rows), *layer.shape), np.float32)
        for shard, inside in _by_shard(rows):
            matrix[inside] = self._store.array(layer.name, shard)[rows[inside, 2]]
        return matrix

    def _augmented(self, layer: Layer, places: _Places, method: Method) -> Floats:
        """The rows of a layer, each moved towards its neighbours; kept under derived/."""
        signature = hashlib.blake2b(places.rows.tobytes(), digest_size=6).hexdigest()
        name = f"{AUGMENT}~{method.weighting}.{layer.name}"

        def make() -> Array:
            self._on_step("moving embeddings towards their neighbours", 0, 1)
            self._store.derived.drop(f"{name}.*")
            made = augment(self._matrix(layer, places.rows), weighting=cast(Weighting, method.weighting))
            return made.astype(np.float16)

        return as_floats(self._store.derived.array(f"{name}.{signature}", make))

    def _patches(self, layer: Layer, places: _Places, encoder: Encoder, method: Method) -> PatchScorer:
        order = np.lexsort((places.rows[:, 2], places.rows[:, 1]))
        grids = list(self._grids(layer, places.rows[order]))
        boxes = [places.boxes[row] for row in order.tolist()]
        alone = method.context == "alone"
        return PatchScorer(grids, places.owners[order], boxes, encoder.patch_basis, alone=alone)

    def _grids(self, layer: Layer, rows: Ints) -> Iterator[tuple[Array, Ints]]:
        """(shard, its rows in use) of rows that are sorted by shard."""
        for shard, inside in _by_shard(rows):
            yield self._store.array(layer.name, shard), rows[inside, 2]

    def _cells(self, layer: Layer, places: _Places, grid: Grid, encoder: Encoder) -> Cells:
        """From the crops' own layer, or as means of the layer `cells`; how long those are is kept under derived/."""
        images = len(places.images)
        if layer.kind == str(grid):
            crops = np.empty((len(places.rows), encoder.dim), np.int8)
            for shard, inside in _by_shard(places.rows):
                crops[inside] = _whole_numbers(self._store.array(layer.name, shard)[places.rows[inside, 2]])
            stored = [PlaceRows(crops.reshape(images, -1, encoder.dim), np.arange(images), np.arange(images))]
            shares = np.eye(len(crops) // max(images, 1), dtype=np.float32)
            return Cells(stored, shares, lengths_of(stored, shares, images=images))
        whole, shares = places.rows[[box is None for box in places.boxes]], shares_of(grid.boxes())
        stored = [
            PlaceRows(_flat(self._store.array(layer.name, shard)), whole[inside, 2], inside)
            for shard, inside in _by_shard(whole)
        ]
        signature = hashlib.blake2b(whole.tobytes(), digest_size=6).hexdigest()

        def make() -> Array:
            self._store.derived.drop(f"*{grid}.{layer.name}.*")
            return lengths_of(stored, shares, images=images)

        lengths = self._store.derived.array(f"lengths.{grid}.{layer.name}.{signature}", make)
        return Cells(stored, shares, np.array(lengths, np.float32))

    def _layer(self, encoder: Encoder, kind: str, method: Method) -> Layer:
        layers: Sequence[Layer] = layers_of(encoder, [kind])
        for layer in layers:
            if layer.name in self._store.manifest.layers:
                return layer
        made = [known for known in self._store.manifest.layers.values() if known.spec == encoder.spec]
        if made and all(known.digest != encoder.digest for known in made):
            raise CollectionCorrupt(
                f"{self._store.folder}: was made by {encoder.spec} with other weights ({made[0].digest[:8]}, now "
                f"{encoder.digest[:8]}). Run `wherein index` to add the new layer."
            )
        if not self._store.manifest.layers:
            raise InputError(f"{self._store.folder}: nothing is indexed yet. Run `wherein index FOLDER` first.")
        wanted = ",".join(dict.fromkeys((*method.layers, "thumbs")))
        raise InputError(
            f"{self._store.folder}: has no {kind} layer of {encoder.spec}, which method {method} needs. Add it with "
            f"`wherein index --encoder {encoder.spec} --layers {wanted}`."
        )


def _by_shard(rows: Ints) -> Iterator[tuple[int, Ints]]:
    """(a shard, which of the rows (n, 3) lie in it, in its order)."""
    for shard in np.unique(rows[:, 1]).tolist():
        inside = np.flatnonzero(rows[:, 1] == shard)
        yield shard, inside[np.argsort(rows[inside, 2], kind="stable")]


def _flat(grids: Array) -> Array:
    """(n, gh, gw, d) → (n, gh · gw, d)."""
    return grids.reshape(len(grids), -1, grids.shape[-1])


def _whole_numbers(vectors: Array) -> Array:
    """(n, d) directions as int8, the largest number of each 127."""
    values = np.asarray(vectors, np.float32)
    largest = np.abs(values).max(axis=-1, keepdims=True, initial=1e-12)
    return np.asarray(np.rint(values * (127 / largest)), np.int8)


def _numbers(known: Ints, wanted: Ints) -> Ints:
    """Where each of the `wanted` images is among the `known` ones."""
    order = np.argsort(known, kind="stable")
    places = np.minimum(np.searchsorted(known, wanted, sorter=order), max(len(known) - 1, 0))
    if len(wanted) and (not len(known) or (known[order[places]] != wanted).any()):
        raise InputError("some images lack a layer that this method needs: run `wherein index` to complete them.")
    return np.asarray(order[places] if len(known) else places, np.int64)

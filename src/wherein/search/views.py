"""What a method searches: the layers of a collection, opened once and kept until the collection changes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.encoders import Encoder, stored_by
from wherein.errors import CollectionChanged, CollectionCorrupt, InputError, QueryError
from wherein.index import Index, load_index
from wherein.index.cells import Cells, PlaceRows, lengths_of, per_length, shares_of
from wherein.index.codes import codes_folder, read_codes
from wherein.index.compressed import CompressedRows
from wherein.index.int8 import quantise_int8
from wherein.index.patches import PatchGrids
from wherein.index.rows import (
    ArrayCache,
    OneShard,
    Origin,
    Places,
    RowTable,
    by_shard,
    in_both,
    in_memory,
    of_whole,
    places_of_images,
)
from wherein.layers import layers_of
from wherein.layers.detected import DETECTED, is_detected
from wherein.layers.local import LocalPoints
from wherein.plugins import AUTO
from wherein.search import beside
from wherein.search.bank import Bank
from wherein.search.expansion import Weighting, augment
from wherein.search.head import Usual
from wherein.search.local import LocalIndex, OnStep, Regions, load_local, no_step
from wherein.search.others import OTHERS, Others
from wherein.search.scorers import RowScorer, Scorer
from wherein.search.seen import SeenImages
from wherein.search.style import Drawn
from wherein.search.words import SearchWord
from wherein.search.words.patches import PatchesBeside
from wherein.search.words.static import CellsBeside
from wherein.store.identity import identity_of
from wherein.store.manifest import Layer
from wherein.store.originals import Original
from wherein.store.shards import Array, as_floats
from wherein.store.store import Store
from wherein.values.method import DBA, Method, declared_word
from wherein.values.region import Box, Grid


def word_of(method: Method) -> SearchWord:
    """The search word of a method."""
    return cast(SearchWord, declared_word(method.search or "whole"))


@dataclass(frozen=True, slots=True)
class View:
    """What a method searches: the images it can find, in the order of their ids, and their scorer."""

    images: Ints
    """(n,) the catalogue's keys"""
    scorer: Scorer
    store: Store
    layers: StoredLayers
    """What else can be opened of the collection."""
    draws_apart: bool = False
    """Whether plain words mean photographs here."""
    local: LocalIndex | None = None
    """The local features, where the method uses them."""

    @property
    def sample(self) -> Ints:
        """The numbers of the images that backgrounds are measured on."""
        return self.layers.sample

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


class Views:
    """The views of one collection."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache = ArrayCache(store)
        self._kept = dict[tuple[str, str, str], tuple[int, View]]()

    def of(self, encoder: Encoder, method: Method, *, index: str = AUTO, on_step: OnStep = no_step) -> View:
        """The view of a method, opened anew when another process has changed the collection.

        `on_step` is told before each piece of what takes long and is kept under derived/; it may raise to stop there.
        """
        encoder = stored_by(encoder)  # what was trained on it searches the same rows
        key = (encoder.spec, replace(method, steps=(), chosen=_opened_by(method)).canonical, f"{index} {method.local}")
        version = self._store.catalogue.version()
        if key in self._kept and self._kept[key][0] == version:
            return self._kept[key][1]
        self._cache.keep((layer, shard) for shard, layer, _ in self._store.catalogue.shards())
        try:
            with self._store.catalogue.snapshot():
                view = self._open(StoredLayers(self._store, self._cache, encoder, method, index=index, on_step=on_step))
        except (CollectionCorrupt, CollectionChanged):
            if self._store.catalogue.version() == version:
                raise
            return self.of(encoder, method, index=index, on_step=on_step)  # another process compacted it meanwhile
        self._kept[key] = (version, view)
        return view

    def clear(self) -> None:
        """Forget every view; rows that are still in use stay in memory."""
        self._kept.clear()

    def _open(self, layers: StoredLayers) -> View:
        method = layers.method
        if not method.embeds:
            return self._local_alone(layers)
        scorer = word_of(method).open(layers)
        if method.augmented:
            if not isinstance(scorer, RowScorer):
                raise QueryError(f"{DBA} moves the embeddings of whole images: leave out {method.search}.")
            scorer = _augmented(layers, scorer.table)
        apart = word_of(method).draws_apart and layers.encoder.embeds_text
        if apart:
            layers.whole()  # read now, at the moment all else is read: a search asks for it later
        return View(layers.images, scorer, self._store, layers, apart, layers.local((None,)))

    def _local_alone(self, layers: StoredLayers) -> View:
        """The view of local features alone; where they make an embedding, steps ask that."""
        local, method = layers.local(layers.regions()), layers.method
        if local is not None and method.augmented:
            local = local.augmented(cast(Weighting, method.choice(DBA, "weighting")))
        rows = None if local is None else local.embeddings
        table = layers.rows("global") if rows is None else in_memory(rows, layers.images)
        scorer = RowScorer(table, layers.index(table), layers.sample)
        return View(layers.images, scorer, self._store, layers, local=local)


def _opened_by(method: Method) -> frozenset[tuple[str, str, str]]:
    """The choices that decide what is opened: those of the search word and of `dba`."""
    return frozenset(own for own in method.chosen if own[0] in ("search", DBA))


class StoredLayers:
    """What a search word may open of a collection, for one encoder and method."""

    def __init__(
        self, store: Store, cache: ArrayCache, encoder: Encoder, method: Method, *, index: str, on_step: OnStep
    ) -> None:
        self.store, self.encoder, self.method, self.on_step = store, encoder, method, on_step
        self._cache, self._index = cache, index
        self._seen: SeenImages | None = None

    @cached_property
    def images(self) -> Ints:
        """(n,) the catalogue's keys of the images that the method can find, by image_id: all its layers have them."""
        images = self._places(self._layer(self.method.layer)).images
        others = word_of(self.method).layers(self.method)[1:] if self.method.embeds else ()
        for layer in layers_of(self.encoder, others):
            if layer.name in self.store.manifest.layers:  # a damaged row may be gone for good
                images = in_both(images, self._places(layer).images)
        return images

    @cached_property
    def sample(self) -> Ints:
        """The numbers of the images that backgrounds are measured on."""
        return beside.kept_sample(self.store, self._layer(self.method.layer).name, self.images)

    @cached_property
    def clips(self) -> Ints | None:
        """(n,) the clip that each image is a frame of; None where none is."""
        return beside.clips_of(self.store, self.images)

    @cached_property
    def others(self) -> Others:
        """Some of the whole images, which say what is usual in the collection."""
        step = -(-len(self.sample) // OTHERS) or 1
        return Others(self.whole().vectors(self.sample[::step]))

    @cached_property
    def usual(self) -> Usual:
        """What whole images are like here, which few-shot search compares marks with."""
        return Usual.of(self.others.rows)

    def seen(self, bank: Bank) -> SeenImages:
        """What a bank of texts says of each image."""
        if self._seen is None or self._seen.bank is not bank:
            self._seen = SeenImages(self.whole(), len(self.images), bank, self.others.rows)
        return self._seen

    @cached_property
    def drawn(self) -> Drawn:
        """How drawn the images look, whatever is searched for."""
        return Drawn(self.whole(), self.encoder, self.sample)

    def index(self, table: RowTable) -> Index:
        """The index that serves a table of rows: the one that was asked for, or what the collection keeps."""
        if self._index.partition(":")[0] in (AUTO, "compressed"):
            codes = read_codes(codes_folder(self.store.derived.folder, table.layer))
            if codes is not None:
                return CompressedRows(table, codes=codes)
        return load_index("exact" if self._index == AUTO else self._index, table)

    def rows(self, kind: str) -> RowTable:
        """The rows of a layer, of the images that the method can find."""
        layer = self._layer(kind)
        origin = origin_of(self.store, layer.name, self._places(layer))
        return RowTable(layer.name, self._of_images(layer), self._cache, origin)

    def whole(self) -> RowTable:
        """The embeddings of whole images alone, without their tiles."""
        return self._whole

    @cached_property
    def _whole(self) -> RowTable:
        table = self.rows("global")
        if table.alone:
            return table
        first, places = table.starts, table.places
        kept = Places(places.rows[first], [None] * len(first), places.images, np.arange(len(first)))
        return RowTable(table.layer, kept, self._cache, table.origin)

    def patches(self) -> PatchGrids:
        """The stored patch grids."""
        layer = self._layer("patches")
        places = self._of_images(layer)
        order = np.lexsort((places.rows[:, 2], places.rows[:, 1]))
        rows = places.rows[order]
        shards = [(self.store.array(layer.name, shard), rows[inside, 2]) for shard, inside in by_shard(rows)]
        boxes = [places.boxes[row] for row in order.tolist()]
        return PatchGrids(shards, places.owners[order], boxes, self.encoder.patch_basis, len(self.images))

    def cells(self, grid: Grid, kind: str) -> Cells:
        """The cells of a grid, from the layer of its crops or as means of the layer `cells`."""
        layer = self._layer(kind)
        places = self._of_images(layer)
        return self._crops(layer, places) if kind == str(grid) else self._sixths(layer, places, grid)

    @property
    def _estimates(self) -> bool:
        """Whether rough copies say which images are scored exactly: of large collections, unless exact is asked for."""
        exact = "exact" in (self._index, self.store.manifest.index)
        return len(self.images) >= beside.LARGE and not exact

    def patches_beside(self) -> PatchesBeside | None:
        """What is kept beside the patches of a large collection; None of a small one."""
        layer = self._layer("patches")
        places = self._of_images(layer) if self._estimates else None
        return None if places is None else beside.patches_beside(self.store, layer.name, places, self.sample)

    def cells_beside(self, grid: Grid, kind: str) -> CellsBeside | None:
        """What is kept beside the layer `cells` of a large collection; None of a small one, and of crops."""
        layer = self._layer(kind)
        if kind == str(grid) or not self._estimates:
            return None
        places = of_whole(self._of_images(layer))
        return beside.cells_beside(self.store, layer.name, places, self.sample, grid, self.cells(grid, kind).per_length)

    @cached_property
    def whole_scorer(self) -> RowScorer:
        """Compares whole images alone, without their tiles: one for all that counts them beside something else."""
        table = self.whole()
        rough = beside.whole_beside(self.store, table.layer, table.places) if self._estimates else None
        return RowScorer(table, self.index(table), self.sample, rough)

    def files(self) -> Sequence[Original | None]:
        """Each image's file; None for one that was added from memory."""
        return [self.store.original(key) for key in self.images.tolist()]

    def local(self, regions: Regions | dict[int, Regions]) -> LocalIndex | None:
        """The local features that the method compares, by these regions of an image; None where it compares none."""
        method = self.method
        if method.local is None:
            return None
        points = LocalPoints(method.local)
        family, layer = points.family, points.layer()
        if layer.name not in self.store.manifest.layers:
            raise InputError(
                f"{self.store.folder}: has no {method.local} layer of {family.spec}, which method {method} needs. Add "
                f"it with `wherein index --layers {method.local}`."
            )
        return load_local(
            self.store,
            layer,
            family,
            keys=self.images,
            words=method.words,
            regions=regions,
            on_step=self.on_step,
        )

    def regions(self) -> Regions | dict[int, Regions]:
        """What local features are gathered by: the whole image, and the cells of a grid or the image's proposals."""
        if self.method.search != "proposals":
            grid = self.method.grid
            return (None, *(grid.boxes() if grid is not None else ()))
        found: dict[int, Regions] = {}
        for row in self.store.catalogue.live_rows(self._layer("proposals").name).fetchall():
            box = None if row[3] is None else Box.parse(row[3])
            found[row[0]] = (*found.get(row[0], ()), None if box is None or box.area == 1.0 else box)
        return found

    def _places(self, layer: Layer) -> Places:
        return beside.kept_places(self.store, layer.name)

    def _of_images(self, layer: Layer) -> Places:
        """The rows of the method's images alone, in their order."""
        return places_of_images(self._places(layer), self.images)

    def _crops(self, layer: Layer, places: Places) -> Cells:
        images, dim = len(places.images), self.encoder.dim
        crops = np.empty((len(places.rows), dim), np.int8)
        for shard, inside in by_shard(places.rows):
            crops[inside] = quantise_int8(self.store.array(layer.name, shard)[places.rows[inside, 2]])
        stored = [PlaceRows(crops.reshape(images, -1, dim), np.arange(images), np.arange(images))]
        shares = np.eye(len(crops) // max(images, 1), dtype=np.float32)
        return Cells(stored, shares, per_length(lengths_of(stored, shares, images=images)))

    def _sixths(self, layer: Layer, places: Places, grid: Grid) -> Cells:
        """Means of the layer `cells`; how long those are is kept under derived/."""
        places = of_whole(places)
        rows, shares = places.rows, shares_of(grid.boxes())
        stored = [
            PlaceRows(grids.reshape(len(grids), -1, grids.shape[-1]), rows[inside, 2], inside)
            for shard, inside in by_shard(rows)
            for grids in (self.store.array(layer.name, shard),)
        ]
        return Cells(stored, shares, beside.cells_per_length(self.store, layer.name, places, grid))

    def _layer(self, kind: str) -> Layer:
        if kind == DETECTED:
            kind = self._detected_kind()
        for layer in layers_of(self.encoder, [kind]):
            if layer.name in self.store.manifest.layers:
                return layer
        encoder, folder = self.encoder, self.store.folder
        made = [known for known in self.store.manifest.layers.values() if known.spec == encoder.spec]
        if made and all(known.digest != encoder.digest for known in made):
            raise CollectionCorrupt(
                f"{folder}: was made by {encoder.spec} with other weights ({made[0].digest[:8]}, now "
                f"{encoder.digest[:8]}). Run `wherein index` to add the new layer."
            )
        if not self.store.manifest.layers:
            raise InputError(f"{folder}: nothing is indexed yet. Run `wherein index FOLDER` first.")
        wanted = ",".join(dict.fromkeys((*self.method.layers, "thumbs")))
        missing = f"{folder}: has no {kind} layer of {encoder.spec}, which method {self.method} needs. Add it with "
        raise InputError(f"{missing}`wherein index --encoder {encoder.spec} --layers {wanted}`.")

    def _detected_kind(self) -> str:
        """The list of names that was detected last, of which the encoder has described the boxes."""
        known = self.store.manifest.layers.values()
        found = [layer.kind for layer in known if is_detected(layer.kind) and layer.spec == self.encoder.spec]
        if not found:
            raise InputError(
                f"{self.store.folder}: no names were detected in its images. Look for some with "
                '`wherein index --detect "pylon,deer" --detector hf:MODEL`.'
            )
        return found[-1]


def origin_of(store: Store, layer: str, places: Places) -> Origin:
    """What an index that lies elsewhere knows the rows of a layer by."""
    checksums = {shard: written.crc for shard, _, written in store.catalogue.shards(layer)}
    return Origin(identity_of(store.folder), layer, places.rows, checksums)


def _augmented(layers: StoredLayers, table: RowTable) -> RowScorer:
    """The rows of a layer, each moved towards its neighbours; kept under derived/."""
    weighting = cast(Weighting, layers.method.choice(DBA, "weighting"))
    signature = hashlib.blake2b(table.places.rows.tobytes(), digest_size=6).hexdigest()
    name = f"{DBA}~{weighting}.{table.layer}"

    def make() -> Array:
        layers.on_step("moving embeddings towards their neighbours", 0, 1)
        layers.store.derived.drop(f"{name}.*")
        return augment(table.gather(np.arange(len(table))), weighting=weighting).astype(np.float16)

    moved = OneShard(layers.store.derived.array(f"{name}.{signature}", make))
    rows = np.stack([table.places.rows[:, 0], np.zeros(len(table), np.int64), np.arange(len(table))], axis=1)
    own = RowTable(name, replace(table.places, rows=rows), ArrayCache(moved))
    return RowScorer(own, layers.index(own), layers.sample)

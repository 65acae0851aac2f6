"""What is kept beside the layers of a large collection under derived/: rough copies, and copies of the sample's rows.

A shard never changes, so neither does its rough copy: what is new costs in proportion to what is new. Whatever is
missing is made by the first search that needs it; `make_rough` makes it at the end of a run of indexing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index.cells import Cells, PlaceRows, as_slice, lengths_of, per_length, shares_of, side_by_side
from wherein.index.rough import RoughPlaces, main_directions, rough_cells, rough_patches, rough_whole
from wherein.index.rows import Places, by_shard, places_of, places_of_rows
from wherein.search.background import SAMPLE, sample_of
from wherein.search.words.patches import PatchesBeside
from wherein.search.words.static import CellsBeside
from wherein.store.manifest import Layer
from wherein.store.shards import Array, as_floats
from wherein.store.store import Store
from wherein.values.region import Grid

LARGE: Final = int(os.environ.get("WHEREIN_ROUGH_IMAGES", 4 * SAMPLE))
"""From so many images rough copies are kept: of fewer, the sample, which is scored exactly, is over a quarter."""
NO_CLIP: Final = -1
"""The clip of an image that is no frame of a video."""
Rough = Callable[[Array], Array]
"""Makes the rough copy (places, n, c) of a shard."""


def whole_beside(store: Store, layer: str, places: Places) -> list[RoughPlaces]:
    """The rough copy of embeddings, one of each image."""
    return _rough(store, layer, places, rough_whole)


def patches_beside(store: Store, layer: str, places: Places, sample: Ints) -> PatchesBeside | None:
    """What is kept beside patches; None where images have tiles, or patches are not int8."""
    first = store.array(layer, int(places.rows[0, 1]))
    if len(places.rows) != len(places.images) or first.dtype != np.int8:
        return None
    sampled, signature = _sampled(store, layer, places.rows[sample])
    usual = store.derived.array(f"usual.{layer}.{signature}", lambda: _means(sampled).reshape(first.shape[1:]))
    numbers = np.arange(len(sample))
    return PatchesBeside(
        _rough(store, layer, places, rough_patches),
        (first.shape[1], first.shape[2]),
        RoughPlaces(sampled, numbers, numbers),
        np.asarray(usual, np.float32),
    )


def cells_beside(store: Store, layer: str, places: Places, sample: Ints, grid: Grid, scale: Floats) -> CellsBeside:
    """What is kept beside the layer `cells`, of whole images alone; `scale` (cells, images): its per_length."""
    shares = shares_of(grid.boxes())
    sampled, _ = _sampled(store, layer, places.rows[sample])
    parts = side_by_side(sampled.transpose(1, 0, 2))
    directions = np.asarray(_directions(store, layer), np.float32)
    rough = _rough(store, layer, places, lambda shard: rough_cells(shard, directions))
    return CellsBeside(
        Cells(rough, shares, scale, directions, fine=False),
        Cells(parts, shares, np.ascontiguousarray(scale[:, sample]), fine=False),
    )


def cells_per_length(store: Store, layer: str, places: Places, grid: Grid) -> Floats:
    """(cells, images): one over the length of each cell's mean; lengths are kept by shard, for those never change."""
    shares = shares_of(grid.boxes())
    found = np.zeros((len(shares), len(places.images)), np.float32)
    for shard, inside in by_shard(places.rows):

        def make(shard: int = shard) -> Array:
            values = store.array(layer, shard)
            numbers = np.arange(len(values))
            flat = values.reshape(len(values), -1, values.shape[-1])
            return lengths_of([PlaceRows(flat, numbers, numbers)], shares, images=len(values))

        own = store.derived.array(f"lengths.{grid}.{layer}.{shard}", make)
        found[:, as_slice(places.owners[inside])] = per_length(
            np.asarray(own[:, as_slice(places.rows[inside, 2])], np.float32)
        )
    return found


def make_rough(store: Store) -> None:
    """Make the rough copies of what is new, and forget those of shards that are gone; the caller is the one writer."""
    kinds = {"global": rough_whole, "patches": rough_patches, "cells": None}
    for layer in store.manifest.layers.values():
        shards = store.catalogue.shards(layer.name)
        known = {str(shard) for shard, _, _ in shards}
        for kept in (f"rough.{layer.name}", f"pooled.{layer.name}", f"lengths.*.{layer.name}"):
            for path in store.derived.folder.glob(f"{kept}.*.npy"):
                if path.stem.rpartition(".")[2] not in known:
                    path.unlink(missing_ok=True)
        if layer.kind not in kinds or not _is_large(layer, sum(written.rows for _, _, written in shards)):
            continue
        make = kinds[layer.kind]
        if make is None:
            directions = np.asarray(_directions(store, layer.name), np.float32)
            make = lambda shard, own=directions: rough_cells(shard, own)  # noqa: E731 — bound to these directions
        for shard, _, _ in shards:
            _rough_shard(store, layer.name, shard, make)
        kept_places(store, layer.name)


def kept_places(store: Store, layer: str) -> Places:
    """Where the rows of a layer lie; of a large one that is kept as an array, where no row has a box."""
    name = f"places.{layer}.{_state(store, layer)}"
    if store.derived.path(name).exists():
        rows = store.derived.array(name, lambda: np.zeros((0, 3), np.int64))
        return places_of_rows(np.asarray(rows, np.int64), [None] * len(rows))
    found = places_of(store.catalogue.live_rows(layer).fetchall())
    if len(found.rows) >= LARGE and store.catalogue.layout() >= 0 and not any(found.boxes):
        store.derived.drop(f"places.{layer}.*")
        store.derived.array(name, lambda: found.rows)
    return found


def kept_sample(store: Store, layer: str, images: Ints) -> Ints:
    """The numbers of the sampled images of a layer; of a large one they are kept."""

    def make() -> Ints:
        names = dict(store.catalogue.live_images())
        return sample_of([names.get(key, "") for key in images.tolist()])

    if len(images) < LARGE or store.catalogue.layout() < 0:
        return make()

    def kept() -> Array:
        store.derived.drop(f"sample.{layer}.*")
        return make()

    own = hashlib.blake2b(np.ascontiguousarray(images).tobytes(), digest_size=6).hexdigest()
    return np.asarray(store.derived.array(f"sample.{layer}.{_state(store, layer)}.{own}", kept), np.int64)


def clips_of(store: Store, images: Ints) -> Ints | None:
    """(n,) the clip that each of some images is a frame of; None where none is."""
    files = store.catalogue.clips()
    return np.array([files.get(key, NO_CLIP) for key in images.tolist()], np.int64) if files else None


def _state(store: Store, layer: str) -> str:
    """What the rows of a layer are known by: how often files, images or rows changed, and the shards there are."""
    shards = [(shard, written.rows, written.crc) for shard, _, written in store.catalogue.shards(layer)]
    return hashlib.blake2b(repr((store.catalogue.layout(), shards)).encode(), digest_size=6).hexdigest()


def _is_large(layer: Layer, rows: int) -> bool:
    return rows >= LARGE and (layer.kind == "global" or layer.dtype == "int8")


def _rough(store: Store, layer: str, places: Places, make: Rough) -> list[RoughPlaces]:
    rows, owners = places.rows, places.owners
    return [
        RoughPlaces(_rough_shard(store, layer, shard, make), rows[inside, 2], owners[inside])
        for shard, inside in by_shard(rows)
    ]


def _rough_shard(store: Store, layer: str, shard: int, make: Rough) -> Array:
    kept = "pooled" if make is rough_patches else "rough"
    return store.derived.array(f"{kept}.{layer}.{shard}", lambda: make(store.array(layer, shard)))


def _directions(store: Store, layer: str) -> Array:
    """The main directions of a layer's cells: those of the shards there were when they were first asked for."""

    def make() -> Array:
        shards = [shard for shard, _, _ in store.catalogue.shards(layer)]
        spread = [store.array(layer, shard) for shard in shards[:: max(1, len(shards) // 8)]]
        return main_directions(np.concatenate([own[:: max(1, len(own) // 256)] for own in spread]))

    return store.derived.array(f"directions.{layer}", make)


def _sampled(store: Store, layer: str, rows: Ints) -> tuple[Array, str]:
    """(the stored grids of the sample, place by place (places, s, c), what they are known by)."""
    signature = hashlib.blake2b(np.ascontiguousarray(rows[:, 1:]).tobytes(), digest_size=6).hexdigest()

    def make() -> Array:
        store.derived.drop(f"spread.{layer}.*")
        store.derived.drop(f"usual.{layer}.*")
        parts = [(inside, store.array(layer, shard)[rows[inside, 2]]) for shard, inside in by_shard(rows)]
        found = np.empty((len(rows), *parts[0][1].shape[1:]), parts[0][1].dtype)
        for inside, own in parts:
            found[inside] = own
        return np.ascontiguousarray(found.reshape(len(rows), -1, found.shape[-1]).transpose(1, 0, 2))

    return store.derived.array(f"spread.{layer}.{signature}", make), signature


def _means(sampled: Array) -> Floats:
    """(places, c): what is seen on average at each place (places, s, c)."""
    return np.stack([as_floats(place).mean(axis=0) for place in sampled])

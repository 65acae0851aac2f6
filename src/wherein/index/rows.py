"""Which rows a layer has, of which images, and the cache from which their numbers are read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Lock
from typing import Final, Protocol

import numpy as np
from cachetools import LRUCache

from wherein.arrays import Floats, Ints
from wherein.store.shards import Array
from wherein.values.region import Box

CACHE_BYTES: Final = int(os.environ.get("WHEREIN_CACHE_BYTES", 2 << 30))
"""How many bytes of rows, as float32, stay in memory per collection: a quarter of a small laptop's eight gigabytes."""


class Shards(Protocol):
    """Where the arrays of a collection are read from."""

    def array(self, layer: str, shard: int) -> Array:
        """The rows of one shard, mapped from disk."""


class ArrayCache:
    """The rows of shards as float32, by layer and shard; those not used for longest leave when the budget is spent.

    Shards never change, so what another process commits is read beside what is here already.
    """

    def __init__(self, shards: Shards, *, most: int = CACHE_BYTES) -> None:
        self._shards, self._lock = shards, Lock()
        self._kept: LRUCache[tuple[str, int], Floats] = LRUCache(maxsize=most, getsizeof=lambda rows: rows.nbytes)

    def floats(self, layer: str, shard: int) -> Floats:
        """(n, …) the rows of one shard."""
        with self._lock:
            found = self._kept.get((layer, shard))
        if found is not None:
            return found
        rows = np.asarray(self._shards.array(layer, shard), np.float32)
        with self._lock:
            if rows.nbytes <= self._kept.maxsize:
                self._kept[layer, shard] = rows
        return rows

    def mapped(self, layer: str, shards: Iterable[int]) -> list[Array]:
        """Shards as they lie on disk; who holds them can read them whatever becomes of their files."""
        return [self._shards.array(layer, shard) for shard in shards]

    def keep(self, shards: Iterable[tuple[str, int]]) -> None:
        """Forget all but these (layer, shard): the others have been compacted away."""
        live = set(shards)
        with self._lock:
            for gone in [key for key in self._kept if key not in live]:
                del self._kept[gone]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where the rows of a layer lie, ordered by image_id, the whole image first."""

    rows: Ints
    """(rows, 3) the catalogue's key of the image, shard, row in the shard"""
    boxes: list[Box | None]
    """Of each row, the part of the image it describes; None is the whole image."""
    images: Ints
    """(n,) the catalogue's keys of the images"""
    owners: Ints
    """(rows,) the number of each row's image, ascending"""


def places_of(found: Sequence[tuple[int, int, int, str | None]]) -> Places:
    """The places of rows as the catalogue gives them: (image, shard, row, box), by image_id."""
    rows = np.array([row[:3] for row in found], np.int64).reshape(-1, 3)
    return places_of_rows(rows, [None if row[3] is None else Box.parse(row[3]) for row in found])


def places_of_rows(rows: Ints, boxes: list[Box | None]) -> Places:
    """The places of rows (n, 3), as in `Places`, and the box of each."""
    first = np.r_[True, rows[1:, 0] != rows[:-1, 0]] if len(rows) else np.zeros(0, np.bool_)
    return Places(rows, boxes, rows[first, 0], np.cumsum(first) - 1)


def of_whole(places: Places) -> Places:
    """The rows of whole images alone, one of each."""
    whole = [row for row, box in enumerate(places.boxes) if box is None]
    if len(whole) == len(places.boxes):
        return places
    return Places(places.rows[whole], [None] * len(whole), places.images, places.owners[whole])


def places_of_images(places: Places, images: Ints) -> Places:
    """The places of some images alone, in their order; the layer has them all."""
    if np.array_equal(places.images, images):
        return places
    order = np.argsort(places.images, kind="stable")
    number = np.full(len(places.images), -1, np.int64)
    number[order[np.searchsorted(places.images, images, sorter=order)]] = np.arange(len(images))
    kept = np.flatnonzero(number[places.owners] >= 0)
    boxes = [places.boxes[row] for row in kept.tolist()]
    return Places(places.rows[kept], boxes, images, number[places.owners[kept]])


def in_both(images: Ints, others: Ints) -> Ints:
    """Those of the images that are among the others, in their order."""
    return images if np.array_equal(images, others) else images[np.isin(images, others)]


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Which layer of which collection rows come from, by which an index that lies elsewhere knows them again."""

    collection: str
    """Its identity, which stays when its folder moves; empty where it has none yet."""
    layer: str
    rows: Ints
    """(rows, 3) all living rows of the layer, as in `Places`"""
    checksums: Mapping[int, int]
    """shard → what its bytes are known by"""


class RowTable:
    """The rows of a layer: the image that each is of, and their numbers when they are asked for."""

    def __init__(self, layer: str, places: Places, cache: ArrayCache, origin: Origin | None = None) -> None:
        self.layer, self.places, self._cache = layer, places, cache
        shards = np.unique(places.rows[:, 1]).tolist()
        self._mapped = dict(zip(shards, cache.mapped(layer, shards), strict=True))
        """Held, so that the rows stay readable when another process compacts the collection."""
        self.origin = origin
        """None for rows that lie in no layer."""

    def __len__(self) -> int:
        return len(self.places.rows)

    @property
    def count(self) -> int:
        """How many images there are."""
        return len(self.places.images)

    @cached_property
    def starts(self) -> Ints:
        """(n,) the first row of each image, which is the whole image."""
        owners = self.places.owners
        return np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]]) if len(owners) else np.zeros(0, np.int64)

    @property
    def alone(self) -> bool:
        """Whether every image has one row."""
        return len(self.starts) == len(self)

    def blocks(self, *, without: Collection[int] = ()) -> Iterator[tuple[Floats, Ints, Ints]]:
        """(a shard's rows (r, d), which of them are in use, their places in the table), but for some shards."""
        for shard, inside in self.by_shard:
            if shard not in without:
                yield self._cache.floats(self.layer, shard), self.places.rows[inside, 2], inside

    def shard(self, shard: int) -> Floats:
        """Every row (n, d) of a shard, in use or not."""
        return self._cache.floats(self.layer, shard)

    def gather(self, wanted: Ints) -> Floats:
        """(len(wanted), d): some rows, in the order they are asked for."""
        if not len(wanted):
            return np.zeros((0, 0), np.float32)
        places = self.places.rows[wanted]
        order = np.argsort(places[:, 1], kind="stable")
        shards, rows = places[order, 1], places[order, 2]
        ends = np.flatnonzero(np.diff(shards, append=-1)) + 1
        stored = [self._mapped[shard] for shard in shards[ends - 1].tolist()]
        if (np.maximum.reduceat(rows, np.r_[0, ends[:-1]]) >= [len(own) for own in stored]).any():
            raise IndexError(f"{self.layer}: a row that the catalogue names lies beyond its shard.")
        # Shard by shard as they are stored, and as floats all at once: a search reads a few rows of many shards.
        read = np.empty((len(wanted), *stored[0].shape[1:]), stored[0].dtype)
        for own, (start, end) in zip(stored, pairwise([0, *ends.tolist()]), strict=True):
            own.take(rows[start:end], axis=0, out=read[start:end], mode="clip")  # checked above: copies once
        found = np.empty(read.shape, np.float32)
        found[order] = read
        return found

    def vectors(self, images: Ints) -> Floats:
        """(len(images), d): the embeddings of whole images."""
        return self.gather(self.starts[images])

    @cached_property
    def by_shard(self) -> Sequence[tuple[int, Ints]]:
        """(a shard, the places of its rows in the table, in the shard's order)."""
        return list(by_shard(self.places.rows))


def by_shard(rows: Ints) -> Iterator[tuple[int, Ints]]:
    """(a shard, which of the rows (n, 3) lie in it, in its order)."""
    order = np.lexsort((rows[:, 2], rows[:, 1]))
    shards, starts = np.unique(rows[order, 1], return_index=True)
    yield from zip(shards.tolist(), np.split(order, starts[1:]), strict=False)


@dataclass(frozen=True, slots=True, eq=False)
class OneShard:
    """One array as the only shard of a layer."""

    rows: Array

    def array(self, layer: str, shard: int) -> Array:  # noqa: ARG002 — there is one
        """Its rows."""
        return self.rows


def in_memory(rows: Floats, images: Ints) -> RowTable:
    """A table of one row for each of the `images`, from memory."""
    numbers = np.arange(len(rows))
    places = np.stack([images, np.zeros(len(rows), np.int64), numbers], axis=1)
    return RowTable("memory", Places(places, [None] * len(rows), images, numbers), ArrayCache(OneShard(rows)))

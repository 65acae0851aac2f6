"""Which rows a layer has, of which images, and the cache from which their numbers are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
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
        if found is None:
            found = np.asarray(self._shards.array(layer, shard), np.float32)
            with self._lock:
                if found.nbytes <= self._kept.maxsize:
                    self._kept[layer, shard] = found
        return found

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


class RowTable:
    """The rows of a layer: the image that each is of, and their numbers when they are asked for."""

    def __init__(self, layer: str, places: Places, cache: ArrayCache) -> None:
        self.layer, self.places, self._cache = layer, places, cache
        self._mapped = cache.mapped(layer, np.unique(places.rows[:, 1]).tolist())
        """Held, so that the rows stay readable when another process compacts the collection."""

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

    def blocks(self) -> Iterator[tuple[Floats, Ints, Ints]]:
        """(a shard's rows (r, d), which of them are in use, their places in the table), shard by shard."""
        for shard, inside in self._by_shard:
            yield self._cache.floats(self.layer, shard), self.places.rows[inside, 2], inside

    def gather(self, wanted: Ints) -> Floats:
        """(len(wanted), d): some rows, in the order they are asked for."""
        places = self.places.rows[wanted, 1:]
        parts = {shard: self._cache.floats(self.layer, shard) for shard in np.unique(places[:, 0]).tolist()}
        width = next((rows.shape[1:] for rows in parts.values()), (0,))
        found = np.empty((len(wanted), *width), np.float32)
        for shard, rows in parts.items():
            inside = np.flatnonzero(places[:, 0] == shard)
            found[inside] = rows[places[inside, 1]]
        return found

    def vectors(self, images: Ints) -> Floats:
        """(len(images), d): the embeddings of whole images."""
        return self.gather(self.starts[images])

    @cached_property
    def _by_shard(self) -> Sequence[tuple[int, Ints]]:
        return list(by_shard(self.places.rows))


def by_shard(rows: Ints) -> Iterator[tuple[int, Ints]]:
    """(a shard, which of the rows (n, 3) lie in it, in its order)."""
    for shard in np.unique(rows[:, 1]).tolist():
        inside = np.flatnonzero(rows[:, 1] == shard)
        yield shard, inside[np.argsort(rows[inside, 2], kind="stable")]

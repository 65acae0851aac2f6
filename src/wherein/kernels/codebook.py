"""Visual words: descriptors → the nearest of k centroids. Trained once on a sample, then fixed.

Descriptors and centroids are rounded to a grid of 1/1,024. Of vectors of length 1 every product, sum and distance is
then a whole number of squared steps below 2²⁴, which float32 holds exactly: neither vector instructions nor threads nor
the order of a sum change a word, and ties go to the lower number.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from wherein.arrays import Floats, Ints
from wherein.errors import CollectionCorrupt, InputError
from wherein.store.shards import write_array

Words = npt.NDArray[np.int32]
Piece = Callable[[int, int, Callable[[], Floats]], Floats]
"""(number, pieces in all, how it is computed) → a piece of a training, which may be known from an earlier one."""

MOST_WORDS: Final = 1_000_000
"""A million words, as many as Philbin et al. (2007) used; a larger number is likely a slip."""
_STEPS: Final = 1024
"""Steps of the grid to one: with 2,048 the distance of two opposite descriptors, 2²⁴, would no longer be exact."""
_EXACT: Final = 4096
"""Up to so many words a descriptor is compared with every centroid; beyond, with those of the nearest parts."""
_PROBES: Final = 16
"""Parts of a large codebook that a descriptor is compared with: of 6,000 descriptors of facades and covers, with 16,384
words trained on others of them, 99.7 % found their nearest word, 98.3 % with eight parts."""
_TWO_LEVELS: Final = 1024
"""Up to so many words k-means is done at once, beyond in two levels: time grows with the square of the words at once,
since each has its own descriptors, and with twice as many would be four times as long."""
_PER_WORD: Final = 64
"""Descriptors a word is trained on: k-means of faiss warns below 39 and takes at most 256; time grows with it."""
_MOST_PER_WORD: Final = 256
"""Descriptors of a word beyond which k-means gains nothing, as in faiss."""
_ROUNDS: Final = 10
"""Rounds of k-means, of faiss' default 25 less than half; what fewer or more rounds change was not measured."""
_BLOCK: Final = 1 << 22
"""Distances that are held at once: 16 MB, so that blocks change memory and no result."""


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """k centroids (k, d). Two codebooks with one digest give the same words."""

    centroids: Floats
    _owners: Ints | None = None
    """(k,) the part of each centroid of a large codebook, where it is known already"""
    _found: list[_Parts] = field(init=False, repr=False, default_factory=list)
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "centroids", _on_grid(self.centroids))

    def __len__(self) -> int:
        return len(self.centroids)

    @property
    def digest(self) -> str:
        """Of the centroids' bytes: the version that words carry."""
        return hashlib.blake2b(self.centroids.tobytes(), digest_size=8).hexdigest()

    def words(self, descriptors: Floats, *, nearest: int = 1) -> Words:
        """(n, d) → (n, nearest) words, the nearest first."""
        nearest = min(nearest, len(self))
        rows = _on_grid(descriptors)
        if len(self) <= _EXACT:
            return _nearest(rows, self.centroids, nearest)[0]
        return self._parts().nearest(rows, nearest)

    def _parts(self) -> _Parts:
        with self._lock:
            if not self._found:
                owners = self._owners
                if owners is None:
                    tops = _means(self.centroids[_shuffled(self.centroids)], round(math.sqrt(len(self))))
                    owners = _nearest(self.centroids, tops, 1)[0][:, 0].astype(np.int64)
                self._found.append(_Parts.of(self.centroids, owners))
            return self._found[0]

    def save(self, path: Path) -> None:
        """Write it, and of a large one its parts, which take longer to find than to read."""
        if len(self) > _EXACT:
            write_array(_parts_path(path), self._parts().owners)
        write_array(path, self.centroids)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote, or an earlier version, whose centroids are rounded."""
        try:
            centroids = np.asarray(np.load(path, allow_pickle=False), np.float32)
            parts = _parts_path(path)
            owners = np.asarray(np.load(parts, allow_pickle=False), np.int64) if parts.exists() else None
            if centroids.ndim != 2 or (owners is not None and owners.shape != centroids.shape[:1]):
                raise ValueError("its arrays do not fit")
        except (OSError, ValueError) as error:
            raise CollectionCorrupt(
                f"{path}: is no codebook ({error}). Delete the folder {path.parent}; it is made again when needed."
            ) from error
        return cls(centroids, owners)

    @classmethod
    def train(
        cls, sample: Floats, *, words: int, seed: int = 0, piece: Piece = lambda _number, _pieces, make: make()
    ) -> Self:
        """k-means on (n, d) descriptors; in two levels where k is large, which is √k times faster.

        `piece` is asked for each piece of the work and may keep it, so that a training can be gone on with.
        """
        if not 1 <= words <= MOST_WORDS:
            raise InputError(f"a codebook of {words:,} words cannot be: choose 1 to {MOST_WORDS:,}.")
        sample = np.unique(_on_grid(sample), axis=0)
        if len(sample) <= words:
            return cls(sample)
        sample = sample[_shuffled(sample, seed)[: words * _PER_WORD]]
        if words <= _TWO_LEVELS:
            return cls(piece(0, 1, lambda: _means(sample, words)))
        parts = round(math.sqrt(words))
        top = piece(0, parts + 1, lambda: _means(sample, parts))
        owner = _nearest(sample, top, 1)[0][:, 0]
        shares = _shares(np.bincount(owner, minlength=len(top)), words)

        def part(c: int, k: int) -> Floats:
            return piece(c + 1, parts + 1, lambda: _means(sample[owner == c], k))

        return cls(np.concatenate([part(c, k) for c, k in enumerate(shares.tolist()) if k]))


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """A large codebook in parts of like centroids, so that few of them have to be compared."""

    owners: Ints
    """(k,) the part of each centroid"""
    centres: Floats
    """(parts, d) the mean centroid of each"""
    members: tuple[Ints, ...]
    """The numbers of each part's centroids, ascending."""
    centroids: tuple[Floats, ...]
    threads: ThreadpoolController = field(default_factory=ThreadpoolController)

    @classmethod
    def of(cls, centroids: Floats, owners: Ints) -> _Parts:
        """The parts that hold a centroid."""
        order = np.argsort(owners, kind="stable")
        members = tuple(np.split(order, np.flatnonzero(np.diff(owners[order])) + 1))
        own = tuple(centroids[numbers] for numbers in members)
        return cls(owners, np.stack([_mean(rows) for rows in own]), members, own)

    def nearest(self, rows: Floats, count: int) -> Words:
        """(n, count) the nearest centroids in the nearest parts of each row."""
        with self.threads.limit(limits=1, user_api="blas"):  # products of one part are too small to share
            return self._nearest(rows, count)

    def _nearest(self, rows: Floats, count: int) -> Words:
        probes = _nearest(rows, self.centres, min(max(_PROBES, count), len(self.centres)))[0]
        keys = np.full((len(rows), probes.shape[1], count), np.iinfo(np.int64).max)
        for part, (members, centroids) in enumerate(zip(self.members, self.centroids, strict=True)):
            row, place = np.nonzero(probes == part)
            if len(row):
                found, apart = _nearest(rows[row], centroids, min(count, len(members)))
                # Distance and number in one: the lower number is the nearer of two that are equally far.
                steps = np.rint(apart * _STEPS**2).astype(np.int64)
                keys[row, place, : found.shape[1]] = steps * (1 << 20) + members[found]
        best = np.sort(keys.reshape(len(rows), probes.shape[1] * count), axis=1)[:, :count]
        return np.asarray(best % (1 << 20), np.int32)


def default_words(features: int) -> int:
    """A size for a collection of this many features: about eight to a word, a power of two, 256 to 65,536."""
    return int(2 ** np.clip(round(math.log2(max(features, 1) / 8)), 8, 16))


def _parts_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}.parts.npy")


def _on_grid(rows: npt.NDArray[np.floating[Any]]) -> Floats:
    """Rounded to the grid; zero has no sign."""
    steps = np.rint(np.asarray(rows, np.float32) * np.float32(_STEPS))
    return np.ascontiguousarray(steps / np.float32(_STEPS) + np.float32(0.0))


def _shuffled(rows: Floats, seed: int = 0) -> Ints:
    """An order of rows by what is in them: where one of them changes, the others keep their turns."""
    factors = np.random.default_rng(seed).integers(0, 1 << 64, rows.shape[1], np.uint64)
    hashes = np.zeros(len(rows), np.uint64)
    for column, factor in zip(rows.T, factors, strict=True):
        hashes += (column * np.float32(_STEPS)).astype(np.int64).astype(np.uint64) * factor
    return np.argsort(hashes, kind="stable")


def _nearest(rows: Floats, centroids: Floats, count: int) -> tuple[Words, Floats]:
    """(n, count) the nearest centroids of each row, ties to the lower number, and their squared distances."""
    words, apart = np.empty((len(rows), count), np.int32), np.empty((len(rows), count), np.float32)
    lengths, size = np.square(centroids).sum(axis=1), max(1, _BLOCK // len(centroids))
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        table = (block * np.float32(-2.0)) @ centroids.T
        table += lengths
        each, own = np.arange(len(block)), np.square(block).sum(axis=1)
        for rank in range(count):
            best = table.argmin(axis=1)
            words[start : start + size, rank] = best
            apart[start : start + size, rank] = table[each, best] + own
            table[each, best] = np.inf
    return words, apart


def _means(sample: Floats, words: int) -> Floats:
    """The centroids of k-means that begins with the first rows of a sample in random order."""
    if len(sample) <= words:
        return sample
    sample = sample[: words * _MOST_PER_WORD]
    centroids = sample[:words].copy()
    for _ in range(_ROUNDS):
        owner, apart = _nearest(sample, centroids, 1)
        order = np.argsort(owner[:, 0], kind="stable")
        present, starts, counts = np.unique(owner[order, 0], return_index=True, return_counts=True)
        sums = np.add.reduceat(sample[order], starts, axis=0, dtype=np.float64)
        centroids[present] = _on_grid(sums / counts[:, None])
        empty = np.setdiff1d(np.arange(words), present)
        centroids[empty] = sample[np.argsort(-apart[:, 0], kind="stable")[: len(empty)]]
    return centroids


def _mean(rows: Floats) -> Floats:
    return _on_grid(rows.sum(axis=0, dtype=np.float64) / len(rows))


def _shares(sizes: npt.NDArray[np.int64], words: int) -> npt.NDArray[np.int64]:
    """How many words each part of the sample gets: in proportion to its size, at most one a descriptor."""
    even = np.maximum(np.floor(sizes * (words / sizes.sum())), 1)
    wanted = np.asarray(np.minimum(even, sizes), np.int64)
    for part in np.argsort(-sizes, kind="stable"):
        spare = words - int(wanted.sum())
        if spare <= 0:
            break
        wanted[part] += min(spare, int(sizes[part] - wanted[part]))
    return wanted

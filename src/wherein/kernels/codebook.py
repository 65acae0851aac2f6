"""Visual words: descriptors → the nearest of k centroids. Trained once on a sample, then fixed."""

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

from wherein.arrays import Floats
from wherein.errors import CollectionCorrupt, InputError
from wherein.store.shards import write_array

Words = npt.NDArray[np.int32]
Piece = Callable[[int, int, Callable[[], Floats]], Floats]
"""(number, pieces in all, how it is computed) → a piece of a training, which may be known from an earlier one."""

MOST_WORDS: Final = 1_000_000
"""A million words, as many as Philbin et al. (2007) used; a larger number is likely a slip."""
# Up to here every centroid is compared; beyond, a graph of centroids finds the nearest with a little loss.
_EXACT: Final = 4096
"""Up to so many words a descriptor is compared with every centroid; beyond, a graph of centroids finds the nearest with
a little loss."""
_LINKS: Final = 16
"""Links of each centroid in that graph. Chosen by hand, not tuned."""
_TWO_LEVELS: Final = 1024
"""Up to so many words k-means is done at once, beyond in two levels. Chosen by hand."""
_PER_WORD: Final = 64
"""Descriptors a word is trained on, at least 39 of which faiss asks for."""
_ROUNDS: Final = 10
"""Rounds of k-means. Chosen by hand, not tuned."""


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """k centroids (k, d). Two codebooks with one digest give the same words."""

    centroids: Floats
    _search: Any = field(init=False, repr=False)
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_search", None)

    def __len__(self) -> int:
        return len(self.centroids)

    @property
    def digest(self) -> str:
        """Of the centroids' bytes: the version that words carry."""
        return hashlib.blake2b(np.ascontiguousarray(self.centroids).tobytes(), digest_size=8).hexdigest()

    def words(self, descriptors: Floats, *, nearest: int = 1) -> Words:
        """(n, d) → (n, nearest) words, the nearest first."""
        nearest = min(nearest, len(self))
        if not len(descriptors):
            return np.zeros((0, nearest), np.int32)
        found = self._index().search(np.ascontiguousarray(descriptors, np.float32), nearest)[1]
        return np.asarray(found, np.int32)

    def _index(self) -> Any:
        import faiss

        with self._lock:
            if self._search is None:
                width = self.centroids.shape[1]
                index: Any = faiss.IndexFlatL2(width)
                if len(self) > _EXACT:
                    index = faiss.IndexHNSWFlat(width, _LINKS)
                    index.hnsw.efConstruction, index.hnsw.efSearch = 40, 24
                index.add(np.ascontiguousarray(self.centroids))
                object.__setattr__(self, "_search", index)
            return self._search

    def save(self, path: Path) -> None:
        """Write it, and the graph of a large one, which takes longer to build than to read."""
        import faiss

        if len(self) > _EXACT:
            write_array(_graph(path), faiss.serialize_index(self._index()))
        write_array(path, self.centroids)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        import faiss

        try:
            made = cls(np.asarray(np.load(path, allow_pickle=False), np.float32))
            if _graph(path).exists():
                object.__setattr__(made, "_search", faiss.deserialize_index(np.load(_graph(path), allow_pickle=False)))
        except (OSError, ValueError, RuntimeError) as error:
            raise CollectionCorrupt(
                f"{path}: is no codebook ({error}). Delete the folder {path.parent}; it is made again when needed."
            ) from error
        return made

    @classmethod
    def train(
        cls, sample: Floats, *, words: int, seed: int = 0, piece: Piece = lambda _number, _pieces, make: make()
    ) -> Self:
        """k-means on (n, d) descriptors; in two levels where k is large, which is √k times faster.

        `piece` is asked for each piece of the work and may keep it, so that a training can be gone on with.
        """
        import faiss

        if not 1 <= words <= MOST_WORDS:
            raise InputError(f"a codebook of {words:,} words cannot be: choose 1 to {MOST_WORDS:,}.")
        sample = np.unique(np.asarray(sample, np.float32), axis=0)
        if len(sample) <= words:
            return cls(sample)
        rng = np.random.default_rng(seed)
        sample = sample[rng.permutation(len(sample))[: words * _PER_WORD]]
        if words <= _TWO_LEVELS:
            return cls(piece(0, 1, lambda: _means(sample, words, seed)))
        parts = round(math.sqrt(words))
        top = piece(0, parts + 1, lambda: _means(sample, parts, seed))
        index = faiss.IndexFlatL2(sample.shape[1])
        index.add(top)
        owner = index.search(sample, 1)[1][:, 0]
        sizes = np.bincount(owner, minlength=len(top))
        shares = _shares(sizes, words)

        def part(c: int, k: int) -> Floats:
            return piece(c + 1, parts + 1, lambda: _means(sample[owner == c], k, seed))

        return cls(np.concatenate([part(c, k) for c, k in enumerate(shares.tolist()) if k]))


def default_words(features: int) -> int:
    """A size for a collection of this many features: about eight to a word, a power of two, 256 to 65,536."""
    return int(2 ** np.clip(round(math.log2(max(features, 1) / 8)), 8, 16))


def _graph(path: Path) -> Path:
    return path.with_name(f"{path.stem}.graph.npy")


def _means(sample: Floats, words: int, seed: int) -> Floats:
    import faiss

    if len(sample) <= words:
        return sample
    means = faiss.Kmeans(
        sample.shape[1],
        words,
        niter=_ROUNDS,
        seed=seed + 1,
        min_points_per_centroid=1,
        max_points_per_centroid=_PER_WORD * 4,
    )
    means.train(np.ascontiguousarray(sample))
    return np.asarray(means.centroids, np.float32)


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

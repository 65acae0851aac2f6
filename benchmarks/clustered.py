"""Made-up embeddings with the structure of real ones, as many as wanted: what benchmarks/search.py searches.

A row is the sum of what its slot always shows, one of a few thousand concepts (a few are common, most are rare; those
of one field are alike), what its image looks like as a whole, and noise whose spectrum falls off as that of real
embeddings does. A query is a concept as words describe it: the concept and other noise. Everything follows from the
seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

CONCEPTS = 4096
"""About as many things as a large vocabulary of detectors names."""
FIELDS = 64
"""Concepts of one field (animals, tools, …) have a cosine of about 0.5."""
SHARES = {"slot": 0.5, "concept": 1.0, "image": 0.5, "noise": 0.9}
"""Lengths of the parts of a row: two rows of one concept then have a cosine of about 0.6, of two others 0.1 to 0.3."""
QUERY_NOISE = 0.8
BLOCK = 512
"""Images made at a time."""


@dataclass(frozen=True, slots=True)
class World:
    """What the rows and the queries of one seed share."""

    concepts: Floats
    """(CONCEPTS, d)"""
    slots: Floats
    """(v, d)"""
    spectrum: Floats
    """(d,) how strong the noise is in each direction"""
    likely: npt.NDArray[np.float64]
    """(CONCEPTS,) how often each is seen"""
    seed: int

    @classmethod
    def of(cls, *, vectors: int, dim: int, seed: int = 0) -> World:
        """The world of a seed."""
        random = np.random.default_rng(seed)
        spectrum = np.arange(1, dim + 1, dtype=np.float32) ** np.float32(-0.25)
        likely = 1.0 / np.arange(1, CONCEPTS + 1) ** 0.7
        fields = _directions(random, FIELDS, spectrum)[random.integers(0, FIELDS, CONCEPTS)]
        concepts = fields + _directions(random, CONCEPTS, spectrum)
        return cls(
            np.asarray(concepts / np.linalg.norm(concepts, axis=-1, keepdims=True), np.float32),
            _directions(random, vectors, spectrum),
            spectrum,
            likely / likely.sum(),
            seed,
        )

    def block(self, number: int, images: int) -> Floats:
        """(images, v, d) rows of block `number`, of unit length."""
        random = np.random.default_rng((self.seed, 1, number))
        chosen = random.choice(CONCEPTS, (images, len(self.slots)), p=self.likely)
        rows = self.concepts[chosen]
        rows *= np.float32(SHARES["concept"])
        rows += np.float32(SHARES["slot"]) * self.slots
        rows += np.float32(SHARES["image"]) * _directions(random, images, self.spectrum)[:, None]
        rows += np.float32(SHARES["noise"]) * _directions(random, rows[..., 0].size, self.spectrum).reshape(rows.shape)
        rows /= np.linalg.norm(rows, axis=-1, keepdims=True)
        return rows

    def queries(self, count: int) -> Floats:
        """(count, d) queries, each of another concept, rare and common ones alike.

        Not those by which constants of `index/compressed.py` were chosen, which were drawn with 2.
        """
        random = np.random.default_rng((self.seed, 3))
        chosen = random.permutation(CONCEPTS)[:count]
        noisy = self.concepts[chosen] + np.float32(QUERY_NOISE) * _directions(random, len(chosen), self.spectrum)
        return np.asarray(noisy / np.linalg.norm(noisy, axis=-1, keepdims=True), np.float32)


def write_rows(path: Path, *, images: int, vectors: int, dim: int, seed: int = 0) -> None:
    """Write (images, vectors, dim) rows as float16, a block at a time, so that memory stays flat."""
    world = World.of(vectors=vectors, dim=dim, seed=seed)
    rows = np.lib.format.open_memmap(path, "w+", np.float16, (images, vectors, dim))
    for number, start in enumerate(range(0, images, BLOCK)):
        count = min(BLOCK, images - start)
        rows[start : start + count] = world.block(number, count)
    rows.flush()


def _directions(random: np.random.Generator, count: int, spectrum: Floats) -> Floats:
    """(count, d) random directions whose spread follows the spectrum."""
    found = random.standard_normal((count, len(spectrum)), np.float32)
    found *= spectrum
    found /= np.linalg.norm(found, axis=-1, keepdims=True)
    return found

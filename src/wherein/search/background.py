"""Background: how scores are spread over the collection for one query, measured on a fixed sample of its images.

Standardising, fusion, evidence and confidence read it instead of every image's score, so a search needs the scores of
its candidates alone. Up to SAMPLE images the sample is the whole collection, and everything is exact.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints

SAMPLE: Final = 8192
"""Images of the sample: the mean of a standard normal is then known to 0.011 deviations, and one in 8,000 is seen."""
TAIL: Final = 256
"""How many of the sample's highest scores are kept, for a fit of its upper end."""
LEAST_SPREAD: Final = 1e-9
"""Scores closer together than this are all alike: neighbouring float32 numbers near 0.3 differ by thirty times that."""


@dataclass(frozen=True, slots=True)
class Background:
    """The spread of a query's scores."""

    n: int
    """Images of the collection, not of the sample."""
    mean: float
    std: float
    median: float
    mad: float
    """The median distance from the median."""
    tail: Floats
    """The highest scores of the sample, highest first."""

    @classmethod
    def of(cls, scores: Floats, *, n: int | None = None) -> Background:
        """From the scores (s,) of the sample of a collection of `n` images."""
        if not len(scores):
            return cls(n or 0, 0.0, 0.0, 0.0, 0.0, np.zeros(0, np.float32))
        ordered, halves = np.sort(scores), ((len(scores) - 1) // 2, len(scores) // 2)
        values = ordered.astype(np.float64)
        median = float(values[list(halves)].mean())
        tail = ordered[::-1][:TAIL].astype(np.float32)
        mad = float(np.partition(np.abs(values - median), halves)[list(halves)].mean())
        return cls(len(scores) if n is None else n, float(values.mean()), float(values.std()), median, mad, tail)

    def standardise(self, scores: Floats) -> Floats:
        """Scores as deviations from the mean, in standard deviations; 0 where all are alike."""
        if self.std <= LEAST_SPREAD:
            return np.zeros(scores.shape, np.float32)
        return np.asarray((scores - np.float32(self.mean)) / np.float32(self.std), np.float32)


def sample_of(image_ids: Sequence[str]) -> Ints:
    """The numbers of the sampled images: all, or those of the SAMPLE smallest hashes of their ids, ascending.

    Whatever is added or removed, most of the sample stays, and two copies of a collection have the same one.
    """
    if len(image_ids) <= SAMPLE:
        return np.arange(len(image_ids))
    hashes = np.array([zlib.crc32(image_id.encode("utf-8", "surrogateescape")) for image_id in image_ids], np.int64)
    return np.sort(np.lexsort((np.arange(len(hashes)), hashes))[:SAMPLE])

"""Products of stored int8 rows with a query, by SIMD and without turning the rows into floats.

A query is written as a sum of three int8 vectors, each a finer rest of the one before, so that products are those of
float32. Two would do for cosines, which they change by a few millionths; but standardised scores are divided by the
spread of the cosines, a few hundredths, and would differ in the fifth digit (docs/results/rankings.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import simsimd

from wherein.arrays import Floats
from wherein.store.shards import Array

_FINER: Final = 254.0
"""One step of a vector is so many of the next, which then fills −127 to 127."""
_PARTS: Final = 3
"""Vectors that a query is written as: 23 bits, as many as a float32 has."""


@dataclass(frozen=True, slots=True)
class Int8Query:
    """A query as whole numbers."""

    parts: tuple[Array, ...]
    """(d,) int8 each, the coarsest first"""
    step: np.float32
    """What one counts for in the first part"""

    @classmethod
    def of(cls, query: Floats, *, fine: bool = True) -> Int8Query:
        """Quantise one vector of floats (d,); unless `fine`, to eight bits, which err by a hundredth of its spread."""
        largest = float(np.abs(query).max(initial=0.0))
        step = max(largest / 127, 1e-30)
        rest, parts = np.asarray(query, np.float64) / step, list[Array]()
        for _ in range(_PARTS if fine else 1):
            whole = np.rint(rest)
            parts.append(whole.astype(np.int8))
            rest = (rest - whole) * _FINER
        return cls(tuple(parts), np.float32(step))

    def products(self, rows: Array) -> Floats:
        """(n,) of int8 rows (n, d), whose numbers lie side by side; in units of `step`."""
        found, unit = self.rough(rows), 1.0
        for part in self.parts[1:]:
            unit /= _FINER
            found = found + np.float32(unit) * _dots(rows, part)
        return found

    def rough(self, rows: Array) -> Floats:
        """The same to the 8 bits of the first part, in a third of the time."""
        return _dots(rows, self.parts[0])


def _dots(rows: Array, vector: Array) -> Floats:
    if not len(rows):
        return np.zeros(0, np.float32)
    # An array of its own: given ours as `out`, simsimd 6.5 returns a None that it does not own, and Python aborts.
    return np.asarray(simsimd.dot(rows, vector, out_dtype="float32"))


def quantise_int8(vectors: Array) -> Array:
    """(n, d) directions as int8, the largest number of each 127."""
    values = np.asarray(vectors, np.float32)
    largest = np.abs(values).max(axis=-1, keepdims=True, initial=1e-12)
    return np.asarray(np.rint(values * (127 / largest)), np.int8)

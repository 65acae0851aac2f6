"""Some images of a collection, which say how like each other its images are; and how near a hit is beside that."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from wherein.arrays import Floats

OTHERS: Final = 2048
"""Images that an example is compared with to say what it usually looks like: a millisecond, 4 MB stay."""
PAIRED: Final = 128
"""Images of which any two are compared to say how like two images usually are: eight thousand pairs."""
ALIKE: Final = slice(10, 30)
"""The neighbours that say how like an image its look-alikes are; the ten nearest may be the very same thing."""
NEAREST: Final = 4.6
"""How near a hit can be, at most: a hundred times nearer than look-alikes, in logarithms."""
_SAME: Final = 1e-4
"""Distances below this are rounding, and are counted as this much more."""


class Others:
    """Some images of a collection, by their embeddings."""

    def __init__(self, rows: Floats) -> None:
        self.rows = rows
        """(o, d), at most OTHERS"""

    @cached_property
    def least(self) -> float:
        """How like an image its look-alikes are at least: as like as any two, and not far below what is usual here.

        An example that resembles nothing in the collection would be sure of the first image that does a little.
        """
        some = self.rows[:: -(-len(self.rows) // PAIRED)]
        if len(some) < 2:
            return 0.0
        pairs = (some @ some.T)[~np.eye(len(some), dtype=np.bool_)]
        levels = look_alikes(some @ self.rows.T, itself=True)
        return max(float(pairs.mean()), float(levels.mean() - levels.std()))


def look_alikes(cosines: Floats, *, itself: bool) -> Floats:
    """(r,) how like each row of (r, o) its look-alikes are; `itself` may be among them."""
    first, last = ALIKE.start + itself, min(ALIKE.stop + itself, cosines.shape[1])
    first = min(first, last - 1)
    nearest = np.sort(np.partition(cosines, -last, axis=1)[:, -last:], axis=1)[:, ::-1]
    return np.asarray(nearest[:, first:last].mean(axis=1), np.float32)


def example_signs(queries: Floats, hits: Floats, others: Others) -> Floats:
    """(hits, 1): how many times nearer to the example a hit is than look-alikes of it are, as a logarithm.

    `queries` (m, d) and `hits` (n, d) are embeddings. A constant part of every embedding changes nothing, and hits of
    one example stay in the order of their scores.
    """
    own = (hits @ queries.T).max(axis=1)
    level = max(float(look_alikes((others.rows @ queries.T).max(axis=1)[None], itself=False)[0]), others.least)
    nearer = np.log((1.0 - level + _SAME) / np.maximum(1.0 - own + _SAME, _SAME))
    return np.asarray(np.minimum(nearer, NEAREST)[:, None], np.float32)

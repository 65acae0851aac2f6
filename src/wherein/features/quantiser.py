"""Product quantisation of RootSIFT: a descriptor as a few bytes, each the nearest of 256 centroids of a part of it.

The centroids come with the package (made by `training/quantiser.py`), so that nothing has to be trained and images can
be added at any time; their digest is part of the layer's, so that codes are never read by other centroids.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats, unit

PATH: Final = Path(__file__).with_name("rootsift.pq.npy")
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Quantiser:
    """Centroids (parts, 256, d / parts)."""

    centroids: Floats

    @property
    def parts(self) -> int:
        """Bytes of a descriptor."""
        return len(self.centroids)

    @property
    def digest(self) -> str:
        """Of the centroids' bytes."""
        return hashlib.blake2b(self.centroids.tobytes(), digest_size=8).hexdigest()

    def encode(self, descriptors: Floats) -> Codes:
        """(n, d) → (n, parts): of each part, the nearest centroid."""
        split = descriptors.reshape(len(descriptors), self.parts, self.centroids.shape[2])
        lengths = np.square(self.centroids).sum(axis=2)
        codes = [
            (lengths[part] - 2 * split[:, part] @ self.centroids[part].T).argmin(axis=1) for part in range(self.parts)
        ]
        return np.stack(codes, axis=1).astype(np.uint8)

    def decode(self, codes: Codes) -> Floats:
        """(n, parts) → (n, d), unit norm."""
        rows = self.centroids[np.arange(self.parts), codes]
        return unit(rows.reshape(len(codes), self.parts * self.centroids.shape[2]))


@cache
def rootsift_quantiser() -> Quantiser:
    """The one that is shipped."""
    return Quantiser(np.asarray(np.load(PATH, allow_pickle=False), np.float32))

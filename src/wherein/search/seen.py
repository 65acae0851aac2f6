"""What the bank of texts says of each image, whatever is asked: worked out once for every image that is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index.rows import RowTable
from wherein.search.bank import Bank

SOFT: Final = 2.0
"""How much better fitting texts of the bank count for more, per deviation: between their mean (0) and the best alone.
Of 1, 2 and 3.3, 2 kept most right first hits of photographs held back
where 5 % of texts that nothing answers got a hit."""
FITTING: Final = 20
"""Scenes of the bank that say what an image shows: the best so many."""
SHARPNESS: Final = 3.3
"""How fast a text of the bank counts less the worse it fits, per deviation of the image's fits: of `mini`'s, a cosine
of 0.017 below the best counts e times less."""
SPREAD_SEEN: Final = 64
"""Images that say how far fits are apart: `mini`'s deviations differ by a tenth, so that their mean is known to a
hundredth."""
AT_ONCE: Final = 1024
"""Images that are compared with the bank at once: eight megabytes of fits."""
_LEAST_SPREAD: Final = 1e-6
"""The least that fits are divided by: those that are spread by less are all the same."""


@dataclass(frozen=True, slots=True)
class Fits:
    """How well texts of the bank fit images of a collection, and how far their fits to one image are apart."""

    mean: float
    spread: float

    @classmethod
    def of(cls, images: Floats, bank: Bank) -> Fits:
        """From some of (n, d) images."""
        if not len(images):
            return cls(0.0, 1.0)
        some = images[:: -(-len(images) // SPREAD_SEEN)]
        fits = np.concatenate([some @ kind.rows.T for kind in bank.kinds], axis=1)
        return cls(float(fits.mean()), max(float(fits.std(axis=1).mean()), _LEAST_SPREAD))


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What the bank says of (n,) images."""

    best_fit: Floats
    """(2, n) how well its best names and its best scenes fit, softly the best of all."""
    scenes: Ints
    """(n, FITTING) the scenes that fit best."""
    shares: Floats
    """(n, FITTING) how much each of them says, in all 1."""

    @classmethod
    def of(cls, images: Floats, bank: Bank, fits: Fits) -> Seen:
        """From the embeddings (n, d) of images."""
        names, scenes = (images @ kind.rows.T for kind in bank.kinds)
        best_fit = np.stack([_best_fit(own, fits.spread) for own in (names, scenes)])
        return cls(best_fit, *_fitting(scenes, fits.spread))


def _best_fit(fits: Floats, spread: float) -> Floats:
    """(n,) softly the best of how well texts of one kind fit images (n, m)."""
    best = fits.max(axis=1, keepdims=True)
    weights = np.exp((fits - best) * (SOFT / spread))
    return np.asarray(best[:, 0] + np.log(weights.mean(axis=1)) * (spread / SOFT), np.float32)


def _fitting(fits: Floats, spread: float) -> tuple[Ints, Floats]:
    """(n, FITTING) the texts that fit images (n, m) best, and how much each says."""
    texts = np.argpartition(fits, -FITTING, axis=1)[:, -FITTING:]
    own = np.take_along_axis(fits, texts, axis=1)
    shares = np.exp(SHARPNESS * (own - own.max(axis=1, keepdims=True)) / spread)
    return texts, np.asarray(shares / shares.sum(axis=1, keepdims=True), np.float32)


class SeenImages:
    """What the bank says of the images of a collection, kept for those that were looked at."""

    def __init__(self, table: RowTable, count: int, bank: Bank, some: Floats) -> None:
        self.bank, self._table = bank, table
        self.fits = Fits.of(some, bank)
        """How well texts of the bank fit, from `some` (o, d) of the images."""
        self._known = np.zeros(count, np.bool_)
        # Zeros take no memory until they are written.
        self._best_fit = np.zeros((2, count), np.float32)
        self._scenes = np.zeros((count, FITTING), np.int16)
        self._shares = np.zeros((count, FITTING), np.float32)

    def of(self, images: Ints) -> Seen:
        """What is said of images, by their numbers."""
        new = np.unique(images[~self._known[images]])
        for at in range(0, len(new), AT_ONCE):
            some = new[at : at + AT_ONCE]
            found = Seen.of(self._table.vectors(some), self.bank, self.fits)
            self._best_fit[:, some], self._scenes[some] = found.best_fit, found.scenes
            self._shares[some], self._known[some] = found.shares, True
        return Seen(self._best_fit[:, images], self._scenes[images].astype(np.int64), self._shares[images])

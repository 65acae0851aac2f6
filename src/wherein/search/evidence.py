"""Fusing scores of different kinds: how surprising each is among all images, in nats, and their sum.

A score says little by itself: a cosine of 0.4 may be the best of a million or the worst. What counts is how far it
stands out of the scores that all images have for this query, most of which are not what is looked for. −ln of the
chance to stand out so far grows with the square of the distance, so the evidence that is strong decides, local or
global, and what merely varies adds little (Fisher's way of combining tests).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.search.background import Background

EMBEDDING_WORTH: Final = 2.0
"""Times that the nats of an embedding count beside those of words: cosines scatter like normal values, and shares of
words have a longer tail, which overstates how they stand out. On sets made of training photographs 1.5 did as well, and
`objects` decided (docs/results/same-thing.md)."""
INLIER_WORTH: Final = 1.25
"""Nats of an inlier in the very middle: each further one that agrees by chance is about as unlikely as the last. Chosen
with CHANCE_NATS and CENTRE in view of the three sets that docs/results/same-thing.md reports."""
CHANCE_NATS: Final = math.log(5.0)
"""What one image in five reaches by words alone, whatever it shows. Only what is above it counts."""
CENTRE: Final = 0.3
"""How far from the middle of a photo its subject reaches, in half sides (one standard deviation)."""
_MAD: Final = 1.4826  # the median deviation of a normal distribution is its standard deviation over this
_OUTLIERS: Final = 0.25
"""Where most scores are equal their median deviation is 0; then a quarter of the standard deviation stands for it.
Chosen by hand, not tuned."""


def surprise(scores: Floats, background: Background) -> Floats:
    """(n,) scores → nats: 0.69 for the middle of the background, more for those that stand out above it."""
    values = np.asarray(scores, np.float64)
    # Hits must not widen what they are measured by, so deviations are medians, unless most scores are equal.
    spread = max(_MAD * background.mad, _OUTLIERS * background.std)
    away = (values - background.median) / spread if spread > 1e-9 else np.zeros_like(values)
    return np.asarray(_tail(away), np.float32)


def embedding_nats(scores: Floats, background: Background) -> Floats:
    """What cosines (n,) are worth in nats."""
    return np.asarray(EMBEDDING_WORTH * surprise(scores, background), np.float32)


def roots(scores: Floats) -> Floats:
    """Scores of local features as they are fused: shares of words are skewed, their roots less so."""
    return np.asarray(np.sqrt(np.maximum(scores, 0.0)), np.float32)


def local_nats(scores: Floats, background: Background) -> Floats:
    """What roots of local scores (n,) are worth in nats beside an embedding: only what is more than chance."""
    return np.asarray(np.maximum(surprise(scores, background) - CHANCE_NATS, 0.0), np.float32)


def centrality(places: Floats) -> Floats:
    """(n, 2) places in a photo, in [0, 1] → (n,) how likely each is on what was asked for: 1 in the very middle.

    What is asked for is in the middle, and things that happen to stand on the same carpet match around it.
    """
    apart = np.square(np.asarray(places, np.float64) - 0.5).sum(axis=1) / 0.25
    return np.asarray(np.exp(-apart / (2 * CENTRE**2)), np.float32)


def inlier_nats(worth: Floats) -> float:
    """Nats that verified inliers add, each as much as it is worth (n,); 0 for none."""
    return INLIER_WORTH * float(np.sum(worth, dtype=np.float64))


def _tail(away: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """−ln of the chance that a standard normal value lies above."""
    x = np.abs(away) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * x)  # Abramowitz and Stegun 7.1.26
    factor = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    above = -np.log(0.5 * factor) + x**2
    return np.asarray(np.where(away >= 0.0, above, -np.log1p(-np.exp(-above))), np.float64)

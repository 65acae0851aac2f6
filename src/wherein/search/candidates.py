"""The best images by a sum of terms, without the sum of every image.

Every term that can raise an image proposes its best ones; all that are proposed are scored exactly by every term. An
image that nobody proposed has at most the sum of the terms' last proposals (Fagin's threshold), so the best k are
certain once the k-th sum is as high; until then more is proposed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.index import Top
from wherein.index.exact import best

log = logging.getLogger("wherein.search")

WIDER: Final = 4
"""So many times k are proposed at first, and so many times more each time that was too few."""
LEAST: Final = 256
"""Proposals of a term at least: below that a scan costs as much as its selection."""
MOST: Final = 65_536
"""Proposals of a term at most; the log says when the best k are not certain at that width."""


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a sum."""

    propose: Callable[[int], Top] | None
    """The best k images by this term, with what it adds for each; None for a term that only ever subtracts."""
    adds: Callable[[Ints], Floats]
    """What it adds for given images."""


def combined_top(terms: Sequence[Term], *, k: int, count: int) -> Top:
    """The k images of the highest sums, best first, among what the terms propose of `count` images."""
    wide = max(LEAST, WIDER * k)
    while True:
        proposed = [term.propose(min(wide, count)) for term in terms if term.propose is not None]
        images = np.unique(np.concatenate([found.images for found in proposed]))
        total = np.asarray(np.sum([term.adds(images) for term in terms], axis=0), np.float32)
        top = best(total, k=k)
        exhausted = any(len(found.images) < min(wide, count) for found in proposed) or wide >= count
        ceiling = sum(float(found.scores[-1]) for found in proposed if len(found.scores))
        if exhausted or (len(top.scores) == k and float(top.scores[-1]) >= ceiling):
            return Top(images[top.images], top.scores)
        if wide >= MOST:
            log.warning("the best %d of %d images are not certain after %d proposals of each term", k, count, wide)
            return Top(images[top.images], top.scores)
        wide *= WIDER

"""The best images by a sum of terms, without the sum of every image.

Every term that can raise an image proposes its best ones; all that are proposed are scored exactly by every term. An
image that nobody proposed has at most the sum of the terms' last proposals (Fagin's threshold), so the best k are
certain once the k-th sum is as high; until then more is proposed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.index import Top
from wherein.index.exact import best

log = logging.getLogger("wherein.search")

AT_FIRST: Final = 2
"""So many times k are proposed at first: the best k are then certain unless other terms lower half of those."""
LEAST: Final = 40
"""Proposals of a term at least: what a page of twenty hits asks for at first."""
WIDER: Final = 2
"""So many times more are proposed each time that was too few."""
FEW: Final = 1024
"""Images that are scored exactly at first, at most, unless more are asked for; the best of them show which others may
be as good. So few are scored whatever share of all they are: that costs less than estimating 100,000."""
MOST_SHARE: Final = 6
"""Where more than one image in six would be scored exactly, scoring all of them side by side costs less."""
SURE: Final = 3.5
"""How many times the usual error an estimate may lie below its score: one image in four thousand lies further. With 3.0
some hits of `static-36` are missed, with 4.0 a search takes up to a tenth longer (`benchmarks/places.py --missed`)."""
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
    wide = max(LEAST, AT_FIRST * k)
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


@dataclass(slots=True)
class Estimated:
    """Estimates of every image, and how far they err; the best images by exact scores of those that may be best."""

    estimates: Floats
    """(n,)"""
    error: float
    """The usual distance between an estimate and the exact score."""
    images: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Images whose exact scores are known, ascending"""
    scores: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    """Their exact scores"""
    found: Top | None = None
    """The best of all that were found last: a search may ask for fewer again"""

    @classmethod
    def of(cls, rough: Floats, sample: Ints, exact: Floats) -> Estimated:
        """From rough scores (n,) of all images and the exact ones (s,) of a sample, on whose line they are put."""
        seen, real = rough[sample].astype(np.float64), exact.astype(np.float64)
        spread = float(seen.var())
        slope = float(((seen - seen.mean()) * (real - real.mean())).mean()) / spread if spread > 0.0 else 0.0
        estimates = rough * np.float32(slope)
        estimates += np.float32(real.mean() - slope * seen.mean())
        return cls(estimates, float(np.sqrt(np.mean((estimates[sample] - real) ** 2))))

    def top(self, exact: Callable[[Ints], Floats], *, k: int, allowed: Mask | None) -> Top | None:
        """The best k images; None where so many would have to be scored exactly that scoring all costs less."""
        if allowed is None and self.found is not None and k <= len(self.found.images):
            return Top(self.found.images[:k], self.found.scores[:k])
        likely, near = best(self.estimates, k=max(k, FEW), allowed=allowed), np.inf
        least = max(self._lowest(likely, k), float(likely.scores[-1])) if len(likely.scores) else -np.inf
        while least < near:
            # Whatever is estimated so high may belong to the best k, and nothing else.
            near = least
            own = np.flatnonzero(self.estimates >= near if allowed is None else (self.estimates >= near) & allowed)
            if len(own) > FEW and len(own) * MOST_SHARE > len(self.estimates):
                return None
            top = best(self.exact(own, exact), k=k)
            least = self._lowest(top, k)
        found = Top(own[top.images], top.scores)
        self.found = found if allowed is None else self.found
        return found

    def _lowest(self, top: Top, k: int) -> float:
        """The lowest estimate of an image that may score as high as the last of the best k."""
        return float(top.scores[k - 1]) - SURE * self.error if 0 < k <= len(top.scores) else -np.inf

    def exact(self, images: Ints, score: Callable[[Ints], Floats]) -> Floats:
        """The exact scores of some images; those that were never asked for are scored and remembered."""
        new = np.setdiff1d(images, self.images, assume_unique=True) if len(self.images) else images
        if len(new):
            known, scores = np.r_[self.images, new], np.r_[self.scores, score(new)]
            order = np.argsort(known)
            self.images, self.scores = known[order], np.asarray(scores[order], np.float32)
        return self.scores[np.searchsorted(self.images, images)]

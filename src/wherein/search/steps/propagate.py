"""`propagate`: what the first verified hits show of the example is looked for in the images that were not verified.

Those that show it inherit the verification, as along the hyperedges of verified regions of An et al. (2021).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.errors import QueryError
from wherein.search.engine import Candidate, Context, Ranked
from wherein.search.steps import SearchStep
from wherein.search.verification import VERIFIED, Verifier, with_heirs
from wherein.values.method import Method

SOURCES: Final = 5
"""Verified hits that pass their verification on: later ones add time and hardly a hit."""


class Propagate(SearchStep):
    """Puts those that inherit inliers among the verified ones. It compares as `sp` was told to."""

    name = "propagate"
    summary = "passes verification on to images that show what verified hits show"
    depth = VERIFIED

    def needs_local(self, method: Method) -> bool:  # noqa: ARG002 — always
        """It compares local features."""
        return True

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The ranking with its heirs."""
        verifier = Verifier.of(context, self.name)
        if all(one.inliers is None for one in ranked.candidates) or ranked.source is None:
            raise QueryError("propagate passes on what sp verified: put it after sp, as bow+sp+propagate.")
        known = {one.image: one for one in ranked.candidates}
        heirs = dict[int, Candidate]()
        for source in [one for one in ranked.candidates if one.inliers][:SOURCES]:
            region = verifier.region(source)
            reached = {image for image, one in known.items() if not one.inliers}
            reached |= set(verifier.reached(region, context)) - known.keys()
            for image in sorted(reached):
                one = known.get(image) or Candidate(image, float(ranked.source.scores(np.array([image]))[0]))
                found = verifier.linked(one, source, region)
                if (found.inliers or 0) > (heirs[image].inliers or 0 if image in heirs else 0):
                    heirs[image] = found
        verifier.links.keep()
        return with_heirs(ranked, heirs, evidence=verifier.evidence)


PROPAGATE: Final = Propagate()

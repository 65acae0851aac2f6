"""`sp`: spatial verification. Candidates whose keypoints agree with one view of the example come first, outlined."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from wherein.errors import QueryError
from wherein.search.engine import Context, Ranked
from wherein.search.sources import FusedSource
from wherein.search.steps import SearchStep
from wherein.search.verification import VERIFIED, Verifier, inlier_score, ordered
from wherein.values.method import Method, Option

_UNKNOWN: Final = "sp: none of the first {} shows what the example does; all are ranked by likeness alone."


class Verify(SearchStep):
    """After local features alone the score is the inliers; after an encoder they add their evidence."""

    name = "sp"
    summary = "verifies in space that the first 50 show the example, and outlines it"
    options = (
        Option("matcher", ("nearest", "learned")),
        Option("model", ("homography", "affine", "fundamental")),
    )
    depth = VERIFIED

    def needs_local(self, method: Method) -> bool:  # noqa: ARG002 — always
        """It compares local features."""
        return True

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The first verified and re-ranked; the rest follow as they were."""
        verifier = Verifier.of(context, self.name)
        examples = [pair for pair in context.examples if not pair[0].negative]
        if not examples:
            raise QueryError("sp compares pictures: give an example image, or leave out sp.")
        base = as_evidence(ranked) if context.method.embeds else ranked
        head, tail = base.candidates[: verifier.depth], base.candidates[verifier.depth :]
        checked = [verifier.example(one, examples) for one in head]
        said = () if not checked or any(one.inliers for one in checked) else (_UNKNOWN.format(len(checked)),)
        if not context.method.embeds:
            scored = [replace(one, score=inlier_score(one)) for one in (*checked, *tail)]
            return Ranked(ordered(scored), "inliers", ranked.source, said)
        return replace(base, candidates=ordered([*checked, *tail], by_score=True), notes=said)


SP: Final = Verify()


def as_evidence(ranked: Ranked) -> Ranked:
    """A ranking by an encoder alone, in nats."""
    if ranked.score_kind == "evidence" or ranked.source is None:
        return ranked
    source = FusedSource(ranked.source)
    images = np.array([one.image for one in ranked.candidates], np.int64)
    nats = source.scores(images).tolist()
    found = zip(ranked.candidates, nats, strict=True)
    return Ranked(tuple(replace(one, score=score) for one, score in found), "evidence", source)

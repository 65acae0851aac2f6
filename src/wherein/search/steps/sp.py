"""`sp`: spatial verification. Candidates whose keypoints agree with one view of the example come first, outlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wherein.errors import QueryError
from wherein.search.engine import Candidate, Context, Ranked
from wherein.search.sources import FusedSource
from wherein.search.steps import SearchStep
from wherein.search.verification import VERIFIED, Verifier, inlier_score, ordered
from wherein.values.method import Method, Option

_UNKNOWN: Final = "sp: none of the first {} shows what the example does; all are ranked by likeness alone."


class Verify(SearchStep):
    """After local features alone the score is the inliers; after an encoder they add their evidence, and words theirs
    where keypoints agree."""

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
        return replace(without_unverified_words(context, base, (*checked, *tail)), notes=said)


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


def without_unverified_words(context: Context, ranked: Ranked, checked: Sequence[Candidate]) -> Ranked:
    """The checked candidates, where words count only for those that were verified; the others are the encoder's alone.

    Words propose what is verified. Where keypoints then do not agree, what two pictures share is texture, so that the
    ranking is never worse than the encoder's own for it: its best stand in it too, whatever words had proposed.
    """
    if context.method.words is None or not isinstance(ranked.source, FusedSource):
        return replace(ranked, candidates=ordered(checked, by_score=True))
    plain = FusedSource(ranked.source.embedding)
    known = {one.image: one for one in checked}
    missing = [image for image in plain.top(context.k, context.allowed).images.tolist() if image not in known]
    boxes = plain.regions(np.array(missing, np.int64))
    known |= {image: Candidate(image, 0.0, box) for image, box in zip(missing, boxes, strict=True)}
    unverified = [image for image, one in known.items() if not one.inliers]
    nats = plain.scores(np.array(unverified, np.int64)).tolist()
    for image, score in zip(unverified, nats, strict=True):
        known[image] = replace(known[image], score=score)
    return Ranked(ordered(known.values(), by_score=True), "evidence", plain)

"""Steps of a ranking that look at it as a whole: `sp` verifies hits in space, `qe` and `diffusion` ask again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wherein.encoders import Floats
from wherein.errors import QueryError
from wherein.evidence import fused, inlier_evidence
from wherein.expansion import NEIGHBOURS, diffuse, expanded_scores
from wherein.features import LocalFeatures
from wherein.index import best
from wherein.local import LocalIndex, query_features
from wherein.masks import from_polygons
from wherein.query import Part
from wherein.region import Box
from wherein.scorers import WholeScorer
from wherein.search import Candidate, Context, Ranked
from wherein.verify import Verification, verify

VERIFIED: Final = 50
"""Candidates that are verified."""
CERTAIN: Final = 50
"""More inliers make a larger or sharper picture, not a surer hit: the score stops here, the order does not."""
DIFFUSED_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class VerifyStep:
    """`sp`: candidates whose keypoints agree with one view of the example come first, with their outline.

    After local features alone the score is the inliers, up to CERTAIN; after an encoder they add their evidence.
    """

    depth: int = VERIFIED

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The first `depth` verified and re-ranked; the rest follow as they were."""
        local = context.view.local
        if local is None:
            raise QueryError("sp needs the layer local: index with --layers global,thumbs,local.")
        examples = [pair for pair in query_features(context.query, local.family) if not pair[0].negative]
        head, tail = ranked.candidates[: self.depth], ranked.candidates[self.depth :]
        verified = [_verified(one, examples, local) for one in head]
        if context.method.embeds:
            base = ranked if ranked.score_kind == "evidence" else _as_evidence(ranked, context)
            added = {one.image: nats for one, nats in verified}
            return _summed(base, seen={one.image: one for one, _ in verified}, added=added)
        order = sorted((one for one, _ in verified), key=lambda one: (-(one.inliers or 0), -one.score, one.image))
        first = [replace(one, score=_inlier_score(one)) for one in order]
        return Ranked((*first, *tail), "inliers")


@dataclass(frozen=True, slots=True)
class ExpandStep:
    """`qe`: the query moved towards its first hits (α query expansion), and asked again."""

    depth: int = NEIGHBOURS

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """A new ranking of all images."""
        rows = _embeddings(context, "qe")
        if ranked.score_kind != "cosine":
            raise QueryError(
                "qe expands a query of one kind by its cosines: put it after the encoder alone, as mini+qe."
            )
        near = np.array([one.image for one in ranked.candidates[: self.depth]], np.int64)
        return _ranked(expanded_scores(context.scores, rows, near), context, ranked, kind="cosine")


@dataclass(frozen=True, slots=True)
class DiffuseStep:
    """`diffusion`: scores spread along the graph of nearest neighbours, so that what is like a hit rises."""

    depth: int = NEIGHBOURS

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """A new ranking of all images."""
        rows = _embeddings(context, "diffusion")
        if len(rows) > DIFFUSED_MOST:
            raise QueryError(
                f"diffusion compares all images with each other: {len(rows):,} are over {DIFFUSED_MOST:,}."
            )
        return _ranked(diffuse(rows, context.scores), context, ranked, kind="diffusion")


SP: Final = VerifyStep()
QE: Final = ExpandStep()
DIFFUSION: Final = DiffuseStep()


def _embeddings(context: Context, word: str) -> Floats:
    scorer = context.view.scorer
    if not isinstance(scorer, WholeScorer) or not len(scorer.embeddings):
        raise QueryError(f"{word} works on the embeddings of whole images: leave out {context.method.search}.")
    return scorer.embeddings


def _ranked(scores: Floats, context: Context, before: Ranked, *, kind: str) -> Ranked:
    top = best(scores, k=max(context.k, len(before.candidates)), allowed=context.allowed)
    known = {one.image: one for one in before.candidates}
    found = zip(top.images.tolist(), top.scores.tolist(), strict=True)
    return Ranked(tuple(replace(known.get(i, Candidate(i, s)), score=s) for i, s in found), kind)


def _verified(
    one: Candidate, examples: Sequence[tuple[Part, LocalFeatures]], local: LocalIndex
) -> tuple[Candidate, float]:
    """A candidate with the inliers and the outline of the example that it shows best, and the nats they are worth."""
    stored = local.features(one.image)
    if stored is None:
        return replace(one, inliers=0), 0.0
    each = [(verify(features, stored), part, features) for part, features in examples]
    found, part, features = max(each, key=lambda seen: seen[0].inliers)
    places = features.keypoints[found.matches[:, 0], :2]
    nats = inlier_evidence(places, centred=part.region is None)
    return _outlined(one, found, stored.size_wh), nats


def _as_evidence(ranked: Ranked, context: Context) -> Ranked:
    nats = fused(context.scores, [])
    return Ranked(tuple(replace(one, score=float(nats[one.image])) for one in ranked.candidates), "evidence")


def _summed(base: Ranked, *, seen: Mapping[int, Candidate], added: Mapping[int, float]) -> Ranked:
    summed = [replace(seen.get(one.image, one), score=one.score + added.get(one.image, 0.0)) for one in base.candidates]
    return Ranked(tuple(sorted(summed, key=lambda one: (-one.score, one.image))), "evidence")


def _inlier_score(one: Candidate) -> float:
    """Inliers where there are any, else what it was, which is below 1."""
    return float(min(one.inliers, CERTAIN)) if one.inliers else one.score


def _outlined(one: Candidate, found: Verification, size_wh: tuple[int, int]) -> Candidate:
    """With the example's outline as box and mask, where verification gives one."""
    if found.outline is None:
        return replace(one, inliers=found.inliers)
    low, high = found.outline.min(axis=0).tolist(), found.outline.max(axis=0).tolist()
    corners = [(float(x) * size_wh[0], float(y) * size_wh[1]) for x, y in found.outline.tolist()]
    mask = from_polygons([corners], size_wh=size_wh)
    if low[0] >= high[0] or low[1] >= high[1] or not mask.any():
        return replace(one, inliers=found.inliers)
    return replace(one, inliers=found.inliers, box=Box(low[0], low[1], high[0], high[1]), mask=mask)

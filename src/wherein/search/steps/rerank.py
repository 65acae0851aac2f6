"""Steps of a ranking that look at it as a whole: `sp` verifies hits in space and `propagate` passes that on to others;
`qe` and `diffusion` ask again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from wherein.arrays import Floats
from wherein.errors import QueryError
from wherein.features import LocalFeatures
from wherein.features.matchers import LEARNED_CHANCE, Matcher, load_matcher
from wherein.index.exact import best
from wherein.limits import checkpoint
from wherein.search.engine import Candidate, Context, Ranked
from wherein.search.evidence import centrality, fused, inlier_nats
from wherein.search.expansion import NEIGHBOURS, Weighting, diffuse, expanded_scores, passed_on
from wherein.search.local import LocalIndex
from wherein.search.scorers import WholeScorer
from wherein.search.verify import CHANCE, Model, Verification, match, verify
from wherein.values.masks import from_polygons
from wherein.values.query import Part
from wherein.values.region import Box

VERIFIED: Final = 50
"""Candidates that are verified."""
LEARNED_VERIFIED: Final = 10
"""Those of a learned matcher, which takes about a second each."""
CERTAIN: Final = 50
"""More inliers make a larger or sharper picture, not a surer hit: the score stops here, the order does not."""
SOURCES: Final = 5
"""Verified hits that pass their verification on."""
REACHED: Final = 20
"""Images that each of them is compared with, beside those in the ranking."""
DIFFUSED_MOST: Final = 100_000
_UNKNOWN: Final = "sp: none of the first {} shows what the example does; all are ranked by likeness alone."


@dataclass(frozen=True, slots=True)
class VerifyStep:
    """`sp`: candidates whose keypoints agree with one view of the example come first, with their outline.

    After local features alone the score is the inliers, up to CERTAIN; after an encoder they add their evidence.
    """

    depth: int = VERIFIED

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The first verified and re-ranked; the rest follow as they were."""
        verifier = _Verifier.of(context, "sp")
        examples = [pair for pair in context.examples if not pair[0].negative]
        if not examples:
            raise QueryError("sp compares pictures: give an example with --image FILE, or leave out sp.")
        base = _as_evidence(ranked, context) if context.method.embeds else ranked
        head, tail = base.candidates[: verifier.depth], base.candidates[verifier.depth :]
        checked = [verifier.example(one, examples) for one in head]
        said = () if not checked or any(one.inliers for one in checked) else (_UNKNOWN.format(len(checked)),)
        if not context.method.embeds:
            scored = [replace(one, score=_inlier_score(one)) for one in (*checked, *tail)]
            return Ranked(_ordered(scored), "inliers", notes=said)
        return replace(base, candidates=_ordered([*checked, *tail], by_score=True), notes=said)


@dataclass(frozen=True, slots=True)
class PropagateStep:
    """`propagate`: what the first verified hits show of the example is looked for in the images that were not.

    Those that show it inherit the verification, as along the hyperedges of verified regions of An et al. (2021).
    """

    depth: int = VERIFIED

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The ranking with those that inherited inliers among the verified ones."""
        verifier = _Verifier.of(context, "propagate")
        if all(one.inliers is None for one in ranked.candidates):
            raise QueryError("propagate passes on what sp verified: put it after sp, as bow+sp+propagate.")
        scores = context.scores if ranked.scores is None else ranked.scores
        known = {one.image: one for one in ranked.candidates}
        heirs = dict[int, Candidate]()
        for source in [one for one in ranked.candidates if one.inliers][:SOURCES]:
            region = verifier.region(source)
            reached = {image for image, one in known.items() if not one.inliers}
            reached |= set(verifier.reached(region, context)) - known.keys()
            for image in sorted(reached):
                one = known.get(image) or Candidate(image, float(scores[image]))
                found = verifier.linked(one, source, region)
                if (found.inliers or 0) > (heirs[image].inliers or 0 if image in heirs else 0):
                    heirs[image] = found
        if verifier.evidence:
            return replace(ranked, candidates=_ordered((known | heirs).values(), by_score=True), notes=())
        scored = {image: replace(one, score=_inlier_score(one)) for image, one in heirs.items()}
        return replace(ranked, candidates=_ordered((known | scored).values()), notes=())


@dataclass(frozen=True, slots=True)
class ExpandStep:
    """`qe`: the query moved towards its first hits (query expansion), and asked again."""

    depth: int = NEIGHBOURS

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """A new ranking of all images."""
        rows = _rows(context, "qe").embeddings
        if ranked.score_kind != "cosine":
            raise QueryError(
                "qe expands a query of one kind by its cosines: put it after the encoder alone, as mini+qe."
            )
        near = np.array([one.image for one in ranked.candidates[: self.depth]], np.int64)
        weighting = cast(Weighting, context.method.weighting)
        scores = expanded_scores(_scores(context, ranked), rows, near, weighting=weighting)
        return _ranked(scores, context, ranked, kind="cosine")


@dataclass(frozen=True, slots=True)
class DiffuseStep:
    """`diffusion`: scores spread along the graph of nearest neighbours, so that what is like a hit rises."""

    depth: int = NEIGHBOURS

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """A new ranking of all images."""
        scorer = _rows(context, "diffusion")
        if len(scorer.embeddings) > DIFFUSED_MOST:
            raise QueryError(
                f"diffusion compares all images with each other: {len(scorer.embeddings):,} are over {DIFFUSED_MOST:,}."
            )
        return _ranked(diffuse(scorer.neighbours, _scores(context, ranked)), context, ranked, kind="diffusion")


SP: Final = VerifyStep()
PROPAGATE: Final = PropagateStep()
QE: Final = ExpandStep()
DIFFUSION: Final = DiffuseStep()


@dataclass(frozen=True, slots=True)
class _Verifier:
    """Compares images by their stored local features, as a method says."""

    local: LocalIndex
    model: Model
    matcher: Matcher
    chance: int
    depth: int
    """How many candidates are compared with the example."""
    evidence: bool
    """Whether the scores are nats, to which inliers add theirs."""

    @classmethod
    def of(cls, context: Context, word: str) -> _Verifier:
        local, method = context.view.local, context.method
        if local is None:
            raise QueryError(f"{word} needs the layer local: index with --layers global,thumbs,local.")
        model = cast(Model, method.model)
        if method.matcher == "learned":
            return cls(local, model, load_matcher(local.family.spec), LEARNED_CHANCE, LEARNED_VERIFIED, method.embeds)
        return cls(local, model, match, CHANCE, VERIFIED, method.embeds)

    def example(self, one: Candidate, examples: Sequence[tuple[Part, LocalFeatures]]) -> Candidate:
        """A candidate with the inliers and the outline of the example that it shows best, and what they are worth."""
        stored = self.local.features(one.image)
        if stored is None:
            return replace(one, inliers=0)
        each = [(self._verify(features, stored), part, features) for part, features in examples]
        found, part, features = max(each, key=lambda seen: seen[0].inliers)
        nats = self._nats(features, found, centred=part.region is None)
        return _outlined(replace(one, score=one.score + nats), found, stored.size_wh)

    def region(self, source: Candidate) -> LocalFeatures:
        """What a verified hit shows of the example."""
        stored = self.local.features(source.image)
        if stored is None:
            raise QueryError(f"image {source.image} was verified and has no local features.")
        return stored if source.box is None else stored.cropped(source.box)

    def reached(self, region: LocalFeatures, context: Context) -> Iterator[int]:
        """The images that a region is most like by words, where the method compares words."""
        if self.local.kernel is not None:
            scores = self.local.scores(region).max(axis=1)
            yield from best(scores, k=REACHED, allowed=context.allowed).images.tolist()

    def linked(self, one: Candidate, source: Candidate, region: LocalFeatures) -> Candidate:
        """A candidate with the inliers that it inherits from a hit whose region it shows."""
        stored = self.local.features(one.image)
        if stored is None:
            return replace(one, inliers=0)
        found = self._verify(region, stored)
        inherited = passed_on(source.inliers or 0, found.inliers)
        nats = self._nats(region, found, centred=True) * inherited / max(found.inliers, 1)
        return _outlined(replace(one, score=one.score + nats), replace(found, inliers=inherited), stored.size_wh)

    def _nats(self, query: LocalFeatures, found: Verification, *, centred: bool) -> float:
        """What inliers add to a score in nats; in a whole photo (`centred`) those in its middle count most."""
        if not self.evidence:
            return 0.0
        places = query.keypoints[found.matches[:, 0], :2]
        return inlier_nats(centrality(places) if centred else np.ones(len(places), np.float32))

    def _verify(self, query: LocalFeatures, stored: LocalFeatures) -> Verification:
        checkpoint()
        return verify(query, stored, model=self.model, matcher=self.matcher, chance=self.chance)


def _rows(context: Context, word: str) -> WholeScorer:
    scorer = context.view.scorer
    local = context.view.local
    if not context.method.embeds and (local is None or local.embeddings is None):
        raise QueryError(f"{word} works on embeddings: write it after an encoder or vlad, as mini+{word}.")
    if not isinstance(scorer, WholeScorer) or not len(scorer.embeddings):
        raise QueryError(f"{word} works on the embeddings of whole images: leave out {context.method.search}.")
    return scorer


def _scores(context: Context, ranked: Ranked) -> Floats:
    """Every image's score as the last step left it."""
    return context.scores if ranked.scores is None else ranked.scores


def _ranked(scores: Floats, context: Context, before: Ranked, *, kind: str) -> Ranked:
    top = best(scores, k=max(context.k, len(before.candidates)), allowed=context.allowed)
    known = {one.image: one for one in before.candidates}
    found = zip(top.images.tolist(), top.scores.tolist(), strict=True)
    return Ranked(tuple(replace(known.get(i, Candidate(i, s)), score=s) for i, s in found), kind, scores)


def _as_evidence(ranked: Ranked, context: Context) -> Ranked:
    """A ranking by an encoder alone, in nats."""
    if ranked.score_kind == "evidence":
        return ranked
    nats = fused(_scores(context, ranked), [])
    candidates = tuple(replace(one, score=float(nats[one.image])) for one in ranked.candidates)
    return Ranked(candidates, "evidence", nats)


def _ordered(candidates: Iterable[Candidate], *, by_score: bool = False) -> tuple[Candidate, ...]:
    """By score, or the verified first, by their inliers."""
    return tuple(sorted(candidates, key=lambda one: (0 if by_score else -(one.inliers or 0), -one.score, one.image)))


def _inlier_score(one: Candidate) -> float:
    """Inliers where there are any, else what it was, squeezed below 1."""
    return float(min(one.inliers, CERTAIN)) if one.inliers else one.score / (1.0 + abs(one.score))


def _outlined(one: Candidate, found: Verification, size_wh: tuple[int, int]) -> Candidate:
    """With the example's outline as box and mask, where verification gives one."""
    if found.outline is None or not found.inliers:
        return replace(one, inliers=found.inliers)
    low, high = found.outline.min(axis=0).tolist(), found.outline.max(axis=0).tolist()
    corners = [(float(x) * size_wh[0], float(y) * size_wh[1]) for x, y in found.outline.tolist()]
    mask = from_polygons([corners], size_wh=size_wh)
    if low[0] >= high[0] or low[1] >= high[1] or not mask.any():
        return replace(one, inliers=found.inliers)
    return replace(one, inliers=found.inliers, box=Box(low[0], low[1], high[0], high[1]), mask=mask)

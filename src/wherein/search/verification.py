"""Comparing images by their stored local features: what the steps `sp`, `propagate` and `hypergraph` share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from wherein.arrays import Ints
from wherein.errors import QueryError
from wherein.features import LocalFeatures
from wherein.features.matchers import LEARNED_CHANCE, Matcher, load_matcher
from wherein.features.verify import CHANCE, Model, Verification, match, verify
from wherein.index.exact import best
from wherein.limits import checkpoint
from wherein.search.engine import Candidate, Context, Ranked
from wherein.search.evidence import centrality, inlier_nats
from wherein.search.expansion import passed_on
from wherein.search.links import Links, Shown
from wherein.search.local import LocalIndex
from wherein.values.masks import from_polygons
from wherein.values.query import Part
from wherein.values.region import Box

VERIFIED: Final = 50
"""Candidates whose local features are compared with the example: each takes some milliseconds, and what ranks lower is
never verified."""
LEARNED_VERIFIED: Final = 10
"""Candidates that a learned matcher compares with the example: it takes about a second for each."""
REACHED: Final = 20
"""Images that the region of a verified hit is compared with beside those in the ranking: the most like it by words."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Compares images by their stored local features, as a method says."""

    local: LocalIndex
    model: Model
    matcher: Matcher
    chance: int
    depth: int
    """How many candidates are compared with the example."""
    evidence: bool
    """Whether the scores are nats, to which inliers add theirs."""
    links: Links
    """What is known of how stored images match one another."""

    @classmethod
    def of(cls, context: Context, word: str) -> Verifier:
        local, method = context.view.local, context.method
        if local is None:
            raise QueryError(f"{word} needs the layer local: add it with `wherein index --layers local`.")
        model = cast(Model, method.choice("sp", "model"))
        name = method.choice("sp", "matcher")
        if name == "learned":
            learned = load_matcher(local.family.spec)
            links = Links(local.stored, learned, name)
            return cls(local, model, learned, LEARNED_CHANCE, LEARNED_VERIFIED, method.embeds, links)
        return cls(local, model, match, CHANCE, VERIFIED, method.embeds, Links(local.stored, match, name))

    def example(self, one: Candidate, examples: Sequence[tuple[Part, LocalFeatures]]) -> Candidate:
        """A candidate with the inliers and the outline of the example that it shows best, and what they are worth."""
        stored = self.local.features(one.image)
        if stored is None:
            return replace(one, inliers=0)
        each = [(self._verify(features, stored), part, features) for part, features in examples]
        found, part, features = max(each, key=lambda seen: seen[0].inliers)
        nats = self._nats(features, found, centred=part.is_whole)
        return _outlined(replace(one, score=one.score + nats), found, stored.size_wh)

    def region(self, source: Candidate) -> Shown:
        """What a verified hit shows of the example."""
        stored = self.local.features(source.image)
        if stored is None:
            raise QueryError(f"image {source.image} was verified and has no local features.")
        key = int(self.local.keys[source.image])
        if source.box is None:
            return Shown(key, stored, np.arange(len(stored)))
        return Shown(key, stored.cropped(source.box), np.flatnonzero(stored.inside(source.box)))

    def reached(self, region: Shown, context: Context) -> Iterator[int]:
        """The images that a region is most like by words, where the method compares words."""
        if self.local.kernel is not None:
            scores = self.local.scores(region.features).max(axis=1)
            yield from best(scores, k=REACHED, allowed=context.allowed).images.tolist()

    def linked(self, one: Candidate, source: Candidate, region: Shown) -> Candidate:
        """A candidate with the inliers that it inherits from a hit whose region it shows."""
        stored = self.local.features(one.image)
        if stored is None:
            return replace(one, inliers=0)
        known = region.own(self.links.matches(region.key, int(self.local.keys[one.image])))
        found = self._verify(region.features, stored, known)
        inherited = passed_on(source.inliers or 0, found.inliers)
        nats = self._nats(region.features, found, centred=True) * inherited / max(found.inliers, 1)
        return _outlined(replace(one, score=one.score + nats), replace(found, inliers=inherited), stored.size_wh)

    def share_something(self, one: int, other: int) -> bool:
        """Whether two stored images show a thing that can be verified; asked either way, it is the same link."""
        one, other = min(one, other), max(one, other)
        first, second = self.local.features(one), self.local.features(other)
        if first is None or second is None:
            return False
        known = self.links.matches(int(self.local.keys[one]), int(self.local.keys[other]))
        return self._verify(first, second, known).inliers > 0

    def _nats(self, query: LocalFeatures, found: Verification, *, centred: bool) -> float:
        """What inliers add to a score in nats; in a whole photo (`centred`) those in its middle count most."""
        if not self.evidence:
            return 0.0
        places = query.keypoints[found.matches[:, 0], :2]
        return inlier_nats(centrality(places) if centred else np.ones(len(places), np.float32))

    def _verify(self, query: LocalFeatures, stored: LocalFeatures, known: Ints | None = None) -> Verification:
        """Whether the two show one thing; `known` are their matches, where somebody has them."""
        checkpoint()
        matcher = self.matcher if known is None else lambda *_: known
        return verify(query, stored, model=self.model, matcher=matcher, chance=self.chance)


def ordered(candidates: Iterable[Candidate], *, by_score: bool = False) -> tuple[Candidate, ...]:
    """By score, or the verified first, by their inliers."""
    return tuple(sorted(candidates, key=lambda one: (0 if by_score else -(one.inliers or 0), -one.score, one.image)))


def with_heirs(ranked: Ranked, heirs: Mapping[int, Candidate], *, evidence: bool) -> Ranked:
    """A verified ranking with the candidates, by image, that inherited inliers; `evidence`: scores are nats."""
    known = {one.image: one for one in ranked.candidates}
    if evidence:
        return replace(ranked, candidates=ordered((known | dict(heirs)).values(), by_score=True), notes=())
    scored = {image: replace(one, score=inlier_score(one)) for image, one in heirs.items()}
    return replace(ranked, candidates=ordered((known | scored).values()), notes=())


def inlier_score(one: Candidate) -> float:
    """Inliers where there are any, else what it was, squeezed below 1."""
    return float(one.inliers) if one.inliers else one.score / (1.0 + abs(one.score))


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

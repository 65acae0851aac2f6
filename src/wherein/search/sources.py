"""Where a ranking's scores come from: embeddings, local features, or both fused. Each finds candidates and scores them.

A source never scores every image unless it must: it proposes the best ones, scores given ones exactly, and knows the
background that standardising, fusion and confidence need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.encoders import Encoder
from wherein.features import LocalFeatures
from wherein.index import Top
from wherein.index.exact import best
from wherein.search.background import SAMPLE, Background
from wherein.search.candidates import Term, combined_top
from wherein.search.evidence import centrality, embedding_nats, local_nats, roots
from wherein.search.local import LocalIndex
from wherein.search.scorers import RowScorer, Scorer
from wherein.search.style import STRENGTH, Drawn, style_note
from wherein.search.views import View
from wherein.values.method import Method
from wherein.values.query import Part
from wherein.values.region import Box


@dataclass(frozen=True, slots=True)
class Group:
    """Parts of one modality, sign and place: what they are compared with, where, and how much they count."""

    vectors: Floats
    """(m, d)"""
    where: Box | None
    weight: float
    """Negative where it is to be avoided."""
    photos: bool = False
    """Whether it is of texts that mean photographs."""
    of_images: bool = False
    """Whether it is of examples, not of texts."""
    of_regions: bool = False
    """Whether a part of an example is meant."""
    learnt: bool = False
    """Whether it was learnt from right and wrong images: cosines with it are spread unlike those with any example."""
    otherwise: Floats | None = None
    """(1, d) a name asked otherwise, with or without its article: nothing is found by it, but a hit may be surer."""
    of_marks: bool = False
    """Whether it is of hits that a person marked: they move the ranking, and do not change what is asked for."""


class Source(Protocol):
    """Finds the images that answer best, and scores any other."""

    @property
    def kind(self) -> str:
        """What its scores are: `cosine`, `standardised`, `evidence`, or what a kernel gives."""

    @property
    def count(self) -> int:
        """How many images it can find."""

    @property
    def background(self) -> Background:
        """How its scores are spread over the collection."""

    def findable(self, allowed: Mask | None) -> Mask | None:
        """Which of the `allowed` images can be found at all; None: every one."""

    def top(self, k: int, allowed: Mask | None) -> Top:
        """The best k of the `allowed` images."""

    def scores(self, images: Ints) -> Floats:
        """(len(images),) the scores of given images."""

    def regions(self, images: Ints) -> list[Box | None]:
        """Where in each image the best score lies; None is the whole image."""

    def notes(self, top: Top, k: int, allowed: Mask | None) -> tuple[str, ...]:
        """What a person should know about how the best k of `top`, of the `allowed` images, were scored."""


def exhaustive_top(source: Source, k: int, allowed: Mask | None) -> Top:
    """The best k by scoring every allowed image."""
    images = np.arange(source.count) if allowed is None else np.flatnonzero(allowed)
    found = best(source.scores(images), k=k)
    return Top(images[found.images], found.scores)


class EmbeddingSource:
    """Groups of vectors, each scored by the method's search word; several are standardised and summed."""

    def __init__(self, groups: Sequence[Group], view: View, encoder: Encoder) -> None:
        self.groups, self._view, self._encoder = groups, view, encoder
        self.count = len(view.images)
        self.kind = view.scorer.kind if len(groups) == 1 else "standardised"

    @property
    def scorer(self) -> Scorer:
        """The scorer of the search word."""
        return self._view.scorer

    @cached_property
    def background(self) -> Background:
        """How the sums are spread over the sample."""
        return Background.of(self.scores(self._view.sample), n=self.count)

    def findable(self, allowed: Mask | None) -> Mask | None:
        """Every allowed image can be found."""
        return allowed

    def scores(self, images: Ints) -> Floats:
        """The score of the one group, or the sum of all."""
        return self._sum(images, lowered=True)

    def _sum(self, images: Ints, *, lowered: bool) -> Floats:
        if len(self.groups) == 1:
            return self._group_scores(self.groups[0], images, lowered=lowered)
        parts = [self._adds(group, images, lowered=lowered) for group in self.groups]
        return np.asarray(np.sum(parts, axis=0), np.float32)

    def top(self, k: int, allowed: Mask | None) -> Top:
        """The best k by their sum, from the best of each group that looks for something."""
        if len(self.groups) == 1 and not self._lowers(self.groups[0]):
            return self._group_top(self.groups[0], k, allowed)
        if self.count <= SAMPLE or 4 * k >= self.count:
            return exhaustive_top(self, k, allowed)
        if len(self.groups) == 1:
            return combined_top(self._lowered_terms(self.groups[0], allowed), k=k, count=self._searched(allowed))

        def term(group: Group) -> Term:
            def propose(wide: int) -> Top:
                found = self._group_top(group, wide, allowed)
                usual = self._backgrounds[id(group), self._lowers(group)]
                return Top(found.images, np.float32(group.weight) * usual.standardise(found.scores))

            return Term(propose if group.weight > 0 else None, lambda images: self._adds(group, images))

        return combined_top([term(group) for group in self.groups], k=k, count=self._searched(allowed))

    def regions(self, images: Ints) -> list[Box | None]:
        """Where the first group was found."""
        first = self.groups[0]
        return self._view.scorer.regions(first.vectors[0], first.where, images)

    def histogram(self, edges: Floats) -> Ints | None:
        """(len(edges),) how many images score at least each edge and less than the next, edges ascending.

        None where the scores are a sum, which no index knows.
        """
        first, scorer = self.groups[0], self._view.scorer
        plain = len(self.groups) == 1 and len(first.vectors) == 1 and not self._lowers(first)
        return scorer.histogram(first.vectors[0], edges) if plain and isinstance(scorer, RowScorer) else None

    def notes(self, top: Top, k: int, allowed: Mask | None) -> tuple[str, ...]:
        """That drawings stand lower than they scored, where some would have been among the first k."""
        shown = top.scores[:k]
        if not len(shown) or not any(self._lowers(group) for group in self.groups):
            return ()
        if self.count <= SAMPLE:
            images = np.arange(self.count) if allowed is None else np.flatnonzero(allowed)
        else:
            images = self._group_top(self.groups[0], len(shown), allowed).images
        return style_note(self._sum(images, lowered=False), self.scores(images), last=float(shown[-1]))

    def _searched(self, allowed: Mask | None) -> int:
        return self.count if allowed is None else int(allowed.sum())

    def _group_scores(self, group: Group, images: Ints, *, lowered: bool = True) -> Floats:
        """What given images score for a group; where it means photographs, drawings are lowered."""
        found = np.asarray(self._view.scorer.scores(group.vectors, group.where, images).max(axis=0), np.float32)
        return found - self._penalty(group, images) if lowered and self._lowers(group) else found

    def _lowers(self, group: Group) -> bool:
        return group.photos and self._drawn is not None

    def _penalty(self, group: Group, images: Ints) -> Floats:
        """What drawings among given images lose."""
        if self._drawn is None:
            return np.zeros(len(images), np.float32)
        return np.asarray(STRENGTH * self._raw_spreads[id(group)] * self._drawn.shares(images), np.float32)

    def _lowered_terms(self, group: Group, allowed: Mask | None) -> list[Term]:
        return [
            Term(
                lambda wide: self._group_top(group, wide, allowed),
                lambda images: self._group_scores(group, images, lowered=False),
            ),
            Term(None, lambda images: -self._penalty(group, images)),
        ]

    @cached_property
    def _drawn(self) -> Drawn | None:
        """How drawn images look, where a group means photographs and any of them is drawn."""
        view = self._view
        if not view.draws_apart or not any(group.photos for group in self.groups):
            return None
        drawn = view.layers.drawn
        return drawn if drawn.shares(view.sample).any() else None

    @cached_property
    def _raw_spreads(self) -> dict[int, float]:
        """Of each group, the standard deviation of its scores before drawings are lowered."""
        sample = self._view.sample
        raw = {id(own): self._group_scores(own, sample, lowered=False) for own in self.groups}
        return {key: float(scores.std(dtype=np.float64)) for key, scores in raw.items()}

    def _group_top(self, group: Group, k: int, allowed: Mask | None) -> Top:
        """The best of a group's vectors, each image by the one that it is most like; drawings are not lowered."""
        tops = self._view.scorer.top(group.vectors, group.where, k=k, allowed=allowed)
        if len(tops) == 1:
            return tops[0]
        images = np.unique(np.concatenate([top.images for top in tops]))
        found = best(self._group_scores(group, images, lowered=False), k=k)
        return Top(images[found.images], found.scores)

    def _adds(self, group: Group, images: Ints, *, lowered: bool = True) -> Floats:
        """What a group adds. To be unlike what is avoided is no merit: only likeness above the average subtracts."""
        usual = self._backgrounds[id(group), lowered and self._lowers(group)]
        apart = usual.standardise(self._group_scores(group, images, lowered=lowered))
        counted = apart if group.weight > 0 else np.maximum(apart, np.float32(0))
        return np.asarray(np.float32(group.weight) * counted, np.float32)

    @cached_property
    def _backgrounds(self) -> dict[tuple[int, bool], Background]:
        """Of each group, how its scores are spread before drawings are lowered, and after."""
        return {
            (id(own), lowered): Background.of(self._group_scores(own, self._view.sample, lowered=lowered), n=self.count)
            for own in self.groups
            for lowered in (False, True)
            if not lowered or self._lowers(own)
        }


class LocalSource:
    """The kernel's scores of every image, averaged over examples (or their maximum), less what is to be avoided.

    Inverted files score all images that share anything at once, so its background is exact.
    """

    def __init__(self, examples: Sequence[tuple[Part, LocalFeatures]], index: LocalIndex, method: Method) -> None:
        self._index = index
        self.count = len(index.keys)
        tables = [
            part.weight * index.scores(found, part.where, worth=_worth(part, found, method))
            for part, found in examples
            if not part.negative
        ]
        best_of = method.choice("query", "support") == "max"
        self._table = np.max(tables, axis=0) if best_of else np.mean(tables, axis=0)
        total, self.kind = self._table.max(axis=1), index.score_kind
        self.sharing: Mask = total != 0.0
        """(images,) those that share anything with the query"""
        avoided = [(part, index.scores(found, part.where).max(axis=1)) for part, found in examples if part.negative]
        if avoided:
            weight = float(np.mean([part.weight for part, _ in examples if not part.negative]))
            total = weight * Background.of(total).standardise(total)
            for part, scores in avoided:
                total = total - part.weight * np.maximum(Background.of(scores).standardise(scores), np.float32(0))
            self.kind = "standardised"
        self.total = np.asarray(total, np.float32)
        """(images,) the score of every image"""

    @cached_property
    def background(self) -> Background:
        """How the scores of all images are spread."""
        return Background.of(self.total)

    @cached_property
    def root_background(self) -> Background:
        """How the roots of the scores are spread, by which they are fused."""
        return Background.of(roots(self.total))

    def scores(self, images: Ints) -> Floats:
        """The scores of given images."""
        return np.asarray(self.total[images], np.float32)

    def findable(self, allowed: Mask | None) -> Mask | None:
        """Those that share anything with the query."""
        return self.sharing if allowed is None else allowed & self.sharing

    def top(self, k: int, allowed: Mask | None) -> Top:
        """The best k of the images that share anything with the query."""
        return best(self.total, k=k, allowed=self.findable(allowed))

    def regions(self, images: Ints) -> list[Box | None]:
        """The regions that scored best."""
        return self._index.best_regions(images, self._table[images])

    def notes(self, top: Top, k: int, allowed: Mask | None) -> tuple[str, ...]:  # noqa: ARG002 — as for every source
        """Nothing: its scores are what they seem."""
        return ()


def _worth(part: Part, found: LocalFeatures, method: Method) -> Floats | None:
    """How much each feature of an example counts.

    Beside an encoder, words say whether it is the very same thing: those in the middle of a photo are likely on it.
    """
    return centrality(found.keypoints[:, :2]) if method.embeds and part.is_whole else None


class FusedSource:
    """The sum of how much each kind of score stands out, in nats; with no local features, an embedding's nats alone."""

    kind = "evidence"

    def __init__(self, embedding: Source, local: Sequence[Source] = ()) -> None:
        self.embedding, self._local = embedding, [one for one in local if isinstance(one, LocalSource)]
        self.count = embedding.count

    @cached_property
    def background(self) -> Background:
        """How the nats are spread; over all images, since local features know them all."""
        return Background.of(self.scores(np.arange(self.count)))

    def findable(self, allowed: Mask | None) -> Mask | None:
        """Every allowed image can be found."""
        return allowed

    def scores(self, images: Ints) -> Floats:
        """Nats of given images."""
        parts = [self._embedding_nats(images), *(self._local_nats(one, images) for one in self._local)]
        return np.asarray(np.sum(parts, axis=0), np.float32)

    def top(self, k: int, allowed: Mask | None) -> Top:
        """The best k by their nats, from the best of each kind."""
        if self.count <= SAMPLE or 4 * k >= self.count:
            return exhaustive_top(self, k, allowed)

        def propose_embedded(wide: int) -> Top:
            found = self.embedding.top(wide, allowed)
            return Top(found.images, self._embedding_nats(found.images))

        terms = [Term(propose_embedded, self._embedding_nats)]
        for one in self._local:
            terms.append(self._local_term(one, allowed))
        return combined_top(terms, k=k, count=self.count if allowed is None else int(allowed.sum()))

    def regions(self, images: Ints) -> list[Box | None]:
        """Where the embedding was found."""
        return self.embedding.regions(images)

    def notes(self, top: Top, k: int, allowed: Mask | None) -> tuple[str, ...]:  # noqa: ARG002 — as for every source
        """Nothing: what is fused is not one kind of score."""
        return ()

    def _local_term(self, one: LocalSource, allowed: Mask | None) -> Term:
        def propose(wide: int) -> Top:
            found = best(one.total, k=wide, allowed=allowed)
            return Top(found.images, self._local_nats(one, found.images))

        return Term(propose, lambda images: self._local_nats(one, images))

    def _embedding_nats(self, images: Ints) -> Floats:
        return embedding_nats(self.embedding.scores(images), self.embedding.background)

    def _local_nats(self, one: LocalSource, images: Ints) -> Floats:
        return local_nats(roots(one.scores(images)), one.root_background)

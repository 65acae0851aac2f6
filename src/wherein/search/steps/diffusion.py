"""`diffusion`: spreads scores along the graph of nearest neighbours, so that images like the hits rise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.index import Top
from wherein.search.background import SAMPLE, Background
from wherein.search.engine import Context, Ranked
from wherein.search.expansion import GRAPH_NEIGHBOURS, NEIGHBOURS, diffuse, nearest
from wherein.search.sources import Source, exhaustive_top
from wherein.search.steps import SearchStep
from wherein.search.steps.neighbours import asked_again, whole_rows
from wherein.values.region import Box

DIFFUSED: Final = SAMPLE
"""Images among which scores are spread; of a larger collection, the best so many. All pairs of them take a second."""


class Diffuse(SearchStep):
    """Ranks by the steady state of a walk on the neighbour graph that returns to the first hits."""

    name = "diffusion"
    summary = "spreads scores along the graph of nearest neighbours"
    depth = NEIGHBOURS

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """A new ranking of all images, or of the best DIFFUSED."""
        scorer = whole_rows(context, self.name)
        source = ranked.source
        if source is None:
            return ranked
        if source.count <= DIFFUSED:
            images = np.arange(source.count)
        else:
            images = np.sort(source.top(DIFFUSED, context.allowed).images)
        graph = nearest(scorer.table.vectors(images), neighbours=GRAPH_NEIGHBOURS)
        return asked_again(DiffusedSource(source, images, diffuse(graph, source.scores(images))), context, ranked)


DIFFUSION: Final = Diffuse()


@dataclass(eq=False)
class DiffusedSource:
    """Scores of some images after spreading; those that were left out score −1, below all of them."""

    source: Source
    images: Ints
    """(m,) ascending"""
    spread: Floats
    """(m,) their scores"""

    kind = "diffusion"

    @property
    def count(self) -> int:
        """How many images there are."""
        return self.source.count

    @cached_property
    def background(self) -> Background:
        """How the spread scores are distributed."""
        return Background.of(self.spread, n=self.count)

    def findable(self, allowed: Mask | None) -> Mask | None:
        """Every allowed image can be found."""
        return allowed

    def scores(self, images: Ints) -> Floats:
        """(len(images),) spread scores; −1 for an image that was left out, which no cosine is below."""
        places = np.minimum(np.searchsorted(self.images, images), max(len(self.images) - 1, 0))
        known = self.images[places] == images
        return np.asarray(np.where(known, self.spread[places], -1.0), np.float32)

    def top(self, k: int, allowed: Mask | None) -> Top:
        """The best k of those that were spread."""
        mask = np.zeros(self.count, np.bool_)
        mask[self.images] = True
        return exhaustive_top(self, k, mask if allowed is None else mask & allowed)

    def regions(self, images: Ints) -> list[Box | None]:
        """Where the query was found."""
        return self.source.regions(images)

    def notes(self, top: Top, k: int, allowed: Mask | None) -> tuple[str, ...]:  # noqa: ARG002 — as for every source
        """Nothing beside what was said of the ranking before."""
        return ()

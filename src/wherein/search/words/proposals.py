"""`proposals`: the best of an image's proposed boxes, beside the whole image, so that small things are found."""

from __future__ import annotations

from typing import Final

from wherein.search.scorers import RowScorer, Scorer, Share, SumScorer
from wherein.search.words import CONTEXT, Layers, SearchWord
from wherein.values.method import Method

WHOLE_SHARE: Final = 2.0
"""How much the whole image counts beside the best proposal, so that a box which is like the words by accident is
outvoted. Chosen on boxed training photographs, where less was worse than the image alone (docs/results/tuning.md).
"""


class Proposals(SearchWord):
    """Compares the query with every proposed box of an image, encoded as a crop."""

    name = "proposals"
    summary = "the best of an image's proposed boxes, beside the whole image"
    options = (CONTEXT,)
    looks = "anywhere in the image"
    layer = "proposals"

    def layers(self, method: Method) -> tuple[str, ...]:  # noqa: ARG002 — the same for every method
        """Its own layer of encoded boxes, and the whole image."""
        return (self.layer, "global")

    def open(self, layers: Layers) -> Scorer:
        """The best box, alone or summed with the whole image."""
        table = layers.rows(self.layer)
        boxes = RowScorer(table, layers.index(table), layers.sample)
        if layers.method.choice("search", "context") == "alone":
            return boxes
        shares = [Share(boxes), Share(layers.whole_scorer, WHOLE_SHARE)]
        return SumScorer(shares, count=table.count, sample=layers.sample)


PROPOSALS: Final = Proposals()

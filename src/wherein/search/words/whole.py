"""`whole`: the embedding of the image, or of its best tile where it is so large that it was cut into tiles."""

from __future__ import annotations

from typing import Final

from wherein.search.scorers import RowScorer, Scorer
from wherein.search.words import Layers, SearchWord


class Whole(SearchWord):
    """Compares the query with whole images."""

    name = "whole"
    summary = "the whole image, or the best tile of a very large one"

    def open(self, layers: Layers) -> Scorer:
        """One row an image, or one a tile."""
        table = layers.rows("global")
        return layers.whole_scorer if table.alone else RowScorer(table, layers.index(table), layers.sample)


WHOLE: Final = Whole()

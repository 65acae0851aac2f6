"""`segrank`: the first hits in the order of their score and of the score of the region located in them."""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.search.engine import Context, Ranked, reordered
from wherein.search.locating import asked_of, located
from wherein.search.steps.locate import Locate


class Segrank(Locate):
    """Re-ranks by the sum of both scores, standardised; the rest follow as they were."""

    name = "segrank"
    summary = "re-ranks the first 100 by the region that is outlined in them"
    depth = 100

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The first `depth` re-ranked."""
        first = ranked.candidates[: self.depth]
        if len(first) < 2:
            return ranked
        sought = asked_of(context, self.name)
        found = [located(one, context, sought, self.name) for one in first]
        seen = np.array([score for _, score in found], np.float32)
        return reordered(ranked, [one for one, _ in found], seen)


SEGRANK: Final = Segrank()

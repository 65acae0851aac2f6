"""Dense matching: each patch of the image asks its nearest query patches whether they are meant or background."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats, unit
from wherein.localizers import Example, Heatmap, Scene, Sought
from wherein.localizers.similar import SimilarLocalizer

Ints = npt.NDArray[np.int64]

NEAREST: Final = 7
"""Patches of the example that each patch of the image asks. Chosen by hand, not tuned."""
TEMPERATURE: Final = 0.05
"""A patch whose cosine is so much lower counts e times less. Chosen by hand, not tuned."""
CENTRED: Final = 0.5
"""How much of the query's mean patch is taken out of every patch: what all share tells nothing apart. Chosen by
hand."""
# Query patches that are compared with, at most. As many of each, or a small thing is outvoted by its surroundings.
MEANT_MOST: Final = 384
"""Patches of the thing in the example that are asked at most, so that time and memory stay flat: of a
grid of 16 × 16 all, of one of 32 × 32 a third."""
OTHER_MOST: Final = 384
"""Patches of what surrounds the thing in the example that are asked at most, as many as of the thing."""


class MatchLocalizer:
    """The share of meant pixels among the nearest query patches, the nearer the more."""

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """A heatmap on the dense grid where both sides have one, else on the patch grid."""
        views = scene.views(sought)
        if views is None or all(example.whole for example in views[1]):
            return SimilarLocalizer()(sought, scene)  # without any background there is nothing to vote against
        grid, examples, avoided = views
        tokens, votes = _tokens(examples, avoided)
        usual = CENTRED * tokens.mean(axis=0)
        scores = unit(grid.reshape(-1, grid.shape[-1]) - usual) @ unit(tokens - usual).T
        count = min(NEAREST, len(tokens))
        nearest = np.argpartition(scores, len(tokens) - count, axis=1)[:, len(tokens) - count :]
        near = np.take_along_axis(scores, nearest, axis=1)
        weights = np.exp((near - near.max(axis=1, keepdims=True)) / TEMPERATURE)
        heat = (weights * votes[nearest]).sum(axis=1) / weights.sum(axis=1)
        return np.asarray(np.clip(heat.reshape(grid.shape[:2]), 0.0, 1.0), np.float32)


def _tokens(examples: Sequence[Example], avoided: Sequence[Example]) -> tuple[Floats, Floats]:
    """(n, c) query patches, and how much of each is meant; what is to be avoided counts as background."""
    grids = np.concatenate([e.grid.reshape(-1, e.grid.shape[-1]) for e in (*examples, *avoided)])
    votes = np.concatenate([*(e.cover.ravel() for e in examples), *(np.zeros(e.cover.size) for e in avoided)])
    meant, other = np.flatnonzero(votes > 0.0), np.flatnonzero(votes <= 0.0)
    kept = np.concatenate([_thinned(meant, MEANT_MOST), _thinned(other, OTHER_MOST)])
    return grids[kept], votes[kept].astype(np.float32)


def _thinned(numbers: Ints, most: int) -> Ints:
    if len(numbers) <= most:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, most).astype(np.int64)]

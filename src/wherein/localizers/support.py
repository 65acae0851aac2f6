"""Self-support: the image's own confident pixels become the prototypes that decide about its other pixels.

Pixels of one object resemble each other more than they resemble the query's, so a rough heatmap supports itself.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.localizers import Heatmap, Scene, Sought
from wherein.localizers.edges import enlarged
from wherein.localizers.match import MatchLocalizer

SURE: Final = 0.7
"""Heat from which a patch is taken for the thing. Chosen by hand, not tuned."""
UNSURE: Final = 0.3
"""Heat up to which it is taken for what is behind it. Chosen by hand, not tuned."""
TEMPERATURE: Final = 0.2
"""A patch whose cosine is so much lower counts e times less. Chosen by hand, not tuned."""
SHARE: Final = 0.8
"""How much the image's own prototypes count beside the query. Chosen by hand, not tuned."""


class SupportLocalizer:
    """Matching (or similarity, for a text) first; then prototypes of what it is sure of."""

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """A heatmap on the dense grid, where the image has one: a text gets its outlines from there."""
        first = MatchLocalizer()(sought, scene)
        grid = scene.patches if scene.dense is None else scene.dense
        if grid is None:
            return first
        return supported(enlarged(first, size_wh=(grid.shape[1], grid.shape[0])), grid)


def supported(heat: Heatmap, grid: Floats) -> Heatmap:
    """`heat`, averaged with the vote of prototypes made from its confident places on `grid` (gh, gw, c)."""
    flat, values = grid.reshape(-1, grid.shape[-1]), heat.ravel()
    sure, other = values >= min(SURE, float(values.max())), values <= UNSURE
    if not values.any() or not other.any():
        return heat
    meant = flat @ unit((values[sure, None] * flat[sure]).sum(axis=0))
    # Backgrounds are many things: each pixel gets a prototype of the background places it resembles most.
    alike = flat @ flat[other].T
    weights = np.exp((alike - alike.max(axis=1, keepdims=True)) / TEMPERATURE)
    behind = (flat * unit(weights @ flat[other])).sum(axis=1)
    vote = 1.0 / (1.0 + np.exp(np.clip((behind - meant) / TEMPERATURE, -30.0, 30.0)))
    mixed = (1.0 - SHARE) * values + SHARE * vote
    return np.asarray(np.clip(mixed.reshape(heat.shape), 0.0, 1.0), np.float32)

"""Patch similarity: patches light up as they resemble the query, be it a text or a whole example."""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.localizers import Heatmap, Scene, Sought

SAME_PICTURE: Final = 0.65
"""How like their nearest patch of an example the patches of the same picture are on average: 0.70 and more after strong
compression, halving, cropping or mirroring, 0.55 and less in other pictures (14 photographs, `mini`)."""
OTHER_PICTURE: Final = 0.4
"""Likeness with its nearest patch of an example up to which a patch of the same picture gets no heat."""


class SimilarLocalizer:
    """Cosines of patches with the query, stretched between the image's usual patch and its best one."""

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """A heatmap on the patch grid, or on the dense grid for a query of examples alone."""
        if scene.patches is None and scene.dense is None:
            return np.zeros((1, 1), np.float32)
        scores = np.zeros((1, 1), np.float32)
        views = None if sought.texts else scene.views(sought)
        if views is not None:
            grid, examples, avoided = views
            scores = grid @ np.concatenate([e.grid[e.cover >= min(0.5, e.cover.max())] for e in examples]).T
            scores = scores.max(axis=-1)
            if avoided:
                others = grid @ np.concatenate([e.grid[e.cover >= min(0.5, e.cover.max())] for e in avoided]).T
                scores = scores - 0.5 * others.max(axis=-1)
        elif scene.patches is not None and len(sought.vectors):
            scores = (scene.patches @ sought.vectors.T).max(axis=-1)
            if len(sought.avoided):
                scores = scores - 0.5 * (scene.patches @ sought.avoided.T).max(axis=-1)
        return stretched(scores)


def seen_again(sought: Sought, scene: Scene) -> Heatmap | None:
    """Where a scene shows the very picture of a whole example, or a smaller or mirrored copy; None: nowhere."""
    views = scene.views(sought)
    if views is None:
        return None
    grid, examples, _ = views
    tokens = np.concatenate([example.grid.reshape(-1, grid.shape[-1]) for example in examples])
    likeness = (grid @ tokens.T).max(axis=-1)
    if float(likeness.mean()) < SAME_PICTURE:
        return None
    return np.asarray(np.clip((likeness - OTHER_PICTURE) / (SAME_PICTURE - OTHER_PICTURE), 0.0, 1.0), np.float32)


def stretched(scores: Floats) -> Heatmap:
    """Scores as heat: 0 at the mean and below, 1 at the best; all alike are 1 above a score of 0.5, else 0."""
    usual, best = float(scores.mean()), float(scores.max())
    if best - usual < 1e-6:
        return np.full(scores.shape, 1.0 if best > 0.5 else 0.0, np.float32)
    return np.asarray(np.clip((scores - usual) / (best - usual), 0.0, 1.0), np.float32)

"""A grounded detector as a localizer: `ground:hf:NAME` marks what it finds of the query's words and examples.

It looks at the image's own pixels, from its file where that can be read and else at the small picture that is kept.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.detectors import Detection, load_detector
from wherein.images.image import Image
from wherein.localizers import Heatmap, Scene, Sought

SIDE: Final = 256
"""Pixels of the heatmap's longer side, as of a small picture."""


class GroundLocalizer:
    """Heat inside the boxes of what was asked for, as much as the detector is sure of, compared with the surest."""

    def __init__(self, spec: str) -> None:
        self._detector = load_detector(spec)

    def __call__(self, sought: Sought, scene: Scene) -> Heatmap:
        """A heatmap at the resolution of a small picture; all zeros where nothing is found."""
        scale = min(1.0, SIDE / max(scene.size_wh))
        width, height = (max(1, round(side * scale)) for side in scene.size_wh)
        heat = np.zeros((height, width), np.float32)
        image = scene.look()
        found = [] if image is None else self.detect(sought, image)
        surest = max((one.score for one in found), default=1.0)
        for one in found:
            x1, y1, x2, y2 = one.box.pixels((width, height))
            heat[y1:y2, x1:x2] = np.maximum(heat[y1:y2, x1:x2], np.float32(one.score / max(surest, 1e-6)))
        return heat

    def detect(self, sought: Sought, image: Image) -> list[Detection]:
        """What the image shows of the query's words and examples."""
        found = self._detector.find(image, list(sought.words))
        if self._detector.by_example:
            for example in sought.examples():
                found += self._detector.find_like(image, example)
        return found

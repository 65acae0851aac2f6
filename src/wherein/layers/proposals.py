"""`proposals`: regions that stand out, whatever they show, each encoded as a crop."""

from __future__ import annotations

import math

from wherein.encoders import Encoder
from wherein.images.image import Image
from wherein.images.proposals import LEAST, proposed_boxes
from wherein.layers import CroppedKind
from wherein.values.region import WHOLE, Box


class ProposedRegions(CroppedKind):
    """One row for the whole image and one for each region that was proposed in it."""

    word = "proposals"
    summary = "regions that stand out, each encoded as an image of its own"

    def side(self, encoder: Encoder) -> int:
        """As much as lets the smallest proposal fill the encoder's input."""
        return math.ceil(max(encoder.input_hw) / LEAST)

    def boxes(self, image: Image) -> tuple[Box, ...]:
        """The whole image, and the regions that differ from their surroundings."""
        return (WHOLE, *proposed_boxes(image))

"""`detected`: the best of the boxes that a detector found for a list of names, beside the whole image."""

from __future__ import annotations

from typing import Final

from wherein.search.words.proposals import Proposals
from wherein.values.method import Method


class Detected(Proposals):
    """Compares the query with every detected box of an image, encoded as a crop."""

    name = "detected"
    summary = "the best of the boxes that a detector found when indexing, beside the whole image"
    layer = "detected"

    def layers(self, method: Method) -> tuple[str, ...]:  # noqa: ARG002 — the same for every method
        """Its own layer of encoded boxes, and the whole image."""
        return (self.layer, "global")


DETECTED: Final = Detected()

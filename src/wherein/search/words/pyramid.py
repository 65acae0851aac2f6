"""`pyramid`: the image at several sizes, averaged, as the FORB study searches with global embeddings."""

from __future__ import annotations

from typing import Final

from wherein.images.image import Image
from wherein.images.pyramid import QUERY_SCALES, levels
from wherein.search.scorers import RowScorer, Scorer
from wherein.search.words import Layers, SearchWord
from wherein.values.method import Method


class Pyramid(SearchWord):
    """Compares the mean of an example's sizes with the mean of each image's."""

    name = "pyramid"
    summary = "the whole image at several sizes, averaged"
    scales = QUERY_SCALES

    def layers(self, method: Method) -> tuple[str, ...]:  # noqa: ARG002 — the same for every method
        """Its own layer, one row an image."""
        return ("pyramid",)

    def views(self, image: Image) -> list[Image]:
        """The example at its sizes."""
        return levels(image, QUERY_SCALES)

    def open(self, layers: Layers) -> Scorer:
        """One row an image."""
        table = layers.rows("pyramid")
        return RowScorer(table, layers.index(table), layers.sample)


PYRAMID: Final = Pyramid()

"""VLAD: the differences of an image's descriptors from their words, summed per word, as one embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.kernels.codebook import Codebook

WORDS: Final = 64
"""Few words make a short embedding: its length is words · d."""


def vlad(descriptors: Floats, codebook: Codebook, worth: Floats | None = None) -> Floats:
    """(n, d) descriptors → (words · d,) unit norm: each word's part made equally long, then signed square roots.

    An image without descriptors is all zeros: it is like nothing.
    """
    k, d = codebook.centroids.shape
    words = codebook.words(descriptors)[:, 0]
    sums = np.zeros((k, d), np.float32)
    apart = descriptors - codebook.centroids[words]
    np.add.at(sums, words, apart if worth is None else worth[:, None] * apart)
    even = unit(sums).ravel()
    return unit(np.sign(even) * np.sqrt(np.abs(even)))


class Vlad:
    """The kernel `vlad`: vectors of locally aggregated descriptors."""

    score_kind = "cosine"
    words: int | None = WORDS

    def __init__(self, codebook: Codebook) -> None:
        self._codebook = codebook
        self.embeddings: Floats = np.zeros((0, codebook.centroids.size), np.float32)

    def describe(self, descriptors: Floats) -> bytes:
        """The embedding, in half precision."""
        return vlad(descriptors, self._codebook).astype(np.float16).tobytes()

    def build(self, documents: Sequence[bytes]) -> None:
        """Put the embeddings of all documents into one matrix."""
        rows = np.frombuffer(b"".join(documents), np.float16).reshape(len(documents), self.embeddings.shape[1])
        self.embeddings = rows.astype(np.float32)

    def scores(self, descriptors: Floats, worth: Floats | None = None) -> Floats:
        """The cosine of each document with the query."""
        return np.asarray(self.embeddings @ vlad(descriptors, self._codebook, worth), np.float32)

    def moved(self, embeddings: Floats) -> Vlad:
        """With other embeddings of its documents, in their order."""
        other = Vlad(self._codebook)
        other.embeddings = embeddings
        return other

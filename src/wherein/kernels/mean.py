"""Mean: the mean of an image's descriptors as one embedding, the plainest way to pool them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.kernels.codebook import Codebook

WORDS: Final = 64
"""The codebook only says what descriptors are on average; as many words as VLAD has, so that both share one."""


def mean(descriptors: Floats, centre: Floats, worth: Floats | None = None) -> Floats:
    """(n, d) descriptors → (d,) unit norm: how their mean differs from the collection's.

    An image without descriptors is all zeros: it is like nothing.
    """
    if not len(descriptors):
        return np.zeros(len(centre), np.float32)
    apart = descriptors - centre
    return unit((apart if worth is None else worth[:, None] * apart).sum(axis=0, dtype=np.float32))


class Mean:
    """The kernel `mean`: the mean descriptor of an image."""

    score_kind = "cosine"
    words: int | None = WORDS

    def __init__(self, codebook: Codebook) -> None:
        self._codebook = codebook
        self._centre: Floats = codebook.centroids.mean(axis=0).astype(np.float32)
        self.embeddings: Floats = np.zeros((0, len(self._centre)), np.float32)

    def describe(self, descriptors: Floats) -> bytes:
        """The embedding, in half precision."""
        return mean(descriptors, self._centre).astype(np.float16).tobytes()

    def build(self, documents: Sequence[bytes]) -> None:
        """Put the embeddings of all documents into one matrix."""
        rows = np.frombuffer(b"".join(documents), np.float16).reshape(len(documents), self.embeddings.shape[1])
        self.embeddings = rows.astype(np.float32)

    def scores(self, descriptors: Floats, worth: Floats | None = None) -> Floats:
        """The cosine of each document with the query."""
        return np.asarray(self.embeddings @ mean(descriptors, self._centre, worth), np.float32)

    def moved(self, embeddings: Floats) -> Mean:
        """With other embeddings of its documents, in their order."""
        other = Mean(self._codebook)
        other.embeddings = embeddings
        return other

"""Match kernels: scores of whole images from their local features, through visual words and inverted files.

A kernel describes an image as bytes once; the bytes of many become an index that is asked with a query's features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from wherein import plugins

if TYPE_CHECKING:
    from wherein.arrays import Floats
    from wherein.kernels.codebook import Codebook


class Kernel(Protocol):
    """Descriptors of an image → its description → scores. Built as `Kernel(codebook)`."""

    score_kind: str
    words: int | None
    """Its own size of codebook; None where that follows the collection."""

    @property
    def embeddings(self) -> Floats | None:
        """(documents, d), unit norm, where a document is described by one; None where it is by its words."""

    def describe(self, descriptors: Floats) -> bytes:
        """What is kept of an image's descriptors (n, d)."""

    def build(self, documents: Sequence[bytes]) -> None:
        """Index the descriptions of many documents, in their order."""

    def scores(self, descriptors: Floats, worth: Floats | None = None) -> Floats:
        """The score of every document for a query's descriptors; 0 where nothing is shared.

        `worth` (n,) is how much each descriptor counts, 1 unless given.
        """


def load_kernel(word: str, codebook: Codebook) -> Kernel:
    """The kernel that a method word names."""
    kernel: Kernel = _class(word)(codebook)
    return kernel


def own_words(word: str) -> int | None:
    """The size of codebook that a kernel takes; None where that follows the collection."""
    size: int | None = _class(word).words
    return size


def _class(word: str) -> Any:
    return plugins.load("kernels", word)

"""Bags of words: tf-idf with burstiness damped, over an inverted file. Scores are cosines in [0, 1].

An image's value for a word is √count · idf (Jégou et al.: a word that came once comes again, so repeats count less),
each image scaled to length 1. A word that half the images share says little: idf = ln(images / images with it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.kernels.codebook import Codebook, Words

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Bags:
    """An inverted file: of each word, the documents it is in and how much of their length it makes."""

    starts: Ints
    """(words + 1,) where each word's postings begin"""
    documents: npt.NDArray[np.int32]
    values: Floats
    """Per posting: the word's share of the document's unit vector."""
    idf: Floats
    count: int
    """Documents, the wordless included."""

    @classmethod
    def build(cls, documents: Sequence[Words], *, words: int) -> Bags:
        """From the words of each document, (n,) each, in any order and with repeats."""
        lengths = np.array([len(own) for own in documents], np.int64)
        flat = np.concatenate([np.zeros(0, np.int32), *documents]).astype(np.int64)
        owner = np.repeat(np.arange(len(documents)), lengths)
        keys, counts = np.unique(flat * max(len(documents), 1) + owner, return_counts=True)
        word, document = np.divmod(keys, max(len(documents), 1))
        present = np.bincount(word, minlength=words)
        idf = inverse_frequency(present, documents=len(documents))
        values = np.sqrt(counts) * idf[word]
        norms = np.sqrt(np.bincount(document, weights=values**2, minlength=len(documents)))
        values = values / np.maximum(norms[document], 1e-12)
        starts = np.concatenate([[0], np.cumsum(present)])
        return cls(starts, document.astype(np.int32), values.astype(np.float32), idf, len(documents))

    def scores(self, words: Words, worth: Floats | None = None) -> Floats:
        """The cosine of every document with a query's words (n,), each counted once, or as much as it is worth."""
        own, place = np.unique(words, return_inverse=True)
        counts = np.bincount(place, weights=worth, minlength=len(own))
        weights = np.sqrt(counts) * self.idf[own]
        norm = float(np.sqrt((weights**2).sum()))
        if norm == 0.0:
            return np.zeros(self.count, np.float32)
        postings, lengths = self._postings(own)
        votes = np.repeat(weights / norm, lengths) * self.values[postings]
        return np.bincount(self.documents[postings], weights=votes, minlength=self.count).astype(np.float32)

    def _postings(self, words: Words) -> tuple[Ints, Ints]:
        begins, lengths = self.starts[words], self.starts[words + 1] - self.starts[words]
        return spans(begins, lengths), lengths


def inverse_frequency(present: Ints, *, documents: int) -> Floats:
    """ln(documents / documents with the word); 0 for a word of none. One document has nothing to compare with."""
    if documents == 1:
        return (present > 0).astype(np.float32)
    # Half a document keeps a word that all share from being worth nothing, so that twins still find each other.
    rare = np.log((documents + 0.5) / np.maximum(present, 1))
    return np.where(present > 0, rare, 0.0).astype(np.float32)


def spans(begins: Ints, lengths: Ints) -> Ints:
    """The numbers of many ranges, one after the other: begins [5, 9], lengths [2, 1] → 5 6 9."""
    total = int(lengths.sum())
    shifts = np.repeat(begins - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.asarray(np.arange(total) + shifts, np.int64)


class BagOfWords:
    """The kernel `bow`: bags of visual words."""

    score_kind = "tf-idf"
    words: int | None = None
    embeddings: Floats | None = None

    def __init__(self, codebook: Codebook) -> None:
        self._codebook = codebook
        self._bags = Bags.build([], words=len(codebook))

    def describe(self, descriptors: Floats) -> bytes:
        """The word of each descriptor."""
        return self._codebook.words(descriptors)[:, 0].tobytes()

    def build(self, documents: Sequence[bytes]) -> None:
        """Build the inverted file over the documents."""
        self._bags = Bags.build([np.frombuffer(own, np.int32) for own in documents], words=len(self._codebook))

    def scores(self, descriptors: Floats, worth: Floats | None = None) -> Floats:
        """The cosine of each document with the query, over tf-idf."""
        return self._bags.scores(self._codebook.words(descriptors)[:, 0], worth)

"""ASMK*: aggregated selective match kernel, binarised, over an inverted file. Scores are in [0, 1].

All descriptors of an image that fall into one word become one: the signs of their summed differences from the
centroid (Tolias et al.). Two images are compared word by word; a word counts cosine³ of its signs, and nothing where
that is below a threshold, so that many poor matches do not add up to a good one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats
from wherein.kernels.bow import Ints, inverse_frequency, spans
from wherein.kernels.codebook import Codebook, Words

Bits = npt.NDArray[np.uint8]
POWER: Final = 3.0
"""α of the paper's selectivity (Tolias, Avrithis and Jégou, 2013)."""
LEAST: Final = 0.0
"""Cosines of signs up to this count nothing."""
NEAREST: Final = 3
"""Words that a query's descriptor falls into. Chosen by hand."""


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """One image: its words, each once and ascending, and the packed signs (n, d / 8) of each."""

    words: Words
    bits: Bits
    worth: Floats | None = None
    """(n,) how much each word of a query counts; 1 where it is not said"""

    @classmethod
    def of(cls, descriptors: Floats, codebook: Codebook, *, nearest: int = 1, worth: Floats | None = None) -> Signs:
        """Aggregate the descriptors (n, d) of an image; a query's may fall into several nearest words.

        A word is worth as much as the best of its descriptors.
        """
        assigned = codebook.words(descriptors, nearest=nearest)
        residuals = descriptors[:, None] - codebook.centroids[assigned]
        words, place = np.unique(assigned.ravel(), return_inverse=True)
        sums = np.zeros((len(words), codebook.centroids.shape[1]), np.float32)
        each = None if worth is None else np.repeat(worth, nearest)
        flat = residuals.reshape(-1, sums.shape[1])
        np.add.at(sums, place, flat if each is None else each[:, None] * flat)
        most = None
        if each is not None:
            most = np.zeros(len(words), np.float32)
            np.maximum.at(most, place, each)
        return cls(words.astype(np.int32), np.packbits(sums > 0, axis=1), most)


@dataclass(frozen=True, slots=True, eq=False)
class SignFile:
    """An inverted file: of each word, the documents it is in and their signs there."""

    starts: Ints
    documents: npt.NDArray[np.int32]
    bits: Bits
    idf: Floats
    norms: Floats
    """√ of each document's kernel with itself"""
    dim: int

    @classmethod
    def build(cls, documents: Sequence[Signs], *, words: int, dim: int) -> SignFile:
        """From the signs of each document."""
        owner = np.repeat(np.arange(len(documents)), [len(own.words) for own in documents])
        word = np.concatenate([np.zeros(0, np.int32), *(own.words for own in documents)])
        bits = np.concatenate([np.zeros((0, (dim + 7) // 8), np.uint8), *(own.bits for own in documents)])
        order = np.lexsort((owner, word))
        present = np.bincount(word, minlength=words)
        idf = inverse_frequency(present, documents=len(documents))
        norms = np.sqrt(np.bincount(owner, weights=idf[word], minlength=len(documents)))
        starts = np.concatenate([[0], np.cumsum(present)])
        return cls(starts, owner[order].astype(np.int32), bits[order], idf, norms.astype(np.float32), dim)

    def scores(self, query: Signs) -> Floats:
        """The kernel of every document with a query, each scaled so that an image's with itself is 1."""
        count = len(self.norms)
        weights = self.idf[query.words] if query.worth is None else self.idf[query.words] * query.worth
        own = float(np.sqrt(weights.sum()))
        if own == 0.0:
            return np.zeros(count, np.float32)
        begins = self.starts[query.words]
        lengths = self.starts[query.words + 1] - begins
        postings = spans(begins, lengths)
        differing = np.bitwise_count(self.bits[postings] ^ np.repeat(query.bits, lengths, axis=0)).sum(axis=1)
        cosines = 1.0 - 2.0 * differing.astype(np.float32) / self.dim
        votes = np.where(cosines > LEAST, cosines, 0.0) ** POWER * np.repeat(weights, lengths)
        totals = np.bincount(self.documents[postings], weights=votes, minlength=count)
        return np.asarray(totals / np.maximum(self.norms * own, 1e-12), np.float32)


class Asmk:
    """The kernel `asmk`: aggregated selective match kernels, binarised."""

    score_kind = "asmk"
    words: int | None = None
    embeddings: Floats | None = None

    def __init__(self, codebook: Codebook) -> None:
        self._codebook, self._dim = codebook, codebook.centroids.shape[1]
        self._file = SignFile.build([], words=len(codebook), dim=self._dim)

    def describe(self, descriptors: Floats) -> bytes:
        """Its words, four bytes each, then their signs."""
        signs = Signs.of(descriptors, self._codebook)
        return signs.words.tobytes() + signs.bits.tobytes()

    def build(self, documents: Sequence[bytes]) -> None:
        """Build the inverted file over the documents."""
        width = (self._dim + 7) // 8
        read = []
        for own in documents:
            count = len(own) // (4 + width)
            bits = np.frombuffer(own, np.uint8, offset=4 * count).reshape(count, width)
            read.append(Signs(np.frombuffer(own, np.int32, count), bits))
        self._file = SignFile.build(read, words=len(self._codebook), dim=self._dim)

    def scores(self, descriptors: Floats, worth: Floats | None = None) -> Floats:
        """Kernels with the query, whose descriptors may each fall into several words."""
        return self._file.scores(Signs.of(descriptors, self._codebook, nearest=NEAREST, worth=worth))

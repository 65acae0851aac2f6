"""`theoretical`: every image cropped to the place and encoded while searching; the sub-region study's upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.encoders import Encoder
from wherein.errors import QueryError
from wherein.limits import checkpoint
from wherein.search.crops import crop_embeddings
from wherein.search.scorers import SampledScorer, Scorer
from wherein.search.words import Layers, SearchWord
from wherein.store.originals import Original
from wherein.values.region import Box

_BLOCK: Final = 64
"""Files that are cropped and encoded at a time, so that memory stays flat."""


class Theoretical(SearchWord):
    """Encodes the asked place of every image anew."""

    name = "theoretical"
    summary = "every image cropped to the place and encoded while searching: slow, an upper bound"
    uses_place = True
    draws_apart = False

    def open(self, layers: Layers) -> Scorer:
        """Reads the image files."""
        return CropScorer(layers.files(), layers.encoder, layers.sample)


class CropScorer(SampledScorer):
    """Cosines with the crops of files."""

    def __init__(self, files: Sequence[Original | None], encoder: Encoder, sample: Ints) -> None:
        super().__init__(len(files), sample)
        self._files, self._encoder = files, encoder
        self._kept: tuple[Box, tuple[Ints, Floats]] | None = None

    def _compute(self, queries: Floats, where: Box | None, images: Ints) -> Floats:
        """An image whose file cannot be read scores −1."""
        if where is None:
            raise QueryError("method theoretical crops every image to the query's box: name a place.")
        scores = np.full((len(queries), len(images)), -1.0, np.float32)
        kept = self._kept
        if images is not self._sample:
            read, rows = self._crops(where, images)
        elif kept is not None and kept[0] == where:
            read, rows = kept[1]
        else:  # the sample's are kept: the next query may ask for the same place
            read, rows = self._crops(where, images)
            self._kept = (where, (read, rows))
        scores[:, read] = queries @ rows.T
        return scores

    def _crops(self, where: Box, images: Ints) -> tuple[Ints, Floats]:
        """Which of the images could be read (n,), and the embeddings (n, d) of the place in each."""
        read, rows = list[Ints](), list[Floats]()
        for start in range(0, max(len(images), 1), _BLOCK):
            checkpoint(start, of=len(images))
            files = [self._files[image] for image in images[start : start + _BLOCK].tolist()]
            found, made = crop_embeddings(files, where, self._encoder)
            read.append(start + found)
            rows.append(made)
        return np.concatenate(read), np.concatenate(rows)

    def regions(self, query: Floats, where: Box | None, images: Ints) -> list[Box | None]:  # noqa: ARG002
        """The box that was asked for."""
        return [where for _ in images]


THEORETICAL: Final = Theoretical()

"""The local features of a collection as they are searched: their words, their kernel, and the features themselves.

What is derived lies in `derived/LAYER/`: a codebook, trained once on a sample and then kept, and per shard of the
layer the descriptions of its images. New images are described with the old codebook; deleting the folder rebuilds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from wherein.encoders import Floats
from wherein.errors import QueryError
from wherein.features import FeatureFamily, LocalFeatures, unpack
from wherein.image import decode
from wherein.index import Ints
from wherein.kernels import Kernel, load_kernel, own_words
from wherein.kernels.codebook import Codebook, default_words
from wherein.masks import check_aspect
from wherein.query import Part, Query, Words
from wherein.region import Box, overlap
from wherein.scorers import WHOLE
from wherein.shards import read_array, read_blob, write_blobs
from wherein.store import Layer, Store

SAMPLE: Final = 10_000
"""Images that a codebook is trained on, at most, as in the FORB paper."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalIndex:
    """The local features of the images of a view: `keys` are the catalogue's, in the view's order."""

    store: Store
    layer: Layer
    family: FeatureFamily
    keys: Ints
    documents: Ints
    """(images,) the first document of each image; −1 for one without local features"""
    kernel: Kernel | None = None
    regions: tuple[Box | None, ...] = (None,)
    """Each image has one document per region; None is the whole image."""

    def features(self, image: int) -> LocalFeatures | None:
        """The stored features of image number `image`, where the layer has them."""
        blob = self.store.blob(int(self.keys[image]), self.layer.name)
        return None if blob is None else unpack(blob)

    def scores(self, query: LocalFeatures, where: Box | None = None) -> Floats:
        """(images, regions): the kernel's scores; 0 for images without features and for regions off `where`."""
        if self.kernel is None:
            raise QueryError("this method compares no words: add bow, vlad or asmk to it.")
        flat = self.kernel.scores(query.descriptors)
        table = np.zeros((len(self.keys), len(self.regions)), np.float32)
        having = np.flatnonzero(self.documents >= 0)
        table[having] = flat[self.documents[having, None] + np.arange(len(self.regions))]
        if where is not None:
            off = [overlap(region or WHOLE, where) <= 0.0 for region in self.regions]
            table[:, off] = 0.0
        return table


def query_features(query: Query, family: FeatureFamily) -> list[tuple[Part, LocalFeatures]]:
    """The features of each example, or of its region. A query of texts alone cannot be answered by them."""
    examples = [part for part in query.parts if part.image is not None]
    if not any(not part.negative for part in examples):
        raise QueryError(
            f"{family.spec} compares pictures and understands no text: give an example with --image FILE, "
            "or search with an encoder that reads text, such as --method mini."
        )
    return [(part, _look(part, family)) for part in examples]


def _look(part: Part, family: FeatureFamily) -> LocalFeatures:
    mask, box = part.pixels(), part.region
    image = decode(part.image, at_least=(lambda _: family.query_side) if box is None else None)  # type: ignore[arg-type]
    if mask is not None:
        check_aspect(mask, size_wh=image.full_wh)
    found = family.features(image if box is None else image.crop(box), side=family.query_side)
    if mask is None or box is None:
        return found
    # The features of the crop, kept where the mask covers them.
    x = box.x1 + found.keypoints[:, 0] * (box.x2 - box.x1)
    y = box.y1 + found.keypoints[:, 1] * (box.y2 - box.y1)
    rows = np.clip((y * mask.shape[0]).astype(np.int64), 0, mask.shape[0] - 1)
    columns = np.clip((x * mask.shape[1]).astype(np.int64), 0, mask.shape[1] - 1)
    return found.take(mask[rows, columns])


def load_local(
    store: Store,
    layer: Layer,
    family: FeatureFamily,
    *,
    keys: Ints,
    words: Words | None,
    regions: tuple[Box | None, ...] = (None,),
) -> LocalIndex:
    """The local index of the images `keys`; with `words`, their kernel is loaded, and what it lacks is made."""
    found = store.catalogue.live_rows(layer.name).fetchall()
    place = {row[0]: (row[1], row[2]) for row in found}
    having = [number for number, key in enumerate(keys.tolist()) if key in place]
    documents = np.full(len(keys), -1, np.int64)
    documents[having] = np.arange(len(having)) * len(regions)
    kernel = None
    if words is not None:
        rows = [place[int(keys[number])] for number in having]
        derived = _Derived(store, layer, rows)
        codebook = derived.codebook(words.size or own_words(words.kernel))
        kernel = load_kernel(words.kernel, codebook)
        name = f"{words.kernel}-{len(regions)}.{codebook.digest}"
        kernel.build(derived.descriptions(kernel, name, regions))
    return LocalIndex(store, layer, family, keys, documents, kernel, regions)


@dataclass(frozen=True, slots=True, eq=False)
class _Derived:
    """What is made of a layer, and kept: `rows` are the (shard, row) of its documents, in their order."""

    store: Store
    layer: Layer
    rows: Sequence[tuple[int, int]]

    @property
    def _folder(self) -> Path:
        return self.store.folder / "derived" / self.layer.name

    def codebook(self, size: int | None) -> Codebook:
        """The codebook of the layer, trained when there is none: it then serves whatever is added later."""
        path = self._folder / f"codebook@{size or 'auto'}.npy"
        if path.exists():
            return Codebook.load(path)
        step = max(1, len(self.rows) // SAMPLE)
        sample = [self._features(place).descriptors for place in self.rows[::step]]
        filled = [rows for rows in sample if len(rows)]
        if not filled:
            return Codebook(np.zeros((1, self._width()), np.float32))
        gathered = np.concatenate(filled)
        codebook = Codebook.train(gathered, words=size or default_words(len(gathered) * step))
        codebook.save(path)
        return codebook

    def descriptions(self, kernel: Kernel, name: str, regions: tuple[Box | None, ...]) -> list[bytes]:
        """Of every document, region by region. Each shard's are made once, since shards never change."""
        made = {shard: self._shard(kernel, name, shard, regions) for shard in {shard for shard, _ in self.rows}}
        return [blob for shard, row in self.rows for blob in made[shard][row * len(regions) : (row + 1) * len(regions)]]

    def _shard(self, kernel: Kernel, name: str, shard: int, regions: tuple[Box | None, ...]) -> list[bytes]:
        path = self._folder / f"{name}.{shard:06d}.npy"
        count = self._count(shard)
        if not path.exists():
            blobs = []
            for row in range(count):
                found = self._features((shard, row))
                for region in regions:
                    inside = found if region is None else found.take(found.inside(region))
                    blobs.append(kernel.describe(inside.descriptors))
            write_blobs(path, blobs)
            return blobs
        flat = read_array(path)
        return [read_blob(flat, rows=count * len(regions), row=row) for row in range(count * len(regions))]

    def _features(self, place: tuple[int, int]) -> LocalFeatures:
        shard, row = place
        return unpack(read_blob(self.store.array(self.layer.name, shard), rows=self._count(shard), row=row))

    def _count(self, shard: int) -> int:
        return next(
            written.rows for known, _, written in self.store.catalogue.shards(self.layer.name) if known == shard
        )

    def _width(self) -> int:
        return self._features(self.rows[0]).descriptors.shape[1] if self.rows else 1

"""The local features of a collection as they are searched: their words, their kernel, and the features themselves.

What is derived lies in `derived/LAYER/`: a codebook, trained once on a sample and then kept, and per shard of the
layer the descriptions of its images. New images are described with the old codebook; deleting the folder rebuilds it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.errors import QueryError
from wherein.features import FeatureFamily, LocalFeatures, unpack
from wherein.images.image import decode
from wherein.kernels import Kernel, load_kernel, own_words
from wherein.kernels.bow import spans
from wherein.kernels.codebook import Codebook, default_words
from wherein.kernels.vlad import Vlad
from wherein.search.expansion import Weighting, augment
from wherein.search.method import Words
from wherein.store.shards import Array, read_array, read_blob, write_blobs
from wherein.store.store import Layer, Store
from wherein.values.masks import check_aspect
from wherein.values.query import Part, Query
from wherein.values.region import Box, overlap

Regions = tuple[Box | None, ...]
SAMPLE: Final = 10_000
"""Images that a codebook is trained on, at most, as in the FORB paper."""


class StoredFeatures:
    """The features that a layer keeps, by image; a shard is opened once."""

    def __init__(self, store: Store, layer: Layer) -> None:
        self._store, self._layer = store, layer
        rows = store.catalogue.live_rows(layer.name).fetchall()
        self.places: dict[int, tuple[int, int]] = {row[0]: (row[1], row[2]) for row in rows}
        """Of each image's key, its shard and its row there."""
        self.counts = {shard: written.rows for shard, _, written in store.catalogue.shards(layer.name)}
        """Rows of each shard."""
        self._shards = dict[int, Array]()

    def of(self, key: int) -> LocalFeatures | None:
        """Those of an image; None where the layer has none."""
        return self.at(*self.places[key]) if key in self.places else None

    def at(self, shard: int, row: int) -> LocalFeatures:
        """Those of a row, also of one that is no longer used."""
        if shard not in self._shards:
            self._shards[shard] = self._store.array(self._layer.name, shard)
        return unpack(read_blob(self._shards[shard], rows=self.counts[shard], row=row))


@dataclass(frozen=True, slots=True, eq=False)
class LocalIndex:
    """The local features of the images of a view: `keys` are the catalogue's, in the view's order."""

    stored: StoredFeatures
    family: FeatureFamily
    keys: Ints
    documents: Ints
    """(images,) the first document of each image, which duplicates share; −1 for one without local features"""
    regions: tuple[Regions, ...]
    """Of each image, one document per region; None is the whole image."""
    kernel: Kernel | None = None

    @property
    def score_kind(self) -> str:
        """What the scores are."""
        return "words" if self.kernel is None else self.kernel.score_kind

    def features(self, image: int) -> LocalFeatures | None:
        """The stored features of image number `image`, where the layer has them."""
        return self.stored.of(int(self.keys[image]))

    def scores(self, query: LocalFeatures, where: Box | None = None, *, worth: Floats | None = None) -> Floats:
        """(images, regions): the kernel's scores; 0 for images without features and for regions off `where`.

        `worth` (n,) is how much each feature of the query counts, 1 unless given.
        """
        if self.kernel is None:
            raise QueryError("this method compares no words: add bow, vlad or asmk to it.")
        flat = self.kernel.scores(query.descriptors, worth)
        having = np.flatnonzero(self.documents >= 0)
        counts = np.array([len(self.regions[image]) for image in having.tolist()], np.int64)
        table = np.zeros((len(self.keys), int(counts.max(initial=1))), np.float32)
        places = spans(np.zeros_like(counts), counts)
        table[np.repeat(having, counts), places] = flat[np.repeat(self.documents[having], counts) + places]
        if where is not None:
            on = {regions: _overlapping(regions, where, width=table.shape[1]) for regions in set(self.regions)}
            table *= np.stack([on[regions] for regions in self.regions])
        return table

    @property
    def embeddings(self) -> Floats | None:
        """(images, d) where the kernel describes an image by one; zeros for those without features."""
        if self.kernel is None or self.kernel.embeddings is None:
            return None
        rows = np.zeros((len(self.keys), self.kernel.embeddings.shape[1]), np.float32)
        having = self.documents >= 0
        rows[having] = self.kernel.embeddings[self.documents[having]]
        return rows

    def augmented(self, weighting: Weighting) -> LocalIndex:
        """With each document's embedding moved towards its neighbours."""
        if not isinstance(self.kernel, Vlad):
            raise QueryError(f"{self.score_kind} compares words, and dba moves embeddings: use vlad or an encoder.")
        return replace(self, kernel=self.kernel.moved(augment(self.kernel.embeddings, weighting=weighting)))

    def best_regions(self, images: Ints, table: Floats) -> list[Box | None]:
        """The region of each of some images that scored best in their rows of a table; None is the whole image."""
        chosen = zip(images.tolist(), table.argmax(axis=1).tolist(), strict=True)
        return [self.regions[image][region] if region < len(self.regions[image]) else None for image, region in chosen]


def _overlapping(regions: Regions, where: Box, *, width: int) -> Floats:
    """(width,) 1 for the regions that a box touches, else 0; the whole image counts only where it is the only one."""
    placed = [region for region in regions if region is not None]
    touched = [float(overlap(region, where) > 0.0 if region is not None else not placed) for region in regions]
    return np.array(touched + [0.0] * (width - len(touched)), np.float32)


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
    regions: Mapping[int, Regions] | Regions = (None,),
) -> LocalIndex:
    """The local index of the images `keys`; with `words`, their kernel is loaded, and what it lacks is made.

    `regions` are those of every image, or of each by its key.
    """
    stored = StoredFeatures(store, layer)
    place = stored.places
    rows: dict[tuple[int, int], Regions] = {}
    own = [regions.get(key, (None,)) if isinstance(regions, Mapping) else regions for key in keys.tolist()]
    for key, mine in zip(keys.tolist(), own, strict=True):
        if key in place:  # duplicates share a row, and with it their documents
            rows[place[key]] = max(rows.get(place[key], ()), mine, key=len)
    own = [rows[place[key]] if key in place else mine for key, mine in zip(keys.tolist(), own, strict=True)]
    starts = accumulate(map(len, rows.values()), initial=0)
    first = dict(zip(rows, starts, strict=False))  # one start more than rows: the end of the last
    documents = np.array([first[place[key]] if key in place else -1 for key in keys.tolist()], np.int64)
    kernel = None
    if words is not None:
        derived = _Derived(store.folder / "derived" / layer.name, stored, rows)
        codebook = derived.codebook(words.size or own_words(words.kernel))
        kernel = load_kernel(words.kernel, codebook)
        kernel.build(derived.descriptions(kernel, f"{words.kernel}.{codebook.digest}"))
    return LocalIndex(stored, family, keys, documents, tuple(own), kernel)


@dataclass(frozen=True, slots=True, eq=False)
class _Derived:
    """What is made of a layer, and kept: `rows` are the (shard, row) of its images, each once, and their regions."""

    folder: Path
    stored: StoredFeatures
    rows: Mapping[tuple[int, int], Regions]

    def codebook(self, size: int | None) -> Codebook:
        """The codebook of the layer, trained when there is none: it then serves whatever is added later."""
        path = self.folder / f"codebook@{size or 'auto'}.npy"
        if path.exists():
            return Codebook.load(path)
        step = max(1, len(self.rows) // SAMPLE)
        sample = [self.stored.at(*place).descriptors for place in list(self.rows)[::step]]
        filled = [rows for rows in sample if len(rows)]
        if not filled:
            return Codebook(np.zeros((1, self._width()), np.float32))
        gathered = np.concatenate(filled)
        codebook = Codebook.train(gathered, words=size or default_words(len(gathered) * step))
        codebook.save(path)
        return codebook

    def descriptions(self, kernel: Kernel, name: str) -> list[bytes]:
        """Of every document, region by region. Each shard's are made once, since shards never change."""
        made = {shard: self._shard(kernel, name, shard) for shard in {shard for shard, _ in self.rows}}
        return [blob for shard, row in self.rows for blob in made[shard][row]]

    def _shard(self, kernel: Kernel, name: str, shard: int) -> list[list[bytes]]:
        """The descriptions of every row of a shard, one per region; a row that is no longer used has one."""
        own = {row: regions for (other, row), regions in self.rows.items() if other == shard}
        shared = set(own.values())
        unused: Regions = shared.pop() if len(shared) == 1 else (None,)
        each = [own.get(row, unused) for row in range(self.stored.counts[shard])]
        # Where each image has regions of its own, it matters which have gone since.
        told = repr(unused if not shared else sorted((row, str(regions)) for row, regions in own.items()))
        signature = hashlib.blake2b(told.encode(), digest_size=6).hexdigest()
        path = self.folder / f"{name}.{signature}.{shard:06d}.npy"
        if path.exists():
            flat, total = read_array(path), sum(map(len, each))
            blobs = iter([read_blob(flat, rows=total, row=row) for row in range(total)])
            return [[next(blobs) for _ in regions] for regions in each]
        described = []
        for row, regions in enumerate(each):
            found = self.stored.at(shard, row)
            parts = [found if box is None else found.take(found.inside(box)) for box in regions]
            described.append([kernel.describe(part.descriptors) for part in parts])
        write_blobs(path, list(chain.from_iterable(described)))
        return described

    def _width(self) -> int:
        return self.stored.at(*next(iter(self.rows))).descriptors.shape[1] if self.rows else 1

"""The local features of a collection as they are searched: their words, their kernel, and the features themselves.

What is derived lies in `derived/LAYER/`: a codebook, trained once on a sample and then kept, and the descriptions of
each block of images. Both are made piece by piece, so that work which is interrupted goes on where it stopped. New
images are described with the old codebook; deleting the folder rebuilds it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.errors import QueryError
from wherein.features import FeatureFamily, LocalFeatures, unpack
from wherein.images.isolated import decode_given
from wherein.kernels import Kernel, load_kernel, own_words
from wherein.kernels.bow import spans
from wherein.kernels.codebook import Codebook, default_words
from wherein.kernels.mean import Mean
from wherein.kernels.vlad import Vlad
from wherein.search.expansion import Weighting, augment
from wherein.store.derived import Derived
from wherein.store.manifest import Layer
from wherein.store.shards import Array, as_blobs, read_blob
from wherein.store.store import Store
from wherein.values.masks import check_aspect
from wherein.values.method import Words
from wherein.values.query import Part, Query
from wherein.values.region import WHOLE, Box, overlap

Regions = tuple[Box | None, ...]
Place = tuple[int, int]
"""Where the features of an image lie: (shard, row)."""
OnStep = Callable[[str, int, int], None]
"""(what is being made, pieces done, pieces in all)"""
SAMPLE: Final = 10_000
"""Images that a codebook is trained on, as in the FORB paper; fewer where there are fewer."""
BLOCK: Final = 256
"""Images that are described at a time: some seconds of work, which is all that an interruption loses."""


def no_step(stage: str, done: int, total: int) -> None:
    """The `on_step` of those who do not want to know how far the work is: does nothing."""


class StoredFeatures:
    """The features that a layer keeps, by image; a shard is opened once."""

    def __init__(self, store: Store, layer: Layer) -> None:
        self._store, self.layer = store, layer.name
        rows = store.catalogue.live_rows(layer.name).fetchall()
        self.places: dict[int, tuple[int, int]] = {row[0]: (row[1], row[2]) for row in rows}
        """Of each image's key, its shard and its row there."""
        self.counts = {shard: written.rows for shard, _, written in store.catalogue.shards(layer.name)}
        """Rows of each shard."""
        self._shards = dict[int, Array]()

    @property
    def derived(self) -> Derived:
        """Where what is made of the layer is kept."""
        return self._store.derived

    def of(self, key: int) -> LocalFeatures | None:
        """Those of an image; None where the layer has none."""
        return self.at(*self.places[key]) if key in self.places else None

    def at(self, shard: int, row: int) -> LocalFeatures:
        """Those of a row, also of one that is no longer used."""
        if shard not in self._shards:
            self._shards[shard] = self._store.array(self.layer, shard)
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
        if not isinstance(self.kernel, Vlad | Mean):
            raise QueryError(f"{self.score_kind} compares words, and dba moves embeddings: use vlad or an encoder.")
        return replace(self, kernel=self.kernel.moved(augment(self.kernel.embeddings, weighting=weighting)))

    def best_regions(self, images: Ints, table: Floats) -> list[Box | None]:
        """The region of each of some images that scored best in their rows of a table.

        Where regions are compared the whole image is a box as well; where none are, there is no box to tell.
        """
        whole = WHOLE if table.shape[1] > 1 else None
        chosen = zip(images.tolist(), table.argmax(axis=1).tolist(), strict=True)
        found = (self.regions[image][region] if region < len(self.regions[image]) else None for image, region in chosen)
        return [box or whole for box in found]


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
            f"{family.spec} compares pictures and understands no text: give an example image, "
            "or search with an encoder that reads text, as by the method mini."
        )
    return [(part, _features_of(part, family)) for part in examples]


def _features_of(part: Part, family: FeatureFamily) -> LocalFeatures:
    mask, box = part.pixels(), part.region
    if part.image is None:
        raise TypeError("the part is a text")
    image = decode_given(part.image, at_least=(lambda _: family.query_side) if box is None else None)
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
    on_step: OnStep = no_step,
) -> LocalIndex:
    """The local index of the images `keys`; with `words`, their kernel is loaded, and what it lacks is made.

    `regions` are those of every image, or of each by its key. `on_step` is told before each piece that is made.
    """
    stored = StoredFeatures(store, layer)
    place = stored.places
    rows = dict[Place, Regions]()
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
        made = _Words(store.derived, layer.name, stored, rows, on_step)
        codebook = made.codebook(words.size or own_words(words.kernel))
        kernel = load_kernel(words.kernel, codebook)
        kernel.build(made.descriptions(kernel, f"{words.kernel}.{codebook.digest}"))
    return LocalIndex(stored, family, keys, documents, tuple(own), kernel)


@dataclass(frozen=True, slots=True, eq=False)
class _Words:
    """What is made of a layer of local features, piece by piece; a piece that is made is kept, whatever comes then."""

    derived: Derived
    layer: str
    stored: StoredFeatures
    rows: Mapping[Place, Regions]
    """The place of each image's features, each once, and its regions."""
    on_step: OnStep

    def codebook(self, size: int | None) -> Codebook:
        """The codebook of the layer, trained when there is none: it then serves whatever is added later."""
        name = f"{self.layer}/codebook@{size or 'auto'}"
        known: Codebook | None = self.derived.recall(name)
        if known is not None:
            return known
        if self.derived.path(name).exists():
            return Codebook.load(self.derived.path(name))
        places = list(self.rows)
        count = min(len(places), SAMPLE)
        sample = [places[number * len(places) // count] for number in range(count)]
        gathered = self._gathered(sample)
        if gathered is None:
            return Codebook(np.zeros((1, self._width()), np.float32))
        words = size or default_words(len(gathered) * len(places) // count)
        begun = f"{name}.{_signature((sample, words))}"

        def piece(number: int, pieces: int, make: Callable[[], Floats]) -> Floats:
            def learnt() -> Floats:
                self.on_step("learning visual words", number, pieces)
                return make()

            return np.asarray(self.derived.array(f"{begun}.{number:04d}", learnt), np.float32)

        codebook = Codebook.train(gathered, words=words, piece=piece)
        self.derived.keep(name, codebook, write=codebook.save)
        self.derived.drop(f"{name}.*.[0-9]*")  # also the pieces of a training that was never finished
        return codebook

    def _gathered(self, places: Sequence[Place]) -> Floats | None:
        """The descriptors (n, d) at some places; None where there are none."""
        found = []
        for number, place in enumerate(places):
            if number % BLOCK == 0:
                self.on_step("reading a sample of the features", number, len(places))
            found.append(self.stored.at(*place).descriptors)
        filled = [rows for rows in found if len(rows)]
        return np.concatenate(filled) if filled else None

    def descriptions(self, kernel: Kernel, name: str) -> list[bytes]:
        """Of every document, region by region. Each block of a shard is described once, since shards never change."""
        own = dict[int, dict[int, Regions]]()
        for (shard, row), regions in self.rows.items():
            own.setdefault(shard, {})[row] = regions
        made, total = dict[Place, list[bytes]](), sum(self.stored.counts[shard] for shard in own)
        for shard, regions_of in own.items():
            kinds = set(regions_of.values())
            if len(kinds) == 1:  # rows that no image uses now are described too: who is removed then changes nothing
                regions_of = dict.fromkeys(range(self.stored.counts[shard]), kinds.pop())
            for start in range(0, self.stored.counts[shard], BLOCK):
                block = {row: regions_of[row] for row in range(start, start + BLOCK) if row in regions_of}
                found = self._block(kernel, name, shard, block, done=(len(made), total))
                made |= {(shard, row): blobs for row, blobs in found.items()}
        return [blob for place in self.rows for blob in made[place]]

    def _block(
        self, kernel: Kernel, name: str, shard: int, block: Mapping[int, Regions], *, done: tuple[int, int]
    ) -> dict[int, list[bytes]]:
        """The descriptions of some rows of a shard, one per region."""
        count = sum(map(len, block.values()))
        key = f"{self.layer}/{name}.{shard:06d}.{_signature(sorted((row, str(own)) for row, own in block.items()))}"

        def make() -> Array:
            self.on_step("describing images by their words", *done)
            return as_blobs(
                [blob for row, regions in block.items() for blob in self._described(kernel, shard, row, regions)]
            )

        flat = self.derived.array(key, make) if block else np.zeros(0, np.uint8)
        blobs = iter([read_blob(flat, rows=count, row=number) for number in range(count)])
        return {row: [next(blobs) for _ in regions] for row, regions in block.items()}

    def _described(self, kernel: Kernel, shard: int, row: int, regions: Regions) -> Iterator[bytes]:
        found = self.stored.at(shard, row)
        for box in regions:
            yield kernel.describe((found if box is None else found.take(found.inside(box))).descriptors)

    def _width(self) -> int:
        return self.stored.at(*next(iter(self.rows))).descriptors.shape[1] if self.rows else 1


def _signature(told: object) -> str:
    """A short name of what something was made from."""
    return hashlib.blake2b(repr(told).encode(), digest_size=6).hexdigest()

"""Matches between the stored images of a collection: the graph along which `propagate` and `hypergraph` pass on.

Which keypoints of one image match which of another does not depend on any query. So matches are looked for once, for
whole images, and kept under `derived/LAYER/links-MATCHER/`, one file for each image that passed something on; a query
then takes those of a region. A link is named by where both images' features lie, and shards never change: an image
that changed has new links, and the old ones are never asked for again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from wherein.arrays import Ints
from wherein.features import LocalFeatures
from wherein.features.matchers import Matcher
from wherein.search.local import Place, StoredFeatures
from wherein.store.shards import Array, write_array

KEPT: Final = 1024
"""Links that are kept of one image, the newest of them: some 100 kB, since a link takes about a hundred bytes. A query
adds at most seventy, the fifty of its ranking and twenty that a region reaches."""
_HEAD: Final = 3
"""Numbers before the matches of a link: the other image's shard and row, and how many matches follow."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a stored image shows of an example: some of its features, as features of that region alone."""

    key: int
    """The image's, in the catalogue."""
    features: LocalFeatures
    chosen: Ints
    """(n,) which of the image's features these are"""

    def own(self, matches: Ints) -> Ints:
        """(m, 2) matches of the whole image, as far as they lie in the region, numbered as its features are."""
        number = {whole: part for part, whole in enumerate(self.chosen.tolist())}
        found = [(number[one], other) for one, other in matches.tolist() if one in number]
        return np.array(found, np.int64).reshape(-1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Matches of stored images with one another, found by one matcher; `keep` writes the new ones down."""

    stored: StoredFeatures
    matcher: Matcher
    name: str
    """The matcher's."""
    _known: dict[Place, dict[Place, Ints]] = field(default_factory=dict)
    _new: set[Place] = field(default_factory=set)

    def matches(self, one: int, other: int) -> Ints:
        """(m, 2) matches of image `one` with image `other`, both keys of the catalogue that have features."""
        source, target = self.stored.places[one], self.stored.places[other]
        links = self._known.get(source)
        if links is None:
            links = self._known[source] = self._read(source)
        if target not in links:
            links[target] = self.matcher(self.stored.at(*source), self.stored.at(*target))
            self._new.add(source)
        return links[target]

    def keep(self) -> None:
        """Write down what was matched anew."""
        for place in sorted(self._new):
            flat = packed(dict(list(self._known[place].items())[-KEPT:]))
            self.stored.derived.keep(self._file(place), flat, write=partial(write_array, rows=flat))
        self._new.clear()

    def _read(self, place: Place) -> dict[Place, Ints]:
        flat = self.stored.derived.known(self._file(place))
        return {} if flat is None else unpacked(flat)

    def _file(self, place: Place) -> str:
        return f"{self.stored.layer}/links-{self.name}/{place[0]:06d}.{place[1]:06d}"


def packed(links: Mapping[Place, Ints]) -> Array:
    """Links of one image as one row of numbers (int32): shard, row, number of matches, matches; and so on."""
    parts = [np.array([*place, len(found), *found.ravel()], np.int32) for place, found in links.items()]
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)


def unpacked(flat: Array) -> dict[Place, Ints]:
    """The links that were packed, in their order."""
    numbers, links, at = np.asarray(flat, np.int64), dict[Place, Ints](), 0
    while at + _HEAD <= len(numbers):
        shard, row, count = numbers[at : at + _HEAD].tolist()
        at += _HEAD
        links[shard, row] = numbers[at : at + 2 * count].reshape(-1, 2)
        at += 2 * count
    return links

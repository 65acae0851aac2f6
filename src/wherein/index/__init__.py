"""Nearest-neighbour search over the stored rows of a layer: one protocol, one file per engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wherein import plugins

if TYPE_CHECKING:
    from wherein.arrays import Floats, Ints, Mask
    from wherein.index.rows import RowTable


@dataclass(frozen=True, slots=True)
class Top:
    """The best k images of one query, best first."""

    images: Ints
    """(k,) numbers of images"""
    scores: Floats
    """(k,) their scores, higher is better"""


class Index(Protocol):
    """What every index answers, exact, compressed or remote.

    Built as `Engine(table)` of the rows it searches; one that is named with more, as `milvus:ADDRESS`, as
    `Engine(table, more)`.

    Images are numbered as in the table. An image's score is that of its best row; queries are (m, d) unit vectors.
    """

    def top(self, queries: Floats, *, k: int, allowed: Mask | None = None) -> list[Top]:
        """The best k images for each query, among those `allowed` (n,); of equals, the smaller number first."""

    def scores(self, queries: Floats, images: Ints) -> Floats:
        """(m, len(images)): the exact score of given images."""

    def winners(self, query: Floats, images: Ints) -> Ints:
        """The best row of each of some images for one query (d,), as its place in the table: the "where"."""

    def histogram(self, queries: Floats, *, edges: Floats) -> Ints:
        """(m, len(edges)): how many images score at least each edge and less than the next; edges ascend.

        An index that scores every image counts them; another counts the best it finds and estimates the rest from a
        sample (`wherein.index.proposing`).
        """


def load_index(name: str, table: RowTable) -> Index:
    """The index of a name over a layer's rows: `exact`, `compressed:BITS`, `milvus:ADDRESS`, or a plug-in's."""
    kind, _, variant = name.partition(":")
    engine = plugins.load("indexes", kind)
    index: Index = engine(table, variant) if variant else engine(table)
    return index


def check_index(name: str, table: RowTable) -> None:
    """Raise SpecError unless an index keeps the contract on a table. For authors of indexes and for our own tests."""
    from wherein.index.contract import check

    check(name, table)

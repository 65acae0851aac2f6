"""Search words: how an encoder's embeddings are searched. One word is one file that declares itself.

A word says which options may follow it, which layers it searches, how a query is worded and looked at for it, and
opens its scorer on a collection's layers. To add one, write a file like `whole.py` and one line in `wherein.plugins`
(or an entry point of the group `wherein.words`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wherein.values.method import Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wherein.arrays import Ints
    from wherein.encoders import Encoder
    from wherein.images.image import Image
    from wherein.index import Index
    from wherein.index.cells import Cells
    from wherein.index.patches import PatchGrids
    from wherein.index.rows import RowTable
    from wherein.search.scorers import RowScorer, Scorer
    from wherein.search.words.patches import PatchesBeside
    from wherein.search.words.static import CellsBeside
    from wherein.store.originals import Original
    from wherein.values.method import Method
    from wherein.values.query import Part
    from wherein.values.region import Grid

CONTEXT = Option("context", ("beside", "alone"))
"""Whether what is found in a place counts beside the whole image, standardised, or alone, as cosines."""


class Layers(Protocol):
    """What a word may open of a collection, for one encoder and method. Images are numbered by image_id."""

    encoder: Encoder
    method: Method

    @property
    def sample(self) -> Ints:
        """The numbers of the images that backgrounds are measured on."""

    def rows(self, kind: str) -> RowTable:
        """The rows of a layer, of the images that the method can find."""

    def whole(self) -> RowTable:
        """The embeddings of whole images alone, without their tiles."""

    def index(self, table: RowTable) -> Index:
        """The index that serves a table of rows."""

    def patches(self) -> PatchGrids:
        """The stored patch grids."""

    def cells(self, grid: Grid, kind: str) -> Cells:
        """The cells of a grid, from the layer of its crops or from the layer `cells`."""

    def patches_beside(self) -> PatchesBeside | None:
        """What is kept beside the patches of a large collection; None of a small one."""

    def cells_beside(self, grid: Grid, kind: str) -> CellsBeside | None:
        """What is kept beside the cells of a large collection; None of a small one."""

    @property
    def whole_scorer(self) -> RowScorer:
        """Compares whole images alone, without their tiles: one for all that counts them beside something else."""

    def files(self) -> Sequence[Original | None]:
        """Each image's file; None for one that was added from memory."""


class SearchWord:
    """What every word has unless it says otherwise: it looks at whole images."""

    name = "whole"
    summary = ""
    """One line for people: what it looks at."""
    options: tuple[Option, ...] = ()
    uses_place = False
    """Whether it looks at the place that a query names."""
    looks = "at the whole image"
    """Where it looks, in the note that a place was not used."""
    draws_apart = True
    """Whether plain words mean photographs, so that drawings stand lower."""
    scales: tuple[float, ...] = (1.0,)
    """At how many times the encoder's input size an example is looked at."""

    def layers(self, method: Method) -> tuple[str, ...]:  # noqa: ARG002 — words with options need it
        """The layers that it searches, the one that decides which images can be found first."""
        return ("global",)

    def wording(self, part: Part) -> str:
        """The text that is embedded for a part."""
        return part.text or ""

    def views(self, image: Image) -> list[Image]:
        """What of an example is embedded."""
        return [image]

    def open(self, layers: Layers) -> Scorer:
        """The word's scorer on a collection's layers."""
        raise NotImplementedError

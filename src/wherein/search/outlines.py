"""Outlines of hits that were found before: what matched in them is located without searching again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wherein.encoders import Encoder
from wherein.localizers import Sought
from wherein.parallel import one_blas_thread
from wherein.search.engine import Candidate, Context
from wherein.search.locating import asked_of, located
from wherein.search.reading import read_query
from wherein.search.unknown import unknown_words
from wherein.search.views import View
from wherein.values.method import Method
from wherein.values.query import Query


class Outliner:
    """Locates what one query asked for; its examples are decoded and encoded once, however many hits follow."""

    def __init__(self, query: Query, method: Method) -> None:
        self.query, self.method = query, method
        self._sought: Sought | None = None

    def located(self, candidates: Iterable[Candidate], *, encoder: Encoder, view: View) -> Iterator[Candidate]:
        """The candidates, one by one, with the mask and box of what matched."""
        context = Context(self.query, self.method, encoder, view, (), None, 0)
        if unknown_words(read_query(self.query, encoder)[0], encoder).all_words:
            yield from candidates  # nothing was looked for, so there is nothing to outline
            return
        if self._sought is None:
            self._sought = asked_of(context, "locate")
        for one in candidates:
            with one_blas_thread():
                found, _ = located(one, context, self._sought, "locate")
            yield found

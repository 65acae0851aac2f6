"""What every search word and every step must keep, checked by searching a small collection.

For authors of words and steps and for our own tests. The collection needs about twenty images and the layers that the
method reads; the example is one of its images or another picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol, Unpack

import numpy as np

from wherein import plugins
from wherein.errors import SpecError
from wherein.images.image import ImageLike
from wherein.options import Askable, Options
from wherein.search.steps import SearchStep
from wherein.search.words import SearchWord
from wherein.values.method import QUERY_OPTIONS, Method, Option, declared_step, declared_word, word_key
from wherein.values.query import Part, Query
from wherein.values.ranking import Ranking
from wherein.values.region import Box

_FEW: Final = 3
"""Hits of a short ranking: few enough that an index is asked for its best instead of scoring every image."""
_LEFT: Final = Box(0.0, 0.0, 0.5, 1.0)
"""A place to look at."""
_RIGHT: Final = Box(0.5, 0.0, 1.0, 1.0)
"""Another place, which shows something else in the images of the collection."""
_NEAR: Final = 1e-4
"""How far two scores of the same image may lie apart: sums of float32 in another order."""


class Searchable(Protocol):
    """The part of a collection that is asked."""

    def search(self, query: Askable, **options: Unpack[Options]) -> Ranking:
        """The ranking for a query."""

    def image_ids(self) -> list[str]:
        """The ids of all images."""


def check_word(method: str, collection: Searchable, example: ImageLike) -> None:
    """Raise SpecError unless the search word of a method, such as `static-9`, keeps the contract."""
    parsed = Method.parse(method)
    name = parsed.search or "whole"
    word = declared_word(name)
    check = _Check(f"search word {name!r}")
    check.that(isinstance(word, SearchWord), "is no SearchWord")
    if not isinstance(word, SearchWord):
        return
    check.that(word.name == word_key(name), f"calls itself {word.name!r}")
    check.declares(word.summary, word.options, (*word.options, *QUERY_OPTIONS))
    check.that(bool(word.layers(parsed)), "searches no layer")
    check.reads(word.layers(parsed))
    placed = Query((Part(image=example, where=_LEFT),))
    found = _ranked(check, placed, method, collection)
    if word.uses_place:
        elsewhere = collection.search(Part(image=example, where=_RIGHT), k=_count(collection), method=method)
        worded = [word.wording(Part(text="red", where=place)) for place in (_LEFT, _RIGHT)]
        differs = {hit.image_id: hit.score for hit in found} != {hit.image_id: hit.score for hit in elsewhere}
        check.that(
            differs or worded[0] != worded[1], "says that it looks at a place, and finds the same in every place"
        )
    else:
        _ranked(check, Query((Part(image=example),)), method, collection)


def check_step(method: str, collection: Searchable, example: ImageLike) -> None:
    """Raise SpecError unless the last step of a method, such as `bow+sp`, keeps the contract."""
    parsed = Method.parse(method)
    if not parsed.steps:
        raise SpecError(f"method {method!r}: has no step; write one after what is searched, as whole+zoom.")
    name = parsed.steps[-1]
    step = declared_step(name)
    check = _Check(f"step {name!r}")
    check.that(isinstance(step, SearchStep) and callable(step), "is no SearchStep that can be called")
    if not isinstance(step, SearchStep):
        return
    check.that(step.name == name.partition(":")[0], f"calls itself {step.name!r}")
    check.declares(step.summary, step.options, step.options)
    check.that(step.depth >= 0, "wants to see fewer candidates than none")
    check.reads(step.layers)
    query = Query((Part(image=example, where=_LEFT if step.uses_place else None),))
    before = replace(parsed, steps=parsed.steps[:-1], written=method.rpartition("+")[0])
    everything = {hit.image_id for hit in collection.search(query, k=_count(collection), method=before, frames=True)}
    found = _ranked(check, query, method, collection)
    check.that({hit.image_id for hit in found} <= everything, "gives images that were not searched")
    check.that(not collection.search(query, method=method, among=[]).hits, "finds something among no image")


def _ranked(check: _Check, query: Query, method: str, collection: Searchable) -> Ranking:
    """The whole ranking of a query, once it was seen to be one."""
    ids = collection.image_ids()
    found = collection.search(query, k=len(ids), method=method, frames=True)
    names, scores = [hit.image_id for hit in found], np.array([hit.score for hit in found])
    check.that(len(set(names)) == len(names), "gives an image twice")
    check.that(set(names) <= set(ids), "gives images that are not there")
    check.that(bool(np.isfinite(scores).all()), "gives scores that are no numbers")
    check.that(bool((np.diff(scores) <= _NEAR).all()), "is not ordered by score")
    again = collection.search(query, k=len(ids), method=method, frames=True)
    check.that([hit.image_id for hit in again] == names, "answers the same question in two ways")
    few = collection.search(query, k=_FEW, method=method, frames=True)
    check.that(len(few.hits) == min(_FEW, len(names)), "gives fewer hits than were asked for")
    chosen = ids[::2]
    some = collection.search(query, k=len(ids), method=method, among=chosen, frames=True)
    check.that({hit.image_id for hit in some} <= set(chosen), "gives images that were not allowed")
    return found


def _count(collection: Searchable) -> int:
    return max(1, len(collection.image_ids()))


class _Check:
    """Complaints about one plug-in."""

    def __init__(self, what: str) -> None:
        self._what = what

    def that(self, holds: bool, complaint: str) -> None:
        """Raise unless something holds."""
        if not holds:
            raise SpecError(f"{self._what} breaks the contract: it {complaint}.")

    def reads(self, layers: Sequence[str]) -> None:
        """Raise unless layers are of kinds that there are."""
        kinds = {layer: layer.partition(":")[0].partition("-")[0] for layer in layers}
        for layer, kind in kinds.items():
            self.that(kind in plugins.table("layers"), f"reads a layer {layer!r}, and there is no such kind")

    def declares(self, summary: str, own: Sequence[Option], beside: Sequence[Option]) -> None:
        """Raise unless what a plug-in says of itself can be listed and parsed."""
        self.that(bool(summary) and "\n" not in summary, "has no summary of one line")
        self.that(all(option.name and option.values for option in own), "has an option without a name or a value")
        values = [value for option in beside for value in option.values]
        self.that(len(set(values)) == len(values), "has two options with the same value, which nobody can tell apart")

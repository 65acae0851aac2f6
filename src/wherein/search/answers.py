"""What a search answers beside its best images: that nothing is indexed, how sure it is, what it rejects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wherein.options import Asked
from wherein.values.method import Method
from wherein.values.query import Query
from wherein.values.ranking import Hit, Ranking
from wherein.values.records import Filter

NOTHING_YET: Final = "nothing is indexed yet: there is nothing to find before a folder is."
"""The note of a search in a collection without any layer."""


def nothing_yet(asked: Asked, *, encoder: str) -> Ranking:
    """The answer of a collection that holds nothing."""
    return Ranking(
        hits=(),
        query=str(asked.query),
        encoder=encoder,
        method=str(asked.method),
        score_kind="cosine",
        notes=(NOTHING_YET,),
        label=asked.query.label,
        nothing_indexed=True,
    )


def plain_question(asked: Asked, hits: Sequence[Hit]) -> Asked | None:
    """A query without its places, marks and steps, asked of whole images among these hits, for their confidence alone.

    It keeps the query's texts or its examples, whichever it names first. Other ways to search give scores whose
    confidence nobody measured, but how likely an image shows what was asked for at all can still be said. None where
    the query is such a question itself, or asks local features alone.
    """
    if asked.method.encoder is None and not asked.method.embeds:
        return None  # local features alone were asked, which know the very same thing and nothing like it
    wanted = [part for part in asked.query.parts if not part.negative]
    kept = [part for part in wanted if (part.image is None) == (wanted[0].image is None)]
    query = Query(tuple(replace(part, where=None, said_where=None) for part in kept))
    method = Method(search="whole", encoder=asked.method.encoder)
    if query == asked.query and not asked.method.steps and asked.method.search == "whole":
        return None
    among = tuple(hit.image_id for hit in hits)
    return replace(asked, query=query, method=method, k=len(among), filter=Filter(), among=among)


def plainly_sure(plain: Ranking, hits: Sequence[Hit]) -> list[Hit]:
    """The hits, each as sure as it is of the plain question."""
    sure = {hit.image_id: hit.confidence for hit in plain}
    return [replace(hit, confidence=sure.get(hit.image_id)) for hit in hits]


def how_sure(asked: Asked, plain: Ranking | None) -> str:
    """The sentence about confidences that are not the method's own."""
    if plain is None or any(hit.confidence is None for hit in plain):
        return (
            f"hits of method {asked.method} have no confidence here, so none was rejected: nothing says how likely "
            "they are right. Judge some, and later ones have one."
        )
    return f"the confidence says how likely an image shows {plain.query} at all; places and marks do not change it."

"""What the steps that ask again share: the embeddings of whole images, and a ranking from a new source."""

from __future__ import annotations

from dataclasses import replace

from wherein.errors import QueryError
from wherein.search.engine import Candidate, Context, Ranked
from wherein.search.scorers import RowScorer
from wherein.search.sources import Source


def whole_rows(context: Context, word: str) -> RowScorer:
    """The scorer of whole images' embeddings; a method without one is refused."""
    scorer, local = context.view.scorer, context.view.local
    if not context.method.embeds and (local is None or local.embeddings is None):
        raise QueryError(f"{word} works on embeddings: write it after an encoder or vlad, as mini+{word}.")
    if not isinstance(scorer, RowScorer) or not scorer.table.count:
        raise QueryError(f"{word} works on the embeddings of whole images: leave out {context.method.search}.")
    return scorer


def asked_again(source: Source, context: Context, before: Ranked) -> Ranked:
    """The ranking of a new source; what is known of a candidate stays known."""
    top = source.top(max(context.k, len(before.candidates)), context.allowed)
    known = {one.image: one for one in before.candidates}
    found = zip(top.images.tolist(), top.scores.tolist(), strict=True)
    candidates = tuple(replace(known.get(image, Candidate(image, score)), score=score) for image, score in found)
    return Ranked(candidates, source.kind, source)

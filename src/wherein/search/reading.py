"""A query's texts as its encoder can read them: misspellings mended, other languages put into English, and said so."""

from __future__ import annotations

from dataclasses import replace

from wherein.encoders import Encoder
from wherein.encoders.reading import Reads
from wherein.values.query import Query


def read_query(query: Query, encoder: Encoder) -> tuple[Query, tuple[str, ...]]:
    """The query to embed, and what a person is told of what was changed; encoders of many languages change nothing."""
    if not isinstance(encoder, Reads):
        return query, ()
    parts = tuple(part if part.text is None else replace(part, text=encoder.read(part.text)) for part in query.parts)
    changed = [new.text for old, new in zip(query.parts, parts, strict=True) if old.text != new.text]
    notes = tuple(f"read as: {text}" for text in changed)
    return (Query(parts), notes) if notes else (query, ())

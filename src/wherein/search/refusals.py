"""What a method can never answer is refused before anything is loaded, trained or encoded for it."""

from __future__ import annotations

from wherein.encoders import Encoder
from wherein.errors import QueryError
from wherein.values.method import Method
from wherein.values.query import Query


def refuse_texts(query: Query, method: Method) -> None:
    """Local features alone compare pictures: a query of texts has nothing that they could be compared with."""
    if method.embeds or any(part.image is not None and not part.negative for part in query.parts):
        return
    raise QueryError(
        f"{method} compares pictures and understands no text: give an example image, or search with an encoder "
        "that reads text, as by the method mini."
    )


def refuse_unread_texts(query: Query, method: Method, encoder: Encoder) -> None:
    """Some encoders read no text at all."""
    if method.embeds and not encoder.embeds_text and any(part.image is None for part in query.parts):
        raise QueryError(f"{encoder.spec} does not understand text: give an example image.")

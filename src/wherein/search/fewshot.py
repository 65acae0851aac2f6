"""Few-shot search: a query with some ✓ and ✗ learns a classifier on the fly instead of only moving the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.search.head import Usual, learn_label, told_by
from wherein.search.views import View
from wherein.values.query import Part, Query

RIGHT_LEAST: Final = 3
"""With fewer ✓ there is too little to learn from, and marks only move the query."""
WRONG_LEAST: Final = 1
"""Without a ✗ nothing says what is not meant."""


def learn_feedback(right: Floats, wrong: Floats, usual: Usual, *, text: Floats | None) -> Floats:
    """The unit vector (d,) to ask with, from embeddings of ✓ (n, d) and ✗ (m, d), of what is usual in the collection,
    and of the query's own words (d,), if it has any."""
    rows = np.concatenate([right, wrong])
    marks = np.arange(len(rows)) < len(right)
    examples, words = learn_label(rows, marks, usual, text=text)
    return unit(examples.plus(words, 0.0 if text is None else told_by(text, right, usual)).vector)


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Images of the collection that a query calls right and wrong, and its other parts."""

    right: Floats
    """(n, d) stored embeddings"""
    wrong: Floats
    """(m, d) stored embeddings"""
    others: tuple[Part, ...]

    @property
    def note(self) -> str:
        """What a person is told."""
        wrong = "1 wrong one" if len(self.wrong) == 1 else f"{len(self.wrong)} wrong ones"
        return f"learned what is meant from {len(self.right)} right images (✓) and {wrong} (✗)"


def known_marks(query: Query, view: View) -> Marks | None:
    """What a query marks in the collection; None where that is too little to learn from.

    Only whole images count, looked for anywhere; an image that has left is an example as any other.
    """
    right, wrong, others = list[int](), list[int](), list[Part]()
    for part in query.parts:
        number = _number(part, view)
        if number is None:
            others.append(part)
        else:
            (wrong if part.negative else right).append(number)
    right, wrong = list(dict.fromkeys(right)), list(dict.fromkeys(wrong))
    if len(right) < RIGHT_LEAST or len(wrong) < WRONG_LEAST:
        return None
    return Marks(_rows(right, view), _rows(wrong, view), tuple(others))


def _number(part: Part, view: View) -> int | None:
    """Which image of the view a part is; None for texts, regions, places and images from elsewhere."""
    if part.image_id is None or not part.is_whole or part.where is not None:
        return None
    found = np.flatnonzero(view.images == view.store.catalogue.image_at(part.image_id))
    return int(found[0]) if len(found) else None


def _rows(numbers: Sequence[int], view: View) -> Floats:
    return view.layers.whole().vectors(np.array(numbers, np.int64))

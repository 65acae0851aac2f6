"""Few-shot search: a query with some ✓ and ✗ learns a classifier on the fly instead of only moving the query."""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.training.head import TEXT, Usual, learn_label, text_strength

RIGHT_LEAST: Final = 3
"""With fewer ✓ there is too little to learn from, and marks only move the query."""
WRONG_LEAST: Final = 1
"""Without a ✗ nothing says what is not meant."""
FEEDBACK_TEXT: Final = 2 * TEXT
"""What the query's own words count: more than a label's name, because a person has chosen them for this search."""


def learn_feedback(right: Floats, wrong: Floats, usual: Floats, *, text: Floats | None) -> Floats:
    """The unit vector (d,) to ask with, from embeddings of ✓ (n, d) and ✗ (m, d), of a sample of the collection, and
    of the query's own words (d,), if it has any."""
    rows = np.concatenate([right, wrong])
    marks = np.arange(len(rows)) < len(right)
    examples, words = learn_label(rows, marks, Usual.of(usual), text=text)
    strength = 0.0 if text is None else max(FEEDBACK_TEXT, text_strength([(examples, words)]))
    return unit(examples.plus(words, strength).vector)

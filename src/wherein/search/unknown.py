"""Words of a query that its encoder cannot know: they are said, and where no word is known nothing is sure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.encoders.words import KnowsWords
from wherein.values.query import Query

UNKNOWN_SURE: Final = 0.05
"""What a confidence is multiplied by where no word is known: it is then 5 % at most, far below the 50 % under which
the page folds hits away, and the order stays."""
_NAMES_NOTHING: Final = frozenset(
    {"a", "an", "the", "of", "and", "or", "in", "on", "at", "by", "with", "some", "any", "photo", "picture", "image"}
)
"""Words that everybody knows and that name nothing to look for: in `a photo of a fez` all depends on the last."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The words that are not known, and whether the query says nothing else."""

    words: tuple[str, ...] = ()
    all_words: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person is told."""
        if not self.words:
            return ()
        rest = " Nothing else was asked, so the hits are as good as random." if self.all_words else ""
        return (f"{self.sentence}{rest}",)

    @property
    def sentence(self) -> str:
        """The unknown words in one sentence, where there are any."""
        return f"I do not know these words: {', '.join(self.words)}."

    def less_sure(self, confidence: Floats) -> Floats:
        """(n,) confidences, next to nothing where no word is known."""
        return np.asarray(confidence * (UNKNOWN_SURE if self.all_words else 1.0), np.float32)


def unknown_words(query: Query, encoder: Encoder) -> Unknown:
    """What of a query's texts an encoder that knows its words does not know."""
    if not isinstance(encoder, KnowsWords):
        return Unknown()
    wanted = [part for part in query.parts if not part.negative]
    found = {word: None for part in query.parts if part.text for word in encoder.unknown_words(part.text)}
    said = [word for part in wanted for word in re.findall(r"[^\W_]+", (part.text or "").lower())]
    examples = any(part.image is not None for part in wanted)
    return Unknown(tuple(found), bool(found) and not examples and found.keys() >= set(said) - _NAMES_NOTHING)

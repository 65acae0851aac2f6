"""Whether the words of a text are rare.

Most photographs show everyday things. Who asks for a potholer or a stalactite is shown a climber or a rock, which fits
about as well as a real one would; so a text of rare words needs more to be believed than one of common words.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.encoders import Encoder
from wherein.encoders.reading import unframed
from wherein.encoders.words import RanksWords
from wherein.search.signs import LONGEST_NAME

EVERYDAY: Final = 2000
"""A word's rarity is the logarithm of its place in the order of how common words are, and this: the first so many are
about equally common. As many numbers are left free before the first word of the tokenizer that the order is from."""
USUAL_NAME, USUAL_TEXT = 9.0, 8.35
"""The rarity that is usual: of the rarest word of a name, and of the mean word of a longer text (nouns and captions of
photographs held back)."""
SMALL: Final = frozenset({"a", "an", "the", "of", "in", "on", "with", "and"})
"""Words that are not counted: nearly every text has some."""


def commonness(text: str, encoder: Encoder) -> float:
    """How much less common than usual the words of a text are, as its encoder reads it, below 0.

    0 is as common as usual, or more so, and where an encoder cannot say how common words are.
    """
    if not isinstance(encoder, RanksWords):
        return 0.0
    said = unframed(text).split()
    ranks = encoder.word_ranks(" ".join(word for word in said if word.lower() not in SMALL))
    if not ranks:
        return 0.0
    rarity = np.log(EVERYDAY + np.array(ranks, np.float64))
    usual = USUAL_NAME - rarity.max() if len(said) <= LONGEST_NAME else USUAL_TEXT - rarity.mean()
    return min(float(usual), 0.0)

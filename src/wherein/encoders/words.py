"""Which words a text tower cannot know: random letters, and scripts it was never shown.

A word is known when the tokenizer or the training texts have it whole, when it is one slip away from such a word, or
when its letters follow each other as they do in those words, since unheard words made of usual pieces are understood.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from string import ascii_lowercase
from typing import Final, Protocol, runtime_checkable

import numpy as np

from wherein.arrays import Ints

LEAST_LIKELY: Final = -3.5
"""The mean log-likelihood of a letter after the two before it, below which letters are random: of the words of 700
captioned photographs that were not trained on it calls one in a thousand unknown, of random letters (5 to 10 of them)
19 in 20."""
_SHORTEST: Final = 3
"""Shorter words are taken as they are: too many of them are one slip from each other."""
LONGEST: Final = 32
"""Letters of the longest word that a slip of the finger is looked for in: the tokenizer's longest word has 18, and the
cost of looking grows with the square of the letters."""
_SMOOTHING: Final = 3.0
"""How many letters drawn at random each pair of letters is thought to have been followed by."""
ENGLISH: Final = Path(__file__).parent / "weights" / "english.npy"
"""Hashes of the single words of WordNet and of their irregular forms, made by `training/words.py`."""
_FORMS: Final = (
    ("s", ""), ("es", ""), ("es", "e"), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ied", "y"), ("ing", ""), ("ing", "e"),
    ("er", ""), ("er", "e"), ("est", ""), ("est", "e"), ("ier", "y"), ("iest", "y"), ("ly", ""),
)  # fmt: skip
"""Endings of regular forms, and what the word that they are of has instead."""


@runtime_checkable
class KnowsWords(Protocol):
    """An encoder that can say which words it cannot know."""

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """Those words of a text, in their order."""


@runtime_checkable
class RanksWords(Protocol):
    """An encoder of one language that can say how common words are."""

    def word_ranks(self, text: str) -> tuple[int, ...]:
        """The place of each word of a text in the order of how common words are, from 1."""


def word_hash(word: str) -> int:
    """32 bits of a word, as a list of known words keeps it."""
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")


class Lexicon:
    """The words that a tower knows: those of its tokenizer, and hashes of those of its training texts."""

    def __init__(self, tokens: Sequence[str], trained: Path) -> None:
        self._ordered = tuple(tokens)
        self._tokens = frozenset(token for token in tokens if token.isalpha())
        self._hashes = frozenset(np.load(trained, allow_pickle=False).tolist())

    def unknown(self, text: str) -> tuple[str, ...]:
        """The words of a normalised text that cannot be known; numbers and one or two letters are passed over."""
        words = dict.fromkeys(re.findall(r"[^\W\d_]+", text))
        return tuple(word for word in words if not self._knows(word))

    @cached_property
    def places(self) -> dict[str, int]:
        """The tokenizer's whole words, the commonest first as in its vocabulary → how many are commoner."""
        words = (token for token in self._ordered if token.isascii() and token.isalpha())
        return {word: number for number, word in enumerate(words)}

    def ranks(self, text: str) -> tuple[int, ...]:
        """The place of each word of a normalised text in that order, from 1, or of its singular; others come last."""
        places, last = self.places, len(self.places)
        words = re.findall(r"[^\W\d_]+", text)
        return tuple(1 + min(places.get(one, last) for one in (word, word.removesuffix("s"))) for word in words)

    def taught(self, word: str) -> bool:
        """Whether training texts held a word, or its singular."""
        return word_hash(word) in self._hashes or word_hash(word.removesuffix("s")) in self._hashes

    def listed(self, word: str) -> bool:
        """Whether a word, or its singular, is whole in the tokenizer or was in training texts."""
        return self._listed(word) or self._listed(word.removesuffix("s"))

    def right(self, word: str) -> bool:
        """Whether a word is rightly spelled English, or a regular form of such a word."""
        if word_hash(word) in self._english:
            return True
        stems = [word.removesuffix(ending) + instead for ending, instead in _FORMS if word.endswith(ending)]
        stems += [stem[:-1] for stem in stems if stem[-1:] == stem[-2:-1]]
        return any(len(stem) >= _SHORTEST and word_hash(stem) in self._english for stem in stems)

    @cached_property
    def _english(self) -> frozenset[int]:
        return frozenset(np.load(ENGLISH, allow_pickle=False).tolist())

    def _knows(self, word: str) -> bool:
        if not word.isascii():
            return word in self._tokens
        if len(word) < _SHORTEST:
            return True
        return (
            self.listed(word)
            or self._likelihood(word) >= LEAST_LIKELY
            or any(self._listed(meant) for meant in one_slip_away(word) if len(meant) >= min(_SHORTEST + 1, len(word)))
        )

    def _listed(self, word: str) -> bool:
        return word in self._tokens or word_hash(word) in self._hashes

    def _likelihood(self, word: str) -> float:
        triples, pairs, letters = self._letters
        total = sum(letters.values())
        each = [
            (triples[three] + _SMOOTHING * letters[three[2]] / total) / (pairs[three[:2]] + _SMOOTHING)
            for three in _triples(word)
        ]
        return sum(map(math.log, each)) / len(each)

    @cached_property
    def _letters(self) -> tuple[Counter[str], Counter[str], Counter[str]]:
        """How often three letters, two and one follow each other in the tokenizer's words."""
        triples = Counter(
            three
            for token in self._tokens
            if token.isascii() and len(token) >= _SHORTEST
            for three in _triples(token.lower())
        )
        pairs, letters = Counter[str](), Counter[str](ascii_lowercase)
        for three, count in triples.items():
            pairs[three[:2]] += count
            letters[three[2]] += count
        return triples, pairs, letters


def trained_hashes(texts: Iterator[str]) -> Ints:
    """(n,) sorted hashes of the words of training texts; `training/words.py` writes them."""
    words = {word for text in texts for word in re.findall(r"[a-z]+", text.lower()) if len(word) >= _SHORTEST}
    return np.array(sorted(map(word_hash, words)), np.int64)


def _triples(word: str) -> list[str]:
    marked = f"^^{word}$"
    return [marked[start : start + 3] for start in range(len(marked) - 2)]


def one_slip_away(word: str) -> Iterator[str]:
    """The words one slip away: two letters swapped and, from four letters on, one too many, wrong or missing.

    A word longer than any that is written by hand has none.
    """
    if len(word) > LONGEST:
        return
    halves = [(word[:cut], word[cut:]) for cut in range(len(word) + 1)]
    yield from (left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1)
    if len(word) > _SHORTEST:
        yield from (left + right[1:] for left, right in halves if right)
        yield from (left + letter + right[1:] for left, right in halves if right for letter in ascii_lowercase)
        yield from (left + letter + right for left, right in halves for letter in ascii_lowercase)

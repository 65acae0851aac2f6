"""Texts as padded token rows, noun phrases out of captions, and names in many wordings."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

NAME_WORDINGS = (
    "{}",
    "{}",
    "a {}",
    "a photo of a {}",
    "a picture of a {}",
    "a photo of {}",
    "the {}",
    "an image of a {}",
)
DRAWN_WORDINGS = ("{}", "{}", "a {}", "a drawing of a {}", "a cartoon of a {}", "a picture of a {}", "an image of a {}")
NAMED_PREFIXES = ("a photo of a ", "a photo of ")
# Letters that are written for one another: beside it on the keyboard, or of much the same sound.
NEIGHBOURS = {
    "a": "eso", "b": "vpn", "c": "ksx", "d": "tsf", "e": "iar", "f": "vgd", "g": "jhf", "h": "gjn", "i": "eyo",
    "j": "ghy", "k": "cjl", "l": "kro", "m": "nkj", "n": "mbh", "o": "iua", "p": "bol", "q": "kwa", "r": "let",
    "s": "zca", "t": "dry", "u": "oiy", "v": "fbw", "w": "vqe", "x": "zsc", "y": "iut", "z": "sxa",
}  # fmt: skip
CUT = re.compile(
    r"\b(?:is|are|was|were|in|on|at|with|near|by|of|while|and|as|that|who|which|from|over|under|through|behind"
    r"|for|to|into|beside|between|above|below|around|along|next|front|its|his|her|their|has|have|being|\w+ing)\b|[,.;]"
)
PHRASE = re.compile(r"(?:a|an|the|two|three|four|several|some|many)(?: [a-z'-]+){1,4}")


def noun_phrases(caption: str) -> list[str]:
    """Noun phrases of a caption, found by cutting at verbs and prepositions: good enough, and needs no parser."""
    chunks = (chunk.strip() for chunk in CUT.split(caption.lower()))
    return [chunk for chunk in chunks if PHRASE.fullmatch(chunk)]


def class_name(text: str) -> str:
    """The bare name out of `a photo of a …`."""
    for prefix in NAMED_PREFIXES:
        if text.startswith(prefix):
            return text.removeprefix(prefix)
    return text


def load_tokenizer(path: Path, *, length: int) -> Tokenizer:
    """MiniLM's tokenizer, every row padded and cut to `length`."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    return tokenizer


def encode(texts: Sequence[str], tokenizer: Tokenizer) -> NDArray[np.int32]:
    """Token rows `(n, length)`; padding is token 0."""
    return np.array([row.ids for row in tokenizer.encode_batch(list(texts))], np.int32)


def vary(text: str, rng: random.Random) -> str:
    """The text as a hurried person types it: one or two words misspelled, or in the plural."""
    words = text.split(" ")
    long = [place for place, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    for place in rng.sample(long, min(len(long), 1 if len(words) < 6 else 2)):
        words[place] = plural(words[place]) if rng.random() < 0.2 else misspell(words[place], rng)
    return " ".join(words)


def misspell(word: str, rng: random.Random) -> str:
    """A word with one slip: two letters swapped, one left out, doubled, or another in its place; the first stays."""
    at = rng.randrange(1, len(word) - 1)
    slip = rng.random()
    if slip < 0.3:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if slip < 0.55:
        return word[:at] + word[at + 1 :]
    if slip < 0.75:
        return word[:at] + word[at] + word[at:]
    near = NEIGHBOURS.get(word[at].lower(), "e")
    return word[:at] + rng.choice(near) + word[at + 1 :]


def plural(word: str) -> str:
    """The regular plural."""
    if re.search(r"(s|x|z|ch|sh)$", word):
        return word + "es"
    return word[:-1] + "ies" if re.search(r"[^aeiou]y$", word) else word + "s"

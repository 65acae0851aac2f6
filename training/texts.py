"""Texts as padded token rows, noun phrases out of captions, and names in many wordings."""

from __future__ import annotations

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

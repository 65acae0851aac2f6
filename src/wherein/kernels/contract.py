"""What every kernel over local features must keep, checked on descriptors that were drawn at random."""

from __future__ import annotations

from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.errors import SpecError
from wherein.kernels import load_kernel, own_words
from wherein.kernels.codebook import Codebook

_IMAGES: Final = 12
"""Images that are described."""
_DESCRIPTORS: Final = 60
"""Descriptors of an image: enough that no two images share most of their words by chance."""
_DIM: Final = 16
"""Numbers of a descriptor."""
_WORDS: Final = 64
"""Words of the codebook, where the kernel asks for no size of its own."""
_NEAR: Final = 1e-4
"""Two scores that differ less are the same."""


def check_kernel(name: str) -> None:
    """Raise SpecError unless a kernel keeps the contract. For authors of kernels and for our own tests."""
    random = np.random.default_rng(0)
    images = [unit(random.standard_normal((_DESCRIPTORS, _DIM)).astype(np.float32)) for _ in range(_IMAGES)]
    images.append(np.zeros((0, _DIM), np.float32))
    codebook = Codebook.train(np.concatenate(images), words=own_words(name) or _WORDS)
    kernel = load_kernel(name, codebook)
    documents = [kernel.describe(own) for own in images]
    _require(name, documents == [kernel.describe(own) for own in images], "describes an image in two ways")
    kernel.build(documents)
    for number, own in enumerate(images[:-1]):
        scores = _scores(name, kernel.scores(own), len(images))
        _require(name, int(scores.argmax()) == number, "does not find an image by its own descriptors")
        worth = np.ones(len(own), np.float32)
        _require(
            name, bool(np.allclose(scores, kernel.scores(own, worth), atol=_NEAR)), "counts a worth of 1 otherwise"
        )
        _require(name, scores[-1] == 0.0, "scores an image without descriptors")
    nothing = _scores(name, kernel.scores(images[-1]), len(images))
    _require(name, not nothing.any(), "finds something for a query without descriptors")
    if kernel.embeddings is not None:
        rows = np.linalg.norm(kernel.embeddings[:-1], axis=1)
        _require(name, len(kernel.embeddings) == len(images), "has no embedding for every document")
        _require(name, bool(np.allclose(rows, 1.0, atol=1e-2)), "has embeddings that are not of unit length")
    other = load_kernel(name, codebook)
    other.build([documents[1], documents[0]])
    _require(name, int(other.scores(images[0]).argmax()) == 1, "mixes up the order of its documents")


def _scores(name: str, scores: Floats, count: int) -> Floats:
    _require(name, scores.shape == (count,), f"gives scores of the shape {scores.shape} for {count} documents")
    _require(name, bool(np.isfinite(scores).all()), "gives scores that are no numbers")
    return scores


def _require(name: str, holds: bool, complaint: str) -> None:
    if not holds:
        raise SpecError(f"kernel {name!r} breaks the contract: it {complaint}.")

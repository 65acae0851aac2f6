"""Which words of a method name a model that the user supplies, by how they are written."""

from __future__ import annotations

from typing import Final

GROUND: Final = "ground"
"""The word of a grounded detector: `ground:hf:NAME`."""
PAIRS: Final = ("hf-match", "onnx-match", "onnx-shot")
"""Words of models that see the example and the image at once: see `wherein.localizers.pairs`."""
SEGMENTERS: Final = ("onnx", "hf")
"""Words of segmenters that the user supplies: `onnx:FOLDER`, `hf:NAME`."""


def is_segmenter(word: str) -> bool:
    """Whether a word names a segmenter that the user supplies."""
    return ":" in word and word.partition(":")[0] in SEGMENTERS


def reads_image(word: str) -> bool:
    """Whether a word names a model that looks at the image itself: a detector, or one that sees both images."""
    return ":" in word and word.partition(":")[0] in (GROUND, *PAIRS)


def is_model(word: str) -> bool:
    """Whether a word names a model that the user supplies: a segmenter, a detector, a matcher."""
    return is_segmenter(word) or reads_image(word)

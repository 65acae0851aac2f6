"""Hubs levelled: some images lie near every text and crowd out the right answer; this takes their head start away.

An image's head start is how well a bank of texts fits it, b = log mean exp(τ · bank · x) / τ. The score of a text
becomes t · x − α (b − mean b): CSLS in spirit, except that an image far from all texts gains little. What lies near
every name is not what lies near every sentence, so there are two banks, and a text is levelled by the one of its own
kind. It costs nothing at search time, because it is folded into the vectors along three directions that no text ever
uses, one for each bank and v: images become κ x + Σ h u + r v with h = −κ α (b − mean b) and r that restores unit
length, texts (t + u) / √2 with the u of their kind. All texts of one kind keep their order at an image; so, nearly, do
image pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np

from wherein.arrays import Floats, unit
from wherein.encoders.reading import LONGEST_NAME, unframed

SHARPNESS: Final = 25.0
"""How sharply the nearest texts of a bank decide an image's head start; chosen with STRENGTH on validation captions,
among twelve settings (training/README.md)."""
STRENGTH: Final = 0.75
"""How much of its head start an image loses."""
KEPT: Final = 0.98
"""The length that is left to the embedding itself; the directions that level hubs take the rest."""
MOST_GAINED: Final = 0.02
"""How far below the mean a head start counts: a picture that is near no text, such as a scan, shall not rise with every
sentence. Set by hand where the demonstration no longer ranked a scan first; with 0 to 0.08 recalls on held-back
training pictures stay within 0.4 points, but R@10 of web captions, which is 85.7 to 87.0."""
CAPTIONS, NAMES = 0, 1
"""The kinds of texts, by the number of their bank and direction."""


def kinds_of(texts: Sequence[str]) -> list[int]:
    """Whether each text is a name or a sentence."""
    return [NAMES if len(unframed(text).split()) <= LONGEST_NAME else CAPTIONS for text in texts]


@dataclass(frozen=True, slots=True, eq=False)
class Hubs:
    """Two banks of text embeddings (k, d), a direction for each (2, d) and v (d,), all orthogonal to every text and to
    each other, and the mean head start of each bank (2,)."""

    banks: tuple[Floats, Floats]
    u: Floats
    v: Floats
    mean: Floats

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `training/hubs.py` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            captions, names, u, v, mean = (
                np.asarray(stored[name], np.float32) for name in ("captions", "names", "u", "v", "mean")
            )
            return cls((captions, names), u, v, mean)

    def head_starts(self, images: Floats) -> Floats:
        """(n, 2): how well each bank fits each image."""
        fits = [np.exp(SHARPNESS * (images @ bank.T)).mean(axis=1) for bank in self.banks]
        return np.asarray(np.log(np.stack(fits, axis=1)) / SHARPNESS, np.float32)

    def level_images(self, images: Floats) -> Floats:
        """(n, d) unit vectors with their head starts taken away, unit norm again."""
        most = 0.999 * np.sqrt((1 - KEPT**2) / 2)
        ahead = np.maximum(self.head_starts(images) - self.mean, -MOST_GAINED)
        lifts = np.clip(-KEPT * STRENGTH * ahead, -most, most)
        plain = KEPT * self.free(images)
        left = 1 - np.square(lifts).sum(axis=1, keepdims=True) - np.square(plain).sum(axis=1, keepdims=True)
        return np.asarray(plain + lifts @ self.u + np.sqrt(left) * self.v, np.float32)

    def free(self, vectors: Floats) -> Floats:
        """(…, d) without what lies along the three directions, which levelled texts would take for an answer."""
        used = np.concatenate([self.u, self.v[None]])
        return np.asarray(vectors - (vectors @ used.T) @ used, np.float32)

    def level_texts(self, texts: Floats, kinds: Sequence[int]) -> Floats:
        """(n, d) unit vectors that feel the levelling of their kind, unit norm again.

        Those of shipped towers use none of the three directions; those of fine-tuned ones may, a little.
        """
        return np.asarray((unit(self.free(texts)) + self.u[list(kinds)]) / np.sqrt(2.0), np.float32)

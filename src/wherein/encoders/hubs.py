"""Hubs levelled: some images lie near every text and crowd out the right answer; this takes their head start away.

An image's head start is how well a bank of captions fits it, b = log mean exp(τ · bank · x) / τ. The score of a text
becomes t · x − α (b − mean b): CSLS in spirit. It costs nothing at search time, because it is folded into the vectors
along two directions u and v that no text ever uses: images become κ x + h u + r v with h = −κ α (b − mean b) and r
that restores unit length, texts (t + u) / √2. All texts of one image keep their order; so, nearly, do image pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np

from wherein.arrays import Floats

SHARPNESS: Final = 25.0
"""How sharply the nearest captions of the bank decide an image's head start; chosen with STRENGTH on validation
captions, among twelve settings (training/README.md)."""
STRENGTH: Final = 0.75
"""How much of its head start an image loses."""
KEPT: Final = 0.98
"""The length that is left to the embedding itself; the two directions that level hubs take the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Hubs:
    """A bank of caption embeddings (k, d), two directions (d,) orthogonal to every text, and the mean head start."""

    bank: Floats
    u: Floats
    v: Floats
    mean: float

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `training/hubs.py` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            bank, u, v = (np.asarray(stored[name], np.float32) for name in ("bank", "u", "v"))
            return cls(bank, u, v, float(stored["mean"]))

    def head_start(self, images: Floats) -> Floats:
        """(n,): how well the bank fits each image."""
        return np.asarray(np.log(np.exp(SHARPNESS * (images @ self.bank.T)).mean(axis=1)) / SHARPNESS, np.float32)

    def level_images(self, images: Floats) -> Floats:
        """(n, d) unit vectors with their head start taken away, unit norm again."""
        most = 0.999 * np.sqrt(1 - KEPT**2)
        lift = np.clip(-KEPT * STRENGTH * (self.head_start(images) - self.mean), -most, most)[:, None]
        plain = KEPT * self.free(images)
        left = 1 - lift**2 - np.square(plain).sum(axis=1, keepdims=True)
        return np.asarray(plain + lift * self.u + np.sqrt(left) * self.v, np.float32)

    def free(self, vectors: Floats) -> Floats:
        """(…, d) without what lies along the two directions, which levelled texts would take for an answer."""
        used = np.stack([self.u, self.v])
        along = np.asarray((vectors @ used.T) @ used, np.float32)
        return np.subtract(vectors, along, out=along)

    def level_texts(self, texts: Floats) -> Floats:
        """(n, d) unit vectors that feel the levelling, unit norm again."""
        return np.asarray((texts + self.u) / np.sqrt(2.0), np.float32)

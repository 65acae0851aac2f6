"""Photograph-like JPEGs for the benchmarks, made on the spot: smooth colour, edges and a little noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image


def make_photos(folder: Path, *, count: int, size_wh: tuple[int, int], seed: int = 0) -> None:
    """Write `count` different JPEGs of `size_wh` into `folder`; about as many bytes a pixel as a phone's."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    width, height = size_wh
    for number in range(count):
        small = rng.integers(0, 256, (max(2, height // 48), max(2, width // 48), 3), dtype=np.uint8)
        picture = PIL.Image.fromarray(small).resize(size_wh, PIL.Image.Resampling.BICUBIC)
        noise = rng.integers(-6, 7, (height, width, 1), dtype=np.int16)
        pixels = np.clip(np.asarray(picture, np.int16) + noise, 0, 255).astype(np.uint8)
        PIL.Image.fromarray(pixels).save(folder / f"{number:06d}.jpg", quality=88)

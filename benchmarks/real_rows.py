"""Rows for benchmarks/search.py from real photos: patches that `mini` sees in them, repeated with noise.

    python benchmarks/real_rows.py FOLDER FILE.npy [--photos 250] [--images 20000]
    python benchmarks/search.py --rows FILE.npy --json

Of each photo in FOLDER 32 patches are kept, spread evenly over its grid. An image of the file is a photo again, each
of its patches moved by noise of a third of its length, so that copies are alike as photos of one scene are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from wherein import decode
from wherein.encoders import load

VECTORS = 32
NOISE = 0.33
"""The length of the noise beside a patch of length one."""


def main() -> None:
    """Encode the photos, write the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--photos", type=int, default=250)
    parser.add_argument("--images", type=int, default=20_000)
    asked = parser.parse_args()
    encoder, kinds = load("mini"), {".jpg", ".jpeg", ".png", ".webp", ".avif"}
    paths = sorted(path for path in asked.folder.rglob("*") if path.suffix.lower() in kinds)[: asked.photos]
    seen = []
    for path in paths:
        patches = encoder.images(encoder.prepare(decode(path))[None]).patches
        if patches is not None:
            flat = patches.reshape(-1, patches.shape[-1])
            picked = flat[np.linspace(0, len(flat) - 1, VECTORS).astype(np.int64)]
            seen.append(picked / np.maximum(np.linalg.norm(picked, axis=1, keepdims=True), 1e-12))
    photos, random = np.stack(seen), np.random.default_rng(0)
    rows = np.lib.format.open_memmap(asked.file, "w+", np.float16, (asked.images, *photos.shape[1:]))
    for start in range(0, asked.images, len(photos)):
        own = photos[: asked.images - start]
        noise = random.standard_normal(own.shape, np.float32)
        noise *= NOISE / np.linalg.norm(noise, axis=-1, keepdims=True)
        moved = own + noise
        rows[start : start + len(own)] = moved / np.linalg.norm(moved, axis=-1, keepdims=True)
    rows.flush()


if __name__ == "__main__":
    main()

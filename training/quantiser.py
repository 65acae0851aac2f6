"""The centroids of `rootsift:compact`: k-means of each part of RootSIFT descriptors of photographs.

    python training/quantiser.py TRAIN_FOLDER [--parts 16]

TRAIN_FOLDER holds `images-NN.zip`; 100 pictures of each are looked at. Writes src/wherein/features/rootsift.pq.npy.
"""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

import faiss
import numpy as np

from wherein.features import load_features
from wherein.features.quantiser import PATH
from wherein.images.image import decode

A_ZIP = 100


def main() -> None:
    """Train, write, and say how well descriptors are kept."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", type=int, default=16)
    arguments = parser.parse_args()
    rows = np.concatenate(
        [rows for path in sorted(arguments.folder.glob("images-*.zip")) for rows in descriptors(path)]
    )
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    held, rest = rows[:5000], rows[5000:]
    quantiser = faiss.ProductQuantizer(rows.shape[1], arguments.parts, 8)
    quantiser.train(rest)
    kept = quantiser.decode(quantiser.compute_codes(held))
    cosines = (held * kept).sum(axis=1) / np.linalg.norm(kept, axis=1)
    print(f"{len(rest):,} descriptors; cosine of others with what is kept: {cosines.mean():.4f}")
    centroids = faiss.vector_to_array(quantiser.centroids).reshape(arguments.parts, 256, -1)
    np.save(PATH, centroids.astype(np.float16))


def descriptors(path: Path) -> list[np.ndarray]:
    """RootSIFT of some pictures of an archive, evenly chosen."""
    family = load_features("rootsift")
    with zipfile.ZipFile(path) as archive:
        names = [name for name in sorted(archive.namelist()) if not name.endswith("/")]
        chosen = names[:: max(1, len(names) // A_ZIP)]
        return [family.features(decode(archive.read(name)), side=family.side).descriptors for name in chosen]


if __name__ == "__main__":
    main()

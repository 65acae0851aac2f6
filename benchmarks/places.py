"""A place in every one of 100,000 images: how long a search takes that looks inside them, beside one that does not.

    python benchmarks/places.py [--images 100000]

The collection holds made-up embeddings in the layers that `mini` keeps. Each figure is the median of nine searches
from Python after the first, which reads the layers from disk and is shown beside it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import wherein
from made_up import make_collection

PLACES = {"no place": None, "a ninth": (0.1, 0.1, 0.4, 0.4), "the left half": (0.0, 0.0, 0.5, 1.0)}
METHODS = ("whole", "static-9", "static-36", "patches")
ROUNDS = 9


def main() -> None:
    """Print one line a method and place."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--encoder", default="mini")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "images"
        folder.mkdir()
        kinds = ("global", "patches", "cells")
        make_collection(folder, images=asked.images, encoder=asked.encoder, kinds=kinds)
        with wherein.open(folder) as collection:
            for method in METHODS:
                for name, where in PLACES.items():
                    if method == "whole" and where is not None:
                        continue
                    first, later = timed(collection, method, where)
                    print(f"{method:<10}{name:<14}{1000 * later:7.0f} ms   (first {first:.2f} s)")


def timed(collection: wherein.Collection, method: str, where: tuple[float, ...] | None) -> tuple[float, float]:
    """Seconds of the first search, and the median of the others."""
    box = None if where is None else wherein.Box(*where)
    times = []
    for number in range(ROUNDS + 1):
        part = wherein.Part(text=f"thing number {number}", where=box)
        started = time.perf_counter()
        list(collection.search(part, k=20, method=method))
        times.append(time.perf_counter() - started)
    return times[0], median(times[1:])


if __name__ == "__main__":
    main()

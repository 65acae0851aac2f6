"""A place in every one of 100,000 images: how long a search takes that looks inside them, beside one that does not.

    python benchmarks/places.py [--images 100000] [--folder DIR]

The collection holds made-up embeddings in the layers that `mini` keeps; with --folder it is made there, if it is not
there yet, and stays, so that another version can search the same one (PYTHONPATH=OTHER/src). Each figure is the median
of nine searches from Python after the first, which reads the layers from disk and is shown beside it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import wherein

PLACES = {"no place": None, "a ninth": (0.1, 0.1, 0.4, 0.4), "the left half": (0.0, 0.0, 0.5, 1.0)}
METHODS = ("whole", "static-9", "static-36", "patches")
ROUNDS = 9


def main() -> None:
    """Print one line a method and place."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = asked.folder or Path(home) / "images"
        if not folder.exists():
            from made_up import make_collection

            folder.mkdir(parents=True)
            kinds = ("global", "patches", "cells")
            make_collection(folder, images=asked.images, encoder=asked.encoder, kinds=kinds)
        with wherein.open(folder) as collection:
            for method in asked.methods.split(","):
                for name, where in PLACES.items():
                    if method == "whole" and where is not None:
                        continue
                    first, later, spent = timed(collection, method, where)
                    times = f"{1000 * later:7.0f} ms {1000 * spent:7.0f} processor ms"
                    print(f"{method:<10}{name:<14}{times}   (first {first:.2f} s)", flush=True)


def timed(collection: wherein.Collection, method: str, where: tuple[float, ...] | None) -> tuple[float, float, float]:
    """Seconds of the first search, the median of the others, and that of their processor time."""
    box = None if where is None else wherein.Box(*where)
    times, spent = [], []
    for number in range(ROUNDS + 1):
        part = wherein.Part(text=f"thing number {number}", where=box)
        started, before = time.perf_counter(), time.process_time()
        list(collection.search(part, k=20, method=method))
        times.append(time.perf_counter() - started)
        spent.append(time.process_time() - before)
    return times[0], median(times[1:]), median(spent[1:])


if __name__ == "__main__":
    main()

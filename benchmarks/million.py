"""A million images: how long a collection takes to open, what it keeps in memory, what a place costs.

    python benchmarks/million.py [--images 1000000] [--folder DIR] [--page docs/results/million.md]

The collection holds made-up embeddings in the layers `global` and `cells` of `mini` (26 GB with what is derived; it
stays in DIR where one is given). Everything is measured in a process of its own, each time the median of eight searches
after the first. `static-36~alone` looks at the cells of a place and at nothing else.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROUNDS = 8
PLACES = {
    "one cell": (0.01, 0.01, 0.16, 0.16),
    "four cells": (0.01, 0.01, 0.33, 0.33),
    "nine cells": (0.01, 0.01, 0.49, 0.49),
    "all 36 cells": None,
}


def main() -> None:
    """Make the collection, measure in another process, write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="Where the collection is, or is made and stays.")
    parser.add_argument("--page", type=Path, default=Path("docs/results/million.md"))
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.folder)
        return
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made) / "images"
        if not folder.exists():
            from made_up import make_collection

            folder.mkdir(parents=True)
            make_collection(folder, images=asked.images, encoder="mini", kinds=("global", "cells"))
        command = [sys.executable, __file__, "--measure", "--folder", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    asked.page.write_text(HEAD.format(images=asked.images) + done.stdout, "utf-8")


HEAD = """# Memory and places of {images:,} images

Made by `python benchmarks/million.py --images {images}`: embeddings and cells of `mini`, made up. Memory is
what no file backs. Searches are by text, from Python, for 20 hits, how sure they are included; the first one of each
line reads from disk. “import” is Python that loads wherein, once a process. Where the clock is far above the processor,
rows of the best images were read from disk: the collection is larger than the memory that was left on the machine.

| | first s | then ms | processor ms | memory MB |
|---|---|---|---|---|
"""


def measure(folder: Path) -> None:
    """Print the lines of the table."""
    from places import claim_weights
    from wherein.encoders import load

    claim_weights(folder)
    load("mini")
    started = time.perf_counter()
    import wherein.collection

    print(f"| import | {time.perf_counter() - started:.2f} | | | {anonymous_mb()} |")
    started = time.perf_counter()
    collection = wherein.open(folder)
    print(f"| open | {time.perf_counter() - started:.2f} | | | {anonymous_mb()} |")
    searched = {"`whole`": ("whole", None)} | {
        f"`static-36~alone`, {name}": ("static-36~alone", where) for name, where in PLACES.items()
    }
    for name, (method, where) in searched.items():
        clock, processor = list[float](), list[float]()
        for number in range(1 + ROUNDS):
            box = None if where is None else wherein.Box(*where)
            before, spent = time.perf_counter(), time.process_time()
            collection.search(wherein.Part(text=f"thing number {number}", where=box), k=20, method=method)
            processor.append(time.process_time() - spent)
            clock.append(time.perf_counter() - before)
        times = f"{1000 * median(clock[1:]):.0f} | {1000 * median(processor[1:]):.0f}"
        print(f"| {name} | {clock[0]:.2f} | {times} | {anonymous_mb()} |", flush=True)


def anonymous_mb() -> int:
    """Memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()

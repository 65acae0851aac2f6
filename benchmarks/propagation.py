"""Does passing verification on help where verification alone is not enough, and what does it cost?

    python benchmarks/propagation.py EVAL_FOLDER [--things 15] [--out out/propagation]

EVAL_FOLDER holds `objects`, on which `bow+sp` is far from saturated: photos of things from all sides. Images are
reduced to 200 px, so that there are few features. Each row is one `wherein bench run`, the comparison one `wherein
bench report` against `bow+sp`, query by query with paired intervals. Then some queries are asked again, in processor
seconds: once with no link between stored images known, once with all that the first pass kept.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import wherein
from same_thing import bench

SIDE = 200
BASE = "bow+sp"
METHODS = (BASE, "bow+sp+propagate", "bow+sp+hypergraph")
TIMED = 12
"""Queries that are timed, spread evenly over the set."""
HEAD = """# Verification passed on

Made by `python benchmarks/propagation.py EVAL_FOLDER --things {things}`: `wherein bench run objects --data OBJECTS
--method METHOD --longest-side 200` for each row ({photos} photos of {things} things, each left out in turn; percent),
and `wherein bench report` against `bow+sp`. Seconds in the first table are of a machine that others shared; those in
the last are processor time.
"""


def main() -> None:
    """Run what is missing, time, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--things", type=int, default=15, help="the first so many of the fifteen things")
    parser.add_argument("--out", type=Path, default=Path("out/propagation"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/propagation.md"))
    asked = parser.parse_args()
    photos = objects(asked.data / "objects", asked.out / "objects", asked.things)
    runs = []
    for method in METHODS:
        runs.append(str(asked.out / method))
        if not (asked.out / method / "report.html").exists():
            words = ["run", "objects", "--data", str(asked.out / "objects"), "--method", method, "--json"]
            bench(*words, "--longest-side", str(SIDE), "--out", runs[-1], "--collection", str(asked.out / "index"))
    _, _, tables = bench("report", *runs, "--format", "markdown").partition("\n")
    head = HEAD.format(things=asked.things, photos=photos)
    asked.page.write_text("\n".join([head, tables.strip(), "", *timed(asked.out / "index")]) + "\n", "utf-8")


def objects(source: Path, target: Path, things: int) -> int:
    """Copy the folders of the first things into a folder of their own; returns how many photos they hold."""
    target.mkdir(parents=True, exist_ok=True)
    chosen = sorted(path for path in source.iterdir() if path.is_dir())[:things]
    for folder in chosen:
        shutil.copytree(folder, target / folder.name, dirs_exist_ok=True)
    return sum(1 for folder in chosen for path in folder.iterdir() if path.is_file())


def timed(index: Path) -> list[str]:
    """A table of processor seconds a query: links unknown, then known."""
    home = next(path for path in sorted(index.rglob("catalogue.sqlite"))).parent
    with wherein.open(home) as collection:
        names = collection.image_ids()
        queries = names[:: max(1, len(names) // TIMED)][:TIMED]
        seconds(collection, queries[:2], BASE)  # what is made once, the words of images, is made now
        lines = ["## Seconds of the processor a query", "", "| method | links unknown | known |", "|---|---|---|"]
        lines.append(f"| {BASE} | {seconds(collection, queries, BASE):.2f} | |")
        for method in METHODS[1:]:
            for kept in collection.folder.rglob("links-*"):
                shutil.rmtree(kept)
            first, again = (seconds(collection, queries, method) for _ in range(2))
            lines.append(f"| {method} | {first:.2f} | {again:.2f} |")
        sizes = [path.stat().st_size for path in collection.folder.rglob("links-*/*.npy")]
        lines += ["", f"Links of {len(sizes)} images were kept, {sum(sizes) / max(1, len(sizes)) / 1000:.1f} kB each."]
    return lines


def seconds(collection: wherein.Collection, queries: Sequence[str], method: str) -> float:
    """The mean over queries, each an image of the collection."""
    taken = []
    for name in queries:
        example = collection.open_file(name).read()
        begun = time.process_time()
        collection.search(example, method=method, k=20)
        taken.append(time.process_time() - begun)
    return statistics.fmean(taken)


if __name__ == "__main__":
    main()

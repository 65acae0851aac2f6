"""What a compressed index costs in figures, where it is forced on sets that are too small to need one.

    python benchmarks/forced.py EVAL_FOLDER [--out out/forced] [--page docs/results/forced.md]

Every set of docs/results/mini.md is run twice for its best 100 images: by comparing all rows, and by codes that must
decide which rows are looked at: as many as hits are wanted at first. (Eight times as many, as usual, would be all rows
of sets as small as these.) Without force such sets are compared exactly.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import wherein.index.compressed as compressed
from results import METHODS, flat
from wherein import Collection
from wherein.bench.run import Plan, run

DEEP = 100
FIGURES = ("R@1", "R@5", "R@10", "mAP", "mAP@5", "top1", "t-mAP@5", "pointing", "MAP")
MOST_LOST = 0.002
"""0.2 points."""


def main() -> None:
    """Run both, write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", default=",".join(METHODS), help="Some of the sets, where time is short.")
    parser.add_argument("--out", type=Path, default=Path("out/forced"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/forced.md"))
    asked = parser.parse_args()
    compressed._LEAST, compressed._FIRST, compressed._SCANNED, compressed._EXACT_SHARE = 16, 1, 2, 0
    lines = [HEAD, "| set | method | figure | exact | compressed | lost, points |", "|---|---|---|---|---|---|"]
    worst = -1.0
    for name in asked.sets.split(","):
        for method in METHODS[name]:
            both = [figures(name, method, asked.data / name, asked.out, index) for index in ("exact", "compressed")]
            for figure, exact in both[0].items():
                lost = exact - both[1][figure]
                worst = max(worst, lost)
                lines.append(
                    f"| {name} | `{method}` | {figure} | {100 * exact:.2f} | {100 * both[1][figure]:.2f} | "
                    f"{100 * lost:+.2f} |"
                )
    verdict = "no figure loses more than 0.2" if worst <= MOST_LOST else "MORE than 0.2 is lost somewhere"
    lines.append(f"\nThe most that is lost: {100 * worst:.2f} points; {verdict}.\n")
    asked.page.write_text("\n".join(lines), "utf-8")


HEAD = """# The compressed index, forced

Made by `python benchmarks/forced.py EVAL_FOLDER`. Percent, of rankings cut at 100 images. Codes of one bit decide which
rows are scored, as many as hits are wanted at first, which is an eighth of what a search takes unforced.
"""


def figures(name: str, method: str, data: Path, out: Path, index: str) -> dict[str, float]:
    """The fractions that a run gives with one index."""
    search = Collection.search

    def cut(self: Collection, query: Any, **options: Any) -> Any:
        return search(self, query, **{**options, "k": min(options.get("k", DEEP), DEEP), "index": index})

    Collection.search = cut  # type: ignore[method-assign, assignment]
    try:
        folder = out / name
        scores = run(Plan(name, data, method, folder / f"{method}-{index}", home=folder)).scores
    finally:
        Collection.search = search  # type: ignore[method-assign]
    found = flat({key: value for key, value in scores.items() if key not in ("timing", "bytes_per_image")})
    return {key: value for key, value in found.items() if key.split()[-1] in FIGURES}


if __name__ == "__main__":
    main()

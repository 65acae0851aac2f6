"""What a compressed index costs in figures, where it is forced on sets that are too small to need one.

    python benchmarks/forced.py EVAL_FOLDER [--out out/forced] [--page docs/results/forced.md]

Every set of docs/results/mini.md is run twice for the best twentieth of its images: by comparing all rows, and by codes
and rough copies that must decide which few are looked at. Without force such sets are compared exactly.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from results import METHODS, flat
from wherein import Collection
from wherein.bench.run import Plan, read_json, run, write_json
from wherein.index import compressed
from wherein.index.compressed import CompressedRows
from wherein.search import background, beside, candidates, sources
from wherein.search.candidates import Estimated

DEEP = 20
"""Rankings are cut at a twentieth of a set: five rows for each hit, which a search takes at first, are a quarter."""
SAMPLE = 48
"""Images that a background is measured on, in both runs: fewer than a set has, or all of them would be scored."""
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
    force()
    heads = ("set", "method", "figure", "exact", "compressed", "lost, points", "scored")
    lines = [HEAD, f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    worst = -1.0
    for name in asked.sets.split(","):
        for method in METHODS[name]:
            both = [figures(name, method, asked.data / name, asked.out, index) for index in ("exact", "compressed")]
            share = f"{100 * SCORED['looked at'] / SCORED['there']:.0f} %" if SCORED["there"] else "–"
            for figure, exact in both[0].items():
                lost = exact - both[1][figure]
                worst = max(worst, lost)
                lines.append(
                    f"| {name} | `{method}` | {figure} | {100 * exact:.2f} | {100 * both[1][figure]:.2f} | "
                    f"{100 * lost:+.2f} | {share} |"
                )
    verdict = "no figure loses more than 0.2" if worst <= MOST_LOST else "MORE than 0.2 is lost somewhere"
    lines.append(f"\nThe most that is lost: {100 * worst:.2f} points; {verdict}.\n")
    asked.page.write_text("\n".join(lines), "utf-8")


HEAD = """# The compressed index, forced

Made by `python benchmarks/forced.py EVAL_FOLDER`. Percent, of rankings cut at a twentieth of each set. Codes of one bit
and rough copies decide which rows are scored: five for each hit at first, and more until none that was left out can
belong to the hits; the 500 rows that an unforced search takes at least are more than most sets have. Both runs know
what is usual from 48 images, so figures differ from docs/results/mini.md. “Scored” is the share of images that the
second run looked at.
Outside of this script a layer of fewer than 16,000 rows is compared exactly with `--index compressed` too. Rows are cut
into clusters of 64 at least, of which as many are looked at as noisy copies of the rows call for: captions into eight,
sets of 76 to 127 images not at all.
"""


def force() -> None:
    """Have codes and rough copies searched however few images there are, and few rows looked at."""
    compressed._LEAST, compressed._SCANNED, compressed._EXACT_SHARE = 1, 2, 0
    background.SAMPLE = sources.SAMPLE = SAMPLE
    beside.LARGE, candidates.FEW, candidates.MOST_SHARE = 0, 1, 2
    candidates.LEAST = 1
    count_scored()


SCORED = {"looked at": 0, "there": 0}
"""Images that were scored exactly, and all that there were, over the searches of a run, whenever they were made."""


def count_scored() -> None:
    """Have searches by codes and by estimates counted."""
    by_codes, products, by_estimates = CompressedRows._top, compressed.products, Estimated.top

    def counted_products(rows: Any, queries: Any) -> Any:
        SCORED["looked at"] += len(rows)
        return products(rows, queries)

    def counted_codes(self: Any, *given: Any) -> Any:
        SCORED["there"] += len(self._table)
        return by_codes(self, *given)

    def counted_estimates(self: Any, *given: Any, **named: Any) -> Any:
        before = len(self.images)
        found = by_estimates(self, *given, **named)
        SCORED["there"] += len(self.estimates) if not before else 0
        SCORED["looked at"] += (len(self.estimates) if found is None else len(self.images)) - before
        return found

    compressed.products, CompressedRows._top = counted_products, counted_codes  # type: ignore[method-assign]
    Estimated.top = counted_estimates  # type: ignore[method-assign, assignment]


def figures(name: str, method: str, data: Path, out: Path, index: str) -> dict[str, float]:
    """The fractions that a run gives with one index; what it scored is kept beside it, for when it is gone on with."""
    search, folder = Collection.search, out / name
    plan = Plan(name, data, method, folder / f"{method}-{index}", home=folder)
    kept = plan.out / "scored.json"
    SCORED.update(read_json(kept) if kept.is_file() else {"looked at": 0, "there": 0})

    def cut(self: Collection, query: Any, **options: Any) -> Any:
        found = search(self, query, **{**options, "k": max(1, len(self) // DEEP), "index": index})
        write_json(kept, SCORED)
        return found

    Collection.search = cut  # type: ignore[method-assign, assignment]
    try:
        scores = run(plan).scores
    finally:
        Collection.search = search  # type: ignore[method-assign]
    found = flat({key: value for key, value in scores.items() if key not in ("timing", "bytes_per_image")})
    return {key: value for key, value in found.items() if key.split()[-1] in FIGURES}


if __name__ == "__main__":
    main()

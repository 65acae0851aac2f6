"""docs/results/search.md and its two plots, from what `benchmarks/search.py --json` printed.

    python benchmarks/search_page.py RUN.json … [--page docs/results/search.md]

Several runs over the same rows are one table. Runs of several vectors per image become tables and, the first of them,
the plot of recall against time; runs of one vector per image become the plot of time against size.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 380, 60, 44
COLOURS = ("#1f6f66", "#c2703d", "#4a67ad", "#97507f", "#7c8a2e", "#4c9cb5", "#a8453d", "#6d6a75", "#222222")
Points = Mapping[str, Sequence[tuple[float, float]]]


def main() -> None:
    """Read the runs, write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--page", type=Path, default=Path("docs/results/search.md"))
    asked = parser.parse_args()
    runs = merged([json.loads(path.read_text("utf-8")) for path in asked.runs])
    several = [run for run in runs if run["shape"][1] > 1]
    single = sorted((run for run in runs if run["shape"][1] == 1), key=lambda run: int(run["shape"][0]))
    said = [INTRODUCTION]
    for run in several:
        said.append(table(run))
    if several:
        asked.page.with_name("search-recall.svg").write_text(pareto(several[0]), "utf-8")
        said.append("![recall against time](search-recall.svg)\n")
    if single:
        asked.page.with_name("search-size.svg").write_text(cost(single), "utf-8")
        said += [
            "## Time against size, one vector of an image\n",
            sizes(single),
            "![time against size](search-size.svg)\n",
        ]
    asked.page.write_text("\n".join(said), "utf-8")


def merged(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs over the same rows as one: of an engine that ran twice the later figures, unless it failed then."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        known = found.setdefault(run["rows"], {**run, "engines": {}})
        known["bandwidth_gb_s"] = max(known["bandwidth_gb_s"], run["bandwidth_gb_s"])
        for name, own in run["engines"].items():
            if "error" not in own or name not in known["engines"]:
                known["engines"][name] = own
    return list(found.values())


INTRODUCTION = """# How fast many vectors per image are searched

Made by `python benchmarks/search.py --json`, one run of it a table, and `python benchmarks/search_page.py`. The rows
of a run are made up by `benchmarks/clustered.py` from a fixed seed, or come from a file (`benchmarks/real_rows.py`:
real patches repeated with noise). Every engine runs alone in a process of its own, at the cheapest of its settings
with which 12 queries found at least 99 % of the best 100 images, or at its best one; the figures are of 50 other
queries: the median time on the clock and of the processor, and the recall. Engines that keep quantised rows score
their best rows again from the stored ones, which count in their bytes. `×` is how many times faster than the product
of all rows in float32 (`numpy`). An engine that was not built within the limit of a run, or does not fit, is listed
with the reason. The machine was shared: queries were timed with priority over other work (`--lock`), builds were not,
so compare processor time as well. No constant was chosen with these queries (`clustered.py`). Of the first table
faiss-flat, LanceDB, usearch and milvus-lite were run earlier, with other queries; of ten million images wherein was
timed beside other work that had more of the processor.
"""


def table(run: Mapping[str, Any]) -> str:
    """The engines of one run."""
    images, vectors, dim = run["shape"]
    heads = (
        *("engine", "ms a query", "processor ms", "×", "recall@100", "bytes an image", "build s (processor)"),
        *("memory MB", "of the bandwidth", "setting"),
    )
    named = "" if "x" in run["rows"] else f" ({run['rows']})"
    rows = [
        f"## {images:,} images × {vectors} vectors × {dim}{named}\n",
        f"The machine reads {run['bandwidth_gb_s']:g} GB a second from memory (numpy, one core).\n",
        "| " + " | ".join(heads) + " |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    base = run["engines"].get("numpy", {}).get("ms")
    for name, own in run["engines"].items():
        if "error" in own:
            rows.append(f"| {name} | {own['error']} | | | | | | | | |")
            continue
        times = f"{base / own['ms']:.1f}" if base else ""
        share = 4 * images * vectors * dim / (own["ms"] / 1000) / 1e9 / run["bandwidth_gb_s"]
        setting = ", ".join(f"{key} {value}" for key, value in own["setting"].items())
        rows.append(
            f"| {name} | {own['ms']:.1f} | {own['cpu_ms']:.1f} | {times} | {own['recall']:.4f} | "
            f"{own['bytes_per_image']:,} | {own['build_s']:.0f} ({own['build_cpu_s']:.0f}) | {own['rss_mb']:,} | "
            f"{share:.1f} | {setting} |"
        )
    return "\n".join([*rows, *overhead(run["engines"].get("wherein", {}))]) + "\n"


def overhead(own: Mapping[str, Any]) -> list[str]:
    """What wherein adds to the library that it wraps."""
    if "bare_ms" not in own:
        return []
    more = 100 * (own["ms"] / own["bare_ms"] - 1)
    return [
        f"\nwherein scans with faiss (RaBitQ). The same clusters asked of faiss alone, and as many rows scored again "
        f"by numpy, take {own['bare_ms']:.1f} ms: wherein's own work adds {more:.0f} %."
    ]


def sizes(runs: Sequence[Mapping[str, Any]]) -> str:
    """Milliseconds (recall) by engine and size."""
    names = list(dict.fromkeys(name for run in runs for name in run["engines"]))
    heads = [f"{run['shape'][0]:,} × {run['shape'][2]}" for run in runs]
    rows = ["| engine | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name in names:
        cells = []
        for run in runs:
            own = run["engines"].get(name, {"error": "not run"})
            cells.append(own["error"] if "error" in own else f"{own['ms']:.1f} ms ({own['recall']:.3f})")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def pareto(run: Mapping[str, Any]) -> str:
    """Recall against time: every setting that was tried, those of an engine joined."""
    points = {
        name: [(one["ms"], one["recall"]) for one in [*own["sweep"]]]
        for name, own in run["engines"].items()
        if "sweep" in own
    }
    return drawn(points, across="milliseconds a query", up="recall@100 of images", logs=(True, False))


def cost(runs: Sequence[Mapping[str, Any]]) -> str:
    """Time against the number of images, one line an engine."""
    names = dict.fromkeys(name for run in runs for name in run["engines"])
    points = {
        name: [(run["shape"][0], own["ms"]) for run in runs if "ms" in (own := run["engines"].get(name, {}))]
        for name in names
    }
    return drawn(points, across="images", up="milliseconds a query", logs=(True, True))


def drawn(points: Points, *, across: str, up: str, logs: tuple[bool, bool]) -> str:
    """Lines through points as an SVG."""
    every = [point for own in points.values() for point in own]
    scales = [Scale([point[side] for point in every], log=logs[side]) for side in (0, 1)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="11" style="background:#fff">',
        f'<text x="{(LEFT + WIDTH - 130) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{across}</text>',
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">{up}</text>',
    ]
    for value in scales[0].marks():
        x = LEFT + scales[0].share(value) * (WIDTH - LEFT - 140)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:,g}</text>')
    for value in scales[1].marks():
        y = HEIGHT - BOTTOM - scales[1].share(value) * (HEIGHT - BOTTOM - 20)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 140}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e7e4de"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for number, (name, own) in enumerate(points.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [
            (
                LEFT + scales[0].share(x) * (WIDTH - LEFT - 140),
                HEIGHT - BOTTOM - scales[1].share(y) * (HEIGHT - BOTTOM - 20),
            )
            for x, y in own
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(f'<text x="{WIDTH - 125}" y="{24 + 16 * number}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


class Scale:
    """Where a number lies between the smallest and the largest, by its logarithm or itself."""

    def __init__(self, values: Sequence[float], *, log: bool) -> None:
        self._log = log
        seen = [self._at(value) for value in values] or [0.0]
        self._low, self._high = min(seen), max(max(seen), min(seen) + 1e-6)

    def _at(self, value: float) -> float:
        return math.log10(max(value, 1e-3)) if self._log else value

    def share(self, value: float) -> float:
        """From 0 to 1."""
        return (self._at(value) - self._low) / (self._high - self._low)

    def marks(self) -> list[float]:
        """A few round numbers inside."""
        if self._log:
            powers = range(math.floor(self._low), math.ceil(self._high) + 1)
            found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        else:
            step = 10 ** math.floor(math.log10(self._high - self._low))
            step = step / 5 if (self._high - self._low) / step < 2 else step
            found = [step * number for number in range(math.floor(self._low / step), math.ceil(self._high / step) + 1)]
        return [round(value, 6) for value in found if -1e-9 <= self.share(value) <= 1 + 1e-9]


if __name__ == "__main__":
    main()

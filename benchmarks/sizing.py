"""What a collection of any size needs, computed from measured figures: writes docs/sizing.md.

python benchmarks/sizing.py                      # after changing benchmarks/sizing.json
python benchmarks/sizing.py lite.json embed.json # after measuring: takes in what benchmarks/cluster.py printed
"""

# ruff: noqa: E501 — lines of a page
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "benchmarks" / "sizing.json"
PAGE = ROOT / "docs" / "sizing.md"
SIZES = (100_000, 10_000_000, 1_000_000_000)
CORES = 16
"""The processors of one machine of a cluster, for the days that embedding takes."""
DISK_TB = 4
MEMORY_GB = 64
"""Of one machine that holds a part of the index."""


def main() -> None:
    """Take in what was measured, and write the page."""
    figures = json.loads(FIGURES.read_text("utf-8"))
    for name in sys.argv[1:]:
        printed = Path(name).read_text("utf-8")
        figures = taken_in(figures, json.loads(printed, parse_float=lambda digits: round(float(digits), 6)))
    FIGURES.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page(json.loads(FIGURES.read_text("utf-8"))), "utf-8")


def taken_in(figures: dict[str, Any], measured: dict[str, Any]) -> dict[str, Any]:
    """The figures with those of one run of benchmarks/cluster.py."""
    if "photos" in measured:
        return figures | {"embed": {key: value for key, value in measured.items() if key != "bytes_per_image"}}
    told = f"{measured['kind']}, {measured['recall_at_10']:.1%} of the best ten found when pushed"
    searches = figures.get("searches", {}) | {measured["index"]: measured | {"told": told}}
    found = figures | {"searches": searches}
    preferred = "Milvus server 2.3.5" if "Milvus server 2.3.5" in searches else measured["index"]
    if measured["pushed_rows_per_s"] and measured["index"] == preferred:
        found["push_rows_per_s"] = round(measured["pushed_rows_per_s"])
        found["push_source"] = (
            f"`benchmarks/cluster.py search`, {measured['images']:,} rows into {preferred} on two shared cores, with the "
            "building of its index"
        )
    if measured.get("memory_of_loaded"):
        rows = measured["images"] * figures["dimensions"]
        found["overhead"] = round(measured["memory_of_loaded"] / rows, 1)
        found["overhead_source"] = (
            f"measured: what a Milvus 2.3.5 gave back when its {measured['images']:,} rows of {measured['kind']} were "
            f"released, by the bytes of the rows; right after the push it had grown by "
            f"{measured['memory_since_push'] / rows:.1f} times these bytes, freshly written rows included"
        )
    return found


def page(figures: dict[str, Any]) -> str:
    """The page as it follows from the figures."""
    layers: dict[str, int] = figures["layer_bytes"]
    every = sum(layers.values())
    lean = layers["global"] + layers["thumbs"]
    dims = int(figures["dimensions"])
    rows = {"float32": 4 * dims, "8 bits a number (IVF_SQ8)": dims, "1 bit a number (compressed)": dims // 8}
    lines = [
        "# Sizing",
        "",
        "Made by `python benchmarks/sizing.py` from the measured figures in `benchmarks/sizing.json`; a test keeps the two",
        f"equal. Encoder `mini` ({dims} numbers); other encoders scale with their width. See [scale.md](scale.md) for how.",
        "",
        "## A million images",
        "",
        "| layer | bytes an image | a million |",
        "|---|---|---|",
        *(f"| `{kind}` | {size:,} | {amount(size * 10**6)} |" for kind, size in layers.items()),
        f"| all | {every:,} | {amount(every * 10**6)} |",
        f"| `global` and `thumbs` alone | {lean:,} | {amount(lean * 10**6)} |",
        "",
        f"Bytes: {figures['layer_bytes_source']}.",
        "",
        "| work | a million images |",
        "|---|---|",
        f"| embedding | {core_hours(figures, 10**6):,.1f} hours of one core; {core_hours(figures, 10**6) / CORES:,.1f} hours "
        f"of {CORES} |",
        f"| pushing to Milvus | {10**6 / figures['push_rows_per_s'] / 60:,.0f} minutes for one that pushes |",
        f"| exact search | {figures['exact_ms_per_100k'] * 10:,.0f} ms |",
        "",
        f"Embedding: {figures['core_ms_source']}. Pushing: {figures['push_source']}. Searching: {figures['exact_source']}.",
        "",
        "| memory of the searched rows, a million images | |",
        "|---|---|",
        *(f"| {name} | {amount(size * 10**6)} |" for name, size in rows.items()),
        "",
        *_measured(figures),
        "## What to turn on",
        "",
        "| images | disk, all layers | disk, `global` and `thumbs` | embedding on one machine of 16 cores | exact search | "
        "rows at 8 bits | rows at 1 bit |",
        "|---|---|---|---|---|---|---|",
        *(_line(figures, size, every, lean, dims) for size in SIZES),
        "",
        "- **100,000**: nothing. One machine, the exact index, all layers.",
        "- **10 million**: `--layers global,thumbs` (and `local` or `proposals` where they are needed) unless there is disk for",
        "  grids; the compressed index, or `--index milvus:…` for several that search at once; `--ray` on a few machines for the",
        "  first run; `wherein publish` where others only read.",
        "- **1 billion**: a cluster, below. Filters then pass as lists of numbers only where they name up to 20,000 images, and the",
        "  catalogue of one collection (SQLite) becomes the limit: split the images into collections of about 10 million, each",
        "  with its own writer, and ask them side by side. wherein does not merge their answers by itself yet.",
        "",
        "## A cluster for a billion images",
        "",
        *_cluster(figures, lean, dims),
        "",
    ]
    return "\n".join(lines)


def _measured(figures: dict[str, Any]) -> list[str]:
    """What benchmarks/cluster.py found: the same hits from an index elsewhere, and how long it took."""
    lines = list[str]()
    for name, one in figures.get("searches", {}).items():
        lines += [
            f"{name}, {one['images']:,} made-up images ({one['told']}):",
            "",
            "| question | exact, here | through the index | the same of the first 20 | largest gap of scores |",
            "|---|---:|---:|---:|---:|",
            *(
                f"| {question} | {own['exact_s'] * 1000:,.0f} ms | {own['milvus_s'] * 1000:,.0f} ms | {own['same']:.0%} | "
                f"{own['largest_gap']:.0e} |"
                for question, own in one["questions"].items()
            ),
            "",
        ]
    if lines:
        lines = [
            "## The same hits from elsewhere",
            "",
            "`python benchmarks/cluster.py search`: rows of random directions, the hardest case for lists of rows; on two cores that",
            "others used too, the server on the same two; a request may take 120 s here (10 s elsewhere). Scores are always those of",
            "the collection's own rows.",
            "",
            *lines,
        ]
    embed = figures.get("embed")
    if embed:
        ratio = embed["ray_s"] / embed["threads_s"]
        lines += [
            f"Embedding {embed['photos']:,} photographs on one machine of two cores took {embed['threads_s']:,.0f} s with threads and "
            f"{embed['ray_s']:,.0f} s with Ray, {ratio:.2f} times as long; of that, {embed['ray_first_s']:,.0f} s "
            f"({embed['threads_first_s']:,.0f} s with threads) until the first was done (`python benchmarks/cluster.py embed`).",
            "",
        ]
    return lines


def _line(figures: dict[str, Any], images: int, every: int, lean: int, dims: int) -> str:
    days = core_hours(figures, images) / CORES / 24
    search = figures["exact_ms_per_100k"] * images / 100_000
    return (
        f"| {images:,} | {amount(every * images)} | {amount(lean * images)} | {span(days)} | {search / 1000:,.2f} s | "
        f"{amount(dims * images)} | {amount(dims // 8 * images)} |"
    )


def _cluster(figures: dict[str, Any], lean: int, dims: int) -> list[str]:
    images = 10**9
    memory = dims * images * figures["overhead"]
    machines = -(-int(memory) // (MEMORY_GB * 10**9))
    embed = -(-int(core_hours(figures, images)) // (24 * 30 * CORES))
    disks = -(-lean * images // (DISK_TB * 10**12))
    return [
        f"- Index: {amount(dims * images)} of 8-bit rows, times {figures['overhead']} for lists, ids and scalar fields ({figures['overhead_source']}), is",
        f"  {amount(int(memory))}: {machines} machines of {MEMORY_GB} GB (query nodes of Milvus), twice that for a second copy.",
        f"- Embedding in a month: {core_hours(figures, images):,.0f} core-hours, {embed} of these machines of {CORES} cores on Ray; a GPU",
        "  replaces the cores it outruns (`--device cuda`).",
        f"- Shards on an object store: {amount(lean * images)} of `global` and `thumbs`, {disks} disks of {DISK_TB} TB before copies.",
        f"- Pushing: {images / figures['push_rows_per_s'] / 86_400:,.0f} days for one that pushes, so one a collection, side by side.",
    ]


def core_hours(figures: dict[str, Any], images: int) -> float:
    """Hours that one core takes to embed so many images."""
    return float(figures["core_ms_per_image"]) * images / 3_600_000


def amount(size: int) -> str:
    """Bytes as people write them."""
    for unit, name in ((10**15, "PB"), (10**12, "TB"), (10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size:,} B"


def span(days: float) -> str:
    """Days, or hours or minutes where they are few."""
    if days >= 2:
        return f"{days:,.0f} days"
    return f"{days * 24:,.1f} hours" if days * 24 >= 1 else f"{days * 1440:,.0f} minutes"


if __name__ == "__main__":
    main()

"""What is in FORB: queries, index images and distractors of every object, by difficulty."""

from collections import Counter
from pathlib import Path
from typing import Final

from wherein.bench.charts import Chart, bars
from wherein.bench.contents import DataStatistics
from wherein.bench.forb import dataset as forb
from wherein.bench.tables import Table

PAPER: Final = {
    "animated_cards": (6025, 1392, 11137, 714, 4868, 443), "photorealistic_cards": (2187, 484, 521, 67, 2039, 81),
    "bookcovers": (1461, 470, 10739, 66, 1277, 118), "paintings": (988, 430, 615, 119, 710, 159),
    "currency": (758, 395, 1188, 112, 576, 70), "logos": (1170, 535, 174, 24, 957, 189),
    "packaged_goods": (800, 476, 2382, 24, 727, 49), "movie_posters": (512, 403, 23094, 49, 426, 37),
}  # fmt: skip
"""Queries, index images, distractors, easy, medium and hard queries by object: the paper's Table 2."""

COLUMNS: Final = tuple(f"{name} n" for name in ("queries", "index images", "distractors", "easy", "medium", "hard"))


def contents(root: Path) -> DataStatistics:
    """The paper's Table 2 for the objects on disk."""
    data = forb.load(root)
    rows = []
    for name in data.objects:
        queries = [query for query in data.queries if query.object == name]
        indexed = len({number for query in queries for number in query.truth})
        levels = Counter(query.difficulty for query in queries)
        known = data.sizes.get(name, indexed)
        counts = (len(queries), indexed, known - indexed, *(levels[level] for level in forb.DIFFICULTIES))
        rows.append((name, dict(zip(COLUMNS, map(float, counts), strict=True))))
    total = {column: sum(row[column] for _, row in rows) for column in COLUMNS}
    said = tuple((name, dict(zip(COLUMNS, map(float, counts), strict=True))) for name, counts in PAPER.items())
    chart = bars({name: row["queries n"] for name, row in rows}, label="queries per object")
    return DataStatistics(
        "forb",
        (Table("objects", COLUMNS, (*rows, ("total", total))), Table("the paper's Table 2", COLUMNS, said)),
        (Chart("queries", "Queries per object", chart),),
        data.warnings,
    )

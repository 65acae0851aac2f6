"""`bench statistics`: what is in a benchmark's data, as tables and charts, beside what its paper says of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from wherein.bench.charts import Chart
from wherein.bench.html import html_table, page, section, warning_lines
from wherein.bench.report import json_safe
from wherein.bench.tables import Table
from wherein.errors import DataError, SpecError

KNOWN: Final = {
    "searchad": "searchad.contents:contents",
    "subregion": "subregion.contents:contents",
    "forb": "forb.contents:contents",
}


@dataclass(frozen=True)
class DataStatistics:
    """The statistics of a data set: tables, charts and what must be known to read them."""

    benchmark: str
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Every table as {row: {column: figure}}."""
        tables = {table.title: {label: dict(row) for label, row in table.rows} for table in self.tables}
        return {"benchmark": self.benchmark, "tables": json_safe(tables), "notes": list(self.notes)}


def contents(benchmark: str, data: Path) -> DataStatistics:
    """The statistics of the data of a benchmark in a folder."""
    if benchmark not in KNOWN:
        raise SpecError(f"there are no statistics of {benchmark!r}; choose one of {', '.join(KNOWN)}")
    if not data.is_dir():
        raise DataError(f"--data {data} is not a folder; give the folder the benchmark was unpacked into")
    module, _, name = KNOWN[benchmark].partition(":")
    made: Callable[[Path], DataStatistics] = getattr(import_module(f"wherein.bench.{module}"), name)
    return made(data)


def write(made: DataStatistics, out: Path) -> list[Path]:
    """Write `statistics.html`, `statistics.json` and an SVG file for each chart."""
    out.mkdir(parents=True, exist_ok=True)
    sections = [
        warning_lines(made.notes),
        *(section(chart.title, chart.figure()) for chart in made.charts),
        *(section(table.title, html_table(table)) for table in made.tables),
    ]
    files = {
        "statistics.html": page(title=made.benchmark, subtitle="what is in the data", sections=sections),
        "statistics.json": json.dumps(made.to_dict(), ensure_ascii=False, indent=1) + "\n",
        **{f"{chart.name}.svg": chart.alone() for chart in made.charts},
    }
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in files]

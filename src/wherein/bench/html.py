"""An evaluation as one HTML file: no request leaves it, light and dark, every query can be opened."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from wherein.bench.evaluation import Evaluation, QueryScore
from wherein.bench.plots import line_plots, matrix_plot
from wherein.bench.reference import condition_words
from wherein.bench.report import json_safe, reference_notes, reference_tables, running_costs
from wherein.bench.tables import OWN_TABLE, Table, figure, is_plain, summary_rows, tables, variant_tables

MOST_COLUMNS: Final = 16
"""Columns that still fit a page: FORB's tables have 12 methods. Wider ones, such as pixel retrieval's Table 1 with 27,
are shown with one row a method."""


@dataclass(frozen=True)
class Drill:
    """What the sortable table of queries shows; `pictures` are data URIs by the name they illustrate."""

    queries: Sequence[QueryScore]
    columns: Sequence[str]
    signed: Sequence[str] = ()
    pictures: Mapping[str, str] | None = None


def page(*, title: str, subtitle: str, sections: Iterable[str], drill: Drill | None = None) -> str:
    """A whole page from its sections, which are HTML already."""
    template = files("wherein.bench").joinpath("page.html").read_text(encoding="utf-8")
    head = f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>"
    data = json.dumps(_drill_data(drill), ensure_ascii=False, separators=(",", ":"))
    return (
        template.replace("<!--title-->", escape(f"{title} — {subtitle}"))
        .replace("<!--body-->", head + "".join(sections))
        .replace("<!--data-->", data.replace("<", "\\u003c"))  # no text can close the script
    )


def _drill_data(drill: Drill | None) -> dict[str, Any]:
    if drill is None:
        return {"queries": [], "columns": [], "groups": []}
    queries = [
        {
            "id": query.query_id,
            "group": query.group,
            "values": [_rounded(query.metrics.get(column)) for column in drill.columns],
            "detail": json_safe(query.detail),
        }
        for query in drill.queries
    ]
    columns = [{"name": name, "plain": is_plain(name), "signed": name in drill.signed} for name in drill.columns]
    groups = sorted({query.group for query in drill.queries})
    return {"queries": queries, "columns": columns, "groups": groups, "pictures": dict(drill.pictures or {})}


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(float(value), 6)


def cards(figures: Mapping[str, float], costs: Mapping[str, str]) -> str:
    """The headline figures, large, and the running costs, small."""
    large = "".join(
        f"<div><b>{figure(value, name)}</b><span>{escape(name)}</span></div>" for name, value in figures.items()
    )
    small = "".join(
        f'<div class="cost"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in costs.items()
    )
    return "".join(f'<section class="figures">{row}</section>' for row in (large, small) if row)


def html_table(table: Table) -> str:
    """A table; in the papers' ones, figures are rows and the first column is this run's."""
    beside = table.figures_are_rows
    own = ' class="own"' if beside else ""
    heads = "".join(
        f"<th{own if number == 0 else ''}>{escape(column if beside else column.replace('_', ' '))}</th>"
        for number, column in enumerate(table.columns)
    )
    rows = []
    for label, row in table.rows:
        cells = "".join(
            f"<td{own if number == 0 else ''}>{figure(row.get(column), label if beside else column)}</td>"
            for number, column in enumerate(table.columns)
        )
        rows.append(f"<tr><th>{escape(label)}</th>{cells}</tr>")
    kind = ' class="beside"' if beside else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def section(title: str, inner: str) -> str:
    """A titled section, or nothing where there is nothing to show."""
    return f"<h2>{escape(title)}</h2>{inner}" if inner else ""


def warning_lines(warnings: Iterable[str]) -> str:
    """Every warning on a line of its own."""
    return "".join(f'<p class="warning">{escape(warning)}</p>' for warning in warnings)


def _matrices(variants: object) -> str:
    if not isinstance(variants, Mapping):
        return ""
    drawn = []
    for name, variant in variants.items():
        if isinstance(variant, Mapping) and "labels" in variant and "matrix" in variant:
            drawn.append(matrix_plot(variant["labels"], variant["matrix"], caption=str(name)))
    return "".join(drawn)


def table_heading(table: Table) -> str:
    """A heading in words; the name of a method stays as it is written."""
    return table.title.capitalize() if table.title in OWN_TABLE else table.title or "Figures"


def _narrow(table: Table) -> Table:
    """A papers' table of many methods with one row a method, the run's first: so many columns fit no page."""
    if len(table.columns) <= MOST_COLUMNS:
        return table
    rows = tuple((name, {label: row[name] for label, row in table.rows if name in row}) for name in table.columns)
    return Table(table.title, tuple(label for label, _ in table.rows), rows)


def metric_names(queries: Iterable[QueryScore]) -> list[str]:
    """Every figure any query has, in the order of their first appearance."""
    return list(dict.fromkeys(name for query in queries for name in query.metrics))


def _headline(evaluation: Evaluation) -> dict[str, float]:
    """The figures of the first group, each under the group's name; none of a sweep, which has one row per run."""
    rows = [] if "runs" in evaluation.scores else summary_rows(evaluation.scores)[:1]
    return {f"{group} {name}".strip(): value for group, row in rows for name, value in row.items()}


def evaluation_page(evaluation: Evaluation, *, method: str = "", pictures: Mapping[str, str] | None = None) -> str:
    """The page of one evaluation."""
    beside = reference_tables(evaluation, name=method or "this run")
    made = tables(evaluation.scores)
    variants = evaluation.scores.get("variants")
    drill = Drill(queries=evaluation.queries, columns=metric_names(evaluation.queries), pictures=pictures)
    sections = [
        warning_lines(evaluation.warnings),
        cards(_headline(evaluation), running_costs(evaluation.scores)),
        *(section(table_heading(table), html_table(table)) for table in made if len(made) > 1 or len(table.rows) > 1),
        *(
            section(f"{table.title[:1].upper()}{table.title[1:]}, percent", html_table(_narrow(table)))
            for table in beside
        ),
        "".join(f"<p>{escape(note)}</p>" for note in reference_notes(evaluation)),
        section("Curves", f'<div class="plots">{line_plots(evaluation.curves)}</div>' if evaluation.curves else ""),
        section("Variants", "".join(map(html_table, variant_tables(evaluation.scores)))),
        section("Confusion", _matrices(variants)),
        section("Queries", '<div id="queries"></div>' if evaluation.queries else ""),
    ]
    words = condition_words({name: evaluation.conditions.get(name, "") for name in ("split", "modality")})
    subtitle = " · ".join(part for part in (method, *words, f"{evaluation.protocol} scoring") if part)
    return page(title=evaluation.benchmark, subtitle=subtitle, sections=sections, drill=drill)


def write_html(
    evaluation: Evaluation,
    path: str | Path,
    *,
    method: str = "",
    pictures: Mapping[str, str] | None = None,
) -> None:
    """Write the evaluation as one self-contained page."""
    text = evaluation_page(evaluation, method=method, pictures=pictures)
    Path(path).write_text(text, encoding="utf-8")

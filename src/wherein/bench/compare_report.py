"""A comparison of runs for people: terminal, JSON, Markdown, LaTeX, and a page with every query's delta."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any, Final

from wherein.bench import html
from wherein.bench.compare import LOWER_IS_BETTER, Comparison, figures_of, gain
from wherein.bench.evaluation import Line, QueryScore
from wherein.bench.plots import line_plots
from wherein.bench.report import json_safe, latex_table, markdown_table, quiet_table, rich_table, terminal_text
from wherein.bench.tables import Table, summary_rows


def summary_table(comparison: Comparison) -> Table:
    """The figures of every group, run below run, and what each run costs."""
    by_group: dict[str, list[tuple[str, dict[str, float]]]] = {}
    for run in comparison.runs:
        for group, row in summary_rows(run.evaluation.scores):
            label = f"{group} · {run.name}" if group else run.name
            by_group.setdefault(group, []).append((label, dict(row) | _costs(run.evaluation.scores)))
    rows = tuple(row for group in by_group.values() for row in group)
    columns = tuple(dict.fromkeys(name for _, row in rows for name in row if name not in COSTS))
    return Table(title="runs", columns=(*columns, *COSTS), rows=rows)


COSTS: Final = ("seconds", "bytes")


def _costs(scores: Mapping[str, Any]) -> dict[str, float]:
    found = (scores.get("timing", {}).get("seconds_per_query"), scores.get("bytes_per_image"))
    return {name: float(value) for name, value in zip(COSTS, found, strict=True) if value is not None}


def difference_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Differences in words: run, figure, gain, interval, wins, losses, ties, p of both tests."""
    rows: list[tuple[str, ...]] = []
    for one in comparison.differences:
        rows.append(
            (
                one.run,
                one.figure,
                _signed(one.mean.mean, one.figure),
                f"[{_signed(one.mean.low, one.figure)}, {_signed(one.mean.high, one.figure)}]",
                str(one.wins),
                str(one.losses),
                str(one.ties),
                p_value(one.randomisation.p),
                p_value(one.wilcoxon.p),
            )
        )
    return rows


DIFFERENCE_COLUMNS: Final = (
    "run",
    "figure",
    "gain",
    "95 % interval",
    "wins",
    "losses",
    "ties",
    "p rand.",
    "p Wilcoxon",
)


def _signed(value: float, figure: str) -> str:
    plain = figure.split(" ")[-1] in LOWER_IS_BETTER
    return f"{value:+.4g}" if plain else f"{100 * value:+.2f}"


def p_value(p: float) -> str:
    """A p-value for people."""
    return "–" if math.isnan(p) else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def target_lines(comparison: Comparison) -> list[str]:
    """The known-item analysis in sentences."""
    return [
        f"{one.run}: mean similarity of the target {one.gain:+.4f} (Wilcoxon p {p_value(one.similarity.p)}, "
        f"n = {one.similarity.n}; Shapiro–Wilk of the differences p {p_value(one.normality.p)}); "
        f"Pearson of similarity and rank change {one.correlation.statistic:.2f} (p {p_value(one.correlation.p)})"
        for one in comparison.targets
    ] + [
        f"{one.run}: mean IoU of boxes and cells of {one.grid} {one.overlap:.2f}; correlation of IoU and gain in rank "
        f"{one.correlation.statistic:.2f} (p {p_value(one.correlation.p)}, n = {one.correlation.n}; the study: -0.13)"
        for one in comparison.fits
    ]


def delta_queries(comparison: Comparison) -> tuple[list[QueryScore], list[str], list[str]]:
    """Per-query deltas for drill-down, worst first: scores, columns, and which of them are differences."""
    base = comparison.runs[0]
    others = [{query.query_id: query for query in run.evaluation.queries} for run in comparison.runs[1:]]
    made = []
    figures = figures_of([(query, query) for query in base.evaluation.queries])[:1]
    columns = [f"{run.name} − base: {figure}" for run in comparison.runs[1:] for figure in figures]
    plain = [f"{run.name}: {figure}" for run in comparison.runs for figure in figures]
    for query in base.evaluation.queries:
        metrics: dict[str, float] = {f"{base.name}: {name}": query.metrics.get(name, math.nan) for name in figures}
        detail: dict[str, Any] = {f"{base.name}: {key}": value for key, value in query.detail.items()}
        for run, by_id in zip(comparison.runs[1:], others, strict=True):
            other = by_id.get(query.query_id)
            for name in figures:
                value = other.metrics.get(name, math.nan) if other else math.nan
                metrics[f"{run.name}: {name}"] = value
                metrics[f"{run.name} − base: {name}"] = gain(name, query.metrics.get(name, math.nan), value)
            if other:
                detail |= {
                    f"{run.name}: {key}": value for key, value in other.detail.items() if key in ("ranking", "first")
                }
        made.append(QueryScore(query.query_id, query.group, metrics, detail))
    return made, [*columns, *plain], columns


def merged_curves(comparison: Comparison) -> list[Line]:
    """The first curve of each kind of every run, named after the run."""
    found = []
    for run in comparison.runs:
        seen = set()
        for curve in run.evaluation.curves:
            axes = (curve.x_label, curve.y_label)
            if axes not in seen:
                seen.add(axes)
                found.append(Line(run.name, *axes, curve.x, curve.y))
    return found


def document(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "benchmark": comparison.runs[0].evaluation.benchmark,
        "base": comparison.runs[0].name,
        "runs": {run.name: run.evaluation.scores for run in comparison.runs},
        "differences": [asdict(one) for one in comparison.differences],
        "targets": [asdict(one) for one in comparison.targets],
        "fits": [asdict(one) for one in comparison.fits],
        "warnings": list(comparison.warnings),
    }


def as_json(comparison: Comparison) -> str:
    """The comparison as one JSON document."""
    return json.dumps(json_safe(document(comparison)), ensure_ascii=False, indent=2) + "\n"


def as_markdown(comparison: Comparison) -> str:
    """The comparison as Markdown tables."""
    lines = [f"## {comparison.runs[0].evaluation.benchmark}: {len(comparison.runs)} runs", ""]
    lines += markdown_table(summary_table(comparison))
    if comparison.differences:
        lines += [f"Against {comparison.runs[0].name}, over queries:", ""]
        lines += [f"| {' | '.join(DIFFERENCE_COLUMNS)} |", "|---|---|" + "---:|" * (len(DIFFERENCE_COLUMNS) - 2)]
        lines += [f"| {' | '.join(row)} |" for row in difference_rows(comparison)]
        lines.append("")
    lines += [*target_lines(comparison), *(f"> {warning}" for warning in comparison.warnings)]
    return "\n".join(lines).rstrip() + "\n"


def as_latex(comparison: Comparison) -> str:
    """The table of runs for a paper."""
    return latex_table(summary_table(comparison), caption=comparison.runs[0].evaluation.benchmark)


def as_text(comparison: Comparison) -> str:
    """The comparison for the terminal."""
    made: list[Any] = [comparison.runs[0].evaluation.benchmark, rich_table(summary_table(comparison))]
    if comparison.differences:
        table = quiet_table()
        for number, column in enumerate(DIFFERENCE_COLUMNS):
            table.add_column(column, justify="left" if number < 2 else "right")
        for row in difference_rows(comparison):
            table.add_row(*row)
        made += [f"against {comparison.runs[0].name}, over queries; positive is better", table]
    return terminal_text(*made, *target_lines(comparison))


def _cells(row: tuple[str, ...]) -> str:
    """A row of differences: gains coloured by their sign."""
    tone = "good" if row[2].startswith("+") else "bad"
    classes = ("text", "text", tone)
    return "".join(
        f'<td class="{classes[n] if n < len(classes) else ""}">{escape(cell)}</td>' for n, cell in enumerate(row)
    )


def write_html(comparison: Comparison, path: Path) -> None:
    """The comparison as one self-contained page, worst queries first."""
    queries, columns, signed = delta_queries(comparison)
    kinds = ["text", "text"] + [""] * (len(DIFFERENCE_COLUMNS) - 2)
    heads = "".join(f'<th class="{kind}">{name}</th>' for kind, name in zip(kinds, DIFFERENCE_COLUMNS, strict=True))
    body = "".join("<tr>" + _cells(row) + "</tr>" for row in difference_rows(comparison))
    differences = f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    curves = line_plots(merged_curves(comparison))
    base = comparison.runs[0]
    text = html.page(
        title=base.evaluation.benchmark,
        subtitle=", ".join(run.name for run in comparison.runs),
        sections=[
            html.warning_lines(comparison.warnings),
            html.section("Runs", html.html_table(summary_table(comparison))),
            html.section(f"Against {base.name}, over queries", differences if comparison.differences else ""),
            html.section("Targets", "".join(f"<p>{escape(line)}</p>" for line in target_lines(comparison))),
            html.section("Curves", f'<div class="plots">{curves}</div>' if curves else ""),
            html.section("Queries, worst first", '<div id="queries"></div>' if len(comparison.runs) > 1 else ""),
        ],
        drill=html.Drill(queries=queries, columns=columns, signed=signed),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")

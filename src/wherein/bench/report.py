"""An evaluation for people and for papers: terminal table, JSON, Markdown, LaTeX. HTML is `html.py`."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable

from wherein.bench.evaluation import Evaluation
from wherein.bench.reference import PaperTable, condition_words, left_out
from wherein.bench.tables import OWN_TABLE, Table, figure, lookup, tables, variant_tables
from wherein.errors import SpecError

MOST_ACROSS: Final = 8
"""Figures that a line of a terminal holds; FORB's Table 4 has as many."""

Format = Literal["table", "json", "markdown", "latex"]


def json_safe(value: Any) -> Any:
    """The value with NaN and infinity as null, which JSON has no words for."""
    if isinstance(value, Mapping):
        return {str(name): json_safe(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def figure_label(key: str) -> str:
    """The path of a figure in words, without the group that only sorts the document."""
    first, _, rest = key.partition("/")
    return (rest if first in (*OWN_TABLE, "variants", "timing") else key).replace("/", " ")


def reference_tables(evaluation: Evaluation, *, name: str = "this run") -> tuple[Table, ...]:
    """The papers' tables of the same protocol beside this run: one column per method, one row per figure both have."""
    made = []
    for table in evaluation.reference:
        own = _own(evaluation, table)
        rows = tuple(
            (figure_label(key), {name: value, **{method: row[key] for method, row in table.rows if key in row}})
            for key, value in own.items()
            if value is not None
        )
        if rows:
            columns = (name, *(method for method, _ in table.rows))
            made.append(Table(f"beside {table.label}", columns, rows, figures_are_rows=True))
    return tuple(made)


def _own(evaluation: Evaluation, table: PaperTable) -> dict[str, float | None]:
    return {key: lookup(evaluation.scores, key) for key in table.figures()}


def reference_notes(evaluation: Evaluation) -> tuple[str, ...]:
    """What must be known to read the papers' tables, and which were measured otherwise and are not shown."""
    shown = [table for table in evaluation.reference if any(_own(evaluation, table).values())]
    notes = tuple(f"{table.source}: {table.note}" for table in shown if table.note)
    apart = left_out(evaluation.benchmark, evaluation.conditions)
    return (*dict.fromkeys(notes), *(f"not beside this run: {line}" for line in apart))


def running_costs(scores: Mapping[str, Any]) -> dict[str, str]:
    """What the run took, in words for people; empty for predictions made elsewhere."""
    timing = scores.get("timing")
    words: dict[str, str] = {}
    if isinstance(timing, Mapping):
        words |= {
            "seconds per query": f"{timing.get('seconds_per_query', math.nan):.4g}",
            "setup": f"{timing.get('setup_seconds', math.nan):.4g} s",
        }
        if timing.get("peak_memory_bytes"):
            words["peak memory"] = f"{timing['peak_memory_bytes'] / 2**20:,.0f} MiB"
    if scores.get("bytes_per_image") is not None:
        words["bytes per image"] = f"{scores['bytes_per_image']:,.0f}"
    return words


def _column_of(table: Table, column: str, label: str) -> str:
    """The name that decides how a figure is printed: in the reference table figures are rows."""
    return label if table.figures_are_rows else column


def _cells(table: Table, label: str, row: Mapping[str, float]) -> list[str]:
    return [figure(row.get(column), _column_of(table, column, label)) for column in table.columns]


def _heading(evaluation: Evaluation) -> str:
    """Benchmark, split and kind of queries where it has them, and the rule of scoring."""
    words = condition_words({name: evaluation.conditions.get(name, "") for name in ("split", "modality")})
    return " · ".join((evaluation.benchmark, *words, evaluation.protocol))


def _all_tables(evaluation: Evaluation) -> list[Table]:
    return [*tables(evaluation.scores), *variant_tables(evaluation.scores), *reference_tables(evaluation)]


def quiet_table() -> RichTable:
    """A table with few rules; its title is a line of its own, so that a narrow table does not break it."""
    return RichTable(box=SIMPLE_HEAD)


def terminal_parts(evaluation: Evaluation) -> list[RichTable | str]:
    """Titles and tables as a terminal shows them; the reference table is turned, so that it fits."""
    parts: list[RichTable | str] = []
    for table in (*tables(evaluation.scores), *variant_tables(evaluation.scores)):
        parts.append(" · ".join(part for part in (_heading(evaluation), table.title) if part))
        parts.append(rich_table(table))
    for beside in reference_tables(evaluation):
        parts += [f"{_heading(evaluation)} · {beside.title}", turned_table(beside)]
    return [*parts, *reference_notes(evaluation)]


def turned_table(table: Table) -> RichTable:
    """A table with a method in each row, as papers print it; as it is where it has more figures than fit a line."""
    if len(table.rows) > MOST_ACROSS:
        return rich_table(table)
    turned = quiet_table()
    turned.add_column("method", no_wrap=True)
    for label, _ in table.rows:
        turned.add_column(label, justify="right", overflow="fold")
    for method in table.columns:
        turned.add_row(method, *(figure(row.get(method), label) for label, row in table.rows))
    return turned


def rich_table(table: Table) -> RichTable:
    """One table for the terminal."""
    made = quiet_table()
    made.add_column("")
    for column in table.columns:
        made.add_column(column, justify="right")
    for label, row in table.rows:
        made.add_row(label, *_cells(table, label, row))
    return made


def _as_text(evaluation: Evaluation) -> str:
    costs = running_costs(evaluation.scores)
    line = "  ".join(f"{name} {value}" for name, value in costs.items())
    return terminal_text(*terminal_parts(evaluation), *([line] if line else []))


def terminal_text(*parts: RichTable | str) -> str:
    """Tables and lines as a terminal shows them, without colours, so that a pipe gets the same."""
    from io import StringIO

    from rich.console import Console

    text = StringIO()
    console = Console(file=text, width=140, force_terminal=False)
    for part in parts:
        console.print(part, highlight=False, markup=False)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _as_json(evaluation: Evaluation) -> str:
    return json.dumps(json_safe(evaluation.scores), ensure_ascii=False, indent=2) + "\n"


def _as_markdown(evaluation: Evaluation) -> str:
    lines = [f"## {_heading(evaluation)}", ""]
    for table in _all_tables(evaluation):
        if table.title:
            lines += [f"### {table.title}", ""]
        lines += markdown_table(table)
    costs = running_costs(evaluation.scores)
    if costs:
        lines += [" · ".join(f"{name} {value}" for name, value in costs.items()), ""]
    lines += [f"> {warning}" for warning in (*evaluation.warnings, *reference_notes(evaluation))]
    return "\n".join(lines).rstrip() + "\n"


def markdown_table(table: Table) -> list[str]:
    """One table in Markdown, with the blank line that must follow it."""
    lines = [f"| | {' | '.join(table.columns)} |", f"|---|{'---:|' * len(table.columns)}"]
    lines += [f"| {label} | {' | '.join(_cells(table, label, row))} |" for label, row in table.rows]
    return [*lines, ""]


_LATEX: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--",
}  # fmt: skip


def latex_escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _as_latex(evaluation: Evaluation) -> str:
    return "\n".join(latex_table(table, caption=_heading(evaluation)) for table in _all_tables(evaluation))


def latex_table(table: Table, *, caption: str) -> str:
    """One table for a paper, in booktabs rules; figures are percent where they are fractions."""
    caption = " · ".join(part for part in (caption, table.title) if part)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex_escape(caption)}}}",
        rf"  \begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"    \toprule",
        "    " + " & ".join(["", *map(latex_escape, table.columns)]) + r" \\",
        r"    \midrule",
    ]
    for label, row in table.rows:
        lines.append("    " + " & ".join(map(latex_escape, [label, *_cells(table, label, row)])) + r" \\")
    lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


_RENDERERS: Final[dict[str, Callable[[Evaluation], str]]] = {
    "table": _as_text,
    "json": _as_json,
    "markdown": _as_markdown,
    "latex": _as_latex,
}


FORMATS: Final = tuple(_RENDERERS)


def chosen_format(format: str | None, *, json: bool) -> str:
    """The format that --format and --json name together."""
    if format not in (None, *FORMATS):
        raise SpecError(f"--format {format} is none of {', '.join(FORMATS)}")
    if json and format not in (None, "json"):
        raise SpecError(f"--json and --format {format} ask for two formats; give one of them")
    return "json" if json else format or "table"


def render(evaluation: Evaluation, format: Format | str = "table") -> str:
    """The evaluation as text; tables show percent, JSON holds the scores document with fractions."""
    return _RENDERERS[format](evaluation)

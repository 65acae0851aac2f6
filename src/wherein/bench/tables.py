"""A scores document as tables: one row per group, one column per figure. Every renderer starts here."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Figures that are not fractions: ranks, counts and seconds are printed as they are.
PLAIN_FIGURES = (
    "MNR",
    "MedR",
    "rank",
    "seconds",
    "bytes",
    "queries",
    "IoU n",
    "n",
    "score",
    "statistic",
    "p",
    "characters",
    "px",
    "boxes",
    "labels",
    "seen",
)
# Not figures of the method: shown elsewhere, or too long to show.
SET_ASIDE = ("timing", "bytes_per_image", "ious", "variants", "runs")
OWN_TABLE = ("classes", "categories")
LONG_GROUP = 8  # a group with more rows gets a table of its own


@dataclass(frozen=True)
class Table:
    """A titled table; a row is its label and its figures by column, absent where it has none."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, Mapping[str, float]], ...]
    figures_are_rows: bool = False


def is_figure(value: object) -> bool:
    """Is the value a figure (a number or an explicit null) rather than a group of them?"""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def is_plain(column: str) -> bool:
    """Is the figure printed as it is, not as a percentage?"""
    last = column.replace("/", " ").split(" ")[-1]
    return any(last == name or last.startswith(f"{name}_") or last.endswith(f"_{name}") for name in PLAIN_FIGURES)


def figure(value: float | None, column: str) -> str:
    """One figure for people: percent with two digits, ranks and seconds plain, a dash for none."""
    if value is None or math.isnan(value):
        return "–"
    if not is_plain(column):
        return f"{100 * value:.2f}"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.4g}"


def _as_float(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _row(group: Mapping[str, Any]) -> dict[str, float]:
    """A group with at least one figure of its own, its sub-groups folded in as `name sub`."""
    figures: dict[str, float] = {}
    for name, value in group.items():
        if is_figure(value):
            figures[name] = _as_float(value)
        elif isinstance(value, Mapping):
            for sub, leaf in value.items():
                if is_figure(leaf):
                    figures[f"{name} {sub}"] = _as_float(leaf)
    return figures


def _rows(group: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, float]]]:
    if any(is_figure(value) for value in group.values()):
        yield path, _row(group)
        return
    for name, value in group.items():
        if isinstance(value, Mapping):
            yield from _rows(value, (*path, name))


def tables(scores: Mapping[str, Any]) -> tuple[Table, ...]:
    """The tables of a scores document: groups that share their columns share a table."""
    document = {name: value for name, value in scores.items() if name not in SET_ASIDE}
    categories = document.pop("categories", None)
    if isinstance(categories, Mapping):  # runs of older versions kept {name: MAP}
        rows = {name: value if isinstance(value, Mapping) else {"MAP": value} for name, value in categories.items()}
        document["categories"] = rows
    listed = list(_rows(document, ()))
    sizes = Counter(path[0] for path, _ in listed if path)
    found: dict[tuple[str, tuple[str, ...]], list[tuple[str, dict[str, float]]]] = {}
    for path, row in listed:
        long = len(path) > 1 and (path[0] in OWN_TABLE or sizes[path[0]] > LONG_GROUP)
        label = " ".join(path[1:] if long else path)
        found.setdefault((path[0] if long else "", tuple(row)), []).append((label, row))
    return tuple(Table(title=title, columns=columns, rows=tuple(rows)) for (title, columns), rows in found.items())


def variant_tables(scores: Mapping[str, Any]) -> tuple[Table, ...]:
    """The tables of the variants that were asked for; matrices are drawn, not listed."""
    variants = scores.get("variants")
    if not isinstance(variants, Mapping):
        return ()
    listed = {name: one for name, one in variants.items() if isinstance(one, Mapping) and "matrix" not in one}
    return tuple(Table(title="variants", columns=made.columns, rows=made.rows) for made in tables(listed))


def summary_rows(scores: Mapping[str, Any]) -> list[tuple[str, Mapping[str, float]]]:
    """The rows a method is known by: every group, but only the first one's where there are many (FORB's objects)."""
    rows = [row for table in tables(scores) if not table.title for row in table.rows]
    if len(rows) > LONG_GROUP:
        first = rows[0][0].split(" ")[0]
        rows = [(label, row) for label, row in rows if label.split(" ")[0] == first]
    return rows


def headline(scores: Mapping[str, Any]) -> dict[str, float]:
    """The first row of a scores document, its figures by their bare names."""
    rows = summary_rows(scores)
    return dict(rows[0][1]) if rows else {}


def lookup(scores: Mapping[str, Any], key: str) -> float | None:
    """A figure by its path (`skippable/long/R@1`; where boxes and masks have one, the boxes'), or by its bare name."""
    value: Any = scores
    for step in key.split("/"):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        value = value.get("D")  # what the papers print under one name is measured on boxes
    if value is None or not is_figure(value):
        value = headline(scores).get(key.replace("/", " "), headline(scores).get(key))
    return None if value is None or math.isnan(value) else float(value)

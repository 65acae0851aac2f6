"""What scoring a benchmark gives: the official figures, every query's share in them, curves and warnings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wherein.bench.reference import PaperTable

DETAIL_LIMIT = 20  # ranked entries kept per query for drill-down


@dataclass(frozen=True)
class QueryScore:
    """The figures of one query, with the first ranked entries that explain them."""

    query_id: str
    group: str
    metrics: dict[str, float]
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One line of a plot: `y` against `x`, both in the order they are drawn."""

    name: str
    x_label: str
    y_label: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Evaluation:
    """A scored prediction: `scores` is the JSON document; its figures are fractions, but for ranks, counts and costs.

    `conditions` are the split, protocol and other options that it was measured under; `reference` are the papers'
    tables of the same conditions.
    """

    benchmark: str
    protocol: str
    scores: dict[str, Any]
    queries: tuple[QueryScore, ...]
    curves: tuple[Line, ...]
    warnings: tuple[str, ...]
    reference: tuple[PaperTable, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)

"""Revisited Oxford and Paris: trapezoidal mAP and mP@k under the easy, medium and hard protocols."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein.bench import metrics
from wherein.bench.evaluation import DETAIL_LIMIT, Evaluation, Line, QueryScore
from wherein.bench.reference import reference
from wherein.bench.revisited import dataset as revisited
from wherein.errors import DataError

DEPTHS: Final = (1, 5, 10)
"""The depths of the protocol's mean precision."""
FIGURES: Final = ("mAP", *(f"mP@{k}" for k in DEPTHS))


def score(data: Path, predictions: Path, *, name: str, protocol: str) -> Evaluation:
    """Score a ranks array; the paper's metrics are the official ones here."""
    truth = revisited.load(data, name=name)
    ranks, notes = revisited.read_ranks(predictions, data=truth)
    document: dict[str, dict[str, float]] = {}
    warnings = [*truth.warnings, *notes]
    figures: list[dict[str, float]] = [{} for _ in truth.queries]
    curves = []
    for level in revisited.PROTOCOLS:
        lines = []
        bare = []
        for number, query in enumerate(truth.queries):
            relevant, junk = query.under(level)
            if len(relevant) == 0:
                bare.append(number)
                continue
            found = metrics.positions_of(ranks[:, number], relevant=relevant, junk=junk)
            figures[number] |= {f"{level} {key}": value for key, value in _figures(found, len(relevant)).items()}
            lines.append(metrics.interpolated_precision(found, relevant=len(relevant)))
        if bare:
            warnings.append(f"{level}: {len(bare)} queries have no positives and leave the mean: {_few(bare)}")
        if lines:
            document[level] = _means(figures, level)
            recall = metrics.RECALL_POINTS.tolist()
            curves.append(Line(level, "recall", "precision", recall, np.mean(lines, axis=0).tolist()))
    if not document:
        raise DataError(f"no query of {name} has positives; this is not its truth file")
    return Evaluation(
        benchmark=name,
        protocol=protocol,
        scores=document,
        queries=tuple(
            QueryScore(f"{number}", query.image, figures[number], _detail(truth, query, ranks[:, number]))
            for number, query in enumerate(truth.queries)
        ),
        curves=tuple(curves),
        warnings=tuple(warnings),
        reference=reference(name, {}),
    )


def _figures(found: NDArray[np.int64], relevant: int) -> dict[str, float]:
    return {
        "mAP": metrics.trapezoidal_ap(found, relevant=relevant),
        **{f"mP@{k}": metrics.capped_precision_at(found, k) for k in DEPTHS},
    }


def _means(figures: Sequence[dict[str, float]], level: str) -> dict[str, float]:
    keys = {name: f"{level} {name}" for name in FIGURES}
    return {name: float(np.mean([row[key] for row in figures if key in row])) for name, key in keys.items()}


def _detail(truth: revisited.Revisited, query: revisited.RevisitedQuery, ranking: NDArray[np.int64]) -> dict[str, Any]:
    grades = {
        **dict.fromkeys(query.junk.tolist(), "junk"),
        **dict.fromkeys(query.easy.tolist(), "easy"),
        **dict.fromkeys(query.hard.tolist(), "hard"),
    }
    first = []
    for row in ranking[:DETAIL_LIMIT].tolist():
        grade = grades.get(row, "")
        name = truth.images[row] if row < len(truth.images) else f"distractor {row - len(truth.images)}"
        first.append({"image_id": name, "relevant": grade in ("easy", "hard"), "grade": grade})
    return {"query": query.image, "easy": len(query.easy), "hard": len(query.hard), "first": first}


def _few(numbers: Sequence[int], most: int = 6) -> str:
    return ", ".join(map(str, numbers[:most])) + (f" and {len(numbers) - most} more" if len(numbers) > most else "")

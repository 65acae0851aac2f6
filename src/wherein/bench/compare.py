"""`bench report`: runs side by side, query by query, and whether chance could have made the difference."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from wherein.bench.evaluation import Evaluation, QueryScore
from wherein.bench.journal import Journal
from wherein.bench.run import load_evaluation
from wherein.bench.statistics import (
    Interval,
    Test,
    bootstrap_interval,
    paired_randomisation,
    pearson,
    shapiro_wilk,
    wilcoxon,
)
from wherein.errors import DataError

LOWER_IS_BETTER: Final = ("rank", "MNR", "MedR")


@dataclass(frozen=True)
class Run:
    """A finished run: a name that tells it from the others, its folder and its evaluation."""

    name: str
    folder: Path
    evaluation: Evaluation


@dataclass(frozen=True)
class Difference:
    """One figure of one run against the base, over the queries both have; positive is better."""

    run: str
    figure: str
    mean: Interval
    wins: int
    losses: int
    ties: int
    randomisation: Test
    wilcoxon: Test


@dataclass(frozen=True)
class TargetShift:
    """Known-item search: does a higher similarity of the target explain its better rank?"""

    run: str
    normality: Test
    similarity: Test
    gain: float
    correlation: Test


@dataclass(frozen=True)
class Comparison:
    """Runs of one benchmark; the first is the base of every difference."""

    runs: tuple[Run, ...]
    differences: tuple[Difference, ...]
    targets: tuple[TargetShift, ...]
    warnings: tuple[str, ...]


def load_runs(folders: Sequence[Path]) -> tuple[Run, ...]:
    """The runs in some folders, named by their method, and by their folder where that is not enough."""
    loaded = [(folder, *load_evaluation(folder)) for folder in folders]
    methods = [method for _, method, _ in loaded]
    runs = tuple(
        Run(method if methods.count(method) == 1 else f"{method} ({folder.name})", folder, evaluation)
        for folder, method, evaluation in loaded
    )
    names = {run.evaluation.benchmark for run in runs}
    if len(names) > 1:
        raise DataError(f"runs of different benchmarks cannot be compared: {', '.join(sorted(names))}")
    if len({run.name for run in runs}) < len(runs):
        raise DataError("the same run is given twice; give each folder once")
    return runs


def compare(folders: Sequence[Path]) -> Comparison:
    """Compare every run with the first."""
    runs = load_runs(folders)
    differences, targets, warnings = [], [], []
    for run in runs[1:]:
        base = {query.query_id: query for query in runs[0].evaluation.queries}
        pairs = [(base[query.query_id], query) for query in run.evaluation.queries if query.query_id in base]
        if len(pairs) < max(len(base), len(run.evaluation.queries)):
            warnings.append(
                f"{run.name} and {runs[0].name} share {len(pairs)} of {len(base)} queries; only those count"
            )
        differences += [found for name in figures_of(pairs) if (found := _difference(run.name, name, pairs))]
        shift = _target_shift(runs[0], run)
        targets += [shift] if shift else []
    return Comparison(runs, tuple(differences), tuple(targets), tuple(warnings))


def figures_of(pairs: Sequence[tuple[QueryScore, QueryScore]]) -> list[str]:
    """The figures that both sides of the pairs have."""
    names = dict.fromkeys(name for base, _ in pairs for name in base.metrics)
    return [name for name in names if any(name in other.metrics for _, other in pairs)]


def gain(figure: str, base: float, other: float) -> float:
    """How much better the other is: ranks improve downwards."""
    return base - other if figure.split(" ")[-1] in LOWER_IS_BETTER else other - base


def _difference(run: str, figure: str, pairs: Sequence[tuple[QueryScore, QueryScore]]) -> Difference | None:
    both = [(a.metrics.get(figure), b.metrics.get(figure)) for a, b in pairs]
    values = [(a, b) for a, b in both if a is not None and b is not None and math.isfinite(a) and math.isfinite(b)]
    if not values:
        return None
    gains = np.array([gain(figure, a, b) for a, b in values])
    zeros = np.zeros(len(gains))
    return Difference(
        run=run,
        figure=figure,
        mean=bootstrap_interval(gains, zeros),
        wins=int(np.count_nonzero(gains > 0)),
        losses=int(np.count_nonzero(gains < 0)),
        ties=int(np.count_nonzero(gains == 0)),
        randomisation=paired_randomisation(gains, zeros),
        wilcoxon=wilcoxon(gains, zeros),
    )


def _target_shift(base: Run, run: Run) -> TargetShift | None:
    """Similarities and ranks of the targets, where both runs kept them."""
    found = [_targets(one.folder) for one in (base, run)]
    shared = [name for name in found[0] if name in found[1]]
    if len(shared) < 3:
        return None
    (score_a, rank_a), (score_b, rank_b) = (
        (np.array([side[name][0] for name in shared]), np.array([side[name][1] for name in shared])) for side in found
    )
    return TargetShift(
        run=run.name,
        normality=shapiro_wilk(score_b - score_a),
        similarity=wilcoxon(score_b, score_a),
        gain=float(np.mean(score_b - score_a)),
        correlation=pearson(score_a - score_b, rank_a - rank_b),
    )


def _targets(folder: Path) -> dict[str, tuple[float, float]]:
    path = folder / "answers.ndjson"
    if not path.is_file():
        return {}
    journal = Journal(path)
    kept = {}
    for name in journal:
        answer = journal[name]
        if answer.get("score") is None or "rank" not in answer:
            continue
        kept[name] = (float(answer["score"]), float(answer["rank"]))
    return kept

"""`bench report`: runs side by side, query by query, and whether chance could have made the difference."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein import Method
from wherein.bench.boxes import best_iou, clipped
from wherein.bench.evaluation import Evaluation, QueryScore
from wherein.bench.journal import Journal
from wherein.bench.registry import TASKS, declared_options
from wherein.bench.run import load_evaluation, read_json
from wherein.bench.statistics import (
    Interval,
    Test,
    bootstrap_interval,
    paired_randomisation,
    pearson,
    shapiro_wilk,
    wilcoxon,
)
from wherein.bench.subregion.dataset import FRAME_WH
from wherein.errors import DataError

LOWER_IS_BETTER: Final = ("rank", "MNR", "MedR")
"""Figures of ranks; they are also printed as they are, not in percent."""


@dataclass(frozen=True)
class Run:
    """A finished run: a name that tells it from the others, its folder, its evaluation and its run.json."""

    name: str
    folder: Path
    evaluation: Evaluation
    asked: Mapping[str, Any]

    @property
    def conditions(self) -> dict[str, Any]:
        """The folder of its data and its options; those that were not given have their defaults."""
        declared = declared_options(self.evaluation.benchmark) if self.evaluation.benchmark in TASKS else ()
        words = {one.name: one.default for one in declared if one.default is not None and not one.only_adds_figures}
        return {"data": self.asked.get("data"), **words, **self.asked.get("options", {})}


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
class CellFit:
    """Sub-region search: does a cell that fits the described box better explain a better rank of its frame?"""

    run: str
    grid: str
    overlap: float
    """Mean IoU of the boxes with their best cell."""
    correlation: Test
    """Pearson's of that IoU and of how many places the target rose against the base."""


@dataclass(frozen=True)
class Comparison:
    """Runs of one benchmark; the first is the base of every difference."""

    runs: tuple[Run, ...]
    differences: tuple[Difference, ...]
    targets: tuple[TargetShift, ...]
    fits: tuple[CellFit, ...]
    warnings: tuple[str, ...]


def load_runs(folders: Sequence[Path]) -> tuple[Run, ...]:
    """The runs in some folders, named by their method, and by what else differs where that is not enough."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise DataError("the same run is given twice; give each folder once")
    runs = []
    for folder in folders:
        method, evaluation = load_evaluation(folder)
        runs.append(Run(method, folder, evaluation, read_json(folder / "run.json")))
    _require_one_truth(runs)
    names = _names(runs)
    return tuple(replace(run, name=name) for run, name in zip(runs, names, strict=True))


def _require_one_truth(runs: Sequence[Run]) -> None:
    """Refuse runs whose figures are not measured against the same truth by the same rule."""
    for what, found in (
        ("of different benchmarks", {run.evaluation.benchmark for run in runs}),
        ("scored by different protocols", {run.evaluation.protocol for run in runs}),
        ("on different splits", {run.conditions.get("split", "") for run in runs}),
    ):
        if len(found) > 1:
            raise DataError(f"runs {what} cannot be compared: {', '.join(sorted(found))}")


def differing(runs: Sequence[Run]) -> list[str]:
    """The conditions in which the runs are not all alike."""
    names = dict.fromkeys(name for run in runs for name in run.conditions)
    return [name for name in names if any(run.conditions.get(name) != runs[0].conditions.get(name) for run in runs)]


def _names(runs: Sequence[Run]) -> list[str]:
    """Methods, with the conditions that differ, and with the folder where two are still alike."""
    labels = [_label({name: run.conditions.get(name) for name in differing(runs)}) for run in runs]
    names = [f"{run.name} [{label}]" if label else run.name for run, label in zip(runs, labels, strict=True)]
    for tail in (lambda run: run.folder.name, lambda run: str(run.folder)):
        if len(set(names)) == len(names):
            break
        names = [
            f"{name} ({tail(run)})" if names.count(name) > 1 else name for name, run in zip(names, runs, strict=True)
        ]
    return names


def _label(conditions: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', '-')} {_short(value)}" for name, value in conditions.items() if value)


def _short(value: Any) -> str:
    """A value of a condition in a word or two; of a folder, its name."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is True else Path(str(value)).name


def compare(folders: Sequence[Path]) -> Comparison:
    """Compare every run with the first."""
    runs = load_runs(folders)
    differences, targets, fits, warnings = [], [], [], _condition_warnings(runs)
    for run in runs[1:]:
        base = {query.query_id: query for query in runs[0].evaluation.queries}
        pairs = [(base[query.query_id], query) for query in run.evaluation.queries if query.query_id in base]
        most = max(len(base), len(run.evaluation.queries))
        if len(pairs) < most:
            warnings.append(f"{run.name} and {runs[0].name} share {len(pairs)} of {most} queries; only those count")
        differences += [found for name in figures_of(pairs) if (found := _difference(run.name, name, pairs))]
        shift = _target_shift(runs[0], run)
        targets += [shift] if isinstance(shift, TargetShift) else []
        warnings += [shift] if isinstance(shift, str) else []
        fit = _cell_fit(run, pairs)
        fits += [fit] if fit else []
    return Comparison(runs, tuple(differences), tuple(targets), tuple(fits), tuple(warnings))


def _condition_warnings(runs: Sequence[Run]) -> list[str]:
    warnings = []
    for name in differing(runs):
        values = dict.fromkeys(str(run.conditions.get(name) or "none") for run in runs)
        warnings.append(f"the runs differ in more than their method: {name.replace('_', '-')} is {' or '.join(values)}")
    return warnings


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


def _target_shift(base: Run, run: Run) -> TargetShift | str | None:
    """Similarities and ranks of the targets, where both runs kept them; or why they cannot be compared."""
    found = [_targets(one.folder) for one in (base, run)]
    shared = [name for name in found[0].kept if name in found[1].kept]
    if len(shared) < 3:
        return None
    if found[0].kind != "cosine" or found[1].kind != "cosine":
        return (
            f"the similarity of the target is not compared: scores are {found[0].kind} in {base.name} and "
            f"{found[1].kind} in {run.name}, and only cosines are on one scale; search places with ~alone"
        )
    if base.asked.get("weights") != run.asked.get("weights"):
        return f"the similarity of the target is not compared: {base.name} and {run.name} have different encoders"
    (score_a, rank_a), (score_b, rank_b) = (
        (np.array([side.kept[name][0] for name in shared]), np.array([side.kept[name][1] for name in shared]))
        for side in found
    )
    return TargetShift(
        run=run.name,
        normality=shapiro_wilk(score_b - score_a),
        similarity=wilcoxon(score_b, score_a),
        gain=float(np.mean(score_b - score_a)),
        correlation=pearson(score_a - score_b, rank_a - rank_b),
    )


def _cell_fit(run: Run, pairs: Sequence[tuple[QueryScore, QueryScore]]) -> CellFit | None:
    """IoU of boxes and cells against the gain in rank, where a run searches a grid and its queries have boxes."""
    grid = Method.parse(str(run.asked.get("method", "whole"))).grid
    if grid is None or run.evaluation.benchmark != "subregion":
        return None
    known = [(a, b) for a, b in pairs if "rank" in a.metrics and "rank" in b.metrics and "box" in b.detail]
    boxes = [clipped(other.detail["box"], size_wh=FRAME_WH) for _, other in known]
    if len(boxes) < 3:
        return None
    ious = [best_iou(box, grid.boxes()) for box in boxes]
    gains = [base.metrics["rank"] - other.metrics["rank"] for base, other in known]
    return CellFit(run.name, str(grid), float(np.mean(ious)), pearson(ious, gains))


@dataclass(frozen=True)
class _Targets:
    """The score and the rank of every target that a run kept, and what kind of scores they are."""

    kept: Mapping[str, tuple[float, float]]
    kind: str


def _targets(folder: Path) -> _Targets:
    path = folder / "answers.ndjson"
    if not path.is_file():
        return _Targets({}, "unknown")
    journal = Journal(path)
    kept = {}
    for name in journal:
        answer = journal[name]
        if answer.get("score") is None or "rank" not in answer:
            continue
        kept[name] = (float(answer["score"]), float(answer["rank"]))
    return _Targets(kept, " or ".join(sorted(journal.score_kinds)) or "of an unknown kind")

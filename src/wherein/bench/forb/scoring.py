"""FORB scored as its evaluator scores (`official`) or as the paper defines (`paper`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein.bench import metrics
from wherein.bench.evaluation import DETAIL_LIMIT, Evaluation, Line, QueryScore
from wherein.bench.forb import dataset as forb
from wherein.bench.reference import reference
from wherein.errors import DataError

DEPTHS: Final = (1, 5)
"""The depths of mAP and t-mAP; the paper reports 5."""


@dataclass(frozen=True)
class _Results:
    """Candidates and scores of every query, in the order of the truth; ids and best scores of distractors."""

    candidates: list[tuple[int, ...]]
    scores: list[tuple[float, ...]]
    rejected: list[tuple[int, ...]]
    best_distractor: list[float]
    warnings: list[str]


def score(data: Path, predictions: Path, *, protocol: str) -> Evaluation:
    """Score the folder of per-object result files."""
    truth = forb.load(data)
    if not predictions.is_dir():
        raise DataError(f"{predictions} is not a folder; FORB results are <object>_all.ndjson and _oods.ndjson in one")
    inner = predictions / "retrieval_results"  # where the official baselines keep them
    folder = inner if inner.is_dir() else predictions
    results = _read(truth, folder)
    sizes, note = _sizes(truth, results)
    forb.require_truth_within(truth.queries, sizes)
    offsets = forb.offsets_of(sizes)
    wanted = [tuple(item - 1 + offsets[query.object] for item in query.truth) for query in truth.queries]
    lists = metrics.candidate_lists(results.candidates, results.scores, truth=wanted)
    plain = metrics.truncated_ap(lists, ks=DEPTHS, divisor=protocol)
    thresholds = metrics.protocol_thresholds(results.best_distractor, protocol=protocol)
    levels = metrics.thresholded_ap(lists, ks=DEPTHS, thresholds=thresholds, divisor=protocol)
    document = _document(truth, plain, levels)
    extra = _strangers(truth, folder, lists, plain, protocol=protocol) | _before(
        truth, folder, wanted, protocol=protocol
    )
    return Evaluation(
        benchmark="forb",
        protocol=protocol,
        scores=document | ({"variants": extra} if extra else {}),
        queries=_query_scores(truth, results, lists, plain, levels),
        curves=_curves(truth, levels, thresholds),
        warnings=(
            *truth.warnings,
            *note,
            *results.warnings,
            *_warnings(truth, lists, protocol=protocol),
            *_distractor_warnings(results.rejected, wanted),
        ),
        reference=reference("forb", {"protocol": protocol}),
        conditions={"protocol": protocol},
    )


def _strangers(
    truth: forb.Forb, folder: Path, lists: metrics.CandidateLists, plain: NDArray[np.float64], *, protocol: str
) -> dict[str, Any]:
    """The figures with thresholds from queries of other domains against the whole database, where there are such."""
    best = forb.read_strangers(folder)
    if not best:
        return {}
    thresholds = metrics.protocol_thresholds(best, protocol=protocol)
    levels = metrics.thresholded_ap(lists, ks=DEPTHS, thresholds=thresholds, divisor=protocol)
    return {f"out of domain, {level}": row for level, row in _document(truth, plain, levels)["all"].items()}


def _before(truth: forb.Forb, folder: Path, wanted: Sequence[tuple[int, ...]], *, protocol: str) -> dict[str, Any]:
    """The figures before re-ranking, where the results keep them."""
    if not all(forb.has_before(folder, name=name) for name in truth.objects):
        return {}
    results = _read(truth, folder, before=True)
    lists = metrics.candidate_lists(results.candidates, results.scores, truth=wanted)
    plain = metrics.truncated_ap(lists, ks=DEPTHS, divisor=protocol)
    thresholds = metrics.protocol_thresholds(results.best_distractor, protocol=protocol)
    levels = metrics.thresholded_ap(lists, ks=DEPTHS, thresholds=thresholds, divisor=protocol)
    return {f"before re-ranking, {level}": row for level, row in _document(truth, plain, levels)["all"].items()}


def _read(truth: forb.Forb, folder: Path, *, before: bool = False) -> _Results:
    results = _Results([], [], [], [], [])
    for name in truth.objects:
        wanted = [query.query_id for query in truth.queries if query.object == name]
        ranked = forb.read_results(folder, name=name, against="all", before=before)
        rows = _rows(ranked, wanted, results.warnings)
        results.candidates.extend(ranked.candidates[row] for row in rows)
        results.scores.extend(ranked.scores[row] for row in rows)
        rejected = forb.read_results(folder, name=name, against="oods", before=before)
        _rows(rejected, wanted, [])
        results.rejected.extend(rejected.candidates)
        # -1 stands for a query that finds no distractor at all.
        results.best_distractor.extend(max(values, default=-1.0) for values in rejected.scores)
    return results


def _rows(results: forb.ForbResults, wanted: Sequence[str], warnings: list[str]) -> list[int]:
    """The line of each wanted query; queries without one, or lines without a query, are errors."""
    if results.query_ids == tuple(wanted):
        return list(range(len(wanted)))
    lines = {query_id: row for row, query_id in enumerate(results.query_ids)}
    absent = [query_id for query_id in wanted if query_id not in lines]
    if absent:
        raise DataError(
            f"{results.path}: {len(absent)} of {len(wanted)} queries have no line (first: query_id {absent[0]}); "
            "a query that finds nothing has empty lists"
        )
    strange = lines.keys() - set(wanted)
    if strange:
        raise DataError(f"{results.path}: query_id {min(strange)} is not a query of this object")
    warnings.append(
        f"{results.path.name}: lines are not in the order of the truth; they were matched by query_id "
        "(the official script pairs them by position)"
    )
    return [lines[query_id] for query_id in wanted]


def _sizes(truth: forb.Forb, results: _Results) -> tuple[Mapping[str, int], list[str]]:
    """Sizes of the database on disk, or the official ones when the results' ids can only mean those."""
    highest = max((max(ids, default=-1) for ids in results.candidates), default=-1)
    listed = len(truth.database) or forb.OFFICIAL_TOTAL
    if highest < listed:
        return truth.sizes, []
    if highest >= forb.OFFICIAL_TOTAL:
        raise DataError(
            f"candidate {highest} lies beyond the {listed} database images; ids are 0-based positions in "
            "all_database_images.txt"
        )
    note = (
        f"candidate ids go up to {highest} but only {len(truth.database)} database images are listed on disk; "
        "the offsets of the full benchmark were used"
    )
    return forb.OFFICIAL_SIZES, [note]


def _groups(truth: forb.Forb) -> dict[tuple[str, str], NDArray[np.int64]]:
    """Query rows by (object or `all`, difficulty or `overall`), groups without queries left out."""
    objects = np.array([query.object for query in truth.queries])
    levels = np.array([query.difficulty for query in truth.queries])
    groups = {}
    for name in ("all", *truth.objects):
        for level in ("overall", *forb.DIFFICULTIES):
            chosen = ((objects == name) | (name == "all")) & ((levels == level) | (level == "overall"))
            if chosen.any():
                groups[name, level] = np.flatnonzero(chosen)
    return groups


def _document(
    truth: forb.Forb, plain: NDArray[np.float64], levels: NDArray[np.float64]
) -> dict[str, dict[str, dict[str, float]]]:
    document: dict[str, dict[str, dict[str, float]]] = {}
    for (name, level), rows in _groups(truth).items():
        scored = rows[~np.isnan(plain[0, rows])]  # the paper does not score queries without truth
        if len(scored):
            at = plain[:, scored].mean(axis=1)
            thresholded = levels[:, :, scored].mean(axis=(0, 2))
            document.setdefault(name, {})[level] = {
                **{f"mAP@{k}": float(at[line]) for line, k in enumerate(DEPTHS)},
                **{f"t-mAP@{k}": float(thresholded[line]) for line, k in enumerate(DEPTHS)},
            }
    if not document:
        raise DataError("no query has ground truth, so the paper's metric is not defined; use --protocol official")
    return document


def _query_scores(
    truth: forb.Forb,
    results: _Results,
    lists: metrics.CandidateLists,
    plain: NDArray[np.float64],
    levels: NDArray[np.float64],
) -> tuple[QueryScore, ...]:
    thresholded = levels.mean(axis=0).T.tolist()
    at = plain.T.tolist()
    relevant = lists.relevant[:, :DETAIL_LIMIT].tolist()
    names = truth.database
    scored = []
    for row, query in enumerate(truth.queries):
        figures = {f"AP@{k}": value for k, value in zip(DEPTHS, at[row], strict=True)}
        figures |= {f"t-AP@{k}": value for k, value in zip(DEPTHS, thresholded[row], strict=True)}
        first = [
            {"image_id": names[item] if item < len(names) else str(item), "score": value, "relevant": hit}
            for item, value, hit in zip(results.candidates[row], results.scores[row], relevant[row], strict=False)
        ]
        detail: dict[str, Any] = {"query": query.image, "difficulty": query.difficulty, "first": first}
        scored.append(QueryScore(f"{query.object}/{query.query_id}", query.object, figures, detail))
    return tuple(scored)


def _curves(truth: forb.Forb, levels: NDArray[np.float64], thresholds: NDArray[np.float64]) -> tuple[Line, ...]:
    rates = metrics.rejection_rates().tolist()
    curves = []
    for (name, level), rows in _groups(truth).items():
        scored = rows[~np.isnan(levels[0, 0, rows])]
        if name == "all" and len(scored):
            for line, k in enumerate(DEPTHS):
                values = levels[:, line, scored].mean(axis=1).tolist()
                curves.append(Line(level, "false positive rate", f"mAP@{k}", rates, values))
    curves.append(Line("threshold", "false positive rate", "score threshold", rates, thresholds.tolist()))
    return tuple(curves)


def _distractor_warnings(rejected: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> list[str]:
    relevant = frozenset(chain.from_iterable(wanted))
    mixed = sum(not relevant.isdisjoint(ids) for ids in rejected)
    if not mixed:
        return []
    return [
        f"{mixed} of {len(rejected)} lists against distractors hold an image that is ground truth of some query, so "
        "thresholds may be too high; distractors are the database without every ground-truth image"
    ]


def _warnings(truth: forb.Forb, lists: metrics.CandidateLists, *, protocol: str) -> list[str]:
    warnings = []
    lengths = np.count_nonzero(~np.isnan(lists.scores), axis=1)
    if lengths.max(initial=0) < max(DEPTHS):
        warnings.append(
            f"truncated rankings: no candidate list holds more than {lengths.max(initial=0)} images, so mAP@"
            f"{max(DEPTHS)} sees no more than that"
        )
    doubled = int(np.count_nonzero((lists.repeated > -np.inf).any(axis=1)))
    if doubled:
        warnings.append(f"{doubled} candidate lists hold an image twice; it counts as the official script counts it")
    rising = int(np.count_nonzero((np.diff(lists.scores, axis=1) > 0).any(axis=1)))
    if rising:
        warnings.append(f"{rising} candidate lists are not in descending order of score; they were scored as written")
    bare = int(np.count_nonzero(lists.truth == 0))
    if bare:
        fate = "score 1 when nothing is kept and 0 otherwise" if protocol == "official" else "are not scored"
        warnings.append(f"{bare} of {len(truth.queries)} queries have no ground truth and {fate}")
    return warnings

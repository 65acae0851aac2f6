"""FORB scoring: the official numbers on look-alikes, its quirks one by one."""

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wherein.bench.evaluate import evaluate
from wherein.bench.forb.dataset import OBJECTS, OFFICIAL_OFFSETS
from wherein.errors import DataError


def dump_lines(path: Path, rows: Sequence[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def said(warnings: Sequence[str], *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in warnings)


ForbRow = tuple[str, list[int], str, list[int], list[float], list[float]]


def write_forb(root: Path, rows: Sequence[ForbRow]) -> Path:
    """One query per row: object, truth (1-based), difficulty, candidates, their scores, distractor scores."""
    for name in OBJECTS:
        own = [row for row in rows if row[0] == name]
        truth = [
            {"query_id": n, "query_image": f"{name}/query/{n}.jpg", "groundtruth_ids": row[1], "difficulty": row[2]}
            for n, row in enumerate(own, 1)
        ]
        dump_lines(root / "metadata" / f"{name}_gt.ndjson", truth)
        found = [{"query_id": n, "candidate_db_ids": r[3], "global_scores": r[4]} for n, r in enumerate(own, 1)]
        dump_lines(root / "results" / f"{name}_all.ndjson", found)
        rejected = [
            {"query_id": n, "candidate_db_ids": list(range(len(r[5]))), "global_scores": r[5]}
            for n, r in enumerate(own, 1)
        ]
        dump_lines(root / "results" / f"{name}_oods.ndjson", rejected)
    return root


def random_forb(seed: int) -> list[ForbRow]:
    rng = random.Random(seed)
    rows: list[ForbRow] = []
    for name in OBJECTS:
        for _ in range(rng.randrange(3, 9)):
            truth = rng.sample(range(1, 8), rng.randrange(0, 4))
            offset = OFFICIAL_OFFSETS[name] - 1
            ids = rng.sample([offset + item for item in range(1, 12)], rng.randrange(0, 9))
            scores = [rng.choice([-2.0, -0.5, 0.0, 0.2, 0.5, rng.random()]) for _ in ids]
            rejected = [rng.random() for _ in range(rng.randrange(0, 3))]
            rows.append((name, truth, rng.choice(["easy", "medium", "hard"]), ids, scores, rejected))
    return rows


def slow_forb(rows: Sequence[ForbRow], *, paper: bool) -> dict[str, dict[str, dict[str, float]]]:
    best = sorted(max(row[5], default=-1) for row in rows)
    thresholds = []
    for rate in np.linspace(0, 1, 11):
        if paper:  # the smallest score such that no more than `rate` of the queries have a distractor above it
            allowed = [s for s in best if sum(other > s for other in best) <= round(rate * len(best), 6)]
            thresholds.append(0.0 if rate == 1 else min(allowed))
        else:
            thresholds.append(-1.0 if rate == 1 else best[math.ceil((1 - rate) * len(best)) - 1])

    def ap(row: ForbRow, k: int, threshold: float) -> float:
        truth = {item - 1 + OFFICIAL_OFFSETS[row[0]] for item in row[1]}
        strict = paper and threshold not in (0.0, -math.inf)  # Eq. 3's 0 keeps what is there
        kept = [i for i, s in zip(row[3], row[4], strict=True) if s > threshold or (s == threshold and not strict)]
        if not truth:
            return float(not kept)
        total = sum(len(truth & set(kept[:i])) / i for i in range(1, k + 1) if len(kept) >= i and kept[i - 1] in truth)
        return total / (min(len(truth), k) if paper else max(len(truth), total, 1))

    document: dict[str, dict[str, dict[str, float]]] = {}
    for name in ("all", *OBJECTS):
        for level in ("overall", "easy", "medium", "hard"):
            group = [r for r in rows if name in ("all", r[0]) and level in ("overall", r[2]) and (r[1] or not paper)]
            if group:
                figures = {}
                for k in (1, 5):
                    figures[f"mAP@{k}"] = float(np.mean([ap(r, k, -math.inf) for r in group]))
                    levels = [np.mean([ap(r, k, t) for r in group]) for t in thresholds]
                    figures[f"t-mAP@{k}"] = float(np.mean(levels))
                document.setdefault(name, {})[level] = figures
    return document


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("protocol", ["official", "paper"])
def test_forb_matches_the_slow_evaluator(tmp_path: Path, seed: int, protocol: str) -> None:
    rows = random_forb(seed)
    write_forb(tmp_path, rows)
    made = evaluate("forb", data=tmp_path, predictions=tmp_path / "results", protocol=protocol)
    expected = slow_forb(rows, paper=protocol == "paper")
    assert made.scores.keys() == expected.keys()
    for name, levels in expected.items():
        assert made.scores[name].keys() == levels.keys()
        for level, figures in levels.items():
            assert made.scores[name][level] == pytest.approx(figures, abs=1e-9), (name, level)
    assert len(made.queries) == len(rows)


def one_each(change: Callable[[str], ForbRow]) -> list[ForbRow]:
    return [change(name) for name in OBJECTS]


def perfect(name: str) -> ForbRow:
    return (name, [2], "easy", [OFFICIAL_OFFSETS[name] + 1, 54000], [0.9, 0.1], [0.2])


def test_forb_perfect_run_scores_one_everywhere(tmp_path: Path) -> None:
    write_forb(tmp_path, one_each(perfect))
    made = evaluate("forb", data=tmp_path, predictions=tmp_path / "results")
    ones = {"mAP@1": 1.0, "mAP@5": 1.0, "t-mAP@1": 1.0, "t-mAP@5": 1.0}
    assert made.scores["all"] == {"overall": ones, "easy": ones}
    assert made.scores["logos"]["overall"] == ones
    assert next(curve.y for curve in made.curves if curve.name == "overall") == [1.0] * 11


def test_forb_thresholds_come_from_all_objects_even_for_one(tmp_path: Path) -> None:
    # Logos alone would never reject; the other objects' distractors score high and reject its hits.
    rows = one_each(
        lambda name: (name, [1], "easy", [OFFICIAL_OFFSETS[name]], [0.5], [0.1 if name == "logos" else 0.9])
    )
    write_forb(tmp_path, rows)
    made = evaluate("forb", data=tmp_path, predictions=tmp_path / "results")
    assert made.scores["logos"]["overall"]["mAP@5"] == 1.0
    assert made.scores["logos"]["overall"]["t-mAP@5"] == pytest.approx(2 / 11)  # rates 0.9 and 1 only


def test_forb_offsets_follow_the_database_on_disk(tmp_path: Path) -> None:
    rows: list[ForbRow] = [(name, [2], "hard", [3 * n + 1], [0.9], [0.1]) for n, name in enumerate(OBJECTS)]
    write_forb(tmp_path, rows)
    images = [f"{name}/database/{n}.jpg" for name in OBJECTS for n in range(3)]
    (tmp_path / "metadata" / "all_database_images.txt").write_text("\n".join(images) + "\n")
    made = evaluate("forb", data=tmp_path, predictions=tmp_path / "results")
    assert made.scores["all"]["overall"]["mAP@1"] == 1.0
    assert made.queries[1].detail["first"][0]["image_id"] == "photorealistic_cards/database/1.jpg"


def test_forb_full_offsets_are_used_with_a_warning_when_ids_can_only_mean_those(tmp_path: Path) -> None:
    write_forb(tmp_path, one_each(perfect))
    images = [f"{name}/database/{n}.jpg" for name in OBJECTS for n in range(3)]
    (tmp_path / "metadata" / "all_database_images.txt").write_text("\n".join(images) + "\n")
    made = evaluate("forb", data=tmp_path, predictions=tmp_path / "results")
    assert made.scores["all"]["overall"]["mAP@1"] == 1.0
    assert said(made.warnings, "offsets of the full benchmark")


def test_forb_lines_in_another_order_are_matched_by_query_id(tmp_path: Path) -> None:
    rows = random_forb(1)
    write_forb(tmp_path, rows)
    before = evaluate("forb", data=tmp_path, predictions=tmp_path / "results").scores
    path = tmp_path / "results" / "logos_all.ndjson"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    made = evaluate("forb", data=tmp_path, predictions=tmp_path / "results")
    assert made.scores == before
    assert said(made.warnings, "logos_all.ndjson", "matched by query_id")


def test_forb_warns_about_short_unsorted_doubled_and_truthless(tmp_path: Path) -> None:
    def odd(name: str) -> ForbRow:
        first = OFFICIAL_OFFSETS[name]
        return (name, [] if name == "logos" else [1], "easy", [first, first, 7], [0.5, 0.4, 0.6], [0.1])

    write_forb(tmp_path, one_each(odd))
    warnings = evaluate("forb", data=tmp_path, predictions=tmp_path / "results").warnings
    assert said(warnings, "no candidate list holds more than 3")
    assert said(warnings, "8 candidate lists hold an image twice")
    assert said(warnings, "8 candidate lists are not in descending order")
    assert said(warnings, "1 of 8 queries have no ground truth", "score 1 when nothing is kept")


def result_line(**changes: Any) -> str:
    return json.dumps({"query_id": 1, "candidate_db_ids": [1], "global_scores": [0.5], **changes}) + "\n"


FORB_ERRORS = [
    pytest.param("", "1 of 1 queries have no line", id="a query without a line"),
    pytest.param(result_line() * 2, "appears twice", id="a query with two lines"),
    pytest.param(result_line() + result_line(query_id=9), "not a query of this object", id="an unknown query"),
    pytest.param(result_line(global_scores=[]), "1 candidate_db_ids but 0 global_scores", id="a score missing"),
    pytest.param(result_line(candidate_db_ids=["a"]), "not a 0-based position", id="a name for an id"),
    pytest.param(result_line(candidate_db_ids=[-1]), "not a 0-based position", id="a negative id"),
    pytest.param(result_line(candidate_db_ids=[99999]), "candidate 99999 lies beyond", id="an id beyond the database"),
    pytest.param(result_line(candidate_db_ids=[10**30]), "lies beyond the 72 database", id="an id of thirty digits"),
    pytest.param(result_line(global_scores=["x"]), "not a finite number", id="a word for a score"),
    pytest.param(result_line(global_scores=[10**400]), "not a finite number", id="a score beyond floats"),
    pytest.param('{"query_id": 1, "candidate_db_ids": [1], "global_scores": [NaN]}\n', "line 1.*NaN", id="a NaN score"),
    pytest.param('{"query_id": 1, "candidate_db_ids": [1]}\n', "'global_scores' is missing", id="no scores"),
]


@pytest.mark.parametrize(("text", "message"), FORB_ERRORS)
def test_forb_errors(tmp_path: Path, text: str, message: str) -> None:
    write_forb(tmp_path, one_each(perfect))
    images = [f"{name}/database/{n}.jpg" for name in OBJECTS for n in range(9)]
    (tmp_path / "metadata" / "all_database_images.txt").write_text("\n".join(images) + "\n")
    (tmp_path / "results" / "logos_all.ndjson").write_text(text)
    with pytest.raises(DataError, match=message):
        evaluate("forb", data=tmp_path, predictions=tmp_path / "results")


@pytest.mark.parametrize("candidate", [54435, 10**30])
def test_forb_ids_beyond_the_full_benchmark_are_refused_without_a_list(tmp_path: Path, candidate: int) -> None:
    write_forb(tmp_path, one_each(lambda name: (name, [1], "easy", [candidate], [0.5], [0.1])))
    with pytest.raises(DataError, match=f"candidate {candidate} lies beyond the 54435 database images"):
        evaluate("forb", data=tmp_path, predictions=tmp_path / "results")


@pytest.mark.parametrize("truth", [710, 10**30])
def test_forb_truth_beyond_its_object_is_refused(tmp_path: Path, truth: int) -> None:
    write_forb(tmp_path, one_each(lambda name: (name, [truth if name == "logos" else 1], "easy", [0], [0.5], [0.1])))
    with pytest.raises(DataError, match=rf"logos, query_id 1: groundtruth_ids hold {truth}.* 709 database images"):
        evaluate("forb", data=tmp_path, predictions=tmp_path / "results")


def test_forb_distractors_that_are_ground_truth_are_warned_about(tmp_path: Path) -> None:
    write_forb(tmp_path, one_each(perfect))
    clean = evaluate("forb", data=tmp_path, predictions=tmp_path / "results")
    assert not said(clean.warnings, "against distractors")
    line = {"query_id": 1, "candidate_db_ids": [OFFICIAL_OFFSETS["paintings"] + 1], "global_scores": [0.2]}
    dump_lines(tmp_path / "results" / "logos_oods.ndjson", [line])
    made = evaluate("forb", data=tmp_path, predictions=tmp_path / "results")
    assert said(made.warnings, "1 of 8 lists against distractors", "ground truth")
    assert made.scores == clean.scores


def test_forb_missing_files_are_named(tmp_path: Path) -> None:
    write_forb(tmp_path, one_each(perfect))
    (tmp_path / "results" / "paintings_oods.ndjson").unlink()
    with pytest.raises(DataError, match=r"paintings against oods.*paintings_oods\.ndjson does not exist"):
        evaluate("forb", data=tmp_path, predictions=tmp_path / "results")
    with pytest.raises(DataError, match="no FORB truth"):
        evaluate("forb", data=tmp_path / "results", predictions=tmp_path / "results")

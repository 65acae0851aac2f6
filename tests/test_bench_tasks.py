"""Figures of the small local sets, each with several witnesses."""

import math
import statistics
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherein.bench.local.captions import score_captions
from wherein.bench.local.classes import score_classes
from wherein.bench.local.dataset import Clip, QueryImage
from wherein.bench.local.examples import score_examples
from wherein.bench.local.masks import score_masks
from wherein.bench.local.road import score_road
from wherein.bench.local.underwater import score_known_items
from wherein.bench.task import Answers


def ranked(image_ids: str, **kept: tuple[str, list[float]]) -> Answers:
    """Answers from words: image_ids are letters, a ranking is a word of them with its scores."""
    return Answers(
        image_ids=tuple(image_ids),
        kept={
            name: {"ranking": [image_ids.index(letter) for letter in word], "scores": scores}
            for name, (word, scores) in kept.items()
        },
    )


def example(name: str, relevant: str) -> QueryImage:
    """A query by its name, relevant images as letters."""
    return QueryImage(name=name, path=Path(name), relevant=tuple(relevant))


# covers, facades, objects


def test_examples_hand_worked() -> None:
    # p: relevant a, c at ranks 1 and 3: AP = (1 + 2/3)/2. q: relevant b at rank 4: AP = 1/4.
    answers = ranked("abcd", p=("abcd", [0.9, 0.8, 0.7, 0.1]), q=("adcb", [0.6, 0.5, 0.4, 0.3]))
    scores = score_examples("covers", [example("p", "ac"), example("q", "b")], answers).scores
    assert scores["top1"] == 0.5
    assert scores["mAP"] == pytest.approx((5 / 6 + 1 / 4) / 2)
    assert scores["mAP@5"] == pytest.approx((5 / 6 + 1 / 4) / 2)


def test_thresholds_are_pooled_over_all_queries_distractors() -> None:
    # Best distractors: p 0.8 (b), q 0.6 (a). Rates 0 … 0.4 keep scores ≥ 0.8, 0.5 … 0.9 those ≥ 0.6, 1 keeps all.
    answers = ranked("abcd", p=("abcd", [0.9, 0.8, 0.7, 0.1]), q=("adcb", [0.6, 0.5, 0.4, 0.3]))
    scores = score_examples("covers", [example("p", "ac"), example("q", "b")], answers).scores
    high = (1 / 2 + 0) / 2  # p keeps a, b: AP = (1)/2; q keeps nothing
    middle = ((1 + 2 / 3) / 2 + 0) / 2  # p keeps a, b, c; q keeps a only
    full = (5 / 6 + 1 / 4) / 2
    assert scores["t-mAP@5"] == pytest.approx((5 * high + 5 * middle + full) / 11)


def test_under_the_paper_protocol_the_first_threshold_keeps_no_distractor() -> None:
    # Both right hits and the one distractor score 50: the official code keeps all three, Eq. 2 keeps none of them.
    answers = ranked("abcd", p=("abcd", [50.0, 1.0, 0.5, 0.1]), q=("bacd", [50.0, 50.0, 0.5, 0.1]))
    queries = [example("p", "a"), example("q", "b")]
    assert score_examples("covers", queries, answers).scores["t-mAP@5"] == 1.0
    # Best distractors: p 1, q 50. Rates 0 … 0.4 allow none (threshold above 50), 0.5 … 0.9 one (above 1), 1 all.
    paper = score_examples("covers", queries, answers, protocol="paper").scores
    assert paper["t-mAP@5"] == pytest.approx(6 / 11)


def slow_t_map(queries: list[tuple[list[tuple[str, float]], set[str]]], k: int = 5) -> float:
    """FORB's t-mAP@k, said again as plainly as possible."""
    best = sorted(max((s for i, s in ranking if i not in truth), default=-1.0) for ranking, truth in queries)
    levels = []
    for rate in np.linspace(0, 1, 11):
        threshold = best[math.ceil((1 - rate) * len(best)) - 1] if rate < 1 else -1.0
        aps = []
        for ranking, truth in queries:
            kept = [i for i, s in ranking if s >= threshold][:k]
            total = sum(
                sum(other in truth for other in kept[: n + 1]) / (n + 1) for n, i in enumerate(kept) if i in truth
            )
            aps.append(total / max(len(truth), total, 1))
        levels.append(sum(aps) / len(aps))
    return sum(levels) / len(levels)


def test_examples_against_a_slow_reference_and_ir_measures() -> None:
    rng = np.random.default_rng(5)
    ids = "abcdefghijklmnop"
    queries, kept, plain = [], {}, []
    run, qrels = [], []
    for n in range(30):
        order = "".join(rng.permutation(list(ids)))
        scores = np.sort(rng.random(len(ids)))[::-1].tolist()
        relevant = "".join(rng.choice(list(ids), size=rng.integers(1, 7), replace=False))
        name = f"q{n:02d}"
        queries.append(example(name, relevant))
        kept[name] = (order, scores)
        plain.append((list(zip(order, scores, strict=True)), set(relevant)))
        run += [ir_measures.ScoredDoc(name, i, s) for i, s in zip(order, scores, strict=True)]
        qrels += [ir_measures.Qrel(name, i, 1) for i in relevant]
    scores_made = score_examples("covers", queries, ranked(ids, **kept)).scores
    outside = ir_measures.calc_aggregate([ir_measures.AP, ir_measures.P @ 1], qrels, run)
    assert scores_made["mAP"] == pytest.approx(outside[ir_measures.AP], abs=1e-9)
    assert scores_made["top1"] == pytest.approx(outside[ir_measures.P @ 1], abs=1e-9)
    assert scores_made["t-mAP@5"] == pytest.approx(slow_t_map(plain), abs=1e-9)
    unlimited = [
        sum(sum(o in t for o, _ in r[: n + 1]) / (n + 1) for n, (i, _) in enumerate(r[:5]) if i in t) / len(t)
        for r, t in plain
    ]
    assert scores_made["mAP@5"] == pytest.approx(sum(unlimited) / len(unlimited), abs=1e-9)


def test_a_perfect_ranking_scores_one() -> None:
    answers = ranked("abc", p=("abc", [0.9, 0.8, 0.1]), q=("cab", [0.9, 0.2, 0.1]))
    scores = score_examples("covers", [example("p", "ab"), example("q", "c")], answers).scores
    assert scores == {"top1": 1.0, "mAP": 1.0, "mAP@5": 1.0, "t-mAP@5": 1.0}


@given(data=st.data())
def test_order_below_the_last_relevant_image_does_not_matter(data: st.DataObject) -> None:
    ids = "abcdefgh"
    order = "".join(data.draw(st.permutations(ids)))
    relevant = data.draw(st.sets(st.sampled_from(ids), min_size=1, max_size=4))
    last = max(order.index(letter) for letter in relevant) + 1
    tail = "".join(data.draw(st.permutations(order[last:])))
    scores = [1 - n / 10 for n in range(len(ids))]
    query = [example("q", "".join(sorted(relevant)))]
    before = score_examples("covers", query, ranked(ids, q=(order, scores))).scores
    after = score_examples("covers", query, ranked(ids, q=(order[:last] + tail, scores))).scores
    assert (before["mAP"], before["mAP@5"], before["top1"]) == (after["mAP"], after["mAP@5"], after["top1"])
    assert 0 <= before["t-mAP@5"] <= before["mAP@5"] + 1e-12 <= 1 + 1e-9


def test_queries_without_truth_leave_the_mean_and_are_told() -> None:
    answers = ranked("ab", p=("ab", [0.9, 0.8]), q=("ab", [0.2, 0.1]))
    scored = score_examples("covers", [example("p", "a"), example("q", "")], answers)
    assert scored.scores["top1"] == 1.0
    assert scored.scores["mAP"] == 1.0
    assert "1 queries have no relevant image" in scored.warnings[0]


def test_an_image_that_was_never_ranked_counts_as_missed() -> None:
    answers = ranked("abc", p=("ab", [0.9, 0.8]))
    assert score_examples("covers", [example("p", "ac")], answers).scores["mAP"] == 0.5


# captions


def known(ranks: dict[str, int], **more: Any) -> Answers:
    """Answers that only tell the target's rank."""
    kept = {name: {"rank": rank, "score": 0.5, "ranking": [0], "scores": [0.5], **more} for name, rank in ranks.items()}
    return Answers(image_ids=tuple(f"{n:03d}" for n in range(100)), kept=kept)


def test_captions_hand_worked() -> None:
    answers = known({"a": 1, "b": 4, "c": 7, "d": 60})
    targets = dict.fromkeys("abcd", ("000", "text"))
    scores = score_captions("captions", targets, answers).scores
    assert scores == {"text": {"R@1": 0.25, "R@5": 0.5, "R@10": 0.75, "MedR": 5.5}}


def test_captions_against_a_slow_reference_and_ir_measures() -> None:
    rng = np.random.default_rng(0)
    ranks = {f"q{n}": int(rng.integers(1, 30)) for n in range(80)}
    scores = score_captions("captions", dict.fromkeys(ranks, ("000", "text")), known(ranks)).scores["text"]
    run = [ir_measures.ScoredDoc(name, f"d{n}", 30.0 - n) for name in ranks for n in range(1, 31)]
    qrels = [ir_measures.Qrel(name, f"d{rank}", 1) for name, rank in ranks.items()]
    outside = ir_measures.calc_aggregate([ir_measures.R @ k for k in (1, 5, 10)], qrels, run)
    for k in (1, 5, 10):
        assert scores[f"R@{k}"] == pytest.approx(outside[ir_measures.R @ k], abs=1e-9)
        assert scores[f"R@{k}"] == sum(rank <= k for rank in ranks.values()) / len(ranks)
    assert scores["MedR"] == statistics.median(ranks.values())


# underwater


def test_known_items_are_macro_over_labels() -> None:
    targets = {"a": ("000", "fish"), "b": ("001", "fish"), "c": ("002", "shark")}
    answers = known({"a": 1, "b": 21, "c": 5}, pointed=True, inside=False)
    answers.kept["c"]["inside"] = True  # type: ignore[index]
    scores = score_known_items("underwater", targets, answers).scores
    assert scores == {"R@1": 0.25, "R@10": 0.75, "MNR": 8.0, "pointing": 0.5}


def test_a_method_that_never_points_is_told() -> None:
    answers = known({"a": 1}, pointed=False, inside=False)
    scored = score_known_items("underwater", {"a": ("000", "fish")}, answers)
    assert "gave no region" in scored.warnings[0]


# classes


def test_classes_hand_worked() -> None:
    # Scores: cat text (0.9, 0.2, 0.5), dog text (0.1, 0.8, 0.6) on images x, y, z; z is a cat.
    answers = ranked("xyz", cat=("xzy", [0.9, 0.5, 0.2]), dog=("yzx", [0.8, 0.6, 0.1]))
    scores = score_classes("classes", {"x": "cat", "y": "dog", "z": "cat"}, answers).scores
    assert scores == {"top1": pytest.approx(2 / 3), "top5": 1.0, "mAP": 1.0}


def test_classes_against_argmax() -> None:
    rng = np.random.default_rng(2)
    names = [f"class{n}" for n in range(8)]
    matrix = rng.random((8, 40))
    ids = [f"{n:02d}" for n in range(40)]
    own = rng.integers(0, 8, 40)
    kept = {}
    for row, name in enumerate(names):
        order = np.argsort(-matrix[row])
        kept[name] = {"ranking": order.tolist(), "scores": matrix[row, order].tolist()}
    class_of = {image_id: names[label] for image_id, label in zip(ids, own, strict=True)}
    scores = score_classes("classes", class_of, Answers(tuple(ids), kept)).scores
    assert scores["top1"] == pytest.approx(np.mean(matrix.argmax(axis=0) == own))
    top5 = np.argsort(-matrix, axis=0)[:5]
    assert scores["top5"] == pytest.approx(np.mean([own[n] in top5[:, n] for n in range(40)]))


# masks and road


def clip(name: str) -> Clip:
    """A sequence whose frames do not matter."""
    return Clip(name=name, query=f"{name}/0", masks={})


def test_masks_hand_worked() -> None:
    # Two frames to find at ranks 1 and 3 of 3: trapezoidal AP = (1 + (1/2 + 2/3)/2) / 2.
    kept = {
        "s": {"ranking": [1, 0, 2], "scores": [0.9, 0.8, 0.7], "ious": {"1": [0.72, 0.4], "2": [0.1, 0.9]}, "junk": []}
    }
    scores = score_masks("masks", [clip("s")], Answers(("x", "y", "z"), kept)).scores
    assert scores["mAP"] == pytest.approx((1 + (1 / 2 + 2 / 3) / 2) / 2)
    assert scores["mIoU"] == {"D": pytest.approx(0.41), "S": pytest.approx(0.65)}
    # Boxes: y passes 50 … 70, five thresholds; official then leaves z out, the paper keeps it as missed.
    assert scores["mAP@50:5:95"]["official"] == pytest.approx(0.5)
    assert scores["mAP@50:5:95"]["paper-D"] == pytest.approx(0.25)
    # Masks: z at rank 3 passes 50 … 85: AP = (0/2 + 1/3)/2 / 2.
    assert scores["mAP@50:5:95"]["paper-S"] == pytest.approx(0.8 * (1 / 3) / 2 / 2)


def test_masks_perfect_is_one() -> None:
    kept = {"s": {"ranking": [1, 2, 0], "scores": [3, 2, 1], "ious": {"1": [1.0, 1.0], "2": [1.0, 1.0]}, "junk": [0]}}
    scores = score_masks("masks", [clip("s")], Answers(("x", "y", "z"), kept)).scores
    assert scores["mAP"] == 1.0
    assert scores["mAP@50:5:95"] == {"official": 1.0, "paper-D": 1.0, "paper-S": 1.0}


def test_road_hand_worked() -> None:
    kept = {"odd": {"ranking": [2, 0, 1], "scores": [3, 2, 1], "inside": {"a": True, "b": None}}}
    scored = score_road("road", ["a", "b"], Answers(("a", "b", "c"), kept))
    assert scored.scores == {"mAP": pytest.approx((1 / 2 + 2 / 3) / 2), "pointing": 0.5}

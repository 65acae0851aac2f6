"""SearchAD scoring: the devkit's numbers on look-alikes, its quirks one by one."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from wherein.bench.evaluate import evaluate
from wherein.errors import DataError

CAT, DOG, POLICE, SIGN = "Animal-Real-Cat", "Animal-Real-Dog", "Vehicle-Duty-Police", "Sign-Animal-Sign"


def dump(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def said(warnings: Sequence[str], *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in warnings)


def box(label: str, side: float = 20) -> dict[str, Any]:
    return {"label": label, "bbox": [5, 5, 5 + side, 5 + side]}


@pytest.fixture
def searchad(tmp_path: Path) -> Path:
    annotations = {
        "acdc/0.png": [box(CAT)],
        "acdc/1.png": [box(CAT, 2)],  # 4 px²: ignored for cats
        "acdc/2.png": [box(CAT, 2), box(CAT)],  # one of two is large enough: positive
        "kitti/3.png": [],
        "kitti/4.png": [box(DOG), box(SIGN)],
        "kitti/5.png": [box("Animal-Real-Other")],
        "nuscenes/6.png": [box(POLICE), box(CAT)],
        "nuscenes/7.png": [{"label": DOG, "bbox": [0, 0, 10, 5]}],  # exactly 50 px²: positive
    }
    dump(tmp_path / "searchad_annotations_val.json", annotations)
    mapping = {str(number): path for number, path in enumerate(annotations)}
    dump(tmp_path / "searchad_test_mapping_id_to_imagepath.json", mapping)
    return tmp_path


PATHS = [f"{source}/{n}.png" for n, source in enumerate(["acdc"] * 3 + ["kitti"] * 3 + ["nuscenes"] * 2)]


def ranked(*rows: int) -> list[str]:
    return [PATHS[row] for row in rows]


FULL = {
    CAT: ranked(3, 0, 1, 2, 4, 5, 7, 6),
    DOG: ranked(7, 4, 0, 1, 2, 3, 5, 6),
    POLICE: ranked(0, 1, 2, 3, 4, 5, 6, 7),
    SIGN: ranked(4, 0, 1, 2, 3, 5, 6, 7),
}


def test_searchad_by_hand(searchad: Path) -> None:
    made = evaluate("searchad", data=searchad, predictions=dump(searchad / "p.json", FULL))
    # cats: image 1 leaves the ranking, so 3 0 2 4 5 7 6 with hits at ranks 2, 3 and 7
    cat = made.scores["classes"][CAT]
    assert cat["MAP"] == pytest.approx((1 / 2 + 2 / 3 + 3 / 7) / 3, abs=1e-12)
    assert cat["MRP"] == pytest.approx(2 / 3)
    assert cat["P@5"] == pytest.approx(2 / 5)
    assert cat["P@25"] == cat["P@100"] == pytest.approx(3 / 7)  # k is cut to the seven left
    dog, police, sign = (made.scores["classes"][label]["MAP"] for label in (DOG, POLICE, SIGN))
    assert (dog, police, sign) == pytest.approx((1, 1 / 7, 1))
    assert made.scores["overall"]["MAP"] == pytest.approx((cat["MAP"] + 1 + 1 / 7 + 1) / 4)
    by_category = {name: row["MAP"] for name, row in made.scores["categories"].items()}
    assert by_category == pytest.approx({"Animal": (cat["MAP"] + 1) / 2, "Sign": 1, "Vehicle": 1 / 7})
    assert list(made.scores["categories"]["Animal"]) == ["MAP", "MRP", "P@5", "P@25", "P@100"]
    assert made.scores["categories"]["Animal"]["P@5"] == pytest.approx(
        (cat["P@5"] + made.scores["classes"][DOG]["P@5"]) / 2
    )
    assert said(made.warnings, "86 of 90 labels have no ranking")
    assert set(made.scores) == {"overall", "classes", "categories"}
    first = next(query for query in made.queries if query.query_id == CAT).detail["first"]
    assert [entry["image_id"] for entry in first] == ranked(3, 0, 2, 4, 5, 7, 6)
    assert [entry["relevant"] for entry in first] == [False, True, True, False, False, False, True]


def slow_searchad(annotations: Mapping[str, Any], predictions: Mapping[str, list[str]]) -> dict[str, dict[str, float]]:
    """The devkit's rule with sets and loops; a path ranked twice counts at its last place."""
    results = {}
    for label, paths in predictions.items():
        areas = {
            image: [(b["bbox"][2] - b["bbox"][0]) * (b["bbox"][3] - b["bbox"][1]) for b in boxes if b["label"] == label]
            for image, boxes in annotations.items()
        }
        ignored = {image for image, sizes in areas.items() if sizes and max(sizes) < 50}
        positive = {image for image, sizes in areas.items() if sizes and max(sizes) >= 50}
        left = [path for path in paths if path not in ignored]
        if not left:
            continue
        where = {path: place for place, path in enumerate(left)}
        target = [0] * len(left)
        for image in positive & where.keys():
            target[where[image]] = 1
        found = sum(target)
        ap = sum(sum(target[: i + 1]) / (i + 1) for i in range(len(target)) if target[i]) / found if found else 0.0
        figures = {"MAP": ap, "MRP": sum(target[:found]) / found if found else 0.0}
        results[label] = figures | {f"P@{k}": sum(target[:k]) / min(k, len(target)) for k in (5, 25, 100)}
    return results


@pytest.mark.parametrize("seed", range(5))
def test_searchad_matches_the_slow_evaluator_on_full_truncated_and_doubled_rankings(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    images = [f"acdc/{n}.png" for n in range(60)]
    labels = [CAT, DOG, POLICE, SIGN]
    annotations = {
        image: [box(rng.choice(labels), rng.choice([3, 7, 8, 40])) for _ in range(rng.randrange(4))] for image in images
    }
    dump(tmp_path / "searchad_annotations_train.json", annotations)
    predictions = {label: rng.sample(images, rng.choice([60, 30, 3])) for label in labels}
    predictions[DOG].append(predictions[DOG][0])
    path = dump(tmp_path / "p.json", predictions)
    made = evaluate("searchad", data=tmp_path, predictions=path, split="train")
    expected = slow_searchad(annotations, predictions)
    assert made.scores["classes"].keys() == expected.keys()
    for label, figures in expected.items():
        assert made.scores["classes"][label] == pytest.approx(figures, abs=1e-9)
    assert said(made.warnings, "1 duplicate paths", "last place")


def test_searchad_truncated_rankings_are_inflated_officially_and_warned_about(searchad: Path) -> None:
    path = dump(searchad / "p.json", {CAT: ranked(0, 3)})
    official = evaluate("searchad", data=searchad, predictions=path)
    assert official.scores["classes"][CAT]["MAP"] == 1.0  # one of three found, divided by one
    assert official.scores["classes"][CAT]["MRP"] == 1.0
    assert said(official.warnings, "truncated", "too high")
    paper = evaluate("searchad", data=searchad, predictions=path, protocol="paper")
    assert paper.scores["classes"][CAT]["MAP"] == pytest.approx(1 / 3)
    assert paper.scores["classes"][CAT]["MRP"] == pytest.approx(1 / 3)
    assert paper.scores["overall"]["MAP"] == pytest.approx(1 / 3 / 90)
    assert len(paper.scores["classes"]) == 90
    assert said(paper.warnings, "89 of 90 labels", "count 0")


def test_searchad_official_and_paper_agree_on_full_rankings_of_scored_labels(searchad: Path) -> None:
    path = dump(searchad / "p.json", FULL)
    official = evaluate("searchad", data=searchad, predictions=path).scores["classes"]
    paper = evaluate("searchad", data=searchad, predictions=path, protocol="paper").scores["classes"]
    assert {label: paper[label] for label in official} == official


def test_searchad_labels_outside_the_ninety_are_not_scored(searchad: Path) -> None:
    path = dump(searchad / "p.json", {**FULL, "Animal-Real-Other": ranked(5, 0)})
    made = evaluate("searchad", data=searchad, predictions=path)
    assert "Animal-Real-Other" not in made.scores["classes"]
    assert said(made.warnings, "outside the 90", "Animal-Real-Other")


def test_searchad_label_that_is_empty_after_ignoring_leaves_the_mean(searchad: Path) -> None:
    path = dump(searchad / "p.json", {CAT: ranked(1), DOG: ranked(7, 4)})
    made = evaluate("searchad", data=searchad, predictions=path)
    assert set(made.scores["classes"]) == {DOG}
    assert made.scores["overall"]["MAP"] == 1.0
    assert said(made.warnings, "empty once ignored", CAT)


def test_searchad_label_without_relevant_images_scores_zero_and_stays(searchad: Path) -> None:
    path = dump(searchad / "p.json", {"Object-Ball": ranked(0, 1), DOG: ranked(7, 4)})
    made = evaluate("searchad", data=searchad, predictions=path)
    assert made.scores["classes"]["Object-Ball"]["MAP"] == 0.0
    assert made.scores["overall"]["MAP"] == 0.5
    assert said(made.warnings, "no relevant image", "Object-Ball")


def test_searchad_paths_of_another_split_count_as_not_relevant(searchad: Path) -> None:
    path = dump(searchad / "p.json", {DOG: ["acdc/unknown.png", *ranked(7, 4)]})
    made = evaluate("searchad", data=searchad, predictions=path)
    assert made.scores["classes"][DOG]["MAP"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert said(made.warnings, "1 ranked paths", "not images of the val split")


def test_searchad_submission_file_is_scored_through_the_test_mapping(searchad: Path) -> None:
    ids = {label: [PATHS.index(path) for path in paths] for label, paths in FULL.items()}
    submission = dump(searchad / "s.json", {"metadata": {"Team Name": "x"}, "predictions": ids})
    own = evaluate("searchad", data=searchad, predictions=submission)
    plain = evaluate("searchad", data=searchad, predictions=dump(searchad / "p.json", FULL))
    assert own.scores == plain.scores


def test_searchad_swapped_corners_are_warned_about_and_counted_as_the_devkit_does(tmp_path: Path) -> None:
    annotations = {
        "acdc/0.png": [{"label": CAT, "bbox": [30, 30, 5, 5]}],  # both axes: the product is positive again
        "acdc/1.png": [{"label": CAT, "bbox": [30, 5, 5, 30]}],  # one axis: negative, so too small
    }
    dump(tmp_path / "searchad_annotations_val.json", annotations)
    path = dump(tmp_path / "p.json", {CAT: ["acdc/1.png", "acdc/0.png"]})
    made = evaluate("searchad", data=tmp_path, predictions=path)
    assert made.scores["classes"][CAT]["MAP"] == 1.0
    assert said(made.warnings, "2 boxes", "swapped corners")


SEARCHAD_ERRORS = [
    pytest.param({"Cat": ranked(0)}, "none of its labels", id="no known label"),
    pytest.param({CAT: ["x/0.png"]}, "none of its images", id="no known image"),
    pytest.param({CAT: "acdc/0.png"}, "must hold a list", id="a path where a list belongs"),
    pytest.param({CAT: [["acdc/0.png"]]}, "nothing nested", id="a nested list"),
    pytest.param({CAT: ranked(1)}, "every ranking is empty", id="only ignored images"),
]


@pytest.mark.parametrize(("predictions", "message"), SEARCHAD_ERRORS)
def test_searchad_errors(searchad: Path, predictions: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate("searchad", data=searchad, predictions=dump(searchad / "p.json", predictions))

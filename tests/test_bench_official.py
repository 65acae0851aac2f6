"""Runs of the official formats with the toy encoder: their files, their scores, their variants."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.journal import Journal
from wherein.bench.pixel.dataset import read_query_mask
from wherein.bench.pixel.pictures import BOTH, FOUND, TRUE, overlay
from wherein.bench.run import Plan, run
from wherein.bench.searchad.variants import confusion, size_thirds
from wherein.bench.subregion.task import target_only
from wherein.bench.task import Variant
from wherein.errors import DataError, SpecError

Paint = Callable[..., Path]
Lines = Callable[..., None]
Go = Callable[..., Evaluation]
Figures = Callable[[Evaluation], dict[str, Any]]


@pytest.mark.parametrize("options", [{}, {"texts": "first-keyword"}, {"texts": "keywords"}, {"modality": "vision"}])
def test_searchad_run_writes_what_evaluate_scores(
    tmp_path: Path, options: dict[str, Any], searchad_data: Path, go: Go, figures: Figures
) -> None:
    found = go("searchad", searchad_data, tmp_path / "out", **options)
    predictions = tmp_path / "out/predictions/searchad_val.json"
    document = json.loads(predictions.read_text())
    assert {len(ranking) for ranking in document.values()} == {18}
    assert figures(found) == evaluate("searchad", data=searchad_data, predictions=predictions).scores
    assert found.scores["overall"]["MAP"] == pytest.approx(1.0)


def test_a_label_without_example_images_is_named(tmp_path: Path, searchad_data: Path, go: Go) -> None:
    path = searchad_data / "default_queries/Object-Ball.json"
    document = json.loads(path.read_text())
    document["supportsets"]["vision"] = {}
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"1 labels have no example images .*: Object-Ball; .*--modality language"):
        go("searchad", searchad_data, tmp_path / "out", modality="vision")
    assert go("searchad", searchad_data, tmp_path / "texts").scores["overall"]["MAP"] == pytest.approx(1.0)


def test_searchad_variants_need_no_new_answers(tmp_path: Path, searchad_data: Path, go: Go) -> None:
    go("searchad", searchad_data, tmp_path / "out")
    found = go("searchad", searchad_data, tmp_path / "out", size_thirds=True, confusion=True)
    variants = found.scores["variants"]
    assert variants["small third of objects"]["MAP"] == pytest.approx(1.0)
    matrix = np.array(variants["confusion@50"]["matrix"])
    assert matrix == pytest.approx(np.full((3, 3), 6 / 18))  # fewer than 50 images: each label has a third


def test_searchad_test_split_is_ranked_but_not_scored(
    tmp_path: Path, searchad_data: Path, go: Go, figures: Figures
) -> None:
    found = go("searchad", searchad_data, tmp_path / "out", split="test")
    assert figures(found) == {}
    assert "not public" in found.warnings[-1]


def test_size_thirds_hand_worked() -> None:
    from wherein.bench.task import Answers

    annotations = {f"{n}": [("Object-Ball", (0.0, 0.0, 10.0, 10.0 * (n + 1)))] for n in range(3)}
    answers = Answers(("0", "1", "2", "x"), {"Object-Ball": {"ranking": [2, 3, 1, 0]}})
    found = size_thirds(annotations, answers)
    # Largest first; then x; the middle one leaves the ranking, so the smallest is third of 2, x, 0 without 2: 2nd.
    assert found["large third of objects"]["MAP"] == 1.0
    assert found["small third of objects"]["MAP"] == pytest.approx(1 / 2)


def test_confusion_hand_worked(searchad_data: Path) -> None:
    from wherein.bench.searchad import dataset as searchad
    from wherein.bench.task import Answers

    truth = searchad.load(searchad_data, split="val")
    red, blue = ([truth.images[i] for i in truth.positives[name]] for name in ("Animal-Real-Cow", "Object-Ball"))
    ids = tuple(sorted(truth.images))
    order = [ids.index(name) for name in (*red[:1], *blue[:3])]
    found = confusion(truth, Answers(ids, {"Animal-Real-Cow": {"ranking": order}, "Object-Ball": {"ranking": order}}))
    assert found["matrix"][0] == [0.25, 0.75]
    # An image that is ignored for a label leaves its ranking: of the three that are left, one is a cow.
    ignored = {**truth.ignored, "Animal-Real-Cow": np.array([truth.images.index(blue[0])])}
    left = confusion(
        replace(truth, ignored=ignored), Answers(ids, {name: {"ranking": order} for name in found["labels"]})
    )
    assert left["P@50"]["Animal-Real-Cow"] == pytest.approx(1 / 3)
    assert left["matrix"][0] == pytest.approx([1 / 3, 2 / 3])
    assert found["P@50"]["Animal-Real-Cow"] == 0.25


@pytest.fixture
def forb_data(tmp_path: Path, paint_square: Paint, lines: Lines) -> Path:
    """Two objects; each has one relevant image per query and shared distractors."""
    root, names = tmp_path / "forb", []
    for name, colours in (("animated_cards", ("red", "blue")), ("logos", ("green", "purple"))):
        records = []
        for n, colour in enumerate(colours, 1):
            paint_square(root / f"{name}/{colour}.png", colour, "white")
            paint_square(root / f"queries/{name}-{colour}.png", colour, colour, "white")
            records.append(
                {
                    "query_id": n,
                    "query_image": f"queries/{name}-{colour}.png",
                    "groundtruth_ids": [n],
                    "difficulty": ("easy", "hard")[n - 1],
                }
            )
        paint_square(root / f"{name}/other.png", "yellow", "black")
        names += [f"{name}/{colour}.png" for colour in (*colours, "other")]
        lines(root / f"metadata/{name}_gt.ndjson", *records)
    (root / "metadata/all_database_images.txt").write_text("\n".join(names) + "\n")
    return root


def test_forb_run_writes_both_result_files_of_each_object(
    tmp_path: Path, forb_data: Path, go: Go, figures: Figures
) -> None:
    found = go("forb", forb_data, tmp_path / "out")
    assert found.scores["all"]["overall"] == {
        "mAP@1": 1.0,
        "mAP@5": 1.0,
        "t-mAP@1": pytest.approx(1.0),
        "t-mAP@5": pytest.approx(1.0),
    }
    folder = tmp_path / "out/predictions"
    assert sorted(path.name for path in folder.iterdir()) == [
        "animated_cards_all.ndjson",
        "animated_cards_oods.ndjson",
        "logos_all.ndjson",
        "logos_oods.ndjson",
    ]
    first = json.loads((folder / "logos_all.ndjson").read_text().splitlines()[0])
    assert first["candidate_db_ids"][0] == 3
    rejected = json.loads((folder / "logos_oods.ndjson").read_text().splitlines()[0])
    assert sorted(rejected["candidate_db_ids"]) == [2, 5]
    assert evaluate("forb", data=forb_data, predictions=folder).scores == figures(found)


def make_revisited(root: Path, paint_square: Paint, *, labels: bool = False) -> Path:
    """Four database images, two queries cropped to their left half."""
    for name, colours in {
        "red": ("red", "white"),
        "reddish": ("red", "red", "white"),
        "blue": ("blue", "white"),
        "grey": ("grey", "black"),
        "q0": ("red", "yellow"),
        "q1": ("blue", "yellow"),
    }.items():
        paint_square(root / f"jpg/{name}.jpg", *colours)
    box = [0.0, 0.0, 32.0, 64.0]
    truth = [
        {"easy": np.array([0]), "hard": np.array([1]), "junk": np.array([], dtype=np.int64), "bbx": box},
        {"easy": np.array([2]), "hard": np.array([], dtype=np.int64), "junk": np.array([3]), "bbx": box},
    ]
    document = {"imlist": ["red", "reddish", "blue", "grey"], "qimlist": ["q0", "q1"], "gnd": truth}
    (root / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(document))
    if labels:
        pairs = {}
        for key in ("0_0", "0_1", "1_2"):
            path = root / f"labels/{key}.json"
            path.parent.mkdir(exist_ok=True)
            shape = {"points": [[0, 0], [31, 0], [31, 63], [0, 63]]}
            path.write_text(json.dumps({"shapes": [shape]}))
            pairs[key] = f"labels/{key}.json"
        np.save(root / "oxford_pair2labelpath.npy", np.array(pairs, dtype=object), allow_pickle=True)
    return root


def test_revisited_run_writes_ranks(tmp_path: Path, paint_square: Paint, go: Go) -> None:
    data = make_revisited(tmp_path / "data", paint_square)
    found = go("roxford5k", data, tmp_path / "out")
    ranks = np.load(tmp_path / "out/predictions/roxford5k_ranks.npy")
    assert ranks.shape == (4, 2)
    assert sorted(ranks[:2, 0].tolist()) == [0, 1]
    assert ranks[0, 1] == 2
    assert found.scores["medium"]["mAP"] == 1.0


def test_the_paper_protocol_is_a_way_of_scoring_the_same_answers(tmp_path: Path, forb_data: Path, go: Go) -> None:
    go("forb", forb_data, tmp_path / "out")
    assert go("forb", forb_data, tmp_path / "out", protocol="paper").protocol == "paper"
    with pytest.raises(SpecError, match="official, paper"):
        go("forb", forb_data, tmp_path / "out", protocol="mine")


def test_revisited_distractors_count_behind_the_list(tmp_path: Path, paint_square: Paint, go: Go) -> None:
    data = make_revisited(tmp_path / "data", paint_square)
    paint_square(tmp_path / "million/x.png", "blue")
    found = go("roxford5k", data, tmp_path / "out", distractors=str(tmp_path / "million"))
    ranks = np.load(tmp_path / "out/predictions/roxford5k_ranks.npy")
    assert ranks[0, 1] == 4
    assert found.scores["easy"]["mAP"] < 1.0


@pytest.mark.parametrize("task", ["database", "pairs"])
def test_pixel_run_locates_with_a_method_that_says_where(
    tmp_path: Path, task: str, paint_square: Paint, go: Go
) -> None:
    data = make_revisited(tmp_path / "data", paint_square, labels=True)
    found = go("proxford", data, tmp_path / "out", method="toy:2+patches", task=task)
    assert found.scores["medium"]["mIoU"]["D"] > 0.3
    assert ("mAP@50:5:95" in found.scores["medium"]) == (task == "database")
    matches = np.load(tmp_path / "out/predictions/proxford_matches.npy", allow_pickle=True).item()
    assert set(matches) == {"qimlist_0_imlist_0", "qimlist_0_imlist_1", "qimlist_1_imlist_2"}


@pytest.mark.parametrize("task", ["database", "pairs"])
def test_pairs_are_located_whatever_their_rank(
    tmp_path: Path, task: str, paint_square: Paint, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherein.search.steps.locate.LOCATED_MOST", 10)  # not 500, which more images would exceed
    data = make_revisited(tmp_path / "data", paint_square, labels=True)
    for number in range(12):
        paint_square(tmp_path / f"million/{number}.png", "red", "red", "red", "yellow")
    kept = {"method": "toy:2+locate", "task": task}
    plain = go("proxford", data, tmp_path / "a", **kept)
    crowded = go("proxford", data, tmp_path / "b", distractors=str(tmp_path / "million"), **kept)
    assert all(min(ious) > 0.3 for ious in plain.scores["ious"].values())
    assert crowded.scores["ious"] == plain.scores["ious"]


def test_the_pairs_task_needs_only_the_images_of_its_pairs(tmp_path: Path, paint_square: Paint) -> None:
    data, home = make_revisited(tmp_path / "data", paint_square, labels=True), tmp_path / "home"
    pairs = Plan("proxford", data, "toy:2+locate", tmp_path / "pairs", options=Variant(task="pairs"), home=home)
    alone = run(replace(pairs, home=None)).scores["ious"]
    assert sorted(path.stem for path in (tmp_path / "pairs/images").iterdir()) == ["blue", "red", "reddish"]
    run(Plan("proxford", data, "toy:2+locate", tmp_path / "database", home=home))
    assert run(replace(pairs, out=tmp_path / "shared")).scores["ious"] == alone


def test_subregion_run_and_its_box_statistics(tmp_path: Path, subregion_data: Path, go: Go) -> None:
    found = go("subregion", subregion_data, tmp_path / "out", box_statistics=True)
    assert found.scores["all"]["long"]["R@1"] == 1.0
    assert found.scores["skippable"]["short"]["MNR"] == 1.0
    assert found.scores["variants"]["static-5 skippable"]["mean IoU"] > 0.45
    assert Journal(tmp_path / "out/answers.ndjson")["skippable/anna/0/long"]["rank"] == 1


def test_target_only_compares_cosines_with_cosines(tmp_path: Path, subregion_data: Path, go: Go) -> None:
    with pytest.raises(SpecError, match=r"toy\+static-9 are of the kind standardised.*~best~crop~alone"):
        go("subregion", subregion_data, tmp_path / "fused", method="toy+static-9", target_only=True)
    go("subregion", subregion_data, tmp_path / "alone", method="toy+static-9~best~crop~alone", target_only=True)
    kept = Journal(tmp_path / "alone/answers.ndjson")
    assert kept.score_kinds == {"cosine"}
    assert all(-1 <= kept[name]["score"] <= 1 for name in kept)


def test_target_only_changes_the_target_alone() -> None:
    hits = [wherein.Hit("a", 0.9), wherein.Hit("b", 0.5), wherein.Hit("c", 0.4)]
    finer = [wherein.Hit("c", 0.9), wherein.Hit("b", 0.8), wherein.Hit("a", 0.1)]
    assert [hit.image_id for hit in target_only(hits, finer, target="c")] == ["a", "c", "b"]


def test_queries_can_be_asked_by_their_masks(tmp_path: Path, paint_square: Paint, go: Go) -> None:
    data = make_revisited(tmp_path / "data", paint_square, labels=True)
    with pytest.raises(DataError, match=r"2 of 2 queries .* have no mask, first 0"):
        go("proxford", data, tmp_path / "none", query="mask")
    assert not (tmp_path / "none").exists()
    shape = {"points": [[0, 0], [31, 0], [31, 63], [0, 63]]}
    (data / "query_masks").mkdir()
    (data / "query_masks" / "0.json").write_text(json.dumps({"shapes": [shape]}))
    white = np.zeros((64, 64), dtype=np.uint8)
    white[:, :32] = 255
    PIL.Image.fromarray(white).save(data / "query_masks" / "1.png")
    assert (read_query_mask(data / "query_masks" / "0.json", size_wh=(64, 64)) == (white > 0)).all()
    boxed = go("proxford", data, tmp_path / "box", method="toy:2+locate")
    masked = go("proxford", data, tmp_path / "mask", method="toy:2+locate", query="mask")
    assert masked.scores["medium"]["mIoU"]["S"] > 0.3
    assert masked.scores["medium"]["mAP"] == boxed.scores["medium"]["mAP"] == 1.0
    ranks = tmp_path / "mask/predictions/roxford5k_ranks.npy"
    image_level = evaluate("roxford5k", data=data, predictions=ranks).scores["medium"]["mAP"]
    assert masked.scores["medium"]["mAP"] == pytest.approx(image_level)


def test_the_page_draws_pairs_with_what_is_true_and_what_was_found(tmp_path: Path, paint_square: Paint, go: Go) -> None:
    data = make_revisited(tmp_path / "data", paint_square, labels=True)
    go("proxford", data, tmp_path / "out", method="toy:2+locate")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count('"pair 0_1":"data:image/webp') == 1
    assert page.count('"q0":"data:image/webp') == 1
    evaluation = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    for query in evaluation["queries"]:
        shown = [pair["image_id"] for key in ("best_pairs", "worst_pairs") for pair in query["detail"].get(key, [])]
        assert len(shown) == len(set(shown))  # each pair once, the better half first
    assert "worst_pairs" in page


def test_an_overlay_has_a_colour_for_true_found_and_both() -> None:
    black = np.zeros((1, 4, 3), dtype=np.uint8)
    true = np.array([[True, True, False, False]])
    found = np.array([[True, False, True, False]])
    both, only_true, only_found, neither = overlay(black, true, found)[0].tolist()
    assert [both, only_true, only_found] == [[value // 2 for value in colour] for colour in (BOTH, TRUE, FOUND)]
    assert neither == [0, 0, 0]


def test_what_stood_there_before_re_ranking_is_written_and_scored(tmp_path: Path, forb_data: Path, go: Go) -> None:
    found = go("forb", forb_data, tmp_path / "out", method="toy+qe")
    plain = go("forb", forb_data, tmp_path / "plain", method="toy")
    line = json.loads((tmp_path / "out/predictions/logos_all.ndjson").read_text().splitlines()[0])
    without = json.loads((tmp_path / "plain/predictions/logos_all.ndjson").read_text().splitlines()[0])
    assert line["candidate_db_ids_before_reranking"] == without["candidate_db_ids"]
    assert line["global_scores_before_reranking"] == pytest.approx(without["global_scores"])
    assert "candidate_db_ids_before_reranking" not in without
    before = found.scores["variants"]["before re-ranking, overall"]
    assert before == pytest.approx(plain.scores["all"]["overall"])
    assert "variants" not in plain.scores


def test_queries_of_other_domains_set_their_own_thresholds(
    tmp_path: Path, forb_data: Path, paint_square: Paint, go: Go
) -> None:
    # One finds a card surely, so that nothing passes its threshold; another in a folder of its own has the same name.
    for place in ("red.png", "more/red.png"):
        paint_square(tmp_path / "strange" / place, "red", "white")
    found = go("forb", forb_data, tmp_path / "out", out_of_domain=str(tmp_path / "strange"))
    strict = found.scores["variants"]["out of domain, overall"]
    assert strict["mAP@5"] == found.scores["all"]["overall"]["mAP@5"] == 1.0
    assert strict["t-mAP@5"] < found.scores["all"]["overall"]["t-mAP@5"]
    lines = (tmp_path / "out/predictions/out_of_domain.ndjson").read_text().splitlines()
    assert [json.loads(line)["query_image"] for line in lines] == ["more/red.png", "red.png"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty holds no image"):
        go("forb", forb_data, tmp_path / "none", out_of_domain=str(tmp_path / "empty"))

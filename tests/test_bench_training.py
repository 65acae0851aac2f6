"""SearchAD's fine-tuning experiment with the toy encoder: learnt on train, measured on val, source by source."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wherein
from wherein.bench.evaluation import Evaluation
from wherein.bench.searchad.dataset import load_queries, read_annotations
from wherein.bench.searchad.training import coco, taught_images, taught_labels
from wherein.bench.tables import figure
from wherein.errors import SpecError

Go = Callable[..., Evaluation]
Paint = Callable[..., Path]


@pytest.fixture
def unnamed(searchad_data: Path, paint_square: Paint) -> Path:
    """The same, with a second source, and support sets whose words mean nothing to the encoder."""
    for split in ("train", "val"):
        path = searchad_data / f"searchad_annotations_{split}.json"
        document = json.loads(path.read_text())
        for label, colour in {"Animal-Real-Cow": "red", "Object-Ball": "blue"}.items():
            for number in range(2):
                name = f"nuscenes/{split}/{colour}-{number}.png"
                paint_square(searchad_data / name, colour, *(["white"] * number))
                document[name] = [{"label": label, "bbox": [0, 0, 40, 40]}]
        path.write_text(json.dumps(document))
    for path in (searchad_data / "default_queries").glob("*.json"):
        document = json.loads(path.read_text())
        document["supportsets"]["language"] = {"keywords": ["purple"], "descriptions": []}
        path.write_text(json.dumps(document))
    return searchad_data


@pytest.mark.parametrize("unseen", [(), ("nuscenes",)], ids=["every source is seen", "nuscenes is never seen"])
def test_a_head_learns_the_labels_and_finds_them_where_it_never_looked(
    tmp_path: Path, unnamed: Path, go: Go, unseen: tuple[str, ...]
) -> None:
    plain = go("searchad", unnamed, tmp_path / "plain")
    found = go("searchad", unnamed, tmp_path / "out", train="head", unseen=unseen or None)
    assert plain.scores["overall"]["MAP"] < 0.7
    assert found.scores["overall"]["MAP"] == pytest.approx(1.0)
    assert found.scores["classes"]["Animal-Real-Cow"]["MAP"] == pytest.approx(1.0)
    sources = found.scores["sources"]
    assert {name: (one["labels"], one["seen"]) for name, one in sources.items()} == {
        "kitti": (3, 1),
        "nuscenes": (2, float(not unseen)),
    }
    assert sources["nuscenes"]["MAP"] == pytest.approx(1.0)
    again = go("searchad", unnamed, tmp_path / "out", train="head", unseen=unseen or None)
    assert again.scores["overall"] == found.scores["overall"]


def test_an_adapter_is_trained_and_asked_with_the_support_sets(tmp_path: Path, unnamed: Path, go: Go) -> None:
    plain = go("searchad", unnamed, tmp_path / "plain")
    found = go("searchad", unnamed, tmp_path / "out", train="adapter")
    assert found.scores["overall"]["MAP"] >= plain.scores["overall"]["MAP"] - 1e-9
    with wherein.open(tmp_path / "out" / "collection") as collection:
        assert [card.kind for card in collection.trained()] == ["adapter"]


def test_a_source_says_how_many_labels_it_shows_and_whether_it_was_learnt_from() -> None:
    assert (figure(11.0, "labels"), figure(0.0, "seen"), figure(0.5, "MAP")) == ("11", "0", "50.00")


def test_the_train_split_is_a_coco_document_with_its_support_sets(unnamed: Path) -> None:
    annotations: Any = taught_images(read_annotations(unnamed, "train"), ["nuscenes"])
    annotations["kitti/train/red-0.png"] = [("Animal-Real-Cow", (0.0, 0.0, 5.0, 5.0))]
    document = coco(unnamed, annotations, load_queries(unnamed))
    assert [one["name"] for one in document["categories"]] == list(taught_labels(annotations))
    assert document["categories"][0]["texts"] == ["purple"]
    assert len(document["images"]) == 18
    boxes = {one["image_id"]: one["bbox"] for one in document["annotations"]}
    names = {one["file_name"]: one["id"] for one in document["images"]}
    assert boxes[names["kitti/train/red-0.png"]] == [0, 0, 0, 0]  # below 50 px²: it says nothing
    assert boxes[names["kitti/train/red-5.png"]] == [0, 0, 48, 48]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unseen": ("kitti",)}, "add --train"),
        ({"train": "head", "unseen": ("moon",)}, "no image of the train split is from there"),
        ({"train": "head", "split": "train"}, "cannot be measured on it"),
        ({"train": "head", "modality": "vision"}, "leave out --modality"),
        ({"train": "tail"}, "none of head, adapter, full"),
    ],
)
def test_what_cannot_be_learnt_is_refused_first(
    tmp_path: Path, searchad_data: Path, go: Go, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        go("searchad", searchad_data, tmp_path / "out", **options)
    assert not (tmp_path / "out" / "collection").exists()

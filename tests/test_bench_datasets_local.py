"""Small local sets: what their folders must look like."""

import json
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from wherein import Box
from wherein.bench.local import dataset as local
from wherein.bench.registry import TASKS, load_task
from wherein.bench.task import Variant
from wherein.errors import DataError, SpecError


def picture(path: Path, colour: str = "red", size_wh: tuple[int, int] = (8, 8)) -> Path:
    """A one-colour image file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("RGB", size_wh, colour).save(path)
    return path


def lines(path: Path, *records: dict[str, Any]) -> None:
    """An ndjson file."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def make_covers(root: Path) -> Path:
    """Two references, one query."""
    picture(root / "queries/q.png")
    picture(root / "database/a.png")
    picture(root / "database/b.png", "blue")
    lines(root / "qrels.jsonl", {"query": "queries/q.png", "relevant": ["database/a.png"]})
    return root


def test_covers_are_read_by_shape(tmp_path: Path) -> None:
    found = local.load_examples(make_covers(tmp_path))
    assert found.image_ids == ("a.png", "b.png")
    assert found.queries[0].relevant == ("a.png",)


def test_hidden_files_are_not_images_of_a_set(tmp_path: Path) -> None:
    make_covers(tmp_path)
    picture(tmp_path / "database/.cache/c.png")
    assert local.load_examples(tmp_path).image_ids == ("a.png", "b.png")


def test_objects_leave_one_out_and_skip_singles(tmp_path: Path) -> None:
    for name in ("cup/0.png", "cup/1.png", "hat/0.png"):
        picture(tmp_path / name)
    queries = local.load_objects(tmp_path).queries
    assert [(query.name, query.relevant, query.own) for query in queries] == [
        ("cup/0.png", ("cup/1.png",), "cup/0.png"),
        ("cup/1.png", ("cup/0.png",), "cup/1.png"),
    ]


def test_boxes_with_swapped_corners_are_put_in_order(tmp_path: Path) -> None:
    picture(tmp_path / "images/0.png")
    lines(
        tmp_path / "boxes.jsonl", {"image": "images/0.png", "boxes": [{"label": "fish", "box": [0.6, 0.1, 0.2, 0.4]}]}
    )
    assert local.load_boxed(tmp_path).boxes == {"0.png": {"fish": (Box(0.2, 0.1, 0.6, 0.4),)}}


@pytest.mark.parametrize(
    ("benchmark", "spoil", "why"),
    [
        ("covers", lambda root: (root / "qrels.jsonl").unlink(), "qrels.jsonl is missing"),
        ("covers", lambda root: (root / "database/a.png").unlink(), "does not exist"),
        ("covers", lambda root: lines(root / "qrels.jsonl", {"query": "queries/no.png", "relevant": []}), "no.png"),
        ("covers", lambda root: lines(root / "qrels.jsonl", {"query": "queries/q.png"}), "'relevant' is missing"),
        (
            "covers",
            lambda root: lines(root / "qrels.jsonl", {"query": "queries/q.png", "relevant": ["queries/q.png"]}),
            "not under",
        ),
        (
            "covers",
            lambda root: lines(root / "qrels.jsonl", {"query": "queries/q.png", "relevant": ["database/a.png"] * 2}),
            "twice",
        ),
        ("captions", lambda root: None, "looks like covers or facades"),
        ("objects", lambda root: None, "looks like covers or facades; the set is one folder"),
        ("classes", lambda root: None, "looks like covers or facades"),
        ("objects", lambda root: ((root / "qrels.jsonl").unlink(), picture(root / "loose.png")), "is in no folder"),
        (
            "masks",
            lambda root: (picture(root / "images/odd_1.png"), picture(root / "masks/odd_1.png")),
            "looks like covers or facades or road; the set is images/SEQUENCE/",
        ),
        (
            "masks",
            lambda root: (picture(root / "images/0.png"), picture(root / "masks/0.png")),
            "0.png is in no sequence's folder",
        ),
        ("masks", lambda root: None, "images is missing"),
        ("road", lambda root: (picture(root / "images/odd_1.png"), (root / "masks").mkdir()), "has no mask"),
        ("underwater", lambda root: None, "boxes.jsonl is missing"),
    ],
)
def test_a_folder_of_another_shape_is_refused(tmp_path: Path, benchmark: str, spoil: Any, why: str) -> None:
    make_covers(tmp_path)
    spoil(tmp_path)
    with pytest.raises(DataError, match=why):
        load_task(benchmark, tmp_path)


def test_unknown_benchmarks_and_options_are_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="captions, covers"):
        load_task("cover", tmp_path)
    with pytest.raises(SpecError, match="covers has no option --perturb; it has --distractors"):
        load_task("covers", make_covers(tmp_path), Variant(perturb=(0.1, 0.1)))
    with pytest.raises(SpecError, match="where the class name goes"):
        load_task("classes", tmp_path, Variant(prompt=("a photo",)))


def test_every_local_set_has_a_shape_and_a_task() -> None:
    assert set(local.SHAPES) <= set(TASKS)

"""Runs end to end with the toy encoder, whose scores a person can check; resuming."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.bench.evaluation import Evaluation
from wherein.bench.journal import Journal
from wherein.bench.run import Plan, load_evaluation, run
from wherein.bench.staging import Stage
from wherein.bench.task import Variant
from wherein.errors import DataError, SpecError

Paint = Callable[..., Path]
Lines = Callable[..., None]
Go = Callable[..., Evaluation]
Figures = Callable[[Evaluation], dict[str, Any]]


def save_mask(path: Path, *, left: int, right: int) -> None:
    """A mask whose columns from left to right are set."""
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[:, left:right] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(mask).save(path)


# local sets


def test_captions_run(tmp_path: Path, captions_data: Path, go: Go, figures: Figures) -> None:
    found = go("captions", captions_data, tmp_path / "out")
    assert figures(found)["text"]["R@1"] == pytest.approx(11 / 12)
    assert figures(found)["text"]["MedR"] == 1.0
    timing = found.scores["timing"]
    assert timing["queries"] == 12
    assert timing["seconds_per_query"] > 0
    assert timing["setup_seconds"] > 0
    assert timing["peak_memory_bytes"] > 10_000_000
    assert found.scores["bytes_per_image"] > 0


def test_covers_run_is_perfect_and_leaves_its_files(
    tmp_path: Path, covers_data: Path, go: Go, figures: Figures
) -> None:
    out = tmp_path / "out"
    found = go("covers", covers_data, out)
    assert figures(found) == {"top1": 1.0, "mAP": 1.0, "mAP@5": 1.0, "t-mAP@5": pytest.approx(1.0)}
    assert json.loads((out / "scores.json").read_text())["mAP"] == 1.0
    assert "data:image/webp" in (out / "report.html").read_text(encoding="utf-8")
    assert load_evaluation(out) == ("toy", found)
    assert not list(covers_data.rglob(".wherein")), "the data folder is left as it was"


def test_distractors_are_searched_too(
    tmp_path: Path, paint_square: Paint, covers_data: Path, go: Go, figures: Figures
) -> None:
    paint_square(tmp_path / "more/copy.png", "red", "red", "red", "white")
    plain = go("covers", covers_data, tmp_path / "a")
    harder = go("covers", covers_data, tmp_path / "b", distractors=str(tmp_path / "more"))
    assert figures(plain)["top1"] == 1.0
    assert figures(harder)["top1"] == pytest.approx(5 / 6)


def test_objects_never_find_themselves(tmp_path: Path, paint_square: Paint, go: Go, figures: Figures) -> None:
    for colour in ("red", "blue"):
        for n in range(3):
            paint_square(tmp_path / f"data/{colour}/{n}.png", colour, *([colour] * n), "white")
    found = go("objects", tmp_path / "data", tmp_path / "out")
    assert figures(found)["mAP"] == 1.0
    assert all(query.query_id not in str(query.detail["ranking"]) for query in found.queries)


def test_classes_are_recognised_from_their_names(
    tmp_path: Path, colours: tuple[str, ...], paint_square: Paint, go: Go, figures: Figures
) -> None:
    for colour in colours:
        paint_square(tmp_path / f"data/{colour}_thing/0.png", colour, colour, "white")
    found = go("classes", tmp_path / "data", tmp_path / "out")
    assert figures(found) == {"top1": 1.0, "top5": 1.0, "mAP": 1.0}


def test_underwater_points_with_a_method_that_says_where(
    tmp_path: Path, paint_square: Paint, lines: Lines, go: Go, figures: Figures
) -> None:
    root = tmp_path / "data"
    paint_square(root / "images/a.png", "red", "blue")
    paint_square(root / "images/b.png", "blue", "green")
    lines(
        root / "boxes.jsonl",
        {"image": "images/a.png", "boxes": [{"label": "red", "box": [0, 0, 0.5, 1]}]},
        {"image": "images/b.png", "boxes": [{"label": "green", "box": [0.5, 0, 1, 1]}]},
    )
    found = go("underwater", root, tmp_path / "out", method="toy+patches")
    assert figures(found) == {"R@1": 1.0, "R@10": 1.0, "MNR": 1.0, "pointing": 1.0}
    whole = go("underwater", root, tmp_path / "whole")
    assert figures(whole)["pointing"] == 0.0
    assert any("no region" in warning for warning in whole.warnings)


def test_masks_run(tmp_path: Path, paint_square: Paint, go: Go, figures: Figures) -> None:
    for name, colour in (("swan", "red"), ("bus", "blue")):
        for n in range(3):
            paint_square(tmp_path / f"data/images/{name}/{n}.png", colour, "white", "white", "white")
            save_mask(tmp_path / f"data/masks/{name}/{n}.png", left=0, right=16 if n < 2 else 0)
    found = go("masks", tmp_path / "data", tmp_path / "out", method="toy+patches")
    assert figures(found)["mAP"] == 1.0
    # The best patch is one of the four in the object's column: a quarter of it.
    assert figures(found)["mIoU"] == {"D": pytest.approx(0.25), "S": pytest.approx(0.25)}
    assert set(figures(found)["mAP@50:5:95"]) == {"official", "paper-D", "paper-S"}


def test_road_run_with_its_own_prompt(tmp_path: Path, paint_square: Paint, go: Go, figures: Figures) -> None:
    for n in range(3):
        paint_square(tmp_path / f"data/images/odd_{n}.png", "red", "grey")
        save_mask(tmp_path / f"data/masks/odd_{n}.png", left=0, right=32)
        paint_square(tmp_path / f"data/images/plain_{n}.png", "grey", "black")
    found = go("road", tmp_path / "data", tmp_path / "out", method="toy+patches", prompt=("something red",))
    assert figures(found) == {"mAP": 1.0, "pointing": 1.0}


def test_methods_can_share_one_index(tmp_path: Path, covers_data: Path) -> None:
    home = tmp_path / "index"
    sizes: list[float] = []
    for method in ("toy", "toy:2", "toy+patches", "toy"):
        out = tmp_path / f"out-{len(sizes)}"
        found = run(Plan("covers", covers_data, method, out, home=home))
        sizes.append(found.scores["bytes_per_image"])
        assert not (out / "collection").exists()
    assert found.scores["timing"]["setup_seconds"] > 0, "what sharing runs have in common is told by each"
    assert sizes[0] == pytest.approx(sizes[3], rel=0.2), "the layers of other methods do not count"
    assert sizes[2] > sizes[0]


def test_images_that_tie_keep_the_order_of_their_ids(
    tmp_path: Path, paint_square: Paint, covers_data: Path, go: Go
) -> None:
    for name in ("b.png", "a.png", "c.png"):
        paint_square(covers_data / f"database/{name}", "red", "white")
    found = go("covers", covers_data, tmp_path / "out")
    ranking = next(q for q in found.queries if q.query_id == "queries/red.png").detail["ranking"]
    assert [entry["image_id"] for entry in ranking[:4]] == ["a.png", "b.png", "c.png", "red.png"]


def test_images_can_be_reduced_first(tmp_path: Path, paint: Paint, lines: Lines, go: Go, figures: Figures) -> None:
    data = tmp_path / "data"
    paint(data / "database/a.png", "red", "white", size_wh=(400, 200))
    paint(data / "queries/q.png", "red", "white", size_wh=(200, 600))
    lines(data / "qrels.jsonl", {"query": "queries/q.png", "relevant": ["database/a.png"]})
    found = go("covers", data, tmp_path / "out", longest_side=100)
    assert figures(found)["mAP"] == 1.0
    assert wherein.decode(tmp_path / "out/images/a.png").size_wh == (100, 50)
    (copy,) = (tmp_path / "out/queries").iterdir()
    assert wherein.decode(copy).size_wh == (33, 100)


def test_an_image_that_cannot_be_read_is_told_and_never_found(
    tmp_path: Path, captions_data: Path, go: Go, figures: Figures
) -> None:
    (captions_data / "images/red.png").write_bytes(b"not an image")
    found = go("captions", captions_data, tmp_path / "out")
    assert any("could not be indexed" in warning for warning in found.warnings)
    assert figures(found)["text"]["R@10"] == pytest.approx(10 / 12)


# resuming


def test_a_repeated_run_asks_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, covers_data: Path, go: Go, figures: Figures
) -> None:
    first = go("covers", covers_data, tmp_path / "out")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a finished question was asked again")

    monkeypatch.setattr(wherein.Collection, "search", refuse)
    again = go("covers", covers_data, tmp_path / "out")
    assert figures(again) == figures(first)
    assert again.queries == first.queries
    assert again.scores["timing"]["setup_seconds"] == first.scores["timing"]["setup_seconds"]


def test_a_torn_last_line_is_dropped_and_asked_again(
    tmp_path: Path, colours: tuple[str, ...], covers_data: Path, go: Go, figures: Figures
) -> None:
    out = tmp_path / "out"
    first = go("covers", covers_data, out)
    journal = out / "answers.ndjson"
    kept = journal.read_bytes().splitlines(keepends=True)
    answers = [line for line in kept if b'"question"' in line]
    journal.write_bytes(b"".join(answers[:3]) + answers[3][:20])
    again = go("covers", covers_data, out)
    assert figures(again) == figures(first)
    assert again.queries == first.queries
    assert len(Journal(journal)) == len(colours)


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.ndjson"
    path.write_text('{"question": "a", "seconds": 1, "answer": {}}\n[1]\n')
    with pytest.raises(DataError, match="line 2"):
        Journal(path)


def test_a_folder_of_another_run_is_refused(tmp_path: Path, covers_data: Path, go: Go) -> None:
    go("covers", covers_data, tmp_path / "out")
    with pytest.raises(DataError, match="method is 'toy', now 'toy:2'"):
        go("covers", covers_data, tmp_path / "out", method="toy:2")


def test_data_that_changed_under_a_run_is_refused(tmp_path: Path, covers_data: Path, go: Go) -> None:
    go("covers", covers_data, tmp_path / "out")
    (covers_data / "database/extra.png").write_bytes((covers_data / "database/red.png").read_bytes())
    go("covers", covers_data, tmp_path / "fresh")
    (covers_data / "database/extra.png").unlink()
    with pytest.raises(DataError, match="changed since the run began"):
        go("covers", covers_data, tmp_path / "fresh")


def test_a_run_that_was_copied_elsewhere_is_refused(tmp_path: Path, covers_data: Path, go: Go) -> None:
    go("covers", covers_data, tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "copy", symlinks=True)
    with pytest.raises(DataError, match=f"copy was copied or moved here: its index is of {tmp_path / 'out'}"):
        go("covers", covers_data, tmp_path / "copy")
    go("covers", covers_data, tmp_path / "out")


def test_a_run_inside_its_own_data_is_refused(covers_data: Path, go: Go) -> None:
    with pytest.raises(DataError, match="inside the data"):
        go("covers", covers_data, covers_data / "out")
    assert not (covers_data / "out").exists()


def test_methods_are_checked_before_anything_is_made(tmp_path: Path, covers_data: Path, go: Go) -> None:
    with pytest.raises(SpecError, match="nothing is called"):
        go("covers", covers_data, tmp_path / "out", method="nothing")
    assert not (tmp_path / "out").exists()


def test_staging_links_and_refuses_missing_files(tmp_path: Path, paint_square: Paint) -> None:
    source = paint_square(tmp_path / "a.png", "red")
    folder = Stage({"x/a.png": source}, tmp_path / "one/images").make()
    assert (folder / "x/a.png").read_bytes() == source.read_bytes()
    with pytest.raises(DataError, match="do not exist"):
        Stage({"b.png": tmp_path / "b.png"}, tmp_path / "other/images").make()
    assert not (tmp_path / "other").exists()


def test_staging_that_was_stopped_goes_on(tmp_path: Path, paint_square: Paint) -> None:
    files = {f"{colour}.png": paint_square(tmp_path / f"{colour}.png", colour) for colour in ("red", "blue")}
    folder = Stage(files, tmp_path / "run/images").make()
    (folder / "blue.png").unlink()
    Stage(files, tmp_path / "run/images").make()
    assert sorted(path.name for path in folder.iterdir()) == ["blue.png", "red.png"]


def test_a_refused_run_leaves_a_shared_collection_as_it_was(tmp_path: Path, searchad_data: Path) -> None:
    home = tmp_path / "home"
    plan = Plan("searchad", searchad_data, "toy", tmp_path / "val", home=home)
    first = run(plan).scores["overall"]
    before = sorted(path.relative_to(home) for path in home.rglob("*"))
    for other in (Variant(split="train"), Variant(longest_side=16)):
        with pytest.raises(DataError, match="belongs to another run"):
            run(replace(plan, out=tmp_path / "other", options=other))
        assert sorted(path.relative_to(home) for path in home.rglob("*")) == before
        assert not (tmp_path / "other").exists()
    assert run(replace(plan, out=tmp_path / "again")).scores["overall"] == first


def test_a_folder_of_another_run_is_refused_before_a_collection_is_made(
    tmp_path: Path, covers_data: Path, go: Go
) -> None:
    go("covers", covers_data, tmp_path / "out")
    with pytest.raises(DataError, match="holds another run"):
        run(Plan("covers", covers_data, "toy:2", tmp_path / "out", home=tmp_path / "home"))
    assert not (tmp_path / "home").exists()


def test_the_method_is_warm_before_the_first_timed_query(
    tmp_path: Path, covers_data: Path, go: Go, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, path in enumerate(sorted(covers_data.rglob("*.png"))):  # pictures with corners, which have words
        texture = np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        PIL.Image.fromarray(texture).resize((240, 180), PIL.Image.Resampling.BICUBIC).save(path)
    found, search = list[tuple[str, int]](), wherein.Collection.search

    def seen(self: wherein.Collection, query: Any, **options: Any) -> wherein.Ranking:
        found.append((str(options["method"]), len(list((self.folder / "derived").rglob("codebook*")))))
        return search(self, query, **options)

    monkeypatch.setattr(wherein.Collection, "search", seen)
    go("covers", covers_data, tmp_path / "out", method="toy+bow")
    assert {method for method, _ in found} == {"toy+bow"}
    assert len(found) == 1 + 6  # once to warm, then every query
    assert all(codebooks == 1 for _, codebooks in found), "visual words were made before anything was asked"

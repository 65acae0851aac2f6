"""Hits as COCO JSON, as a folder for FiftyOne, as pictures; and outlines on the page and in JSON."""

import contextlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from pycocotools.coco import COCO  # type: ignore[import-untyped]
from pycocotools.mask import area  # type: ignore[import-untyped]

from wherein.errors import InputError
from wherein.output.exports import MARK, Labelled, coco, coco_document, export, overlay
from wherein.output.present import as_json, write_page
from wherein.values.masks import box_mask, from_polygons, from_rle
from wherein.values.query import Part, Query
from wherein.values.ranking import Hit, Ranking
from wherein.values.region import Box

# pycocotools has not followed NumPy 2's `copy` keyword yet.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
SPOT = Box(0.25, 0.25, 0.75, 0.5)
SMALL = box_mask(SPOT, size_wh=(32, 24))


@pytest.fixture
def ranking(tmp_path: Path) -> Ranking:
    """One hit with a mask, one with a box, one with neither, whose file is gone."""
    paths = [tmp_path / "photos" / name for name in ("a.png", "b.png", "gone.png")]
    paths[0].parent.mkdir()
    for path in paths[:2]:
        PIL.Image.new("RGB", (64, 48), "white").save(path)
    hits = (
        Hit("a.png", 0.9, box=SPOT, mask=SMALL, path=paths[0], size_wh=(64, 48)),
        Hit("b.png", 0.8, box=SPOT, path=paths[1], size_wh=(64, 48)),
        Hit("gone.png", 0.7, path=paths[2], size_wh=(64, 48)),
    )
    return Ranking(hits, "a <spot>", "toy", "whole+locate", "cosine", 3)


def thumb(_image_id: str) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (32, 24), "white").save(buffer, "JPEG")
    return buffer.getvalue()


def test_coco_reads_what_was_written(ranking: Ranking, tmp_path: Path) -> None:
    path = export(ranking, f"coco:{tmp_path / 'hits.json'}", thumb_of=thumb)
    with contextlib.redirect_stdout(io.StringIO()):
        read = COCO(str(path))
    assert [image["file_name"] for image in read.loadImgs([1, 2, 3])] == ["a.png", "b.png", "gone.png"]
    first, second, third = read.loadAnns([1, 2, 3])
    expected = box_mask(SPOT, size_wh=(64, 48))
    assert np.array_equal(read.annToMask(first), expected)
    assert np.array_equal(read.annToMask(second), expected)
    assert read.annToMask(third).all()
    assert first["bbox"] == [16.0, 12.0, 32.0, 12.0]
    assert first["area"] == expected.sum()


def read_by_coco(document: dict[str, Any], tmp_path: Path) -> COCO:
    """What pycocotools makes of a document."""
    (tmp_path / "coco.json").write_text(json.dumps(document))
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(str(tmp_path / "coco.json"))


def test_pycocotools_counts_every_annotation_as_one_object(ranking: Ranking, tmp_path: Path) -> None:
    marked = [
        Labelled("a.png", (64, 48), "spot", mask=SMALL),
        Labelled("a.png", (64, 48), "box", box=SPOT),
        Labelled("b.png", (64, 48), "spot"),
    ]
    read = read_by_coco(coco_document(marked, description="x"), tmp_path)
    assert [image["file_name"] for image in read.loadImgs(read.getImgIds())] == ["a.png", "b.png"]
    assert [one["name"] for one in read.loadCats(read.getCatIds())] == ["box", "spot"]
    annotations = read.loadAnns(read.getAnnIds())
    assert read.getAnnIds(iscrowd=False) == [1, 2, 3]
    expected = box_mask(SPOT, size_wh=(64, 48))
    for annotation, mask in zip(annotations, (expected, expected, np.ones((48, 64))), strict=True):
        assert isinstance(annotation["segmentation"]["counts"], str)
        assert np.array_equal(read.annToMask(annotation), mask)
        assert area(annotation["segmentation"]) == annotation["area"]
    assert annotations[0]["bbox"] == annotations[1]["bbox"] == [16.0, 12.0, 32.0, 12.0]


def test_a_score_is_written_only_where_it_is_a_confidence(ranking: Ranking) -> None:
    assert [one.get("score") for one in coco(ranking)["annotations"]] == [None, None, None]
    assert [one["raw_score"] for one in coco(ranking)["annotations"]] == [0.9, 0.8, 0.7]
    sure = replace(ranking, hits=tuple(replace(hit, score=3.07, confidence=0.5) for hit in ranking))
    assert [(one["score"], one["raw_score"]) for one in coco(sure)["annotations"]] == [(0.5, 3.07)] * 3
    assert not any("confidence" in one for one in coco(sure)["annotations"])  # FiftyOne cannot read such a file


def test_the_label_of_an_export_is_clean_text(ranking: Ranking) -> None:
    query = Query.of([" a dog^2", Part(text="cartoon", negative=True), Part(image="photos/rex.jpg", box=SPOT)])
    assert query.label == "a dog, rex.jpg"
    assert Query.of("a dog in the upper left").label == "a dog"
    assert coco(replace(ranking, label=query.label))["categories"][0]["name"] == "a dog, rex.jpg"


def test_the_folder_has_the_layout_fiftyone_reads(ranking: Ranking, tmp_path: Path) -> None:
    folder = export(ranking, f"fiftyone:{tmp_path / 'fo'}", thumb_of=thumb)
    labels = json.loads((folder / "labels.json").read_text())
    names = [image["file_name"] for image in labels["images"]]
    assert sorted(path.name for path in (folder / "data").iterdir()) == sorted(names)
    assert labels["annotations"] == coco(ranking)["annotations"]
    assert (folder / "data" / names[0]).read_bytes() == (tmp_path / "photos" / "a.png").read_bytes()
    for name in names:
        with PIL.Image.open(folder / "data" / name) as picture:
            picture.load()


def test_overlays_outline_and_dim(ranking: Ranking, tmp_path: Path) -> None:
    folder = export(ranking, f"overlays:{tmp_path / 'pictures'}", thumb_of=thumb)
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["0001-a.png", "0002-b.png", "0003-gone.png"]
    with PIL.Image.open(files[0]) as picture:
        pixels = np.asarray(picture)
    assert pixels[0, 0].tolist() == [89, 89, 89]
    assert pixels[18, 32].tolist() == [255, 255, 255]
    assert tuple(pixels[12, 32].tolist()) == MARK


def test_an_overlay_of_everything_is_the_picture() -> None:
    pixels = np.full((4, 5, 3), 200, np.uint8)
    assert np.array_equal(overlay(pixels, np.ones((4, 5), np.bool_)), pixels)


@pytest.mark.parametrize("target", ["coco", "coco:", "word:file", "hits.json"])
def test_an_unknown_export_is_answered_with_the_known_ones(ranking: Ranking, target: str) -> None:
    with pytest.raises(InputError, match="fiftyone"):
        export(ranking, target, thumb_of=thumb)


def test_json_has_run_lengths_and_polygons(ranking: Ranking) -> None:
    first, second, _ = json.loads(as_json(ranking))["hits"]
    assert np.array_equal(from_rle(first["mask"]), SMALL)
    loops = [[(x * 32, y * 24) for x, y in loop] for loop in first["polygons"]]
    again = from_polygons(loops, size_wh=(32, 24))
    assert (again & SMALL).sum() / (again | SMALL).sum() > 0.9
    assert second["mask"] is None


def test_the_page_draws_outlines_and_boxes(ranking: Ranking, tmp_path: Path) -> None:
    write_page(ranking, tmp_path / "page.html", thumb_of=thumb)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("<svg") == 1
    assert page.count('class="box"') == 1
    assert 'd="M0,0L1,0L1,1L0,1ZM' in page

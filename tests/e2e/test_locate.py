"""`wherein locate` and `search --locate`, as a user types them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from wherein.encoders.toy import COLOURS
from wherein.values.masks import box_mask, from_rle
from wherein.values.region import Box, iou

SPOT, AWAY = Box(0.25, 0.25, 0.5, 0.5), Box(0.5, 0.5, 0.875, 0.875)


def wherein(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wherein", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A red spot here and there, and a mask of the first."""
    for name, box in (("spot", SPOT), ("away", AWAY)):
        pixels = np.full((96, 128, 3), COLOURS["grey"], np.uint8)
        x1, y1, x2, y2 = box.pixels((128, 96))
        pixels[y1:y2, x1:x2] = COLOURS["red"]
        PIL.Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    PIL.Image.fromarray(box_mask(SPOT, size_wh=(128, 96))).save(tmp_path / "mask.gif")
    return tmp_path


@pytest.mark.parametrize(
    "asked",
    [["--text", "red"], ["--image", f"spot.png#{SPOT}"], ["--image", "spot.png#mask=mask.gif"]],
    ids=["a text", "a box", "a mask"],
)
def test_locate_outlines_the_object_in_given_images(photos: Path, asked: list[str]) -> None:
    done = wherein("locate", *asked, "away.png", "--encoder", "toy:16", "--json", "--overlays", "out", cwd=photos)
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)["images"]
    assert iou(Box(*entry["box"]), AWAY) > 0.8
    assert from_rle(entry["mask"]).any()
    assert (photos / "out" / "0001-away.png").is_file()


def test_locate_exits_1_when_nothing_is_found(photos: Path) -> None:
    PIL.Image.new("RGB", (128, 96), COLOURS["grey"]).save(photos / "plain.png")
    done = wherein("locate", "--image", f"spot.png#{SPOT}", "plain.png", "--encoder", "toy:16", cwd=photos)
    assert done.returncode == 1
    assert "not found" in done.stdout


def test_an_image_that_cannot_be_read_does_not_end_the_others(photos: Path) -> None:
    done = wherein("locate", "--text", "red", "gone.png", "away.png", "--encoder", "toy:16", cwd=photos)
    assert done.returncode == 2
    assert "gone.png" in done.stderr
    assert done.stdout.startswith("away.png\t0.")


@pytest.mark.parametrize(
    "asked", [["--text", "red in the upper left"], ["--text", "red", "--where", "top-left"]], ids=["said", "given"]
)
def test_a_place_says_where_to_look_and_what_was_read_as_one_is_told(photos: Path, asked: list[str]) -> None:
    pixels = np.asarray(PIL.Image.open(photos / "spot.png").convert("RGB")).copy()
    pixels[:24, :32] = pixels[-24:, -32:] = COLOURS["red"]
    PIL.Image.fromarray(pixels).save(photos / "twice.png")
    done = wherein("locate", *asked, "twice.png", "--encoder", "toy:16", "--json", cwd=photos)
    document = json.loads(done.stdout)
    assert ("read “top-left” as a place" in done.stderr) == ("--where" not in asked)
    assert len(document["notes"]) == done.stderr.count("note: ")
    assert document["query"].startswith("red @ ")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (f"spot.png#{'0.5,0.5,1.5,0.9'}", "leaves the image"),
        ("spot.png#0.6,0.1,0.2,0.5", "no area"),
        ("spot.png#mask=nowhere.png", "nowhere.png"),
    ],
    ids=["a box outside", "an inverted box", "a mask that is not there"],
)
def test_a_region_that_cannot_be_exits_2_with_one_line(photos: Path, asked: str, said: str) -> None:
    done = wherein("locate", "--image", asked, "away.png", "--encoder", "toy:16", cwd=photos)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_search_locates_and_exports(photos: Path) -> None:
    assert wherein("index", ".", "--encoder", "toy:16", cwd=photos).returncode == 0
    done = wherein("search", "red", "--locate", "--json", "-k", "2", cwd=photos)
    assert done.returncode == 0, done.stderr
    hits = {hit["image_id"]: hit for hit in json.loads(done.stdout)["hits"]}
    assert iou(Box(*hits["away.png"]["box"]), AWAY) > 0.8
    done = wherein("search", "red", "--export", "coco:hits.json", "--html", "page.html", "--paths", cwd=photos)
    assert done.returncode == 0, done.stderr
    assert json.loads((photos / "hits.json").read_text())["annotations"][0]["segmentation"]["counts"]
    assert "<svg" in (photos / "page.html").read_text("utf-8")
    done = wherein("search", "red", "--html", "page.html", "--no-locate", cwd=photos)
    assert "<svg" not in (photos / "page.html").read_text("utf-8")

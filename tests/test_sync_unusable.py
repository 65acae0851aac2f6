"""Keeping up with folders: files that cannot be used, and names of every kind."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.errors import InputError
from wherein.images.picture import read_bytes
from wherein.values.records import AddReport

Paint = Callable[..., Path]
Did = Callable[[AddReport], dict[str, int]]


def unusable(folder: Path, paint: Paint) -> dict[str, str]:
    """Every kind of bad file, and a word of the reason it must be skipped with."""
    jpeg = paint(folder / "tmp.jpg", "red", "blue", size_wh=(640, 480)).read_bytes()
    (folder / "tmp.jpg").unlink()
    (folder / "truncated.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    PIL.Image.fromarray(noise).save(folder / "corrupt.png")
    data = (folder / "corrupt.png").read_bytes()
    (folder / "corrupt.png").write_bytes(data[:100] + bytes(400) + data[500:])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("a letter to a friend")
    (folder / "text.mp4").write_text("a letter to a friend")
    (folder / "raw.nef").write_bytes(b"no sensor made this")
    paint(folder / "bomb.png", "red", size_wh=(400, 300))
    (folder / "dangling.jpg").symlink_to("nothing-there")
    (folder / "itself.jpg").symlink_to("itself.jpg")
    return {
        "truncated.jpg": "truncated",
        "corrupt.png": "cannot be decoded",
        "empty.jpg": "zero bytes",
        "text.jpg": "not an image",
        "text.mp4": "cannot be decoded",
        "raw.nef": "cannot be decoded",
        "bomb.png": "max_pixels 120000",
        "dangling.jpg": "No such file",
        "itself.jpg": "symbolic links",
    }


def test_no_bad_file_stops_a_batch_and_each_says_why(
    collection: wherein.Collection, folder: Path, paint: Paint, did: Did
) -> None:
    expected = unusable(folder, paint)
    report = collection.add(folder, max_pixels=100_000)
    assert did(report) == {"added": 4, "skipped": len(expected)}
    reasons = {Path(skip.path).name: skip.reason for skip in report.skipped}
    for name, word in expected.items():
        assert word in reasons[name], name
        assert name not in reasons[name], "the path is told once, beside its reason"


def test_a_bad_file_is_tried_again_when_it_changes_and_only_then(
    collection: wherein.Collection, folder: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch, did: Did
) -> None:
    (folder / "bad.jpg").write_bytes(b"no image")
    (folder / "worse.jpg").write_bytes(b"no image either")
    first = collection.add(folder)
    assert collection.info().skipped == 2
    reads = list[str]()

    def noted(path: Path) -> bytes:
        reads.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr("wherein.indexing.stages.read_bytes", noted)
    again = collection.add(folder)
    assert {skip.path: skip.reason for skip in again.skipped} == {skip.path: skip.reason for skip in first.skipped}
    assert reads == []
    paint(folder / "bad.jpg", "yellow")
    assert did(collection.add(folder)) == {"added": 1, "unchanged": 4, "skipped": 1}
    assert reads == ["bad.jpg"]
    (folder / "worse.jpg").unlink()
    collection.add(folder)
    assert collection.info().skipped == 0


def test_a_raised_limit_lets_a_skipped_giant_in(
    collection: wherein.Collection, folder: Path, paint: Paint, did: Did
) -> None:
    paint(folder / "giant.png", "yellow", size_wh=(400, 300))
    assert did(collection.add(folder, max_pixels=100_000)) == {"added": 4, "skipped": 1}
    assert did(collection.add(folder, max_pixels=120_000)) == {"added": 1, "unchanged": 4}


def test_an_image_that_breaks_is_no_longer_found_until_it_is_mended(
    collection: wherein.Collection, folder: Path, did: Did
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    whole = (folder / "red.png").read_bytes()
    (folder / "red.png").write_bytes(b"broken")
    assert did(collection.add(folder)) == {"unchanged": 3, "skipped": 1}
    assert "red.png" not in collection.image_ids()
    (folder / "red.png").write_bytes(whole)
    assert did(collection.add(folder)) == {"added": 1, "unchanged": 3}
    assert collection.image_ids(tags=["mine"]) == ["red.png"]


def test_what_cannot_be_looked_at_now_is_not_taken_for_deleted(
    collection: wherein.Collection, folder: Path, tmp_path: Path, did: Did
) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.move(folder / "red.png", tmp_path / "elsewhere" / "red.png")
    (folder / "link.png").symlink_to(tmp_path / "elsewhere" / "red.png")
    assert did(collection.add(folder, follow_links=True)) == {"added": 4}
    (tmp_path / "elsewhere").rename(tmp_path / "unplugged")
    assert did(collection.add(folder)) == {"unchanged": 3, "skipped": 1}
    assert "link.png" in collection.image_ids()


def test_misnamed_images_are_images(collection: wherein.Collection, folder: Path, paint: Paint, did: Did) -> None:
    paint(folder / "x.png", "yellow").rename(folder / "really-a-png.jpg")
    paint(folder / "y.png", "green").rename(folder / "no-suffix-at-all")
    assert did(collection.add(folder)) == {"added": 6}
    assert collection.search("yellow")[0].image_id == "really-a-png.jpg"
    assert collection.search("green")[0].image_id == "no-suffix-at-all"


NAMES = ["grün.png", "gru\u0308n.png", "写真🏔️.png", "new\nline.png", "100%#?&.png", "'quoted\".png", "a;b--.png"]


def test_any_name_goes_all_the_way(collection: wherein.Collection, folder: Path, paint: Paint, did: Did) -> None:
    for name in NAMES:
        paint(folder / "ordner 📁" / name, "yellow")
    collection.add(folder)
    expected = sorted(f"ordner 📁/{name}" for name in NAMES)
    hits = collection.search("yellow", k=len(NAMES))
    assert [hit.image_id for hit in hits] == expected
    assert all(isinstance(hit.path, Path) and hit.path.is_file() for hit in hits)
    assert collection.image_ids(folder="ordner 📁") == expected
    assert did(collection.add(folder)) == {"unchanged": 4 + len(NAMES)}


def test_a_name_that_is_not_unicode_is_skipped_in_letters_that_print(
    collection: wherein.Collection, folder: Path, paint: Paint, did: Did
) -> None:
    paint(folder / "x.png", "yellow").rename(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.png"))
    report = collection.add(folder)
    assert did(report) == {"added": 4, "skipped": 1}
    assert report.skipped[0].path == str(folder / r"caf\udce9.png")
    report.skipped[0].path.encode()


def test_a_folder_whose_name_is_not_unicode_is_refused_with_a_way_out(
    tmp_path: Path, collection: wherein.Collection
) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.mkdir()
    with pytest.raises(InputError, match="Rename the folder"):
        collection.add(odd)

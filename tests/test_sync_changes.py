"""Keeping up with folders: files changed, renamed, swapped, doubled and gone."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import wherein
from wherein.errors import InputError
from wherein.values.records import AddReport

Paint = Callable[..., Path]
Did = Callable[[AddReport], dict[str, int]]
Forbid = Callable[[], None]


def test_a_changed_file_is_read_again_and_keeps_its_tags(
    collection: wherein.Collection, folder: Path, paint: Paint, did: Did
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    paint(folder / "red.png", "green")
    assert did(collection.add(folder)) == {"changed": 1, "unchanged": 3}
    assert collection.search("green")[0].image_id == "red.png"
    assert collection.search("red")[0].image_id == "holiday/half.png"
    assert collection.image_ids(tags=["mine"]) == ["red.png"]
    assert collection.info().tombstones == 0


def test_a_renamed_file_keeps_its_rows_and_its_tags(
    collection: wherein.Collection, folder: Path, did: Did, encoding_is_forbidden: Forbid
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    encoding_is_forbidden()
    (folder / "red.png").rename(folder / "holiday" / "crimson.png")
    assert did(collection.add(folder)) == {"renamed": 1, "unchanged": 3}
    assert "red.png" not in collection.image_ids()
    assert collection.image_ids(tags=["mine"]) == ["holiday/crimson.png"]


def test_a_name_that_looks_like_a_keyframe_is_renamed_as_it_is(
    collection: wherein.Collection, folder: Path, did: Did
) -> None:
    (folder / "red.png").rename(folder / "odd#t=1.png")
    collection.add(folder)
    (folder / "odd#t=1.png").rename(folder / "plain.png")
    assert did(collection.add(folder)) == {"renamed": 1, "unchanged": 3}
    assert "plain.png" in collection.image_ids()


def test_a_renamed_folder_keeps_everything(
    collection: wherein.Collection, folder: Path, did: Did, encoding_is_forbidden: Forbid
) -> None:
    collection.add(folder)
    collection.tag("mine", ["holiday/half.png", "holiday/third.png"])
    encoding_is_forbidden()
    (folder / "holiday").rename(folder / "rome")
    assert did(collection.add(folder)) == {"renamed": 2, "unchanged": 2}
    assert collection.image_ids(tags=["mine"]) == ["rome/half.png", "rome/third.png"]


@pytest.mark.parametrize("workers", [1, 4])
def test_swapped_names_take_their_tags_along(
    collection: wherein.Collection, folder: Path, workers: int, did: Did, encoding_is_forbidden: Forbid
) -> None:
    collection.add(folder)
    collection.tag("was red", ["red.png"])
    collection.tag("was blue", ["blue.png"])
    encoding_is_forbidden()
    (folder / "red.png").rename(folder / "swap")
    (folder / "blue.png").rename(folder / "red.png")
    (folder / "swap").rename(folder / "blue.png")
    assert did(collection.add(folder, workers=workers)) == {"renamed": 2, "unchanged": 2}
    assert collection.search("red")[0].image_id == "blue.png"
    assert collection.image_ids(tags=["was red"]) == ["blue.png"]
    assert collection.image_ids(tags=["was blue"]) == ["red.png"]
    assert collection.info().tombstones == 0
    assert did(collection.add(folder)) == {"unchanged": 4}


def test_names_that_go_round_in_a_circle_come_out_right(collection: wherein.Collection, folder: Path, did: Did) -> None:
    collection.add(folder)
    ring = ["red.png", "blue.png", "holiday/half.png"]
    for name in ring:
        collection.tag(f"was {name}", [name])
        (folder / name).rename(folder / f"{name}.moving")
    for old, new in zip(ring, [*ring[1:], ring[0]], strict=True):
        (folder / f"{old}.moving").rename(folder / new)
    assert did(collection.add(folder)) == {"renamed": 3, "unchanged": 1}
    for old, new in zip(ring, [*ring[1:], ring[0]], strict=True):
        assert collection.image_ids(tags=[f"was {old}"]) == [new]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_file_moved_away_and_replaced_at_once_is_followed(
    collection: wherein.Collection, folder: Path, paint: Paint, workers: int, did: Did
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    (folder / "red.png").rename(folder / "zzz.png")
    paint(folder / "red.png", "yellow")
    assert did(collection.add(folder, workers=workers)) == {"changed": 1, "renamed": 1, "unchanged": 3}
    assert collection.image_ids(tags=["mine"]) == ["zzz.png"]
    assert collection.search("yellow")[0].image_id == "red.png"


def test_a_file_moved_over_another_has_the_tags_of_both(collection: wherein.Collection, folder: Path, did: Did) -> None:
    collection.add(folder)
    collection.tag("content", ["red.png"])
    collection.tag("place", ["blue.png"])
    (folder / "red.png").replace(folder / "blue.png")
    assert did(collection.add(folder)) == {"renamed": 1, "unchanged": 2}
    assert collection.image_ids(tags=["content", "place"]) == ["blue.png"]
    assert len(collection) == 3


def test_a_copy_over_another_keeps_the_tags_of_the_place(
    collection: wherein.Collection, folder: Path, did: Did
) -> None:
    collection.add(folder)
    collection.tag("content", ["red.png"])
    collection.tag("place", ["blue.png"])
    shutil.copyfile(folder / "red.png", folder / "blue.png")
    assert did(collection.add(folder)) == {"duplicates": 1, "unchanged": 3}
    assert collection.image_ids(tags=["place"]) == ["blue.png"]
    assert collection.image_ids(tags=["content"]) == ["red.png"]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_touched_original_is_not_mistaken_for_a_moved_one(
    collection: wherein.Collection, folder: Path, workers: int, did: Did
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    shutil.copyfile(folder / "red.png", folder / "a-copy.png")
    os.utime(folder / "red.png", ns=(1, 1))
    assert did(collection.add(folder, workers=workers)) == {"duplicates": 1, "unchanged": 4}
    assert collection.image_ids(tags=["mine"]) == ["red.png"]


def test_duplicates_share_their_rows_and_tie_by_name(
    collection: wherein.Collection, folder: Path, did: Did, encoding_is_forbidden: Forbid
) -> None:
    collection.add(folder)
    encoding_is_forbidden()
    for name in ("z.png", "m.png", "a.png"):
        shutil.copyfile(folder / "red.png", folder / name)
    assert did(collection.add(folder)) == {"duplicates": 3, "unchanged": 4}
    assert [hit.image_id for hit in collection.search("red", k=4)] == ["a.png", "m.png", "red.png", "z.png"]
    (folder / "red.png").unlink()
    collection.add(folder)
    collection.compact()
    assert [hit.image_id for hit in collection.search("red", k=3)] == ["a.png", "m.png", "z.png"]


@pytest.mark.parametrize("workers", [1, 4])
def test_duplicates_within_one_run_are_encoded_once(
    collection: wherein.Collection, folder: Path, workers: int, did: Did
) -> None:
    for number in range(50):
        shutil.copyfile(folder / "red.png", folder / f"copy{number}.png")
    assert did(collection.add(folder, workers=workers)) == {"added": 4, "duplicates": 50}
    assert len(collection) == 54


def test_duplicates_that_cannot_be_read_are_all_told(collection: wherein.Collection, folder: Path, did: Did) -> None:
    for number in range(20):
        (folder / f"bad{number:02}.jpg").write_bytes(b"\xff\xd8\xff and no more")
    report = collection.add(folder)
    assert did(report) == {"added": 4, "skipped": 20}
    assert sorted(Path(skip.path).name for skip in report.skipped) == [f"bad{number:02}.jpg" for number in range(20)]


def test_a_deleted_file_is_no_longer_found_and_comes_back_with_its_tags(
    collection: wherein.Collection, folder: Path, tmp_path: Path, did: Did, encoding_is_forbidden: Forbid
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    shutil.move(folder / "red.png", tmp_path / "kept.png")
    assert did(collection.add(folder)) == {"removed": 1, "unchanged": 3}
    assert collection.search("red")[0].image_id == "holiday/half.png"
    assert (len(collection), collection.info().tombstones, collection.info().tags) == (3, 1, {})
    encoding_is_forbidden()
    shutil.move(tmp_path / "kept.png", folder / "red.png")
    assert did(collection.add(folder)) == {"added": 1, "unchanged": 3}
    assert collection.image_ids(tags=["mine"]) == ["red.png"]
    assert collection.info().tombstones == 0


def test_a_deleted_folder_takes_its_images_and_no_others(
    collection: wherein.Collection, folder: Path, did: Did
) -> None:
    collection.add(folder)
    shutil.rmtree(folder / "holiday")
    assert did(collection.add(folder / "holiday")) == {"removed": 2}
    assert collection.image_ids() == ["blue.png", "red.png"]


def test_adding_one_folder_leaves_its_neighbours_alone(collection: wherein.Collection, folder: Path, did: Did) -> None:
    collection.add(folder)
    (folder / "red.png").unlink()
    assert did(collection.add(folder / "holiday")) == {"unchanged": 2}
    assert "red.png" in collection.image_ids()


def test_a_moved_copy_keeps_its_tags_when_another_goes(collection: wherein.Collection, folder: Path, did: Did) -> None:
    for name in ("inbox", "trips"):
        (folder / name).mkdir()
        shutil.copyfile(folder / "red.png", folder / name / "x.png")
    (folder / "red.png").unlink()
    collection.add(folder)
    collection.tag("holiday", ["trips/x.png"])
    shutil.rmtree(folder / "inbox")
    (folder / "trips").rename(folder / "travel")
    assert did(collection.add(folder)) == {"removed": 1, "renamed": 1, "unchanged": 3}
    assert collection.image_ids(tags="holiday") == ["travel/x.png"]


def test_a_file_moved_to_where_a_copy_was_deleted_keeps_its_tags(collection: wherein.Collection, folder: Path) -> None:
    shutil.copyfile(folder / "red.png", folder / "copy.png")
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    (folder / "copy.png").unlink()
    collection.add(folder)
    (folder / "red.png").rename(folder / "copy.png")
    collection.add(folder)
    assert collection.image_ids(tags="mine") == ["copy.png"]


def test_what_was_deleted_long_ago_does_not_pass_its_tags_to_a_moved_copy(
    collection: wherein.Collection, folder: Path
) -> None:
    shutil.copyfile(folder / "red.png", folder / "trash.png")
    collection.add(folder)
    collection.tag("trash", ["trash.png"])
    (folder / "trash.png").unlink()
    collection.add(folder)
    (folder / "red.png").rename(folder / "crimson.png")
    collection.add(folder)
    assert collection.image_ids(tags="trash") == []


@pytest.mark.parametrize("target", ["moved", "pictures/inside"], ids=["beside it", "into another root"])
def test_a_moved_root_takes_its_images_and_tags_along(
    collection: wherein.Collection,
    folder: Path,
    tmp_path: Path,
    paint: Paint,
    did: Did,
    target: str,
    encoding_is_forbidden: Forbid,
) -> None:
    paint(tmp_path / "stick" / "a" / "x.png", "yellow")
    collection.add(folder, tmp_path / "stick")
    collection.tag("mine", ["stick/a/x.png"])
    encoding_is_forbidden()
    (tmp_path / "stick").rename(tmp_path / target)
    assert did(collection.add(tmp_path / target)) == {"renamed": 1}
    assert collection.image_ids(tags="mine") == [f"{target.removeprefix('pictures/')}/a/x.png"]
    assert tmp_path / "stick" not in collection.roots.values()
    assert did(collection.add()) == {"unchanged": 5}


def test_a_forgotten_root_leaves_nothing_to_be_found(
    collection: wherein.Collection, folder: Path, tmp_path: Path, paint: Paint, did: Did, folder_ids: list[str]
) -> None:
    stick = paint(tmp_path / "stick" / "x.png", "yellow").parent
    (stick / "bad.jpg").write_bytes(b"no image")
    collection.add(folder, stick)
    assert collection.remove_root(stick) == 1
    assert (collection.image_ids(), collection.info().skipped) == (folder_ids, 0)
    assert collection.roots == {"": folder}
    assert did(collection.add()) == {"unchanged": 4}
    with pytest.raises(InputError, match="is no indexed folder"):
        collection.remove_root(stick)
    assert did(collection.add(stick)) == {"added": 1, "skipped": 1}


def test_a_missing_root_buries_nothing(
    collection: wherein.Collection, folder: Path, tmp_path: Path, paint: Paint, did: Did
) -> None:
    paint(tmp_path / "stick" / "x.png", "yellow")
    collection.add(folder, tmp_path / "stick")
    (tmp_path / "stick").rename(tmp_path / "unplugged")
    report = collection.add()
    assert did(report) == {"skipped": 1, "unchanged": 4}
    assert "Connect its disk" in report.skipped[0].reason
    assert len(collection) == 5
    shutil.copyfile(tmp_path / "unplugged" / "x.png", folder / "copy.png")
    assert did(collection.add(folder)) == {"duplicates": 1, "unchanged": 4}
    assert "stick/x.png" in collection.image_ids()

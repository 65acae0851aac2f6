"""Keeping up with folders: new, changed, renamed, swapped, doubled, gone, unreadable; real files throughout."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.encoders.toy import ToyEncoder
from wherein.errors import InputError
from wherein.image import read_bytes
from wherein.sync import AddReport, Progress

Paint = Callable[..., Path]
Picture = Callable[..., PIL.Image.Image]
ALL = ["blue.png", "holiday/half.png", "holiday/third.png", "red.png"]


def did(report: AddReport) -> dict[str, int]:
    """What is not zero, without the time it took."""
    counts = {
        name: getattr(report, name) for name in ("added", "changed", "renamed", "duplicates", "removed", "unchanged")
    }
    counts["skipped"] = len(report.skipped)
    return {name: count for name, count in counts.items() if count}


def answers(collection: wherein.Collection, *texts: str) -> list[list[tuple[str, float]]]:
    return [[(hit.image_id, hit.score) for hit in collection.search(text)] for text in texts or ("red", "blue green")]


def encoding_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: ToyEncoder, batch: object) -> None:
        pytest.fail("something was encoded again")

    monkeypatch.setattr(ToyEncoder, "images", fail)


# --- the plain course ----------------------------------------------------------------------------------


def test_an_empty_folder_adds_nothing(tmp_path: Path) -> None:
    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        assert did(collection.add(tmp_path)) == {}
        assert len(collection) == 0
        assert list(collection.search("red")) == []


def test_a_folder_is_added_and_adding_it_again_is_a_no_op(collection: wherein.Collection, folder: Path) -> None:
    assert did(collection.add(folder)) == {"added": 4}
    assert collection.image_ids() == ALL
    before = sorted(path for path in collection.folder.rglob("*.npy"))
    assert did(collection.add(folder)) == {"unchanged": 4}
    assert did(collection.add()) == {"unchanged": 4}
    assert sorted(collection.folder.rglob("*.npy")) == before


def test_progress_counts_every_file_once_and_never_back(collection: wherein.Collection, folder: Path) -> None:
    (folder / "bad.jpg").write_bytes(b"no image")
    seen = list[Progress]()
    collection.add(folder, on_progress=seen.append)
    assert [step.done for step in seen] == sorted(step.done for step in seen)
    assert (seen[-1].done, seen[-1].total) == (5, 5)
    assert [step.skip.path for step in seen if step.skip] == [str(folder / "bad.jpg")]


def test_the_order_of_insertion_changes_nothing(tmp_path: Path, folder: Path) -> None:
    names = [folder / name for name in ALL]
    found = []
    for number, order in enumerate((names, names[::-1], [names[2], names[0], names[3], names[1]])):
        with wherein.open(tmp_path / str(number), create=True, encoder="toy") as collection:
            collection.add(folder / "red.png")  # one root for all
            for path in order:
                collection.add(path)
            found.append([collection.image_ids(), answers(collection)])
    assert found[0] == found[1] == found[2]


def test_the_number_of_workers_changes_nothing(tmp_path: Path, folder: Path) -> None:
    found = []
    for workers in (1, 2, 7):
        with wherein.open(tmp_path / str(workers), create=True, encoder="toy") as collection:
            collection.add(folder, workers=workers)
            found.append(answers(collection))
    assert found[0] == found[1] == found[2]


def test_a_file_named_twice_is_read_once(collection: wherein.Collection, folder: Path) -> None:
    assert did(collection.add(folder, folder / "red.png", folder / "holiday")) == {"added": 4}


def test_a_touched_file_is_not_encoded_again(
    collection: wherein.Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    encoding_is_forbidden(monkeypatch)
    os.utime(folder / "red.png", ns=(1, 1))
    assert did(collection.add(folder)) == {"unchanged": 4}
    assert did(collection.add(folder)) == {"unchanged": 4}


def test_what_is_not_there_is_told(collection: wherein.Collection, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist\. Check the spelling"):
        collection.add(tmp_path / "pictuers")
    assert collection.info().roots == {}


# --- changed, renamed, doubled, gone -------------------------------------------------------------------


def test_a_changed_file_is_read_again_and_keeps_its_tags(
    collection: wherein.Collection, folder: Path, paint: Paint
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
    collection: wherein.Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    encoding_is_forbidden(monkeypatch)
    (folder / "red.png").rename(folder / "holiday" / "crimson.png")
    assert did(collection.add(folder)) == {"renamed": 1, "unchanged": 3}
    assert "red.png" not in collection.image_ids()
    assert collection.image_ids(tags=["mine"]) == ["holiday/crimson.png"]


def test_a_name_that_looks_like_a_keyframe_is_renamed_as_it_is(collection: wherein.Collection, folder: Path) -> None:
    (folder / "red.png").rename(folder / "odd#t=1.png")
    collection.add(folder)
    (folder / "odd#t=1.png").rename(folder / "plain.png")
    assert did(collection.add(folder)) == {"renamed": 1, "unchanged": 3}
    assert "plain.png" in collection.image_ids()


def test_a_renamed_folder_keeps_everything(
    collection: wherein.Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    collection.tag("mine", ["holiday/half.png", "holiday/third.png"])
    encoding_is_forbidden(monkeypatch)
    (folder / "holiday").rename(folder / "rome")
    assert did(collection.add(folder)) == {"renamed": 2, "unchanged": 2}
    assert collection.image_ids(tags=["mine"]) == ["rome/half.png", "rome/third.png"]


@pytest.mark.parametrize("workers", [1, 4])
def test_swapped_names_take_their_tags_along(
    collection: wherein.Collection, folder: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    collection.tag("was red", ["red.png"])
    collection.tag("was blue", ["blue.png"])
    encoding_is_forbidden(monkeypatch)
    (folder / "red.png").rename(folder / "swap")
    (folder / "blue.png").rename(folder / "red.png")
    (folder / "swap").rename(folder / "blue.png")
    assert did(collection.add(folder, workers=workers)) == {"renamed": 2, "unchanged": 2}
    assert collection.search("red")[0].image_id == "blue.png"
    assert collection.image_ids(tags=["was red"]) == ["blue.png"]
    assert collection.image_ids(tags=["was blue"]) == ["red.png"]
    assert collection.info().tombstones == 0
    assert did(collection.add(folder)) == {"unchanged": 4}


def test_names_that_go_round_in_a_circle_come_out_right(collection: wherein.Collection, folder: Path) -> None:
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
    collection: wherein.Collection, folder: Path, paint: Paint, workers: int
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    (folder / "red.png").rename(folder / "zzz.png")
    paint(folder / "red.png", "yellow")
    assert did(collection.add(folder, workers=workers)) == {"changed": 1, "renamed": 1, "unchanged": 3}
    assert collection.image_ids(tags=["mine"]) == ["zzz.png"]
    assert collection.search("yellow")[0].image_id == "red.png"


def test_a_file_moved_over_another_has_the_tags_of_both(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    collection.tag("content", ["red.png"])
    collection.tag("place", ["blue.png"])
    (folder / "red.png").replace(folder / "blue.png")
    assert did(collection.add(folder)) == {"renamed": 1, "unchanged": 2}
    assert collection.image_ids(tags=["content", "place"]) == ["blue.png"]
    assert len(collection) == 3


def test_a_copy_over_another_keeps_the_tags_of_the_place(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    collection.tag("content", ["red.png"])
    collection.tag("place", ["blue.png"])
    shutil.copyfile(folder / "red.png", folder / "blue.png")
    assert did(collection.add(folder)) == {"duplicates": 1, "unchanged": 3}
    assert collection.image_ids(tags=["place"]) == ["blue.png"]
    assert collection.image_ids(tags=["content"]) == ["red.png"]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_touched_original_is_not_mistaken_for_a_moved_one(
    collection: wherein.Collection, folder: Path, workers: int
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    shutil.copyfile(folder / "red.png", folder / "a-copy.png")
    os.utime(folder / "red.png", ns=(1, 1))
    assert did(collection.add(folder, workers=workers)) == {"duplicates": 1, "unchanged": 4}
    assert collection.image_ids(tags=["mine"]) == ["red.png"]


def test_duplicates_share_their_rows_and_tie_by_name(
    collection: wherein.Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    encoding_is_forbidden(monkeypatch)
    for name in ("z.png", "m.png", "a.png"):
        shutil.copyfile(folder / "red.png", folder / name)
    assert did(collection.add(folder)) == {"duplicates": 3, "unchanged": 4}
    assert [hit.image_id for hit in collection.search("red", k=4)] == ["a.png", "m.png", "red.png", "z.png"]
    (folder / "red.png").unlink()
    collection.add(folder)
    collection.compact()
    assert [hit.image_id for hit in collection.search("red", k=3)] == ["a.png", "m.png", "z.png"]


@pytest.mark.parametrize("workers", [1, 4])
def test_duplicates_within_one_run_are_encoded_once(collection: wherein.Collection, folder: Path, workers: int) -> None:
    for number in range(50):
        shutil.copyfile(folder / "red.png", folder / f"copy{number}.png")
    assert did(collection.add(folder, workers=workers)) == {"added": 4, "duplicates": 50}
    assert len(collection) == 54


def test_duplicates_that_cannot_be_read_are_all_told(collection: wherein.Collection, folder: Path) -> None:
    for number in range(20):
        (folder / f"bad{number:02}.jpg").write_bytes(b"\xff\xd8\xff and no more")
    report = collection.add(folder)
    assert did(report) == {"added": 4, "skipped": 20}
    assert sorted(Path(skip.path).name for skip in report.skipped) == [f"bad{number:02}.jpg" for number in range(20)]


def test_a_deleted_file_is_no_longer_found_and_comes_back_with_its_tags(
    collection: wherein.Collection, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    collection.tag("mine", ["red.png"])
    shutil.move(folder / "red.png", tmp_path / "kept.png")
    assert did(collection.add(folder)) == {"removed": 1, "unchanged": 3}
    assert collection.search("red")[0].image_id == "holiday/half.png"
    assert (len(collection), collection.info().tombstones, collection.info().tags) == (3, 1, {})
    encoding_is_forbidden(monkeypatch)
    shutil.move(tmp_path / "kept.png", folder / "red.png")
    assert did(collection.add(folder)) == {"added": 1, "unchanged": 3}
    assert collection.image_ids(tags=["mine"]) == ["red.png"]
    assert collection.info().tombstones == 0


def test_a_deleted_folder_takes_its_images_and_no_others(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    shutil.rmtree(folder / "holiday")
    assert did(collection.add(folder / "holiday")) == {"removed": 2}
    assert collection.image_ids() == ["blue.png", "red.png"]


def test_adding_one_folder_leaves_its_neighbours_alone(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    (folder / "red.png").unlink()
    assert did(collection.add(folder / "holiday")) == {"unchanged": 2}
    assert "red.png" in collection.image_ids()


def test_a_missing_root_buries_nothing(
    collection: wherein.Collection, folder: Path, tmp_path: Path, paint: Paint
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


# --- roots and memory ----------------------------------------------------------------------------------


def test_ids_stay_when_a_second_root_joins(
    collection: wherein.Collection, folder: Path, tmp_path: Path, paint: Paint
) -> None:
    collection.add(folder)
    paint(tmp_path / "stick" / "red.png", "yellow")
    assert did(collection.add(tmp_path / "stick")) == {"added": 1}
    assert collection.image_ids() == sorted([*ALL, "stick/red.png"])
    assert collection.search("yellow")[0].path == tmp_path / "stick" / "red.png"
    assert did(collection.add()) == {"unchanged": 5}


def test_a_folder_around_a_root_brings_what_is_new_and_no_second_names(
    tmp_path: Path, folder: Path, paint: Paint
) -> None:
    with wherein.open(tmp_path / "elsewhere", create=True, encoder="toy") as collection:
        collection.add(folder / "holiday")
        assert did(collection.add(folder)) == {"added": 2, "unchanged": 2}
        assert collection.image_ids() == ["half.png", "pictures/blue.png", "pictures/red.png", "third.png"]
        paint(folder / "holiday" / "new.png", "white")
        assert did(collection.add(folder)) == {"added": 1, "unchanged": 4}
        assert "new.png" in collection.image_ids()
        assert did(collection.add()) == {"unchanged": 5}


def test_a_moved_folder_opens_with_all_it_had(collection: wherein.Collection, folder: Path, tmp_path: Path) -> None:
    collection.add(folder)
    collection.close()
    folder.rename(tmp_path / "moved")
    with wherein.open(tmp_path / "moved") as moved:
        assert did(moved.add()) == {"unchanged": 4}
        assert moved.search("red")[0].path == tmp_path / "moved" / "red.png"


def test_images_from_memory_need_no_file(collection: wherein.Collection, folder: Path, picture: Picture) -> None:
    array, encoded = np.asarray(picture("green")), (folder / "blue.png").read_bytes()
    report = collection.add(
        ("pil", picture("yellow")), ("array", array), ("bytes", encoded), ("path", folder / "red.png")
    )
    assert did(report) == {"added": 4}
    found = {text: collection.search(text)[0] for text in ("yellow", "green", "blue", "red")}
    assert {text: hit.image_id for text, hit in found.items()} == {
        "yellow": "pil",
        "green": "array",
        "blue": "bytes",
        "red": "path",
    }
    assert found["green"].path is None
    assert did(collection.add(("array", array))) == {"unchanged": 1}
    assert did(collection.add(("array", np.asarray(picture("brown"))))) == {"changed": 1}
    assert collection.search("brown")[0].image_id == "array"
    assert did(collection.add(folder)) == {"added": 3, "duplicates": 1}  # red.png is the file of "path"


def test_a_bad_image_from_memory_does_not_stop_the_others(collection: wherein.Collection, picture: Picture) -> None:
    report = collection.add(("bad", b"no image"), ("good", picture("red")), ("worse", np.zeros((0, 3), np.uint8)))
    assert did(report) == {"added": 1, "skipped": 2}
    assert {skip.path for skip in report.skipped} == {"bad", "worse"}


def test_the_id_of_a_file_is_not_given_to_an_image_from_memory(
    collection: wherein.Collection, folder: Path, picture: Picture
) -> None:
    collection.add(folder)
    with pytest.raises(InputError, match="Choose another id"):
        collection.add(("red.png", picture("green")))


def test_a_file_renamed_to_the_id_of_an_image_from_memory_takes_it(
    collection: wherein.Collection, folder: Path, picture: Picture
) -> None:
    collection.add(("mine.png", picture("green")))
    collection.add(folder)
    (folder / "red.png").rename(folder / "mine.png")
    assert did(collection.add(folder)) == {"renamed": 1, "unchanged": 3}
    assert collection.search("red")[0].image_id == "mine.png"
    assert len(collection) == 4


# --- files that cannot be used -------------------------------------------------------------------------


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
        "bomb.png": "--max-pixels 120000",
        "dangling.jpg": "No such file",
        "itself.jpg": "symbolic links",
    }


def test_no_bad_file_stops_a_batch_and_each_says_why(
    collection: wherein.Collection, folder: Path, paint: Paint
) -> None:
    expected = unusable(folder, paint)
    report = collection.add(folder, max_pixels=100_000)
    assert did(report) == {"added": 4, "skipped": len(expected)}
    reasons = {Path(skip.path).name: skip.reason for skip in report.skipped}
    for name, word in expected.items():
        assert word in reasons[name], name
        assert name not in reasons[name], "the path is told once, beside its reason"


def test_a_bad_file_is_tried_again_when_it_changes_and_only_then(
    collection: wherein.Collection, folder: Path, paint: Paint, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "bad.jpg").write_bytes(b"no image")
    (folder / "worse.jpg").write_bytes(b"no image either")
    first = collection.add(folder)
    assert collection.info().skipped == 2
    reads = list[str]()

    def noted(path: Path) -> bytes:
        reads.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr("wherein.embed.read_bytes", noted)
    again = collection.add(folder)
    assert again.skipped == first.skipped
    assert reads == []
    paint(folder / "bad.jpg", "yellow")
    assert did(collection.add(folder)) == {"added": 1, "unchanged": 4, "skipped": 1}
    assert reads == ["bad.jpg"]
    (folder / "worse.jpg").unlink()
    collection.add(folder)
    assert collection.info().skipped == 0


def test_a_raised_limit_lets_a_skipped_giant_in(collection: wherein.Collection, folder: Path, paint: Paint) -> None:
    paint(folder / "giant.png", "yellow", size_wh=(400, 300))
    assert did(collection.add(folder, max_pixels=100_000)) == {"added": 4, "skipped": 1}
    assert did(collection.add(folder, max_pixels=120_000)) == {"added": 1, "unchanged": 4}


def test_an_image_that_breaks_is_no_longer_found_until_it_is_mended(
    collection: wherein.Collection, folder: Path
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
    collection: wherein.Collection, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.move(folder / "red.png", tmp_path / "elsewhere" / "red.png")
    (folder / "link.png").symlink_to(tmp_path / "elsewhere" / "red.png")
    assert did(collection.add(folder)) == {"added": 4}
    (tmp_path / "elsewhere").rename(tmp_path / "unplugged")
    assert did(collection.add(folder)) == {"unchanged": 3, "skipped": 1}
    assert "link.png" in collection.image_ids()


def test_misnamed_images_are_images(collection: wherein.Collection, folder: Path, paint: Paint) -> None:
    paint(folder / "x.png", "yellow").rename(folder / "really-a-png.jpg")
    paint(folder / "y.png", "green").rename(folder / "no-suffix-at-all")
    assert did(collection.add(folder)) == {"added": 6}
    assert collection.search("yellow")[0].image_id == "really-a-png.jpg"
    assert collection.search("green")[0].image_id == "no-suffix-at-all"


NAMES = ["grün.png", "gru\u0308n.png", "写真🏔️.png", "new\nline.png", "100%#?&.png", "'quoted\".png", "a;b--.png"]


def test_any_name_goes_all_the_way(collection: wherein.Collection, folder: Path, paint: Paint) -> None:
    for name in NAMES:
        paint(folder / "ordner 📁" / name, "yellow")
    collection.add(folder)
    expected = sorted(f"ordner 📁/{name}" for name in NAMES)
    hits = collection.search("yellow", k=len(NAMES))
    assert [hit.image_id for hit in hits] == expected
    assert all(hit.path is not None and hit.path.is_file() for hit in hits)
    assert collection.image_ids(folder="ordner 📁") == expected
    assert did(collection.add(folder)) == {"unchanged": 4 + len(NAMES)}


def test_a_name_that_is_not_unicode_is_skipped_in_letters_that_print(
    collection: wherein.Collection, folder: Path, paint: Paint
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


# --- films ---------------------------------------------------------------------------------------------

Film = Callable[..., Path]


def test_a_film_is_one_image_a_keyframe(collection: wherein.Collection, folder: Path, film: Film) -> None:
    film(folder / "clip.mp4", ["yellow", "green"])
    assert did(collection.add(folder)) == {"added": 6}
    hit = collection.search("green")[0]
    assert (hit.image_id, hit.seconds, hit.path) == ("clip.mp4#t=2", 2.0, folder / "clip.mp4")
    assert did(collection.add(folder)) == {"unchanged": 5}


def test_a_renamed_film_takes_its_keyframes_along(
    collection: wherein.Collection, folder: Path, film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    film(folder / "clip.mp4", ["yellow", "green"])
    collection.add(folder)
    collection.tag("mine", ["clip.mp4#t=2"])
    encoding_is_forbidden(monkeypatch)
    (folder / "clip.mp4").rename(folder / "film.mp4")
    assert did(collection.add(folder)) == {"renamed": 2, "unchanged": 4}
    assert collection.image_ids(tags=["mine"]) == ["film.mp4#t=2"]


def test_a_changed_film_forgets_the_keyframes_it_lost(collection: wherein.Collection, folder: Path, film: Film) -> None:
    film(folder / "clip.mp4", ["yellow", "green", "white"])
    collection.add(folder)
    film(folder / "clip.mp4", ["green"])
    assert did(collection.add(folder)) == {"changed": 1, "unchanged": 4}
    assert [name for name in collection.image_ids() if "clip" in name] == ["clip.mp4#t=0"]
    assert collection.search("green")[0].image_id == "clip.mp4#t=0"


def test_a_film_torn_in_the_middle_is_skipped_whole(collection: wherein.Collection, folder: Path, film: Film) -> None:
    path = film(folder / "clip.avi", ["yellow", "green"])
    path.write_bytes(path.read_bytes()[:300])
    assert did(collection.add(folder)) == {"added": 4, "skipped": 1}
    assert collection.image_ids() == ALL


# --- several encoders ----------------------------------------------------------------------------------


def test_a_new_encoder_serves_when_its_layer_is_complete(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    assert did(collection.add(folder / "holiday", encoder="toy:8")) == {"changed": 2}
    assert collection.encoder == "toy"
    assert len(collection.search("red")) == 4
    assert len(collection.search("red", method="toy:8")) == 2
    assert did(collection.add(folder, encoder="toy:8")) == {"changed": 2, "unchanged": 2}
    assert collection.encoder == "toy:8"
    assert len(collection.search("red")) == 4
    assert len(collection.search("red", method="toy")) == 4

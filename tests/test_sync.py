"""Keeping up with folders: the plain course, roots, images from memory, several encoders; real files throughout."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.errors import InputError
from wherein.values.records import AddReport, Progress

Paint = Callable[..., Path]
Picture = Callable[..., PIL.Image.Image]
Did = Callable[[AddReport], dict[str, int]]
Forbid = Callable[[], None]


def answers(collection: wherein.Collection, *texts: str) -> list[list[tuple[str, float]]]:
    return [[(hit.image_id, hit.score) for hit in collection.search(text)] for text in texts or ("red", "blue green")]


# --- the plain course ----------------------------------------------------------------------------------


def test_an_empty_folder_adds_nothing(tmp_path: Path, did: Did) -> None:
    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        assert did(collection.add(tmp_path)) == {}
        assert len(collection) == 0
        assert list(collection.search("red")) == []


def test_a_folder_is_added_and_adding_it_again_is_a_no_op(
    collection: wherein.Collection, folder: Path, did: Did, folder_ids: list[str]
) -> None:
    assert did(collection.add(folder)) == {"added": 4}
    assert collection.image_ids() == folder_ids
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


def test_the_order_of_insertion_changes_nothing(tmp_path: Path, folder: Path, folder_ids: list[str]) -> None:
    names = [folder / name for name in folder_ids]
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


def test_a_file_named_twice_is_read_once(collection: wherein.Collection, folder: Path, did: Did) -> None:
    assert did(collection.add(folder, folder / "red.png", folder / "holiday")) == {"added": 4}


def test_a_touched_file_is_not_encoded_again(
    collection: wherein.Collection, folder: Path, did: Did, encoding_is_forbidden: Forbid
) -> None:
    collection.add(folder)
    encoding_is_forbidden()
    os.utime(folder / "red.png", ns=(1, 1))
    assert did(collection.add(folder)) == {"unchanged": 4}
    assert did(collection.add(folder)) == {"unchanged": 4}


def test_what_is_not_there_is_told(collection: wherein.Collection, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist\. Check the spelling"):
        collection.add(tmp_path / "pictuers")
    assert collection.info().roots == {}


def test_a_slip_in_one_of_several_folders_leaves_no_trace(
    collection: wherein.Collection, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"does not exist\. Check the spelling"):
        collection.add(folder, tmp_path / "pictuers")
    assert (collection.info().roots, collection.info().layers, len(collection)) == ({}, (), 0)


def test_a_slip_below_an_indexed_folder_is_told(collection: wherein.Collection, folder: Path, did: Did) -> None:
    collection.add(folder)
    report = collection.add(folder / "holidya")
    assert [skip.path for skip in report.skipped] == [str(folder / "holidya")]
    assert report.skipped[0].reason == "does not exist, and nothing was indexed there. Check its spelling."
    assert collection.info().skipped == 0
    (folder / "red.png").unlink()
    assert did(collection.add(folder / "red.png")) == {"removed": 1}


# --- roots and memory ----------------------------------------------------------------------------------


def test_ids_stay_when_a_second_root_joins(
    collection: wherein.Collection, folder: Path, tmp_path: Path, paint: Paint, did: Did, folder_ids: list[str]
) -> None:
    collection.add(folder)
    paint(tmp_path / "stick" / "red.png", "yellow")
    assert did(collection.add(tmp_path / "stick")) == {"added": 1}
    assert collection.image_ids() == sorted([*folder_ids, "stick/red.png"])
    assert collection.search("yellow")[0].path == tmp_path / "stick" / "red.png"
    assert did(collection.add()) == {"unchanged": 5}


def test_a_folder_around_a_root_brings_what_is_new_and_no_second_names(
    tmp_path: Path, folder: Path, paint: Paint, did: Did
) -> None:
    with wherein.open(tmp_path / "elsewhere", create=True, encoder="toy") as collection:
        collection.add(folder / "holiday")
        assert did(collection.add(folder)) == {"added": 2, "unchanged": 2}
        assert collection.image_ids() == ["half.png", "pictures/blue.png", "pictures/red.png", "third.png"]
        paint(folder / "holiday" / "new.png", "white")
        assert did(collection.add(folder)) == {"added": 1, "unchanged": 4}
        assert "new.png" in collection.image_ids()
        assert did(collection.add()) == {"unchanged": 5}


def test_a_moved_folder_opens_with_all_it_had(
    collection: wherein.Collection, folder: Path, tmp_path: Path, did: Did
) -> None:
    collection.add(folder)
    collection.close()
    folder.rename(tmp_path / "moved")
    with wherein.open(tmp_path / "moved") as moved:
        assert did(moved.add()) == {"unchanged": 4}
        assert moved.search("red")[0].path == tmp_path / "moved" / "red.png"


def test_images_from_memory_need_no_file(
    collection: wherein.Collection, folder: Path, picture: Picture, did: Did
) -> None:
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


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(np.zeros((4, 4, 3), np.uint8), id="an array without a name"),
        pytest.param(["red.png"], id="a list"),
        pytest.param(("name",), id="a name without an image"),
        pytest.param((" ", np.zeros((4, 4, 3), np.uint8)), id="an empty name"),
    ],
)
def test_an_image_from_memory_needs_a_name(collection: wherein.Collection, source: Any) -> None:
    with pytest.raises(InputError, match="give"):
        collection.add(source)


def test_a_bad_image_from_memory_does_not_stop_the_others(
    collection: wherein.Collection, picture: Picture, did: Did
) -> None:
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
    collection: wherein.Collection, folder: Path, picture: Picture, did: Did
) -> None:
    collection.add(("mine.png", picture("green")))
    collection.add(folder)
    (folder / "red.png").rename(folder / "mine.png")
    assert did(collection.add(folder)) == {"renamed": 1, "unchanged": 3}
    assert collection.search("red")[0].image_id == "mine.png"
    assert len(collection) == 4


# --- several encoders ----------------------------------------------------------------------------------


def test_a_new_encoder_serves_when_its_layer_is_complete(
    collection: wherein.Collection, folder: Path, did: Did
) -> None:
    collection.add(folder)
    assert did(collection.add(folder / "holiday", encoder="toy:8")) == {"completed": 2}
    assert collection.encoder == "toy"
    assert len(collection.search("red")) == 4
    assert len(collection.search("red", method="toy:8")) == 2
    assert did(collection.add(folder, encoder="toy:8")) == {"completed": 2, "unchanged": 2}
    assert collection.encoder == "toy:8"
    assert len(collection.search("red")) == 4
    assert len(collection.search("red", method="toy")) == 4

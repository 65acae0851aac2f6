"""Finding files, on real folders with everything people keep in them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from wherein.images.walk import Found, Passed, exists, found_at, printable, walk
from wherein.values.address import inside

Paint = Callable[..., Path]


def found(folder: Path) -> list[str]:
    return [inside(folder, entry.path) or "" for entry in walk(folder) if isinstance(entry, Found)]


def passed(folder: Path) -> dict[str, str]:
    return {entry.path.name: entry.reason for entry in walk(folder) if isinstance(entry, Passed)}


def test_an_empty_folder_holds_nothing(tmp_path: Path) -> None:
    assert list(walk(tmp_path)) == []


def test_a_missing_folder_is_passed_over_with_its_reason(tmp_path: Path) -> None:
    assert passed(tmp_path / "gone") == {
        "gone": "folder cannot be read (No such file or directory); check its permissions"
    }


def test_images_are_found_below_by_name_each_folder_after_its_files(tmp_path: Path, paint: Paint) -> None:
    for name in ("b.png", "a.jpg", "m/z.png", "m/deeper/x.png", "c/y.png"):
        paint(tmp_path / name, "red")
    assert found(tmp_path) == ["a.jpg", "b.png", "c/y.png", "m/z.png", "m/deeper/x.png"]


def test_size_and_time_are_those_of_the_file(tmp_path: Path, paint: Paint) -> None:
    path = paint(tmp_path / "a.png", "red")
    os.utime(path, ns=(1, 1_700_000_000_123_456_789))
    assert list(walk(tmp_path)) == [Found(path, path.stat().st_size, 1_700_000_000_123_456_789)]


def test_other_files_and_hidden_names_are_left_out_without_a_word(tmp_path: Path, paint: Paint) -> None:
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "code.ts").write_text("const Greeting: string = 'TypeScript, not a transport stream'\n" * 9)
    paint(tmp_path / ".hidden.png", "red")
    paint(tmp_path / ".wherein" / "thumb.png", "red")
    os.mkfifo(tmp_path / "pipe.jpg")
    assert list(walk(tmp_path)) == []


def test_a_transport_stream_is_a_film(tmp_path: Path) -> None:
    (tmp_path / "film.ts").write_bytes((b"G" + bytes(187)) * 3)
    assert found(tmp_path) == ["film.ts"]


def test_an_image_is_known_by_its_bytes_where_its_name_says_nothing(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "a.png", "red").rename(tmp_path / "no-suffix")
    paint(tmp_path / "b.png", "red").rename(tmp_path / "b.dat")
    assert found(tmp_path) == ["b.dat", "no-suffix"]


def test_a_link_to_a_folder_above_ends(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "a" / "x.png", "red")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "here").symlink_to(".")
    assert found(tmp_path) == ["a/x.png"]


def test_a_file_reachable_through_a_link_keeps_its_own_path(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "real" / "x.png", "red")
    (tmp_path / "a-link-that-sorts-first").symlink_to("real")
    assert found(tmp_path) == ["real/x.png"]


def test_a_linked_folder_elsewhere_is_followed(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "elsewhere" / "x.png", "red")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    assert found(tmp_path / "root") == ["link/x.png"]
    (entry,) = walk(tmp_path / "root", within=[tmp_path])
    assert entry == Found(
        tmp_path / "root" / "link" / "x.png",
        *size_and_time(tmp_path / "elsewhere" / "x.png"),
        real=tmp_path / "elsewhere" / "x.png",
    )


def size_and_time(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


def test_links_that_leave_are_passed_over_with_the_way_out(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "elsewhere" / "x.png", "red")
    paint(tmp_path / "root" / "own.png", "red")
    (tmp_path / "root" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "file.png").symlink_to(tmp_path / "elsewhere" / "x.png")
    (tmp_path / "root" / "notes.txt").symlink_to("/etc/hostname")  # no image: not a word
    entries = list(walk(tmp_path / "root", within=[tmp_path / "root"]))
    assert [entry.path.name for entry in entries if isinstance(entry, Found)] == ["own.png"]
    told = {entry.path.name: entry.reason for entry in entries if isinstance(entry, Passed)}
    assert told.keys() == {"folder", "file.png"}
    assert all("follow_links" in reason for reason in told.values())


def test_links_that_lead_nowhere_say_so_and_the_rest_is_found(tmp_path: Path, paint: Paint) -> None:
    (tmp_path / "itself.jpg").symlink_to("itself.jpg")
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "nowhere.jpg").symlink_to("nothing-there")
    paint(tmp_path / "x.png", "red")
    assert found(tmp_path) == ["x.png"]
    assert passed(tmp_path) == {
        "itself.jpg": "cannot be read (Too many levels of symbolic links)",
        "nowhere.jpg": "cannot be read (No such file or directory)",
    }


NAMES = [
    pytest.param("grün.png", id="umlaut"),
    pytest.param("gru\u0308n.png", id="combining umlaut"),
    pytest.param("写真 🏔️.png", id="emoji"),
    pytest.param("مرحبا.png", id="right to left"),
    pytest.param("new\nline.png", id="line break"),
    pytest.param(" spaces .png", id="spaces"),
    pytest.param("#0.1,0.2,0.5,0.9.png", id="what looks like a box"),
    pytest.param("-not.png", id="what looks like an option"),
    pytest.param("a" * 200 + ".png", id="a long name"),
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_found_as_it_is(tmp_path: Path, paint: Paint, name: str) -> None:
    paint(tmp_path / name, "red")
    assert found(tmp_path) == [name]


def test_a_name_that_is_not_unicode_is_passed_over_with_its_way_out(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "x.png", "red").rename(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png"))
    paint(tmp_path / "y.png", "red")
    assert found(tmp_path) == ["y.png"]
    assert list(passed(tmp_path).values()) == ["its name is not valid Unicode; rename it"]


def test_looking_at_something_else_finds_nothing(tmp_path: Path) -> None:
    assert found_at(tmp_path) is None
    assert found_at(tmp_path / "nothing") is None


def test_what_exists(tmp_path: Path, paint: Paint) -> None:
    path = paint(tmp_path / "x.png", "red")
    (tmp_path / "itself").symlink_to("itself")
    found = {name: exists(tmp_path / name) for name in ("x.png", "nothing", "x.png/below-a-file", "itself")}
    assert found == {"x.png": True, "nothing": False, "x.png/below-a-file": False, "itself": True}
    assert printable(path) == str(path)
    assert printable(Path(os.fsdecode(b"caf\xe9"))) == r"caf\udce9"

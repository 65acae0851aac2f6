"""Kills and power cuts between any two calls of the system, SQLite's own included: nothing committed is lost."""

import random
import shutil
from pathlib import Path
from typing import get_args

import pytest
from disk import Call, Disk, How, compiled, recorded
from figures import note, size
from test_kills import ACTS, home, survives

import wherein

__all__ = ["home"]  # a fixture
PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_kills, wherein
with wherein.open(sys.argv[1]) as collection:
    test_kills.ACTS[sys.argv[2]](collection)
"""
NEW = {"new/0", "new/1", "new/2"}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What records the calls of a process."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no C compiler to make the recorder with")
    return compiled(tmp_path_factory.mktemp("shim"))


def built(root: Path, before: Path, calls: list[Call], inodes: dict[int, Path], *, upto: int) -> Disk:
    """The disk after the first calls of a recording."""
    disk = Disk(root, before)
    for inode, path in inodes.items():
        disk.note(inode, path)
    for call in calls[:upto]:
        disk.apply(call)
    return disk


@pytest.mark.parametrize("name", ACTS)
def test_a_change_cut_between_any_two_calls_loses_nothing(home: Path, shim: Path, name: str) -> None:
    before = home.with_name("before")
    shutil.copytree(home, before)
    inodes = {path.stat().st_ino: path for path in home.rglob("*") if path.is_file()}
    calls = recorded(shim, home, PROGRAM, str(home), name)
    written = [call.data[:4] for call in calls if call.what == "W"]
    assert written
    if name != "train":  # which changes no table
        assert b"\x37\x7f\x06\x82" in written, "SQLite's log is not seen"
    draw = random.Random(name)
    points = sorted(draw.sample(range(1, len(calls)), min(len(calls) - 1, size(2, 40))))
    ways: tuple[How, ...] = get_args(How) if size(0, 1) else ("some",)
    tries = [(point, how) for point in points for how in ways]
    for point, how in tries:
        built(home, before, calls, inodes, upto=point).write(home, how, seed=point)
        survives(home, name)
    note(f"cut at the disk: {name}", tries=len(tries), lost=0)


def test_what_was_said_to_be_done_survives_a_power_cut_right_after(home: Path, shim: Path) -> None:
    before = home.with_name("before")
    shutil.copytree(home, before)
    inodes = {path.stat().st_ino: path for path in home.rglob("*") if path.is_file()}
    calls = recorded(shim, home, PROGRAM, str(home), "add")
    for how in get_args(How):
        built(home, before, calls, inodes, upto=len(calls)).write(home, how, seed=1)
        with wherein.open(home) as opened:
            assert {hit.image_id for hit in opened.search("red", k=100)} >= NEW
            assert opened.check().broken == ()
    unsynced = [call for call in calls if call.what != "S"]  # the instrument notices where syncs are missing
    built(home, before, unsynced, inodes, upto=len(unsynced)).write(home, "lost", seed=1)
    with wherein.open(home) as opened:
        assert not {hit.image_id for hit in opened.search("red", k=100)} & NEW


def test_a_recording_of_everything_is_the_folder_itself(home: Path, shim: Path) -> None:
    """The instrument sees all: what is built from the recording is what the process left, byte by byte."""
    before = home.with_name("before")
    shutil.copytree(home, before)
    inodes = {path.stat().st_ino: path for path in home.rglob("*") if path.is_file()}
    calls = recorded(shim, home, PROGRAM, str(home), "compact")
    made = home.with_name("made")
    built(home, before, calls, inodes, upto=len(calls)).write(made, "kill", seed=0)

    def content(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    assert content(made) == content(home)

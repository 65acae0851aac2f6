"""Kills, power cuts and full disks at every step of a change: nothing committed is lost, everything completes."""

import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figures import note, size
from injection import Faults

import wherein
from wherein.errors import WhereinError

Act = Callable[[wherein.Collection], Any]


def grown(collection: wherein.Collection) -> None:
    collection.add(*((f"new/{n}", np.full((40, 60, 3), 20 * n, np.uint8)) for n in range(3)))


def tidied(collection: wherein.Collection) -> None:
    collection.compact()


def tagged(collection: wherein.Collection) -> None:
    collection.tag("later", ["red.png"])


def checked(collection: wherein.Collection) -> None:
    next((collection.folder / "shards").glob("patches*/*.npy")).unlink()
    collection.check()
    collection.add()


def removed(collection: wherein.Collection) -> None:
    collection.remove("blue.png")


def taught(collection: wherein.Collection) -> None:
    collection.train("taught", seed=1)


ACTS: dict[str, Act] = {
    "add": grown,
    "compact": tidied,
    "tag": tagged,
    "check": checked,
    "remove": removed,
    "train": taught,
}


@pytest.fixture
def home(collection: wherein.Collection, folder: Path) -> Path:
    collection.add(folder)
    for number in range(3):
        collection.add((f"memory/{number}", np.full((40, 60, 3), 50 * number, np.uint8)))
    collection.tag("mine", ["memory/1"])
    collection.tag("theirs", ["memory/2"])
    collection.train("taught")
    collection.search("red")
    collection.close()
    return collection.folder


UNTOUCHED = 5
"""How a process ends whose change has fewer steps than the one that was to be struck."""
KEPT = {"red.png", "holiday/half.png", "holiday/third.png", "memory/0", "memory/1", "memory/2"}


def forked(work: Callable[[], None]) -> int:
    """Do something in a process that may not come back; returns its process id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except (WhereinError, OSError):
        os._exit(3)
    except BaseException:
        os._exit(4)
    os._exit(0)


def survives(home: Path, name: str) -> None:
    """It opens, is whole, holds what was committed, and the same change completes."""
    wherein.mend(home)
    with wherein.open(home) as opened:
        opened.check()
        opened.add()
        assert opened.check().broken == ()
        found = {hit.image_id for hit in opened.search("red", k=100)}
        assert found >= KEPT
        assert opened.image_ids(tags=["mine"]) == ["memory/1"]
        assert {hit.image_id for hit in opened.search("label:mine", method="toy:taught", k=100)} >= KEPT
        if name != "check":
            ACTS[name](opened) if name != "remove" or "blue.png" in opened.image_ids() else None
        assert {hit.image_id for hit in opened.search("red", k=100)} >= KEPT


def tried(home: Path, name: str, how: str | int, at: int) -> int:
    """One change of a copy, struck at a call; returns how the process ended."""
    spare = home.with_name("spare")
    shutil.copytree(home, spare, dirs_exist_ok=True)

    def work() -> None:
        faults = Faults(how, at, seed=at)
        faults.install()
        with wherein.open(home) as collection:
            ACTS[name](collection)
        if faults.count < at:
            os._exit(UNTOUCHED)

    try:
        _, status = os.waitpid(forked(work), 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, 3, UNTOUCHED, 137), f"{name} {how} at {at}: ended with {code}"
        survives(home, name)
        return code
    finally:
        shutil.rmtree(home)
        spare.rename(home)


@pytest.mark.parametrize("how", ["kill", "cut", errno.ENOSPC, errno.EIO], ids=["kill", "cut", "ENOSPC", "EIO"])
def test_a_change_struck_at_any_step_loses_nothing(home: Path, how: str | int) -> None:
    struck, draw = 0, random.Random(19)
    for name in ACTS:
        steps = list(range(1, size(24, 400)))
        for at in steps if size(0, 1) else sorted(draw.sample(steps, 2)):
            if tried(home, name, how, at) == UNTOUCHED:
                break  # the change has fewer steps
            struck += 1
    assert struck
    note(f"struck by {how if isinstance(how, str) else errno.errorcode[how]}", tries=struck, lost=0)


def test_a_change_killed_at_any_moment_loses_nothing(home: Path) -> None:
    draw, killed = random.Random(7), 0
    for number in range(size(6, 500)):
        name = draw.choice(list(ACTS))
        spare = home.with_name("spare")
        shutil.copytree(home, spare)

        def work(name: str = name) -> None:
            with wherein.open(home) as collection:
                ACTS[name](collection)

        child = forked(work)
        time.sleep(draw.random() * 0.25)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        try:
            survives(home, name)
        finally:
            shutil.rmtree(home)
            spare.rename(home)
        assert number >= 0
    note("killed at random moments", tries=killed, lost=0)


@pytest.mark.parametrize("how", ["kill", "cut"])
def test_an_older_collection_struck_while_it_is_brought_up_to_date_is_whole(tmp_path: Path, how: str) -> None:
    source, struck = Path(__file__).parent.parent / "formats" / "0.1" / "collection", 0
    with wherein.open(shutil.copytree(source, tmp_path / "read")) as opened:
        before = [hit.image_id for hit in opened.search("red", k=100)]
    for at in range(1, size(12, 400), size(3, 1)):
        home = shutil.copytree(source, tmp_path / str(at))

        def work(home: Path = home, at: int = at) -> None:
            faults = Faults(how, at, seed=at)
            faults.install()
            with wherein.open(home) as collection:
                collection.tag("later", before[:1])
            if faults.count < at:
                os._exit(UNTOUCHED)

        _, status = os.waitpid(forked(work), 0)
        struck += os.waitstatus_to_exitcode(status) != UNTOUCHED
        wherein.mend(home)
        with wherein.open(home) as opened:
            assert opened.check().broken == ()
            assert [hit.image_id for hit in opened.search("red", k=100)] == before
            opened.tag("later", before[:1])
            assert opened.image_ids(tags=["later"]) == before[:1]
        shutil.rmtree(home)
    assert struck
    note(f"older collections struck by {how}", tries=struck, lost=0)

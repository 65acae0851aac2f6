"""Damage is found wherever it is; what can be made again is, and nothing else is touched."""

import hashlib
import json
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import wherein
from wherein.cli import app
from wherein.copies import COPIES, QUARANTINE, read_copy, write_copy
from wherein.errors import CollectionCorrupt, CollectionError, InputError
from wherein.store import rewriting
from wherein.store.seals import Seal

Paint = Callable[..., Path]
Answers = list[tuple[str, float]]


def answers(collection: wherein.Collection) -> Answers:
    return [(hit.image_id, round(hit.score, 6)) for hit in collection.search("red", k=100)]


def flip(path: Path, at: int, bit: int = 64) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def shard(home: Path, kind: str) -> Path:
    (path,) = (home / "shards").glob(f"{kind}*/*.npy")
    return path


@pytest.fixture
def home(collection: wherein.Collection, folder: Path) -> Path:
    """The files of a collection of four pictures on disk and three from memory, closed."""
    collection.add(folder)
    grey = [(f"memory/{n}", np.full((48, 64, 3), n * 60, np.uint8)) for n in range(3)]
    collection.add(*grey)
    collection.tag("mine", ["red.png", "memory/1"])
    collection.remove("blue.png")
    collection.compact()
    collection.close()
    return collection.folder


@pytest.fixture
def before(home: Path) -> Answers:
    """What the collection answers while it is whole."""
    with wherein.open(home) as opened:
        return answers(opened)


# --- damaged rows ----------------------------------------------------------------------------------------


def test_a_flipped_bit_costs_one_row_of_what_nothing_can_make_again(home: Path, before: Answers) -> None:
    path = shard(home, "global")
    seal = Seal.read(path)
    assert seal is not None
    labels = {row: seal.labels["images"][image][1] for row, image, _ in seal.labels["rows"]}
    (row,) = [row for row, name in labels.items() if name == "memory/1"]
    step = (seal.data_bytes - len(seal.head or b"")) // len(labels)
    flip(path, len(seal.head or b"") + row * step)
    whole = path.read_bytes()
    with wherein.open(home) as opened:
        report = opened.check()
        assert (report.broken, report.lost, report.images_to_read_again) == ((path,), ("memory/1",), 0)
        assert answers(opened) == [one for one in before if one[0] != "memory/1"]
        assert opened.thumb("memory/1") is not None
        assert opened.image_ids(tags=["mine"]) == ["memory/1", "red.png"]
        assert opened.check().broken == ()
    assert [kept.read_bytes() for kept in (home / QUARANTINE).iterdir()] == [whole]


@pytest.mark.parametrize("method", ["static-9", "patches"])
@pytest.mark.parametrize("kind", ["global", "patches"])
def test_an_image_that_lost_a_row_costs_no_search_of_the_others(home: Path, method: str, kind: str) -> None:
    with wherein.open(home) as opened:
        opened.add(layers=["global", "patches", "cells"])  # those from memory get no cells: nothing is there to cut
        opened.add(("memory/3", np.full((48, 64, 3), 90, np.uint8)))
        ids = {hit.image_id for hit in opened.search("red", method=method, k=100)}
    assert "memory/3" in ids
    path = max((home / "shards").glob(f"{kind}*/*.npy"), key=lambda path: path.stem)
    seal = Seal.read(path)
    assert seal is not None
    flip(path, len(seal.head or b""))
    with wherein.open(home) as opened:
        assert opened.check().lost == ("memory/3",)
        assert {hit.image_id for hit in opened.search("red", method=method, k=100)} == ids - {"memory/3"}


def test_a_check_that_was_killed_is_finished_by_the_next(home: Path, before: Answers) -> None:
    shard(home, "patches").unlink()
    with wherein.open(home) as opened:
        assert opened.check().images_to_read_again == 3  # and here it is killed, before anything is read again
        assert opened.check().images_to_read_again == 3
    said = CliRunner().invoke(app, ["check", "-c", str(home)])
    assert "3 images read again" in said.stdout
    assert "all intact" in CliRunner().invoke(app, ["check", "-c", str(home)]).stdout
    with wherein.open(home) as opened:
        assert [one[0] for one in answers(opened)] == [one[0] for one in before]


# --- every byte of every file ----------------------------------------------------------------------------


def files(home: Path) -> list[Path]:
    """Everything that holds something; locks are empty."""
    return sorted(path for path in home.rglob("*") if path.is_file() and path.stat().st_size)


def test_every_flipped_byte_is_found_and_costs_at_most_what_it_was_in(home: Path, before: Answers) -> None:
    with wherein.open(home) as opened:
        opened.search("red", method="static-9")  # so that something is derived
    spare = home.with_name("spare")
    shutil.copytree(home, spare)
    draw = random.Random(19)
    unfound = []
    for path in files(spare):
        for _ in range(4):
            at = draw.randrange(path.stat().st_size)
            harmed = home / path.relative_to(spare)
            flip(harmed, at, 1 << draw.randrange(8))
            found = wherein.mend(home)
            with wherein.open(home) as opened:
                report = opened.check()
                opened.add()
                if not found and not report.broken:
                    unfound.append((path.relative_to(spare).as_posix(), at))
                missing = {name for name, _ in before} - {name for name, _ in answers(opened)}
                assert missing <= set(report.lost), (path, at)
                assert opened.image_ids(tags=["mine"]) == ["memory/1", "red.png"], (path, at)
                assert opened.ignored() == ["blue.png"]
            shutil.rmtree(home)
            shutil.copytree(spare, home)
    assert unfound == []


@pytest.mark.parametrize("name", ["manifest.json", "catalogue.sqlite", "kept/ignored.json"])
@pytest.mark.parametrize("how", ["lost", "emptied", "torn", "rubbish"])
def test_what_is_lost_comes_back_from_its_copy(home: Path, before: Answers, name: str, how: str) -> None:
    path = home / name
    data = path.read_bytes()
    path.write_bytes({"emptied": b"", "torn": data[: len(data) // 2], "rubbish": b"\x00\xff" * 2048}.get(how, data))
    if how == "lost":
        path.unlink()
    assert wherein.mend(home) != []
    with wherein.open(home) as opened:
        assert (answers(opened), opened.ignored()) == (before, ["blue.png"])
        assert opened.image_ids(tags=["mine"]) == ["memory/1", "red.png"]
        assert opened.check().broken == ()


def test_a_collection_without_manifest_catalogue_and_copies_is_rebuilt_from_its_shards(
    home: Path, before: Answers
) -> None:
    for name in ("manifest.json", "catalogue.sqlite"):
        (home / name).unlink()
    shutil.rmtree(home / COPIES)
    said = CliRunner().invoke(app, ["check", "-c", str(home)])
    assert "made again from what the shards say; tags were lost" in said.stdout, said.output
    with wherein.open(home) as opened:
        assert answers(opened) == before
        assert opened.thumb("memory/2") is not None
        assert opened.add().unchanged == 3
        assert sorted(opened.image_ids()) == sorted(name for name, _ in before)


def test_what_was_committed_after_the_copy_is_taken_from_the_shards(home: Path, folder: Path, paint: Paint) -> None:
    kept = {path: path.read_bytes() for path in (home / COPIES).rglob("*") if path.is_file()}
    with wherein.open(home) as opened:
        opened.add(("memory/new", np.full((48, 64, 3), 255, np.uint8)))
        after = answers(opened)
    shutil.rmtree(home / COPIES)
    for path, data in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (home / "catalogue.sqlite").write_bytes(b"nothing")
    assert any("shards were taken in again" in note for note in wherein.mend(home))
    with wherein.open(home) as opened:
        assert answers(opened) == after
        assert opened.image_ids(tags=["mine"]) == ["memory/1", "red.png"]


# --- small shards, descriptors, readers ------------------------------------------------------------------


def test_many_small_commits_leave_few_shards(collection: wherein.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(40):
        collection.add((f"{number}", np.full((48, 64, 3), number * 6, np.uint8)))
    shards = list((collection.folder / "shards").glob("global*/*.npy"))
    assert len(shards) < 2 * rewriting.MERGED_AT_ONCE
    assert len(collection.search("red", k=100)) == 40
    assert collection.check().broken == ()


def test_readers_are_answered_whole_while_others_compact(folder: Path, paint: Paint) -> None:
    for number in range(24):
        paint(folder / f"{number:02d}.png", "red", "green", size_wh=(64 + number, 48))
    with wherein.open(folder, create=True, encoder="toy") as made:
        made.add(folder)
        expected = len(made)
    failed, stop = list[BaseException](), threading.Event()

    def read() -> None:
        try:
            with wherein.open(folder) as reader:
                while not stop.is_set():
                    assert len(reader.search("red", k=100)) >= expected
                    assert reader.thumb("07.png")
                    assert reader.check(repair=False).broken == ()
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    with wherein.open(folder) as writer:
        for number in range(12):
            writer.add((f"memory/{number}", np.full((48, 64, 3), 9, np.uint8)))
            writer.remove(f"memory/{number}")
            writer.compact()
    stop.set()
    for reader in readers:
        reader.join()
    assert "\n".join(map(str, failed)) == ""


# --- backup and restore ----------------------------------------------------------------------------------


def test_a_backup_is_a_collection_and_brings_one_back(
    home: Path, before: Answers, tmp_path: Path, folder: Path
) -> None:
    run = CliRunner()
    assert "bytes copied" in run.invoke(app, ["backup", str(tmp_path / "saved"), "-c", str(home)]).stdout
    with wherein.open(tmp_path / "saved") as saved:
        assert answers(saved) == before
        assert saved.ignored() == ["blue.png"]
        assert saved.check().broken == ()
        with saved.open_file("red.png") as original:
            assert original.read() == (folder / "red.png").read_bytes()
    shutil.rmtree(home)
    assert "6 images" in run.invoke(app, ["restore", str(tmp_path / "saved"), str(folder)]).stdout
    with wherein.open(folder) as back:
        assert answers(back) == before
        assert back.roots == {"": folder}
        assert back.image_ids(tags=["mine"]) == ["memory/1", "red.png"]
    refused = run.invoke(app, ["restore", str(tmp_path / "saved"), str(folder)])
    assert isinstance(refused.exception, InputError)


def test_a_damaged_backup_is_not_restored(home: Path, tmp_path: Path) -> None:
    with wherein.open(home) as opened:
        opened.backup(tmp_path / "saved")
    flip(shard(tmp_path / "saved", "thumbs"), 300)
    with pytest.raises(CollectionCorrupt, match="wherein check -c"):
        wherein.restore(tmp_path / "saved", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_backup_while_others_write_and_compact_is_whole(home: Path, tmp_path: Path, folder: Path) -> None:
    stop = threading.Event()

    def churn() -> None:
        with wherein.open(home) as writer:
            number = 0
            while not stop.is_set():
                writer.add((f"new/{number}", np.full((48, 64, 3), number % 250, np.uint8)))
                writer.compact()
                number += 1

    writing = threading.Thread(target=churn)
    writing.start()
    try:
        for number in range(5):
            with wherein.open(home) as opened:
                opened.backup(tmp_path / f"saved{number}")
            with wherein.open(tmp_path / f"saved{number}") as saved:
                assert saved.check(repair=False).broken == ()
                assert len(saved.search("red", k=10_000)) == len(saved)
    finally:
        stop.set()
        writing.join()


def test_copies_of_a_catalogue_that_was_damaged_already_are_passed_over(home: Path, before: Answers) -> None:
    state = home / COPIES / "catalogue.json"
    document = json.loads(read_copy(state) or b"")
    for copy in document["copies"]:
        path = home / COPIES / copy["name"]
        with closing(sqlite3.connect(path)) as db:
            db.execute("DROP TABLE images")
            db.commit()
        copy["sum"] = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    write_copy(home, state.name, json.dumps(document).encode())
    (home / "catalogue.sqlite").write_bytes(b"no database")
    assert "was made again from what the shards say" in " ".join(wherein.mend(home))
    with wherein.open(home) as opened:
        assert answers(opened) == before


# --- strangers and co-users ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest.json", "kept/ignored.json", "copies/kept/ignored.json", "derived/odd.json"])
@pytest.mark.parametrize("what", ["pipe", "device", "bomb"])
def test_what_never_ends_is_refused_before_it_is_read(home: Path, name: str, what: str) -> None:
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(home / name)
    elif what == "device":
        (home / name).symlink_to("/dev/zero")
    else:
        with (home / name).open("wb") as file:
            file.truncate(4 << 30)  # a hole: it takes no space on the disk
    for use in (wherein.open, wherein.mend):
        with pytest.raises((InputError, CollectionError), match=f"{name}: |is not a collection|holds no collection"):
            use(home)


@pytest.mark.parametrize("name", ["../../../esc", "a/b", "..", ""])
def test_a_strangers_catalogue_leads_nowhere_else(home: Path, tmp_path: Path, name: str) -> None:
    import sqlite3

    with sqlite3.connect(home / "catalogue.sqlite") as db:
        db.execute("UPDATE shards SET layer = ? WHERE layer LIKE 'global%'", (name,))
    db.close()
    outside = sorted(path for path in tmp_path.rglob("*") if home not in path.parents)
    with wherein.open(home) as opened, pytest.raises(CollectionError, match="no layer's name"):
        opened.compact()
    assert sorted(path for path in tmp_path.rglob("*") if home not in path.parents) == outside


def test_what_is_written_is_for_its_owner_alone_unless_the_folder_says_otherwise(home: Path, folder: Path) -> None:
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.rglob("*"))}
    assert {f"{mode:o}" for path, mode in modes.items() if path.is_dir()} == {"700"}
    assert {f"{mode:o}" for path, mode in modes.items() if path.is_file()} == {"600"}
    home.chmod(0o750)
    with wherein.open(home) as opened:
        opened.add(("memory/9", np.full((48, 64, 3), 200, np.uint8)))
        opened.unignore("blue.png")
    assert stat.S_IMODE((home / "manifest.json").stat().st_mode) in (0o600, 0o640)


def test_temporary_files_are_swept_wherever_they_are_when_nobody_can_be_writing_them(home: Path) -> None:
    old = [home / "derived" / "a.npy.0.tmp", home / "kept" / "b.json.0.tmp"]
    for path in old:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    new = home / "kept" / "c.json.0.tmp"
    new.write_bytes(b"half")
    for path in old:
        os.utime(path, (0, 0))
    with wherein.open(home) as opened:
        opened.remove("red.png")
    assert not any(path.exists() for path in old)
    assert new.exists()


def test_content_that_changed_without_a_sign_is_noticed_when_asked(
    collection: wherein.Collection, folder: Path, paint: Paint
) -> None:
    collection.add(folder)
    path = folder / "red.png"
    was = path.stat()
    (folder.parent / "spare").mkdir()
    other = paint(folder.parent / "spare" / "x.png", "blue")
    data = other.read_bytes()
    path.write_bytes(data + b"\0" * max(0, was.st_size - len(data)))
    os.truncate(path, was.st_size) if path.stat().st_size != was.st_size else None
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert collection.add().changed == 0
    run = CliRunner().invoke(app, ["index", str(folder), "--verify"])
    assert run.exit_code == 0, run.output
    assert collection.search("blue")[0].score == pytest.approx(1.0)
    assert "red.png" in [hit.image_id for hit in collection.search("blue", k=2)]


def test_a_search_works_on_a_full_disk(home: Path, before: Answers) -> None:
    """In a process that may write no byte to any file, as on a disk that is full."""
    program = """
    import resource, sys, wherein
    wherein.open(sys.argv[1]).search("red")
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with wherein.open(sys.argv[1]) as opened:
        print(len(opened.search("red", k=100)), opened.info().images)
    """
    lines = "\n".join(line[4:] for line in program.splitlines())
    told = subprocess.run([sys.executable, "-c", lines, str(home)], capture_output=True, text=True)
    assert told.stdout.split() == [str(len(before)), str(len(before))], told.stderr

"""What must survive: kills at any moment, Ctrl-C, a full disk, writers and readers side by side. Real processes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.encoders.toy import COLOURS

IMAGES = 70
Answers = list[list[tuple[str, float]]]

INDEX = """
import sys
import wherein, wherein.indexing.sync
wherein.indexing.sync._COMMIT_FILES = 7  # many small commits, so that kills fall between and into them
def tell(progress):
    sys.stdout.write(f"{progress.done}\\n")
    sys.stdout.flush()
with wherein.open(sys.argv[1], create=True, encoder="toy") as collection:
    sys.stdout.write("begun\\n")
    report = collection.add(sys.argv[1], on_progress=tell)
    sys.stdout.write(f"{report.added} added\\n")
"""


def program(text: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)]


def start(text: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program and wait for its first line."""
    process = subprocess.Popen(
        program(text, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n", process.communicate()
    return process


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures, all different, and a bad file among them."""
    random_colours = np.random.default_rng(7)
    palette = np.array(list(COLOURS.values()), np.uint8)
    folder = tmp_path_factory.mktemp("painted")
    for number in range(IMAGES):
        cells = palette[random_colours.integers(0, len(palette), (4, 4))]
        PIL.Image.fromarray(cells.repeat(24, axis=0).repeat(24, axis=1)).save(folder / f"{number:03}.png")
    (folder / "bad.jpg").write_bytes(b"no image")
    return folder


@pytest.fixture(scope="module")
def uninterrupted(painted: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What a run that nothing happened to answers."""
    with wherein.open(tmp_path_factory.mktemp("reference"), create=True, encoder="toy") as collection:
        collection.add(painted)
        return answers(collection)


@pytest.fixture
def many(painted: Path, tmp_path: Path) -> Path:
    """The painted folder, for one test to harm."""
    return Path(shutil.copytree(painted, tmp_path / "many"))


def answers(collection: wherein.Collection) -> Answers:
    asked = ("red", "green and blue", "white", "brown or pink")
    return [[(hit.image_id, round(hit.score, 6)) for hit in collection.search(text, k=30)] for text in asked]


def test_kills_at_any_moment_lose_nothing_committed(many: Path, uninterrupted: Answers) -> None:
    moments = random.Random(2)
    kept = set[str]()
    for _ in range(6):
        process = start(INDEX, many)
        assert process.stdout is not None
        for _ in range(moments.randint(0, 20)):
            process.stdout.readline()
        time.sleep(moments.uniform(0.0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with wherein.open(many) as collection:
            assert collection.check().broken == ()
            now = set(collection.image_ids())
            assert kept <= now
            assert {hit.image_id for hit in collection.search("red", k=1000)} == now
            kept = now
    assert kept, "every kill came before the first commit"
    finished = subprocess.run(program(INDEX, many), capture_output=True, text=True, check=True)
    assert finished.stdout.endswith(f"{IMAGES - len(kept)} added\n")
    with wherein.open(many) as collection:
        assert collection.check().broken == ()
        assert answers(collection) == uninterrupted
        left = list(collection.folder.rglob("*.tmp"))
        assert {path.parent.name for path in left} <= {"copies"}  # who tags writes there too: it stays for an hour
        for path in left:
            os.utime(path, (0, 0))
        collection.add(many)
        assert not list(collection.folder.rglob("*.tmp"))


KILL_BEFORE = """
import os, sys
import wherein, wherein.store.store, wherein.store.catalogue, wherein.files, wherein.indexing.sync
wherein.indexing.sync._COMMIT_FILES = 30
owner, name = sys.argv[2].rsplit(".", 1)
owner = eval(owner)
whole, countdown = getattr(owner, name), [int(sys.argv[3])]
def deadly(*arguments, **named):
    countdown[0] -= 1
    if countdown[0] == 0:
        os.kill(os.getpid(), 9)
    return whole(*arguments, **named)
setattr(owner, name, deadly)
with wherein.open(sys.argv[1], create=True, encoder="toy") as collection:
    collection.add(sys.argv[1])
    collection.compact()
"""


@pytest.mark.parametrize(
    ("step", "time_"),
    [
        pytest.param("wherein.store.manifest.write_guarded", 1, id="before the first manifest"),
        pytest.param("wherein.store.manifest.write_guarded", 3, id="before the layers are known"),
        pytest.param("wherein.files.sync_folder", 5, id="between a shard's rename and its sync"),
        pytest.param("wherein.store.store.write_array", 2, id="between two shards of one commit"),
        pytest.param("wherein.store.catalogue.Catalogue.put_rows", 2, id="inside a transaction"),
        pytest.param("wherein.store.catalogue.Catalogue.put_file", 70, id="before a file is whole"),
        pytest.param("wherein.store.catalogue.Catalogue.drop_replaced", 1, id="before the end"),
        pytest.param("wherein.store.catalogue.Catalogue.move_rows", 2, id="in the middle of a compaction"),
        pytest.param("wherein.store.catalogue.Catalogue.drop_empty_shards", 1, id="before a compaction forgets"),
    ],
)
def test_a_kill_at_each_delicate_step_is_survived(many: Path, uninterrupted: Answers, step: str, time_: int) -> None:
    killed = subprocess.run(program(KILL_BEFORE, many, step, time_), capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with wherein.open(many, create=True, encoder="toy") as collection:
        assert collection.check().broken == ()
        collection.add(many)
        assert answers(collection) == uninterrupted
        collection.compact()
        assert collection.check().broken == ()
        assert answers(collection) == uninterrupted


def test_a_film_killed_half_way_is_read_again_whole(tmp_path: Path, film: Callable[..., Path]) -> None:
    scenes = list(COLOURS)
    (tmp_path / "film").mkdir()
    film(tmp_path / "film" / "clip.mp4", scenes)
    kill = """
    import os, sys, time
    import wherein, wherein.indexing.stages, wherein.indexing.sync
    wherein.indexing.stages.BATCH, wherein.indexing.sync._COMMIT_FILES = 4, 4
    whole, calls = wherein.indexing.stages.Stages.encode, [0]
    def deadly(self, batch):
        calls[0] += 1
        if calls[0] == 3:
            with wherein.open(sys.argv[1]) as watching:
                while not len(watching):  # until the first batch is committed
                    time.sleep(0.01)
            os.kill(os.getpid(), 9)
        return whole(self, batch)
    wherein.indexing.stages.Stages.encode = deadly
    with wherein.open(sys.argv[1], create=True, encoder="toy") as collection:
        collection.add(sys.argv[1])
    """
    killed = subprocess.run(program(kill, tmp_path / "film"), capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    every = sorted(f"clip.mp4#t={2 * number}" for number in range(len(scenes)))
    with wherein.open(tmp_path / "film") as collection:
        half = collection.image_ids()
        assert 0 < len(half) < len(every)
        collection.add()
        assert collection.image_ids() == every
        assert all(len(collection.search(name, k=1)) == 1 for name in scenes)


def test_a_film_that_changed_after_a_kill_has_no_keyframes_of_the_old_one(
    tmp_path: Path, film: Callable[..., Path]
) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    film(folder / "clip.mp4", ["red", "blue", "green"])
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        # As a kill leaves it: keyframes are there, the file is not marked as whole.
        with collection._store.writing(), collection._store.catalogue.transaction():
            collection._store.catalogue._db.execute("UPDATE files SET mtime_ns = -1")
        film(folder / "clip.mp4", ["white"])
        collection.add(folder)
        assert collection.image_ids() == ["clip.mp4#t=0"]
        assert collection.search("white")[0].score == pytest.approx(1.0, abs=0.01)


def test_ctrl_c_keeps_what_was_encoded(many: Path, uninterrupted: Answers) -> None:
    stop = """
    import os, signal, sys
    import wherein
    def interrupt(progress):
        if progress.done == 40:
            signal.raise_signal(signal.SIGINT)
    with wherein.open(sys.argv[1], create=True, encoder="toy") as collection:
        collection.add(sys.argv[1], on_progress=interrupt)
    """
    stopped = subprocess.run(program(stop, many), capture_output=True, text=True)
    assert "KeyboardInterrupt" in stopped.stderr
    with wherein.open(many) as collection:
        kept = len(collection)
        assert 38 <= kept <= 40  # one of the forty may be the bad file, one may be on its way
        assert collection.add().added == IMAGES - kept
        assert answers(collection) == uninterrupted


def test_a_full_disk_loses_nothing_and_goes_on_when_there_is_room(many: Path, uninterrupted: Answers) -> None:
    full = """
    import resource, sys
    import wherein, wherein.indexing.sync
    from wherein.errors import StorageFull
    wherein.indexing.sync._COMMIT_FILES = 20
    with wherein.open(sys.argv[1], create=True, encoder="toy") as collection:
        # No file may grow beyond this: the kernel refuses the write as it does on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
        try:
            collection.add(sys.argv[1])
        except StorageFull as error:
            sys.stdout.write(f"full: {error}\\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        sys.stdout.write(f"{len(collection)} kept, {len(collection.check().broken)} broken\\n")
    """
    kept = []
    for limit in (2_000, 20_000, 100_000):
        told = subprocess.run(program(full, many, limit), capture_output=True, text=True, check=True).stdout
        assert "free some space" in told
        assert told.endswith("0 broken\n")
        kept.append(int(told.splitlines()[-1].split()[0]))
    assert kept == sorted(kept)
    assert kept[-1] > 0
    with wherein.open(many) as collection:
        assert len(collection) == kept[-1]
        collection.add()
        assert answers(collection) == uninterrupted


SLOW_INDEX = """
import sys, time
import wherein, wherein.indexing.sync
from wherein.encoders.toy import ToyEncoder
wherein.indexing.sync._COMMIT_FILES = 5
whole = ToyEncoder.images
def slowly(self, batch):
    time.sleep(0.05)
    return whole(self, batch)
ToyEncoder.images = slowly
with wherein.open(sys.argv[1], create=True, encoder="toy") as collection:
    sys.stdout.write("begun\\n")
    sys.stdout.flush()
    collection.add(sys.argv[1])
    sys.stdin.readline()
    collection.compact()
"""


def test_searching_works_while_another_process_indexes(many: Path, uninterrupted: Answers) -> None:
    reader = wherein.open(many, create=True, encoder="toy")  # opened before there is anything
    writer = start(SLOW_INDEX, many)
    sizes = list[int]()
    while len(reader) < IMAGES:
        assert writer.poll() is None, writer.communicate()
        if not reader.info().layers or not len(reader):
            continue
        hits = reader.search("red", k=1000)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        sizes.append(len(hits))
    assert sizes == sorted(sizes)
    _, stderr = writer.communicate("go on\n")
    assert writer.returncode == 0, stderr
    assert answers(reader) == uninterrupted  # after the other process compacted
    assert reader.check().broken == ()
    reader.close()


def test_the_second_writer_is_told_the_first_ones_process(many: Path) -> None:
    writer = start(SLOW_INDEX, many)
    with wherein.open(many) as collection:
        deadline = time.monotonic() + 30
        while not (collection.folder / "writer.json").exists():
            assert time.monotonic() < deadline, "the first writer never began"
        with pytest.raises(wherein.CollectionError, match=f"process {writer.pid} of"):
            collection.add(many)
    writer.communicate("go on\n")
    assert writer.returncode == 0


def test_a_rename_by_another_process_shows_in_the_next_search(many: Path, tmp_path: Path) -> None:
    index = """
    import sys, wherein
    with wherein.open(sys.argv[1]) as collection:
        collection.add(*sys.argv[1:])
    """
    with wherein.open(many, create=True, encoder="toy") as reader:
        reader.add(many)
        example = reader.search(many / "005.png")[0]
        assert example.image_id == "005.png"
        (many / "005.png").rename(many / "renamed.png")
        extra = tmp_path / "extra"
        extra.mkdir()
        PIL.Image.new("RGB", (50, 50), (255, 255, 0)).save(extra / "x.png")
        subprocess.run(program(index, many, extra), check=True)
        hit = reader.search(many / "renamed.png")[0]
        assert (hit.image_id, hit.path) == ("renamed.png", many / "renamed.png")
        assert reader.search("yellow")[0].path == extra / "x.png"


def test_a_collection_that_may_only_be_read_is_searched(many: Path, tmp_path: Path) -> None:
    with wherein.open(many, create=True, encoder="toy") as collection:
        collection.add(many)
    search = """
    import os, sys
    import wherein
    from wherein.errors import CollectionError
    with wherein.open(sys.argv[1]) as collection:
        collection.search("red")  # all that is loaded on first use, while it can be read
    if os.getuid() == 0:
        import filelock
        import wherein.indexing.sync  # loaded on first use too
        os.setuid(65534)  # root may write anywhere
    with wherein.open(sys.argv[1]) as collection:
        sys.stdout.write(f"{len(collection.search('red', k=1000))}\\n")
        try:
            collection.add(sys.argv[1])
        except CollectionError as error:
            sys.stdout.write(f"{error}\\n")
    """
    walls = [many, *many.parents]
    for folder in walls[: walls.index(tmp_path) + 3]:
        folder.chmod(folder.stat().st_mode | 0o055)
    for path in (many / ".wherein", *(many / ".wherein").rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        told = subprocess.run(program(search, many), capture_output=True, text=True)
    finally:
        (many / ".wherein").chmod(0o755)
    assert told.stdout.splitlines()[0] == str(IMAGES), told.stderr
    assert "Check who owns the folder" in told.stdout
    assert os.access(many / ".wherein", os.W_OK)


def test_a_photo_with_broken_exif_is_indexed_without_a_word(tmp_path: Path) -> None:
    PIL.Image.new("RGB", (64, 48), (255, 0, 0)).save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    rubbish = b"Exif\0\0MM\0*" + b"\xff" * 20
    marker = b"\xff\xe1" + (len(rubbish) + 2).to_bytes(2, "big") + rubbish
    (tmp_path / "a.jpg").write_bytes(data[:2] + marker + data[2:])
    command = [sys.executable, "-m", "wherein", "index", str(tmp_path), "--encoder", "toy"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 added" in told.stdout + told.stderr
    assert "Warning" not in told.stderr

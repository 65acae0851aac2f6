"""The collection's folder: commits, locks, broken shards, compaction, manifests."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wherein.errors import CollectionCorrupt, CollectionLocked, CollectionNotFound
from wherein.store.manifest import FORMAT, THUMBS, Layer, Manifest
from wherein.store.piece import Piece, Rows
from wherein.store.store import Store
from wherein.values.records import FileRecord, ImageRecord
from wherein.values.region import Box

GLOBAL = Layer("global.toy", "global", "toy", "digest", (2,), "float16")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.create(tmp_path / ".wherein")
    opened.add_layers([GLOBAL, Layer(THUMBS, THUMBS)])
    yield opened
    opened.close()


def piece(
    name: str, *, value: float = 1.0, boxes: tuple[Box | None, ...] = (None,), last: bool = True, hash_: bytes = b""
) -> Piece:
    rows = np.full((len(boxes), 2), value, np.float16)
    file = FileRecord("", name.partition("#")[0], 1, 1, hash_ or name.encode())
    record = ImageRecord(name, (4, 3), 0.0)
    return Piece(file, record, {GLOBAL.name: Rows(rows, boxes)}, {THUMBS: name.encode()}, last)


def values(store: Store) -> dict[str, list[float]]:
    """image_id → the first number of each of its rows."""
    found = dict[str, list[float]]()
    for image, shard, row, _ in store.catalogue.live_rows(GLOBAL.name):
        image_id = store.catalogue.describe(image)[0].image_id
        found.setdefault(image_id, []).append(float(store.array(GLOBAL.name, shard)[row, 0]))
    return found


def shard_files(store: Store) -> list[str]:
    return sorted(path.relative_to(store.folder).as_posix() for path in (store.folder / "shards").glob("*/*"))


def test_a_folder_without_a_collection_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(CollectionNotFound, match="wherein index"):
        Store(tmp_path)


def test_committing_nothing_writes_no_shard(store: Store) -> None:
    store.commit([])
    assert shard_files(store) == []
    assert store.check(repair=False).broken == ()
    assert store.compact() == 0


def test_committed_rows_and_thumbs_come_back(store: Store) -> None:
    tile = Box(0, 0, 0.5, 1)
    store.commit([piece("a.png", value=1), piece("b.png", value=2, boxes=(None, tile))])
    assert values(store) == {"a.png": [1.0], "b.png": [2.0, 2.0]}
    for name in ("a.png", "b.png"):
        assert store.thumb(store.catalogue.image_at(name) or 0) == name.encode()


def test_an_image_without_a_thumb_has_none(store: Store) -> None:
    store.commit([replace(piece("a.png"), blobs={})])
    assert store.thumb(store.catalogue.image_at("a.png") or 0) is None


def test_a_file_of_several_images_is_finished_by_its_last(store: Store) -> None:
    store.commit([piece("film.mp4#t=0", last=False, hash_=b"f")])
    assert store.catalogue.files_with_hash(b"f") == []
    store.commit([piece("film.mp4#t=2", last=True, hash_=b"f")])
    assert len(store.catalogue.files_with_hash(b"f")) == 1
    assert list(values(store)) == ["film.mp4#t=0", "film.mp4#t=2"]


def test_what_a_crash_left_behind_is_swept_and_nothing_else(store: Store) -> None:
    store.commit([piece("a.png")])
    kept = shard_files(store)
    for stray in ("000099.npy", "000099.npy.123.tmp"):
        (store.folder / "shards" / GLOBAL.name / stray).write_bytes(b"half")
    (store.folder / "manifest.json.123.tmp").write_bytes(b"half")
    with store.writing():
        pass
    assert shard_files(store) == kept
    assert not list(store.folder.glob("*.tmp"))
    assert values(store) == {"a.png": [1.0]}


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda path: path.unlink(), id="a deleted shard"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-1]), id="a torn shard"),
        pytest.param(lambda path: path.write_bytes(b""), id="an emptied shard"),
    ],
)
def test_a_broken_shard_is_named_and_dropped_and_the_others_stay(store: Store, harm: Callable[[Path], None]) -> None:
    store.commit([piece("a.png")])
    store.commit([piece("b.png", value=2)])
    harmed = store.folder / "shards" / GLOBAL.name / "000001.npy"
    harm(harmed)
    report = store.check(repair=True)
    assert (report.broken, report.lost) == ((harmed,), ("a.png",))  # there is no file that it could be made of
    assert store.check(repair=False).broken == ()
    assert values(store) == {"b.png": [2.0]}
    assert store.catalogue.image_at("a.png") is not None


def test_compaction_keeps_what_lives_and_frees_what_does_not(store: Store) -> None:
    tile = Box(0, 0, 0.5, 1)
    for number in range(6):
        store.commit([piece(f"{number}.png", value=number, boxes=(None, tile))])
    gone = [store.catalogue.file_of(store.catalogue.image_at(f"{n}.png") or 0) for n in (0, 3)]
    with store.catalogue.transaction():
        store.catalogue.bury_files(gone)
    before = values(store)
    assert list(before) == ["1.png", "2.png", "4.png", "5.png"]
    assert store.compact() > 0
    assert values(store) == before
    assert len(shard_files(store)) == 2  # one of the layer, one of thumbs
    assert store.thumb(store.catalogue.image_at("5.png") or 0) == b"5.png"
    assert store.check(repair=False).broken == ()
    assert store.compact() == 0


def test_compaction_keeps_rows_that_duplicates_share(store: Store) -> None:
    store.commit([piece("a.png", value=3)])
    with store.catalogue.transaction():
        twin = store.catalogue.put_file(FileRecord("", "b.png", 1, 1, b"a.png"), whole=True)
        image = store.catalogue.put_image(twin, ImageRecord("b.png", (4, 3), 0.0))
        store.catalogue.copy_rows(store.catalogue.image_at("a.png") or 0, image)
        store.catalogue.bury_path("", "a.png")
    store.compact()
    assert values(store) == {"b.png": [3.0]}


def test_compaction_deletes_what_earlier_versions_derived_and_nothing_else(store: Store) -> None:
    derived = store.derived.folder
    derived.mkdir()
    names = ["rough.patches.toy.1.0", "strips.patches.toy.1.0", "pooled.patches.toy.1.0", "rough.cells.toy.1.0"]
    for name in names:
        (derived / f"{name}.npy").write_bytes(b"x")
    store.compact()
    assert {path.stem for path in derived.iterdir()} == set(names[2:])


def test_compacting_everything_away_leaves_no_shards(store: Store) -> None:
    store.commit([piece("a.png")])
    with store.catalogue.transaction():
        store.catalogue.bury_path("", "a.png")
    store.compact()
    assert shard_files(store) == []
    assert store.catalogue.counts() == (0, 0, 0)


# --- roots and the manifest ----------------------------------------------------------------------------


def test_the_first_root_has_no_name_and_later_ones_have_their_folders(store: Store, tmp_path: Path) -> None:
    others = [tmp_path / "x" / "photos", tmp_path / "y" / "photos"]
    names = [store.add_root(folder) for folder in (tmp_path, *others, tmp_path)]
    assert names == ["", "photos", "photos-2", ""]
    assert [store.root_path(name) for name in names[:3]] == [tmp_path, *others]
    assert store.manifest.roots[""] == ".."  # so that a moved folder still opens


def test_a_root_is_not_named_like_a_folder_of_another(store: Store, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    store.add_root(tmp_path)
    assert store.add_root(Path("/elsewhere/photos")) == "photos-2"


def test_a_manifest_comes_back_as_it_was(tmp_path: Path) -> None:
    manifest = Manifest("toy", {"": "..", "ünï": "/ünï"}, {GLOBAL.name: GLOBAL})
    manifest.write(tmp_path / "manifest.json")
    assert Manifest.read(tmp_path / "manifest.json") == manifest
    assert GLOBAL.row_bytes == 4
    assert Layer(THUMBS, THUMBS).row_bytes is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="an empty file"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="nothing in it"),
        pytest.param('{"format": 1, "encoder": "toy", "roots": [], "layers": [1]}', id="layers that are a list"),
        pytest.param('{"format": 1, "encoder": "toy", "roots": {}, "layers": {"a": {}}}', id="a layer without a shape"),
        pytest.param("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), id="broken letters"),
    ],
)
def test_a_broken_manifest_says_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text, "latin-1")
    with pytest.raises(CollectionCorrupt, match="wherein check -c"):
        Store(tmp_path)


def test_what_a_newer_minor_version_wrote_in_the_manifest_is_read_over_and_kept(store: Store) -> None:
    path = store.folder / "manifest.json"
    store.add_layers([GLOBAL])
    document = json.loads(path.read_text())
    document["palette"] = ["red"]
    document["layers"][GLOBAL.name]["codec"] = "zstd"
    path.write_text(json.dumps(document))
    store.refresh()
    assert store.manifest.layers[GLOBAL.name] == GLOBAL
    store.serve("toy:8")
    after = json.loads(path.read_text())
    assert (after["palette"], after["layers"][GLOBAL.name]["codec"], after["encoder"]) == (["red"], "zstd", "toy:8")


def test_a_manifest_of_a_newer_format_says_to_upgrade(store: Store) -> None:
    path = store.folder / "manifest.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"format": FORMAT + 1}))
    with pytest.raises(CollectionCorrupt, match=f"has format {FORMAT + 1}.*Upgrade wherein"):
        Store(store.folder)


@pytest.mark.parametrize("lose", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_a_lost_catalogue_is_not_taken_for_an_empty_collection(store: Store, lose: Callable[[Path], None]) -> None:
    store.commit([piece("a.png")])
    store.close()
    shards = shard_files(store)
    lose(store.folder / "catalogue.sqlite")
    with pytest.raises(CollectionCorrupt, match="wherein check -c"):
        Store(store.folder)
    assert shard_files(store) == shards


# --- one writer ----------------------------------------------------------------------------------------

HOLD = """
import sys
from dataclasses import replace
from pathlib import Path
from wherein.store.store import Store
with Store(Path(sys.argv[1])).writing():
    sys.stdout.write("held\\n")
    sys.stdout.flush()
    sys.stdin.readline()
"""


def holding(folder: Path, *, program: str = HOLD) -> subprocess.Popen[str]:
    command: Sequence[str] = [sys.executable, "-c", program, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_writer_is_told_who_the_first_is(store: Store) -> None:
    with holding(store.folder) as first:
        with pytest.raises(CollectionLocked, match=f"process {first.pid} of .*Wait for it"), store.writing():
            pytest.fail("two writers at once")
        first.communicate("done\n")
    with store.writing():
        assert json.loads((store.folder / "writer.json").read_text())["command"]
    assert not (store.folder / "writer.json").exists()


def test_a_writer_that_was_killed_holds_nothing(store: Store) -> None:
    with holding(store.folder) as first:
        first.kill()
        first.communicate()
    with store.writing():
        pass


def test_a_second_writer_in_the_same_process_is_refused_too(store: Store) -> None:
    refused = list[BaseException]()

    def second() -> None:
        try:
            with Store(store.folder).writing():
                pass
        except CollectionLocked as error:
            refused.append(error)

    with store.writing():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_a_writer_takes_over_what_another_added_meanwhile(store: Store, tmp_path: Path) -> None:
    other = Store(store.folder)
    with other.writing():
        other.add_root(tmp_path)
        other.serve("toy")
    other.close()
    with store.writing():
        store.add_root(tmp_path / "second")
    assert list(Store(store.folder).manifest.roots) == ["", "second"]
    assert Store(store.folder).manifest.encoder == "toy"

"""The compressed index: its contract, its recall, filters and deletes, files that are whole or ignored, real kills."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import wherein
from wherein.arrays import Floats, Ints
from wherein.errors import SpecError
from wherein.index import check_index, load_index
from wherein.index.codes import CodeFiles, Segment, due
from wherein.index.compressed import CompressedRows, bits_of, trained_on, tuned
from wherein.index.exact import ExactRows
from wherein.index.rows import ArrayCache, Places, RowTable
from wherein.indexing import sync
from wherein.store import rewriting
from wherein.store.shards import Array
from wherein.values.records import Progress

_PER_SHARD = 1000


class InShards:
    """Rows in shards of a thousand."""

    def __init__(self, rows: Floats) -> None:
        self.rows = rows

    def array(self, layer: str, shard: int) -> Array:
        """One shard."""
        return self.rows[_PER_SHARD * shard : _PER_SHARD * (shard + 1)].astype(np.float16)


def clustered(images: int, *, each: int = 4, dim: int = 64, seed: int = 0) -> Floats:
    """(images · each, dim) unit rows around 200 centres."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((200, dim))
    rows = centres[random.integers(0, 200, images * each)] + random.standard_normal((images * each, dim))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def table_of(rows: Floats, *, each: int = 4, kept: Ints | None = None) -> RowTable:
    """A table of rows, `each` of them of one image; of the images `kept` alone, where given."""
    numbers = np.arange(len(rows))
    if kept is not None:
        numbers = numbers[np.isin(numbers // each, kept)]
    images, owners = np.unique(numbers // each, return_inverse=True)
    rows_at = np.stack([numbers // each, numbers // _PER_SHARD, numbers % _PER_SHARD], axis=1)
    return RowTable("rows", Places(rows_at, [None] * len(numbers), images, owners), ArrayCache(InShards(rows)))


def recall_of(
    index: CompressedRows, table: RowTable, queries: Floats, *, k: int = 50, allowed: Array | None = None
) -> float:
    """The share of the exact best k that an index finds."""
    mask = None if allowed is None else allowed.astype(np.bool_)
    pairs = zip(index.top(queries, k=k, allowed=mask), ExactRows(table).top(queries, k=k, allowed=mask), strict=True)
    return float(np.mean([len(np.intersect1d(found.images, real.images)) / len(real.images) for found, real in pairs]))


@pytest.mark.parametrize("name", ["compressed", "compressed:2", "compressed:4"])
def test_the_index_keeps_the_contract(name: str) -> None:
    check_index(name, table_of(clustered(4000)))


@pytest.mark.parametrize("images", [0, 1, 7, 60])
def test_small_tables_are_compared_exactly(images: int) -> None:
    rows = clustered(images)
    if not images:
        assert [
            len(top.images) for top in load_index("exact", table_of(rows)).top(np.ones((1, 64), np.float32), k=3)
        ] == [0]
        return
    found, exact = load_index("compressed", table_of(rows)), load_index("exact", table_of(rows))
    query = clustered(1, seed=9)[:1]
    assert found.top(query, k=5)[0].images.tolist() == exact.top(query, k=5)[0].images.tolist()


def test_most_of_the_best_are_found_and_the_recall_is_measured() -> None:
    table = table_of(clustered(10_000))
    index = CompressedRows(table)
    assert (index.tuning.recall or 0.0) >= 0.95
    assert recall_of(index, table, clustered(10, seed=5)) >= 0.97


def test_who_needs_certainty_is_told_where_one_scan_cannot_tell() -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((40_000, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    table = table_of(rows)
    index, exact = CompressedRows(table), ExactRows(table)
    found = [index.certain(query, k=100) for query in rows[:20]]
    assert None in found  # rows without any structure: a hundred are about as near as thousands
    (near,) = exact.top(rows[7:8], k=1)
    alone = index.certain(rows[7], k=1)
    assert alone is not None
    assert alone.images.tolist() == near.images.tolist()
    assert index.top(rows[7:8], k=1)[0].images.tolist() == near.images.tolist()


def test_a_filter_works_inside_the_scan() -> None:
    table = table_of(clustered(10_000))
    allowed = np.arange(10_000) % 3 == 0
    assert recall_of(CompressedRows(table), table, clustered(10, seed=5), allowed=allowed) >= 0.97
    few = np.arange(10_000) < 20
    (top,) = CompressedRows(table).top(clustered(1, seed=5)[:1], k=50, allowed=few)
    assert sorted(top.images.tolist()) == list(range(20))


def test_deleted_images_are_not_found_though_their_codes_are_there() -> None:
    rows = clustered(10_000)
    codes = CompressedRows(table_of(rows)).codes
    left = table_of(rows, kept=np.flatnonzero(np.arange(10_000) % 2))
    assert recall_of(CompressedRows(left, codes=codes), left, clustered(10, seed=5)) >= 0.97


def test_rows_without_codes_are_scored_exactly_beside() -> None:
    rows = clustered(10_000)
    table = table_of(rows)
    codes = trained_on(table, 1)
    codes.segments = [codes.encode(range(0, 20), table.shard)]
    codes.tuning = tuned(table, codes, clustered(4, seed=3))
    index = CompressedRows(table, codes=codes)
    assert recall_of(index, table, clustered(10, seed=5)) >= 0.97
    (top,) = index.top(rows[-1:], k=1)
    assert top.images.tolist() == [9_999]


@pytest.mark.parametrize("bits", ["0", "10", "x", "-1"])
def test_bits_that_cannot_be_are_refused(bits: str) -> None:
    with pytest.raises(SpecError, match="whole number from 1 to 9"):
        bits_of(bits)


def segment(*shards: tuple[int, int]) -> Segment:
    return Segment(tuple(shards), None)


@pytest.mark.parametrize(
    ("segments", "live", "kept", "new"),
    [
        pytest.param([], [], [], [], id="nothing"),
        pytest.param([], [(1, 10)], [], [1], id="the first shard"),
        pytest.param([segment((1, 100))], [(1, 100), (2, 10)], [0], [2], id="a small addition leaves a large segment"),
        pytest.param([segment((1, 10))], [(1, 10), (2, 10)], [], [1, 2], id="equals become one"),
        pytest.param([segment((1, 99)), segment((2, 9))], [(1, 99), (2, 9), (3, 9)], [0], [2, 3], id="as in binary"),
        pytest.param([segment((1, 99), (2, 9))], [(2, 9)], [], [2], id="a shard that is gone gives up its segment"),
        pytest.param([segment((1, 99))], [(1, 99)], [0], [], id="nothing new"),
    ],
)
def test_what_is_encoded_is_in_proportion_to_what_is_new(
    segments: list[Segment], live: list[tuple[int, int]], kept: list[int], new: list[int]
) -> None:
    assert due(segments, live) == ([segments[n] for n in kept], new)


def test_codes_survive_the_disk_and_anything_broken_is_ignored(tmp_path: Path) -> None:
    table = table_of(clustered(3000))
    codes, files = CompressedRows(table).codes, CodeFiles(tmp_path / "codes")
    assert files.read() is None
    files.write(codes)
    read = files.read()
    assert read is not None
    assert (read.tuning, read.segments[0].shards) == (codes.tuning, codes.segments[0].shards)
    query = clustered(1, seed=5)[:1]
    (before,), (after,) = (CompressedRows(table, codes=own).top(query, k=20) for own in (codes, read))
    assert before.images.tolist() == after.images.tolist()
    written = {path: path.stat().st_mtime_ns for path in files.folder.glob("*.faiss")}
    files.write(read)
    assert {path: path.stat().st_mtime_ns for path in files.folder.glob("*.faiss")} == written
    for path in written:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + b"x")
        assert files.read() is None
        path.unlink()
        assert files.read() is None
        path.write_bytes(whole)
    assert files.read() is not None


def make_photos(folder: Path, count: int) -> None:
    import PIL.Image

    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(count)
    for number in range(count):
        small = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        PIL.Image.fromarray(small).resize((48, 48)).save(folder / f"{count}-{number:03}.png")


def test_a_collection_keeps_its_index_up_to_date(tmp_path: Path) -> None:
    make_photos(tmp_path, 30)
    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        collection.add(tmp_path, layers=["global"])
        assert [layer.index for layer in collection.info().layers if layer.kind == "global"] == ["exact"]
        collection.add(index="compressed:2")
        (layer,) = [layer for layer in collection.info().layers if layer.kind == "global"]
        assert (layer.index, layer.recall) == ("compressed:2", 1.0)
        make_photos(tmp_path, 31)
        collection.add()
        exact = collection.search("red", k=61, index="exact")
        assert [hit.image_id for hit in collection.search("red", k=61)] == [hit.image_id for hit in exact]
        collection.remove(exact[0].image_id)
        collection.compact()
        assert len(collection.search("red", k=61)) == 60
        (codes,) = tmp_path.glob(".wherein/derived/*/codes/codes.json")
        collection.add(index="exact")
        assert not codes.exists()
        with pytest.raises(SpecError, match="choose exact, compressed"):
            collection.add(index="milvus")


def test_full_shards_have_codes_before_indexing_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_photos(tmp_path, 40)
    monkeypatch.setattr(rewriting, "ROWS_PER_SHARD", 8)
    monkeypatch.setattr(rewriting, "MERGED_AT_ONCE", 2)
    monkeypatch.setattr(sync, "_COMMIT_FILES", 4)
    seen = list[frozenset[int]]()

    def stop(progress: Progress) -> None:
        (folder,) = [*tmp_path.glob(".wherein/derived/*/codes"), None][:1]
        codes = None if folder is None else CodeFiles(folder).read()
        seen.append(frozenset() if codes is None else codes.covered)
        if progress.done >= 30:
            raise KeyboardInterrupt

    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        with pytest.raises(KeyboardInterrupt):
            collection.add(tmp_path, layers=["global"], index="compressed", on_progress=stop)
        covered = [len(shards) for shards in seen]
        assert covered[-1] >= 2
        assert covered == sorted(covered)
        collection.add()
        (layer,) = [layer for layer in collection.info().layers if layer.kind == "global"]
        assert (layer.index, layer.recall) == ("compressed:1", 1.0)
        codes = CodeFiles(next(iter(tmp_path.glob(".wherein/derived/*/codes")))).read()
        assert codes is not None
        assert seen[-1] <= codes.covered  # what was made is not made again
        assert len(collection.search("red", k=40)) == 40


_REBUILD = """
import sys, wherein
print("ready", flush=True)
with wherein.open(sys.argv[1]) as collection:
    collection.add(index="compressed")
print("done", flush=True)
"""


@pytest.mark.parametrize("after", [0.0, 0.1, 0.25, 0.5, 1.0])
def test_killed_at_any_point_searches_stay_right_and_the_next_run_rebuilds(tmp_path: Path, after: float) -> None:
    make_photos(tmp_path, 20)
    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        collection.add(tmp_path, layers=["global"])
        before = [hit.image_id for hit in collection.search("red", k=20)]
    process = subprocess.Popen([sys.executable, "-c", _REBUILD, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(after)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with wherein.open(tmp_path) as collection:
        assert [hit.image_id for hit in collection.search("red", k=20)] == before
        collection.add(index="compressed")
        assert collection.info().layers[0].index == "compressed:1"
        assert [hit.image_id for hit in collection.search("red", k=20)] == before


def test_images_are_counted_by_score_as_by_comparing_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wherein.index.proposing.SAMPLED", 512)
    table = table_of(clustered(6000))
    index, exact = CompressedRows(table), ExactRows(table)
    query = clustered(1, seed=0)[:1]
    best = exact.top(query, k=3000)[0].scores
    edges = best[[2999, 499, 59, 9]]
    truth = exact.histogram(query, edges=edges)[0]
    assert truth.tolist() == [2500, 440, 50, 10]
    few, many, close, closest = index.histogram(query, edges=edges)[0].tolist()
    assert (close, closest) == (50, 10), "the best hundred are counted one by one"
    assert 2500 * 0.85 < few < 2500 * 1.15
    assert 440 * 0.6 < many < 440 * 1.4
    index.top(query, k=500)
    assert index.histogram(query, edges=edges)[0].tolist()[1:] == [440, 50, 10], "what was just found is counted"

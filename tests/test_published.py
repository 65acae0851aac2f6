"""A collection on an object store: published, opened by its address, up to date; on a real S3 server with faults."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wherein
from wherein import remote
from wherein.errors import CollectionCorrupt, CollectionError, CollectionNotFound, InputError, MissingExtra
from wherein.store import published

Paint = Callable[..., Path]


def ids(ranking: wherein.Ranking) -> list[tuple[str, float]]:
    return [(hit.image_id, round(hit.score, 6)) for hit in ranking]


@pytest.fixture
def reader(bucket: tuple[str, Any], collection: wherein.Collection, folder: Path) -> Iterator[wherein.Collection]:
    """The four pictures, published and opened by their address."""
    collection.add(folder)
    collection.tag("warm", ["red.png"])
    collection.publish(bucket[0])
    with wherein.open(bucket[0]) as opened:
        yield opened


def test_a_reader_answers_as_the_collection_does(reader: wherein.Collection, collection: wherein.Collection) -> None:
    for query, options in (("red", {}), ("blue", {"method": "patches"}), ("red", {"tags": "warm"})):
        found = reader.search(query, **options)  # type: ignore[arg-type]
        assert ids(found) == ids(collection.search(query, **options))  # type: ignore[arg-type]
    assert reader.thumb("red.png") == collection.thumb("red.png")
    assert reader.search("red", k=1, locate=True).hits[0].mask is not None, "located without the original"
    assert len(reader) == 4


def test_nothing_can_be_changed_through_a_reader(reader: wherein.Collection, folder: Path) -> None:
    for change in (lambda: reader.add(folder), lambda: reader.remove("red.png"), lambda: reader.compact()):
        with pytest.raises(CollectionError, match="is published, so it is only read"):
            change()


def test_a_reader_sees_what_is_published_later(
    reader: wherein.Collection,
    collection: wherein.Collection,
    bucket: tuple[str, Any],
    folder: Path,
    paint: Paint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert reader.search("green", k=1)
    paint(folder / "green.png", "green")
    collection.add(folder)
    collection.remove("blue.png")
    assert collection.publish(bucket[0])[1] == 4
    assert collection.publish(bucket[0])[0] == 1, "the second time only the catalogue is sent"
    monkeypatch.setattr(published, "LOOK_SECONDS", -1.0)
    assert ids(reader.search("green")) == ids(collection.search("green"))
    collection.compact()
    for _ in range(2):
        collection.publish(bucket[0])
    assert ids(reader.search("red")) == ids(collection.search("red"))


def test_requests_that_fail_are_made_again(
    collection: wherein.Collection, bucket: tuple[str, Any], folder: Path
) -> None:
    collection.add(folder)
    bucket[1].failing = 3
    collection.publish(bucket[0])
    bucket[1].failing = 3
    with wherein.open(bucket[0]) as reader:
        bucket[1].failing = 3
        assert ids(reader.search("red")) == ids(collection.search("red"))
    assert bucket[1].failed == 9


def test_a_store_that_does_not_answer_in_time_is_asked_again_then_told(
    reader: wherein.Collection,
    collection: wherein.Collection,
    bucket: tuple[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = ids(reader.search("red"))
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(remote, "TRIES", 2)
    bucket[1].stalling = 1
    with wherein.open(bucket[0]) as again:
        assert ids(again.search("red")) == expected
    assert bucket[1].stalling == 0
    bucket[1].stalling = 1000
    with pytest.raises(CollectionError, match=r"published.json was not answered within 0.5 s"):
        wherein.open(bucket[0])
    with pytest.raises(CollectionError, match="was not answered within"):
        collection.publish(bucket[0])
    monkeypatch.setattr(published, "LOOK_SECONDS", -1.0)
    assert ids(reader.search("red")) == expected, "what is here goes on to serve"


def test_what_vanishes_or_is_changed_is_told(
    reader: wherein.Collection, bucket: tuple[str, Any], tmp_path: Path
) -> None:
    import fsspec

    files = fsspec.filesystem("s3")
    (shard,) = [path for path in files.find(bucket[0]) if "global" in path]
    files.pipe_file(shard, b"something else")
    with pytest.raises(CollectionCorrupt, match="is not what was published"):
        reader.search("red")
    files.rm_file(shard)
    with pytest.raises(CollectionError, match="Search again"):
        reader.search("red")
    files.rm_file(f"{bucket[0]}/published.json")
    with pytest.raises(CollectionNotFound, match="holds no published collection"):
        wherein.open(bucket[0])


def test_no_credential_is_written_anywhere(reader: wherein.Collection, collection: wherein.Collection) -> None:
    reader.search("red")
    for home in (reader.folder, collection.folder):
        assert not [path for path in home.rglob("*") if path.is_file() and b"hush-hush" in path.read_bytes()]


def test_the_command_searches_an_address(reader: wherein.Collection, bucket: tuple[str, Any]) -> None:
    words = [sys.executable, "-m", "wherein"]
    told = subprocess.run([*words, "search", "red", "-k", "1", "-c", bucket[0]], capture_output=True, text=True)
    assert (told.returncode, "red.png" in told.stdout) == (0, True), told.stderr
    gone = subprocess.run([*words, "search", "red", "-c", f"{bucket[0]}-gone"], capture_output=True, text=True)
    assert (gone.returncode, gone.stderr.count("\n")) == (2, 1), gone.stderr


def test_a_served_reader_answers(reader: wherein.Collection, serve: Callable[..., str]) -> None:
    found = wherein.connect(serve(reader.folder)).search("red")
    assert ids(found) == ids(reader.search("red"))


def test_a_folder_and_slips(collection: wherein.Collection, folder: Path, tmp_path: Path, bucket: Any) -> None:
    collection.add(folder)
    collection.publish(f"file://{tmp_path}/shared")
    with wherein.open(Path(f"file://{tmp_path}/shared")) as reader:
        assert ids(reader.search("red")) == ids(collection.search("red"))
        copy = tmp_path / "copy"
        copy.mkdir()
        (copy / "published-at").write_text(f"file://{tmp_path}/shared")
    with pytest.raises(CollectionNotFound, match="holds no collection"):
        wherein.open(copy)
    with pytest.raises(InputError, match="is no address"):
        collection.publish("shared")


def test_a_missing_extra_is_told_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtra, match=r"pip install 'wherein\[scale\]'"):
        wherein.open("s3://bucket/photos")

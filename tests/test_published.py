"""A collection on an object store: published, opened by its address, up to date; on a real S3 server with faults."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wherein
from wherein.errors import CollectionCorrupt, CollectionError, CollectionNotFound, InputError, MissingExtra
from wherein.store import published

Paint = Callable[..., Path]


class Faulty:
    """An S3 server that answers some requests with 500 first, and forgets objects when told to."""

    def __init__(self, app: Any) -> None:
        self._app, self.failing, self.failed = app, 0, 0

    def __call__(self, environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        if self.failing > 0 and environment["REQUEST_METHOD"] in ("GET", "PUT"):
            self.failing -= 1
            self.failed += 1
            start("500 Internal Server Error", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = self._app(environment, start)
        return answer


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[str, Faulty]]:
    """The address of a real S3 server on this machine, and its faults."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    faulty = Faulty(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, faulty, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", faulty
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bucket(s3: tuple[str, Faulty], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Faulty]]:
    """An address in an empty bucket; where credentials and caches are, the environment says."""
    import fsspec

    for name, value in {
        "AWS_ENDPOINT_URL": s3[0],
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "hush-hush",
        "AWS_DEFAULT_REGION": "us-east-1",
        "WHEREIN_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(published, "_PAUSE_SECONDS", 0.01)
    fsspec.filesystem("s3").clear_instance_cache()
    files = fsspec.filesystem("s3")
    name = f"bucket-{os.urandom(4).hex()}"
    files.mkdir(name)
    s3[1].failing = s3[1].failed = 0
    yield f"s3://{name}/photos", s3[1]
    s3[1].failing = 0


def ids(ranking: wherein.Ranking) -> list[tuple[str, float]]:
    return [(hit.image_id, round(hit.score, 6)) for hit in ranking]


@pytest.fixture
def reader(bucket: tuple[str, Faulty], collection: wherein.Collection, folder: Path) -> Iterator[wherein.Collection]:
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
    bucket: tuple[str, Faulty],
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
    collection: wherein.Collection, bucket: tuple[str, Faulty], folder: Path
) -> None:
    collection.add(folder)
    bucket[1].failing = 3
    collection.publish(bucket[0])
    bucket[1].failing = 3
    with wherein.open(bucket[0]) as reader:
        bucket[1].failing = 3
        assert ids(reader.search("red")) == ids(collection.search("red"))
    assert bucket[1].failed == 9


def test_what_vanishes_or_is_changed_is_told(
    reader: wherein.Collection, bucket: tuple[str, Faulty], tmp_path: Path
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


def test_the_command_searches_an_address(reader: wherein.Collection, bucket: tuple[str, Faulty]) -> None:
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

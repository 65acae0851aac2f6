"""Images that lie elsewhere: indexed as folders are, from a real S3 server with faults, from memory, from the web."""

import io
import json
import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein import remote
from wherein.errors import ImageError, InputError, MissingExtra
from wherein.values.address import Address, inside, location_of
from wherein.values.query import Part, Query
from wherein.values.records import AddReport

Paint = Callable[..., Path]
Did = Callable[[AddReport], dict[str, int]]
Bucket = tuple[str, Any]


@pytest.fixture
def files() -> Any:
    """fsspec's own view of the server."""
    import fsspec

    return fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False)


@pytest.fixture
def photos(bucket: Bucket, folder: Path, files: Any) -> str:
    """The four pictures in a bucket."""
    for path in sorted(folder.rglob("*.png")):
        files.put_file(str(path), f"{bucket[0]}/{path.relative_to(folder).as_posix()}")
    return bucket[0]


@pytest.fixture
def elsewhere(photos: str, tmp_path: Path) -> Iterator[wherein.Collection]:
    """A collection of them, on this machine."""
    with wherein.open(tmp_path / "elsewhere", create=True, encoder="toy") as made:
        made.add(photos)
        yield made


def reasons(report: AddReport) -> dict[str, str]:
    return {skip.path.rpartition("/")[2]: skip.reason for skip in report.skipped}


def test_a_bucket_is_indexed_as_its_folder_is(
    elsewhere: wherein.Collection, collection: wherein.Collection, folder: Path, photos: str, did: Did, bucket: Bucket
) -> None:
    collection.add(folder)
    ids, rows = collection.embeddings()
    other_ids, other_rows = elsewhere.embeddings()
    assert ids == other_ids
    np.testing.assert_array_equal(rows, other_rows)
    assert elsewhere.roots == {"": Address(photos)}
    (hit,) = elsewhere.search("red", k=1, locate=True)
    assert (hit.image_id, str(hit.path), hit.mask is not None) == ("red.png", f"{photos}/red.png", True)
    assert elsewhere.thumb("red.png") == collection.thumb("red.png")
    bucket[1].asked.clear()
    assert did(elsewhere.add()) == {"unchanged": 4}
    assert not [path for method, path, _ in bucket[1].asked if method == "GET" and path.endswith(".png")]


def test_the_original_is_read_through_the_address(
    elsewhere: wherein.Collection, folder: Path, photos: str, files: Any
) -> None:
    with elsewhere.open_file("red.png") as file:
        assert file.read() == (folder / "red.png").read_bytes()
    there = Query((Part(text="red", where=wherein.Box(0.0, 0.0, 0.5, 0.5)),))
    zoomed = elsewhere.search(there, method="whole+zoom")
    assert zoomed.hits[0].image_id == "red.png"
    files.pipe_file(f"{photos}/red.png", (folder / "blue.png").read_bytes())
    with pytest.raises(ImageError, match="has changed"):
        elsewhere.open_file("red.png")
    files.rm_file(f"{photos}/red.png")
    with pytest.raises(ImageError, match="is gone"):
        elsewhere.open_file("red.png")
    assert elsewhere.search("red", k=1, locate=True).hits[0].mask is not None, "located without the original"


def test_a_large_file_is_read_in_parts(elsewhere: wherein.Collection, photos: str, files: Any, bucket: Bucket) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (1000, 1400, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(data := io.BytesIO(), "PNG")
    files.pipe_file(f"{photos}/large.png", data.getvalue())
    elsewhere.add()
    bucket[1].asked.clear()
    with elsewhere.open_file("large.png") as file:
        file.seek(2_000_000)
        assert file.read(1000) == data.getvalue()[2_000_000:2_001_000]
    ranges = [range_ for method, path, range_ in bucket[1].asked if method == "GET" and path.endswith("large.png")]
    assert ranges == ["bytes=2000000-3048575"]


def test_changed_renamed_vanished_and_new_objects(
    elsewhere: wherein.Collection, photos: str, folder: Path, files: Any, did: Did
) -> None:
    elsewhere.tag("warm", ["red.png"])
    one, other = b"a" + (folder / "blue.png").read_bytes(), (folder / "blue.png").read_bytes()
    files.pipe_file(f"{photos}/new.png", other + b"a")
    assert did(elsewhere.add()) == {"added": 1, "unchanged": 4}
    files.pipe_file(f"{photos}/new.png", other + b"b")  # as long, and written in the same second: its tag tells
    assert did(elsewhere.add()) == {"changed": 1, "unchanged": 4}
    files.mv(f"{photos}/red.png", f"{photos}/below/rouge.png")
    files.rm_file(f"{photos}/new.png")
    assert did(elsewhere.add()) == {"renamed": 1, "removed": 1, "unchanged": 3}
    assert elsewhere.image_ids(tags="warm") == ["below/rouge.png"]
    files.pipe_file(f"{photos}/broken.png", one)
    assert reasons(elsewhere.add()).keys() == {"broken.png"}


def test_requests_that_fail_are_made_again_and_what_stays_unread_is_tried_the_next_time(
    elsewhere: wherein.Collection, photos: str, folder: Path, files: Any, bucket: Bucket, monkeypatch: Any, did: Did
) -> None:
    for name in ("one", "two"):
        files.pipe_file(f"{photos}/{name}.png", (folder / "blue.png").read_bytes() + name.encode())
    bucket[1].failing = 3
    bucket[1].about = "one.png"
    assert did(elsewhere.add()) == {"added": 2, "unchanged": 4}
    assert bucket[1].failed == 3
    files.pipe_file(f"{photos}/slow.png", (folder / "blue.png").read_bytes() + b"slow")
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(remote, "TRIES", 2)
    bucket[1].about, bucket[1].stalling = "slow.png", 100
    report = elsewhere.add()
    assert reasons(report) == {"slow.png": "was not answered within 0.3 s."}
    bucket[1].stalling = 0
    bucket[1].released.set()
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 60.0)
    assert did(elsewhere.add()) == {"added": 1, "unchanged": 6}


def test_what_vanishes_or_changes_while_it_is_indexed(
    elsewhere: wherein.Collection, photos: str, folder: Path, files: Any, bucket: Bucket, did: Did
) -> None:
    for name in ("gone", "grown"):
        files.pipe_file(f"{photos}/{name}.png", (folder / "blue.png").read_bytes() + name.encode())
    done = set[str]()

    def before(method: str, path: str) -> None:
        name = path.rpartition("/")[2]
        if method == "GET" and name in ("gone.png", "grown.png") and name not in done:
            done.add(name)
            if name == "gone.png":
                files.rm_file(f"{photos}/{name}")
            else:
                files.pipe_file(f"{photos}/{name}", (folder / "blue.png").read_bytes() + b"has grown")

    bucket[1].before = before
    assert reasons(elsewhere.add()) == {
        "gone.png": "is gone; it was there when its folder was listed.",
        "grown.png": "has changed since it was listed, or was cut off.",
    }
    assert did(elsewhere.add()) == {"added": 1, "unchanged": 4}


def test_a_store_that_does_not_answer_or_is_empty_loses_no_image(
    elsewhere: wherein.Collection, photos: str, files: Any, bucket: Bucket, monkeypatch: Any
) -> None:
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(remote, "TRIES", 2)
    bucket[1].stalling = 100
    (skip,) = elsewhere.add().skipped
    assert "was not answered within 0.3 s; its images stay as they were" in skip.reason
    bucket[1].stalling = 0
    bucket[1].released.set()
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 60.0)
    files.rm(photos, recursive=True)
    (skip,) = elsewhere.add().skipped
    assert skip.reason.startswith("nothing is there; its images stay as they were")
    assert len(elsewhere) == 4
    assert elsewhere.search("red", k=1).hits[0].image_id == "red.png"


def test_names_that_others_chose_are_names(
    elsewhere: wherein.Collection, photos: str, folder: Path, files: Any, tmp_path: Path
) -> None:
    data = (folder / "blue.png").read_bytes()
    names = ["a::file:%2F%2Fx.png", "with space & ünï.png", "no ending", "sub/.hidden.png", "note.txt", "page"]
    for number, name in enumerate(names):
        content = data + bytes([number]) if name not in ("page", "note.txt") else b"<html>"
        files.pipe_file(f"{photos}/{name}", content)
    elsewhere.add()
    assert set(names) & set(elsewhere.image_ids()) == set(names[:3])
    for number, name in enumerate(names[:3]):
        with elsewhere.open_file(name) as file:
            assert file.read() == data + bytes([number])


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket/photos",
        "https://someone@example.org/photos",
        "https://example.org/photos?X-Amz-Signature=abc",
        "zip://photos::s3://bucket/a.zip",
    ],
)
def test_an_address_that_holds_a_secret_is_refused(url: str, tmp_path: Path) -> None:
    with wherein.open(tmp_path, create=True, encoder="toy") as made:
        for act in (made.add, made.publish, wherein.open):
            with pytest.raises(InputError, match=r"Leave it out|Give a plain one") as told:
                act(url)
            assert "secret" not in str(told.value)
        assert made.roots == {}


def test_a_published_collection_of_it_opens_the_originals(
    elsewhere: wherein.Collection, folder: Path, bucket: Bucket
) -> None:
    elsewhere.publish(f"{bucket[0]}-published")
    with wherein.open(f"{bucket[0]}-published") as reader, reader.open_file("red.png") as file:
        assert file.read() == (folder / "red.png").read_bytes()


def test_no_credential_is_written(elsewhere: wherein.Collection) -> None:
    kept = [path for path in elsewhere.folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"hush-hush" in path.read_bytes() or b"someone" in path.read_bytes()]


def test_a_film_elsewhere_is_its_images(
    elsewhere: wherein.Collection, photos: str, film: Callable[..., Path], tmp_path: Path, files: Any
) -> None:
    files.put_file(str(film(tmp_path / "clip.mp4", ["red", "blue"])), f"{photos}/clip.mp4")
    files.pipe_file(f"{photos}/bad.mp4", b"no film")
    (skip,) = elsewhere.add().skipped
    assert (skip.path, str(tmp_path) in skip.reason) == (f"{photos}/bad.mp4", False)
    assert [name for name in elsewhere.image_ids() if "clip" in name] == ["clip.mp4#t=0", "clip.mp4#t=2"]
    (part,) = elsewhere.marks(right=["clip.mp4#t=2"])
    assert isinstance(part.image, np.ndarray), "the frame was read from the film"


def test_memory_and_the_web(folder: Path, tmp_path: Path, did: Did) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/pictures", recursive=True)
    with wherein.open(tmp_path / "memory", create=True, encoder="toy") as made:
        assert did(made.add("memory://pictures")) == {"added": 4}
        assert did(made.add()) == {"unchanged": 4}
    memory.rm("/pictures", recursive=True)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        handler.func.log_message = lambda *_: None  # type: ignore[attr-defined]
        with wherein.open(tmp_path / "web", create=True, encoder="toy") as made:
            assert did(made.add(f"http://127.0.0.1:{server.server_port}/")) == {"added": 4}
            assert did(made.add()) == {"unchanged": 4}
            assert made.search("red", k=1).hits[0].image_id == "red.png"
            with made.open_file("red.png") as file:
                assert file.read() == (folder / "red.png").read_bytes()
        server.shutdown()


@pytest.mark.parametrize("listed", [True, False], ids=["from the first", "once it was listed"])
def test_a_web_server_leads_to_no_other(folder: Path, tmp_path: Path, did: Did, listed: bool) -> None:
    reached = list[str]()

    class Inner(SimpleHTTPRequestHandler):
        """What only this machine may ask."""

        def do_GET(self) -> None:
            reached.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    class Outer(SimpleHTTPRequestHandler):
        """A stranger's server, one of whose images is said to be elsewhere, and one at another place of its own."""

        def send_head(self) -> Any:
            moved = {"/blue.png": "/holiday/half.png"}
            if listed or self.command == "GET":
                moved["/red.png"] = f"http://127.0.0.1:{inner.server_port}/secret.png"
            if self.path in moved:
                self.send_response(302)
                self.send_header("location", moved[self.path])
                self.end_headers()
                return None
            return super().send_head()

        def log_message(self, *_: object) -> None: ...

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Inner) as inner,
        ThreadingHTTPServer(("127.0.0.1", 0), partial(Outer, directory=str(folder))) as outer,
    ):
        for server in (inner, outer):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        with wherein.open(tmp_path / "web", create=True, encoder="toy") as made:
            report = made.add(f"http://127.0.0.1:{outer.server_port}/")
            assert [skip.path.rpartition("/")[2] for skip in report.skipped] == ["red.png"]
            assert set(made.image_ids()) == {"blue.png", "holiday/half.png", "holiday/third.png"}
        inner.shutdown()
        outer.shutdown()
    assert reached == []


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = tmp_path / "certificate.pem", tmp_path / "key.pem"
    encoding = serialization.Encoding.PEM
    paths[0].write_bytes(made.public_bytes(encoding))
    plain = serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    return paths


def test_the_web_with_a_certificate(folder: Path, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    home = ["-c", str(tmp_path / "made")]

    def run(*words: str, trusted: bool = True) -> subprocess.CompletedProcess[str]:
        trust = {"SSL_CERT_FILE": str(certificate[0])} if trusted else {}
        command = [sys.executable, "-m", "wherein", *words, *home]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | trust)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"https://127.0.0.1:{server.server_port}/"
        refused = run("index", address, "--encoder", "toy", trusted=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert "certificate" in refused.stderr
        added = run("index", address, "--encoder", "toy", "--json")
        assert (added.returncode, json.loads(added.stdout)["added"]) == (0, 4), added.stderr
        assert json.loads(run("index", "--json").stdout)["unchanged"] == 4
        assert run("search", "red", "-k", "1", "--paths").stdout == f"{address}red.png\n"
        zoomed = run("search", "red", "--where", "left", "--method", "whole+zoom", "-k", "1", "--paths")
        assert zoomed.stdout == f"{address}red.png\n", "the original was read"
        server.shutdown()


def test_a_file_address_is_a_folder_of_this_machine(folder: Path, tmp_path: Path) -> None:
    with wherein.open(tmp_path / "made", create=True, encoder="toy") as made:
        made.add(f"file://{folder}")
        assert made.roots == {"": folder}


def test_the_command(photos: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "wherein"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*words, *more], capture_output=True, text=True)

    home = ["-c", str(tmp_path / "made")]
    told = run("index", photos, *home, "--encoder", "toy", "--json")
    assert (told.returncode, json.loads(told.stdout)["added"]) == (0, 4), told.stderr
    found = run("search", "red", "-k", "1", "--paths", *home)
    assert found.stdout == f"{photos}/red.png\n"
    gone = run("index", f"{photos}-gone", *home)
    assert (gone.returncode, gone.stderr.count("\n"), "nothing is there" in gone.stderr) == (2, 1, True), gone.stderr
    new = tmp_path / "new"
    assert (run("index", f"{photos}-gone", "-c", str(new)).returncode, new.exists()) == (2, False), "nothing is left"
    homeless = run("index", photos)
    assert (homeless.returncode, "-c FOLDER" in homeless.stderr) == (2, True)
    assert "4 files forgotten" in run("remove", photos, *home).stdout


def test_a_request_names_no_address_that_was_not_allowed(
    photos: str, elsewhere: wherein.Collection, folder: Path, serve: Callable[..., str], files: Any
) -> None:
    from wherein.server.settings import Settings

    address = serve(elsewhere.folder)
    served = wherein.connect(address)
    with pytest.raises(InputError, match="is not below a folder that may be indexed"):
        served.add("s3://elsewhere/photos")
    files.pipe_file(f"{photos}/new.png", (folder / "blue.png").read_bytes() + b"new")
    assert served.add().added == 1, "its own folder may be brought up to date"
    assert "s3:" not in str(served.info().roots)
    allowed = wherein.connect(serve(elsewhere.folder, settings=Settings(index_roots=(location_of(photos),))))
    assert allowed.add(f"{photos}/below").skipped[0].reason.startswith("does not exist")
    with urlopen(f"{address}/api/v1/collections/elsewhere/original?image_id=red.png") as answer:
        assert answer.read() == (folder / "red.png").read_bytes()


def test_addresses_are_compared_by_what_they_say() -> None:
    root = location_of("s3://bucket/photos/")
    assert isinstance(root, Address)
    assert location_of(Path("s3://bucket/photos")) == root, "a path has lost a slash"
    assert (root / "a.jpg") == Address("s3://bucket/photos/a.jpg")
    assert (root / "a.jpg").parent == root
    assert inside(root, Address("s3://bucket/photos-2/a.jpg")) is None
    assert inside(root, Address("s3://bucket/photos/a/b.jpg")) == "a/b.jpg"
    assert inside(root, Path("/bucket/photos")) is None


def test_a_missing_extra_is_told_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    remote.folder_at.cache_clear()
    with (
        wherein.open(tmp_path, create=True, encoder="toy") as made,
        pytest.raises(MissingExtra, match=r"pip install 'wherein\[scale\]'"),
    ):
        made.add("s3://bucket/photos")


@pytest.mark.parametrize(
    ("url", "command"), [("gs://bucket/photos", "pip install 'gcsfs'"), ("abfs://bucket/photos", "pip install 'adlfs'")]
)
def test_a_store_whose_library_is_missing_is_told_with_its_command(
    url: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, command.split("'")[1], None)
    with (
        wherein.open(tmp_path, create=True, encoder="toy") as made,
        pytest.raises(MissingExtra, match=re.escape(command)),
    ):
        made.add(url)

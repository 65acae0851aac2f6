"""The files of images are opened as they were indexed: through no other link, and with the same content."""

import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import wherein
from wherein.errors import UnreadableImage

Paint = Callable[..., Path]
HTTP = httpx.Client(trust_env=False, headers={"connection": "close"})


@pytest.fixture
def linked(tmp_path: Path, paint: Paint) -> Path:
    """Two folders beside a link to one of them from the other, inside one root."""
    paint(tmp_path / "root" / ".store" / "far.png", "green")
    paint(tmp_path / "root" / "near.png", "red")
    (tmp_path / "root" / "link").symlink_to(".store")
    return tmp_path / "root"


def original(address: str, image_id: str) -> httpx.Response:
    return HTTP.get(f"{address}/api/v1/collections/root/original", params={"image_id": image_id})


def test_what_a_link_led_to_is_served(linked: Path, serve: Callable[..., str]) -> None:
    with wherein.open(linked, create=True, encoder="toy") as collection:
        assert collection.add(linked).added == 2
    address = serve(linked)
    answer = original(address, "link/far.png")
    assert answer.status_code == 200
    assert answer.content == (linked / ".store" / "far.png").read_bytes()
    assert answer.headers["content-type"] == "image/png"
    part = HTTP.get(answer.request.url, headers={"range": "bytes=2-5"})
    assert (part.status_code, part.content) == (206, answer.content[2:6])
    large = HTTP.get(f"{address}/api/v1/collections/root/thumb", params={"image_id": "link/far.png", "side": "512"})
    assert large.status_code == 200


def test_a_link_that_was_turned_since_is_not_followed(linked: Path, tmp_path: Path, paint: Paint) -> None:
    secret = paint(tmp_path / "secret" / "far.png", "blue")
    with wherein.open(linked, create=True, encoder="toy") as collection:
        collection.add(linked)
        known = (linked / ".store" / "far.png").read_bytes()
        (linked / "link").unlink()
        (linked / "link").symlink_to(tmp_path / "secret")
        with collection.open_file("link/far.png") as file:
            assert file.read() == known  # the place that the link led to when it was indexed
        (linked / ".store").rename(linked / ".moved")
        (linked / ".store").symlink_to(tmp_path / "secret")
        os.utime(secret, ns=(0, (linked / ".moved" / "far.png").stat().st_mtime_ns))
        with pytest.raises(UnreadableImage, match="cannot be opened as it was indexed"):
            collection.open_file("link/far.png")


def test_other_content_is_refused_and_a_new_date_is_not(linked: Path, paint: Paint) -> None:
    with wherein.open(linked, create=True, encoder="toy") as collection:
        collection.add(linked)
        before = (linked / "near.png").read_bytes()
        os.utime(linked / "near.png", ns=(0, 0))
        with collection.open_file("near.png") as file:
            assert file.read() == before
        paint(linked / "near.png", "purple")
        with pytest.raises(UnreadableImage, match="is not what was indexed"):
            collection.open_file("near.png")
        (linked / "near.png").unlink()
        os.mkfifo(linked / "near.png")
        with pytest.raises(UnreadableImage, match="is not what was indexed"):
            collection.open_file("near.png")


def test_links_out_of_the_roots_are_taken_in_only_when_asked(
    linked: Path, tmp_path: Path, paint: Paint, serve: Callable[..., str]
) -> None:
    paint(tmp_path / "outside" / "x.png", "blue")
    (linked / "out").symlink_to(tmp_path / "outside")
    with wherein.open(linked, create=True, encoder="toy") as collection:
        report = collection.add(linked)
        assert (report.added, [Path(skip.path).name for skip in report.skipped]) == (2, ["out"])
        assert collection.add(linked, follow_links=True).added == 1
        assert collection.add().unchanged == 3  # remembered
        with collection.open_file("out/x.png") as file:
            assert file.read() == (tmp_path / "outside" / "x.png").read_bytes()
        address = serve(linked)
        assert original(address, "out/x.png").status_code == 200
        collection.add(follow_links=False)
        assert original(address, "out/x.png").status_code == 404


def test_an_export_does_not_follow_a_file_that_became_a_link(linked: Path, tmp_path: Path, paint: Paint) -> None:
    with wherein.open(linked, create=True, encoder="toy") as collection:
        collection.add(linked)
        ranking = collection.search("red", k=1)
        secret = paint(tmp_path / "secret.png", "blue")
        (linked / "near.png").unlink()
        (linked / "near.png").symlink_to(secret)
        wherein.export(ranking, f"fiftyone:{tmp_path / 'out'}", thumb_of=collection.thumb, file_of=collection.open_file)
        (written,) = (tmp_path / "out" / "data").iterdir()
        assert written.read_bytes() == collection.thumb("near.png")

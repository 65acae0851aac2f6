"""Answers speak of folders and files by name: no path of the server's disk, no process, no user in any of them."""

import getpass
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import wherein
from wherein.server.places import NamedFolders, file_name
from wherein.server.settings import Settings

HERE = "/collections/pictures"


@pytest.fixture
def http(collection: wherein.Collection, folder: Path, serve: Callable[..., str]) -> Iterator[httpx.Client]:
    """A server with the four pictures, which may index below their folder and one beside it."""
    collection.add(folder)
    (folder.parent / "more").mkdir()
    address = serve(folder, settings=Settings(index_roots=(folder, folder.parent / "more")))
    with httpx.Client(base_url=f"{address}/api/v1", trust_env=False, timeout=30) as client:
        yield client


def test_folders_are_called_by_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    places = NamedFolders([tmp_path / "a", tmp_path / "link", tmp_path / "b" / "a"])
    assert places.said(f"{tmp_path}/a/x.png: gone; see `{tmp_path}/link`") == "a/x.png: gone; see `a`"
    assert places.said(f"{tmp_path}/b/a, {tmp_path}/ab/x") == f"a-2, {tmp_path}/ab/x"
    assert [places.meant(name) for name in ("a/x", "a-2", "/etc")] == [
        tmp_path / "a" / "x",
        tmp_path / "b" / "a",
        Path("/etc"),
    ]
    assert [file_name(one) for one in ("a/b.png", "clip.mp4#t=2.5", "a#t=2.png")] == [
        "a/b.png",
        "clip.mp4",
        "a#t=2.png",
    ]


def test_no_answer_tells_where_files_are(http: httpx.Client, folder: Path) -> None:
    by_example = {"parts": [{"image_id": "red.png"}], "liked": ["blue.png"]}
    selection = {"items": [{"image_id": "red.png"}]}
    broken = next((folder / ".wherein" / "shards").rglob("*.npy"))
    answers = [
        http.get("/collections"),
        http.get(HERE),
        http.get(f"{HERE}/info"),
        http.get(f"{HERE}/image?image_id=red.png"),
        http.get(f"{HERE}/image?image_id=nothing.png"),
        http.post(f"{HERE}/search", json=by_example),
        http.post(f"{HERE}/search", json={"parts": [{"text": "red"}], "among": ["nothing.png"]}),
        http.put(f"{HERE}/selections/mine", json=selection),
        http.put(f"{HERE}/selections/mine", json={"items": [{"image_id": "nothing.png"}]}),
        *(http.get(f"{HERE}/export?selection=mine&format={one}") for one in ("paths", "csv", "coco")),
        http.get("/folders"),
        http.get("/folders?path=pictures"),
        http.get("/folders?path=pictures/holiday"),
        http.post("/jobs", json={"folder": "more/nothing"}),
        http.post("/jobs", json={"folder": "more/.."}),
    ]
    broken.write_bytes(broken.read_bytes()[:-1] + b"?")
    answers.append(http.post(f"{HERE}/check", json={"repair": False}))
    assert "pictures/.wherein/shards" in answers[-1].text
    for answer in answers:
        assert str(folder.parent) not in answer.text, answer.request.url
    found = answers[5].json()
    assert (found["query"], found["parts"][0]["said"]) == ("red.png + blue.png^0.75", "red.png")
    assert all(hit["path"] == hit["image_id"] for hit in found["hits"])
    assert answers[12].json()["folders"] == ["pictures", "more"]
    assert answers[14].json() == {"path": "pictures/holiday", "parent": "pictures", "folders": []}


def test_a_job_takes_and_tells_names(http: httpx.Client, folder: Path) -> None:
    (folder / "holiday" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    job = http.post("/jobs", json={"folder": "pictures/holiday", "collection": "pictures"}).json()
    with http.stream("GET", f"/jobs/{job['id']}/events") as events:
        told = events.read().decode()
    done = http.get(f"/jobs/{job['id']}").json()
    assert (done["state"], done["folder"]) == ("done", "pictures/holiday")
    assert done["report"]["skipped"][0]["path"] == "pictures/holiday/broken.png"
    assert done["last_skip"].startswith("pictures/holiday/broken.png: ")
    assert str(folder.parent) not in told


def test_who_else_writes_is_not_told(http: httpx.Client, collection: wherein.Collection) -> None:
    with collection._store.writing():
        answer = http.post(f"{HERE}/compact")
    assert answer.status_code == 409
    message = answer.json()["error"]["message"]
    assert message == "another process is writing to the collection. Wait for it to end, then try again."
    assert str(os.getpid()) not in message
    assert getpass.getuser() not in message

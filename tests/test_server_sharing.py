"""Push, publish and Ray through HTTP: where to is said by whoever starts the server, never by a request."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import wherein
from wherein.errors import CollectionError, InputError, WhereinError
from wherein.server.settings import Settings
from wherein.values.records import Progress

# Ray leaves the processes that it has ended to the interpreter, which warns of them when it collects garbage.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


def ids(ranking: wherein.Ranking) -> list[tuple[str, float]]:
    return [(hit.image_id, round(hit.score, 5)) for hit in ranking]


def test_rows_are_pushed_to_the_index_of_the_server_alone(
    collection: wherein.Collection, folder: Path, serve: Callable[..., str], served: str, tmp_path: Path
) -> None:
    from wherein.index.milvus.server import connect, disconnect

    file = str(tmp_path / "index.db")
    connect(file, create=True)
    remote = wherein.connect(serve(folder, settings=Settings(index=f"milvus:{file}")))
    steps = list[Progress]()
    try:
        (pushed,) = remote.push(layers=["global"], index_type="FLAT", on_progress=steps.append)
        assert (pushed.sent, pushed.kind, pushed.recall) == (4, "FLAT", 1.0)
        assert remote.push()[0].sent == 0
        assert ids(remote.search("red", index="milvus")) == ids(collection.search("red"))
        with pytest.raises(InputError, match="no layer 'nonsense' can be pushed"):
            remote.push(layers=["nonsense"])
    finally:
        disconnect(file)
    with pytest.raises(WhereinError, match="start it with --index milvus:HOST:PORT"):
        wherein.connect(served).push()
    named = httpx.post(f"{served}/api/v1/collections/pictures/push", json={"index": "milvus:evil:1"})
    assert named.status_code == 422, "a request cannot say where to"


def test_a_collection_is_published_where_the_server_may(
    collection: wherein.Collection, folder: Path, serve: Callable[..., str], served: str, bucket: tuple[str, Any]
) -> None:
    remote = wherein.connect(serve(folder, settings=Settings(publish=bucket[0])))
    files, images = remote.publish()
    assert (files > 1, images) == (True, 4)
    assert remote.publish() == (1, 4), "the second time only the catalogue is sent"
    with wherein.open(f"{bucket[0]}/pictures") as reader:
        assert ids(reader.search("red")) == ids(collection.search("red"))
    bucket[1].failing = 1000
    with pytest.raises(CollectionError) as told:
        remote.publish()
    assert "s3://" not in str(told.value)
    with pytest.raises(WhereinError, match="start it with --publish"):
        wherein.connect(served).publish()


def test_jobs_run_on_the_executor_of_the_server(folder: Path, serve: Callable[..., str], tmp_path: Path) -> None:
    with wherein.open(tmp_path / "made", create=True, encoder="toy") as made:
        settings = Settings(executor="ray", index_roots=(folder,))
        assert wherein.connect(serve(made.folder, settings=settings)).add(folder).added == 4
    dead = Settings(executor="ray:127.0.0.1:9", index_roots=(folder,))
    with wherein.open(tmp_path / "other", create=True, encoder="toy") as made:
        with pytest.raises(InputError, match="no Ray answers"):
            wherein.connect(serve(made.folder, settings=dead)).add(folder)
        assert len(made) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--index", "milvus:127.0.0.1:9"], "milvus:127.0.0.1:9: cannot be reached"),
        (["--index", "milvus:nothing.db"], "there is no such file"),
        (["--publish", "somewhere"], "--publish somewhere: is no address"),
        (["--publish", "s3://key:secret@bucket/x"], "holds a name or password"),
        (["--ray", "127.0.0.1:9"], "no Ray answers at 127.0.0.1:9"),
    ],
)
def test_a_server_does_not_start_with_what_it_could_not_use(
    collection: wherein.Collection, folder: Path, words: list[str], said: str
) -> None:
    command = [sys.executable, "-m", "wherein", "serve", "-c", str(folder), "--port", "0", *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr.count("\n"), said in run.stderr) == (2, 1, True), run.stderr

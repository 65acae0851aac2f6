"""Every index gives the hits that comparing every row gives: exact, in a file of milvus-lite, on a Milvus server."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wherein
from wherein.arrays import Floats, Ints
from wherein.encoders.toy import COLOURS
from wherein.errors import IndexUnavailable, InputError, MissingExtra, SpecError
from wherein.images.image import Pixels
from wherein.index import check_index, load_index
from wherein.index.milvus import MilvusRows, server
from wherein.index.milvus.push import PushedLayer, push
from wherein.index.rows import ArrayCache, Origin, Places, RowTable
from wherein.store.shards import Array
from wherein.values.query import Part, Query
from wherein.values.records import Facts, Progress
from wherein.values.region import Box

IMAGES = 5000
ODD = 'f0/" or image > 0 or "\\' + "'%_é\n.png"
"""An id that would be part of an expression if ids were ever put into one."""
RUN_SERVER = Path(__file__).parents[2] / "benchmarks" / "run_milvus.py"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server."""
    if sys.platform != "linux":
        pytest.skip("the server that is installed by pip runs on Linux")
    home, ports = tmp_path_factory.mktemp("milvus"), [free_port() for _ in range(3)]
    words = [sys.executable, str(RUN_SERVER), str(home), *map(str, ports)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield f"127.0.0.1:{ports[0]}"
        server.disconnect(f"127.0.0.1:{ports[0]}")
        running.send_signal(signal.SIGTERM)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[str]:
    """The address of a file of milvus-lite that is not there yet."""
    address = str(tmp_path / "index.db")
    yield address
    server.disconnect(address)


@pytest.fixture(params=["file", "milvus_server"])
def address(request: pytest.FixtureRequest) -> str:
    """A file, then a server."""
    return str(request.getfixturevalue(request.param))


def noise(random: np.random.Generator, palette: Pixels) -> Pixels:
    """A picture of four quarters, each with its own shares of the toy encoder's colours: no two look the same."""
    quarters = [random.choice(len(palette), (32, 32), p=random.dirichlet(np.full(len(palette), 0.5))) for _ in range(4)]
    return np.asarray(palette[np.block([quarters[:2], quarters[2:]])], np.uint8)


def fill(collection: wherein.Collection, count: int, *, first: int = 0) -> None:
    random, palette = np.random.default_rng(first), np.array(list(COLOURS.values()), np.uint8)
    names = [f"f{number % 7}/{number:05d}.png" for number in range(first, first + count)]
    if not first:
        names[0] = ODD
    collection.add(*((name, noise(random, palette)) for name in names))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wherein.Collection]:
    """5,000 images."""
    with wherein.open(tmp_path_factory.mktemp("many"), create=True, encoder="toy") as collection:
        fill(collection, IMAGES)
        collection.tag('t"ag', [ODD, *(name for name in collection.image_ids() if name.endswith("7.png"))])
        yield collection


@pytest.fixture
def few(tmp_path: Path) -> Iterator[wherein.Collection]:
    """300 images, so that a push is quick."""
    with wherein.open(tmp_path / "few", create=True, encoder="toy") as collection:
        fill(collection, 300)
        yield collection


def same(left: wherein.Ranking, right: wherein.Ranking) -> None:
    """The same ids with the same scores; of those that tie, in any order."""
    np.testing.assert_allclose([hit.score for hit in left], [hit.score for hit in right], atol=1e-3)
    scores = {hit.image_id: hit.score for hit in right}
    last = min(scores.values(), default=0.0)
    assert all(abs(scores.get(hit.image_id, last) - hit.score) <= 1e-6 for hit in left)
    assert left.searched == right.searched


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that Milvus was asked with."""
    told, ask = list[str](), MilvusRows._ask

    def spy(self: MilvusRows, queries: Any, rows: int, expression: str, **options: Any) -> Any:
        told.append(expression)
        return ask(self, queries, rows, expression, **options)

    monkeypatch.setattr(MilvusRows, "_ask", spy)
    return told


def questions(collection: wherein.Collection) -> dict[str, tuple[Any, dict[str, Any]]]:
    example = collection.thumb(collection.image_ids()[40])
    assert example is not None
    region = Query((Part(image=example, box=Box(0.0, 0.0, 0.5, 0.5)),))
    lacking = Query((Part(text="red"), Part(text="blue", negative=True)))
    placed = Query((Part(text="green", where=Box(0.0, 0.0, 0.5, 0.5)),))
    return {
        "text": ("red", {}),
        "region": (region, {}),
        "place": (placed, {"method": "static-9"}),
        "negative": (lacking, {}),
        "folder": ("blue", {"folder": "f3"}),
        "tag": ("blue", {"tags": 't"ag'}),
        "several": (["red", "blue"], {"folder": "f[0-5]"}),
    }


def test_five_thousand_images_are_found_as_without_an_index(
    many: wherein.Collection, address: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("background", "sources"):  # so that sums are made of candidates, as in large collections
        monkeypatch.setattr(f"wherein.search.{module}.SAMPLE", 512)
    many._forget()
    (report,) = many.push(f"milvus:{address}")
    assert (report.sent, report.removed, report.rows, report.kind, report.recall) == (IMAGES, 0, IMAGES, "FLAT", 1.0)
    (again,) = many.push(f"milvus:{address}")
    assert (again.sent, again.removed, again.rows) == (0, 0, IMAGES)
    for name, (query, options) in questions(many).items():
        asked.clear()
        found = many.search(query, k=20, index=f"milvus:{address}", **options)
        assert asked, f"{name}: Milvus was not asked"
        same(found, many.search(query, k=20, **options))
    many._forget()


def test_what_changed_since_the_push_is_found_all_the_same(few: wherein.Collection, address: str) -> None:
    index = f"milvus:{address}"
    few.push(index)
    fill(few, 20, first=300)
    few.remove([hit.image_id for hit in few.search("red", k=10)])
    same(few.search("red", k=10, index=index), few.search("red", k=10))
    (report,) = few.push(index)
    assert report.removed == 10
    assert 20 <= report.sent <= 310, "the shards that lost rows are sent again, and the new ones"
    same(few.search("blue", k=10, index=index), few.search("blue", k=10))
    few.compact()
    same(few.search("blue", k=10, index=index), few.search("blue", k=10))
    (report,) = few.push(index)
    assert (report.sent, report.rows) == (310, 310)
    same(few.search("green", k=10, index=index), few.search("green", k=10))


def test_a_push_that_was_stopped_goes_on_and_answers_are_right_meanwhile(few: wherein.Collection, file: str) -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    for first in (300, 600):
        fill(few, 300, first=first)
    with pytest.raises(KeyboardInterrupt):
        few.push(f"milvus:{file}", on_progress=stop)
    same(few.search("red", k=30, index=f"milvus:{file}"), few.search("red", k=30))
    few.push(f"milvus:{file}")
    fill(few, 300, first=1000)
    with pytest.raises(KeyboardInterrupt):
        few.push(f"milvus:{file}", on_progress=stop)
    same(few.search("red", k=30, index=f"milvus:{file}"), few.search("red", k=30))
    (report,) = few.push(f"milvus:{file}")
    assert report.rows == len(few)


def test_tags_are_pushed_for_those_who_ask_milvus_themselves(few: wherein.Collection, file: str) -> None:
    few.push(f"milvus:{file}")
    few.tag("new", [ODD])
    assert 0 < few.push(f"milvus:{file}")[0].sent <= 300, "the shard of that image is sent again"
    milvus = server.connect(file)
    (name,) = [name for name in milvus.client.list_collections() if name != "wherein_pushed"]
    (row,) = milvus.query(name, 'array_contains(tags, "new")', ["image_id", "folder", "tags", "cell", "box", "taken"])
    assert (row["image_id"], row["folder"], list(row["tags"])) == (ODD, ODD.rpartition("/")[0], ["new"])
    assert (row["cell"], row["box"], row["taken"] > 0) == (0, "", True)


@pytest.mark.parametrize("index_type", ["IVF_SQ8", "IVF_FLAT", "HNSW"])
def test_other_types_of_index_find_the_same(few: wherein.Collection, file: str, index_type: str) -> None:
    few.push(f"milvus:{file}")
    (report,) = few.push(f"milvus:{file}", index_type=index_type)
    assert (report.sent, report.kind) == (0, index_type)
    assert report.recall >= 0.99
    for folder in (None, "f3"):
        found = few.search("red", k=15, index=f"milvus:{file}", folder=folder)
        same(found, few.search("red", k=15, folder=folder))


def in_shards(rows: Floats, owners: Ints) -> RowTable:
    """A table of rows in shards of 100, as a collection's are, of images that own several."""

    class Shards:
        def array(self, layer: str, shard: int) -> Array:
            return rows[100 * shard : 100 * shard + 100]

    numbers = np.arange(len(rows))
    placed = np.stack([owners + 7, numbers // 100, numbers % 100], axis=1)
    places = Places(placed, [None] * len(rows), np.unique(owners) + 7, owners)
    origin = Origin("0123456789abcdef", "global.made", placed, dict.fromkeys(range(len(rows) // 100 + 1), 1))
    return RowTable("global.made", places, ArrayCache(Shards()), origin)


def test_an_index_keeps_the_contract(address: str) -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(1200, 24)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # The first image owns so many rows alike that they fill whole answers where Milvus cannot group.
    owners = np.r_[np.zeros(300, np.int64), np.repeat(np.arange(1, 301), 3)]
    rows[:300] = rows[0]
    table = in_shards(rows, owners)
    assert table.origin is not None
    push(PushedLayer(table, table.origin, lambda keys: {key: Facts(str(key), 0.0, ()) for key in keys}), address)
    check_index("exact", table)
    check_index(f"milvus:{address}", table)
    index, exact = MilvusRows(table, address), load_index("exact", table)
    for found, true in zip(index.top(rows[:1], k=25), exact.top(rows[:1], k=25), strict=True):
        assert found.images.tolist() == true.images.tolist()


def test_a_server_that_lost_rows_is_not_believed(few: wherein.Collection, address: str) -> None:
    few.push(f"milvus:{address}")
    milvus = server.connect(address)
    name = next(name for name in milvus.client.list_collections() if milvus.count(name) == 300)
    milvus.client.delete(name, filter="image in [1, 2, 3]")
    few._forget()
    with pytest.raises(IndexUnavailable, match=r"holds 297 of the 300 rows .* push again"):
        few.search("red", index=f"milvus:{address}")


def test_a_push_asks_one_question_at_a_time_and_a_late_answer_is_said_to_be_late(
    few: wherein.Collection, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, ask = set[int](), MilvusRows._ask

    def spy(self: MilvusRows, queries: Floats, *more: Any, **options: Any) -> Any:
        at_once.add(len(queries))
        return ask(self, queries, *more, **options)

    monkeypatch.setattr(MilvusRows, "_ask", spy)
    few.push(f"milvus:{file}")
    assert at_once == {1}, "many at once take longer than one request may"
    few.search("red", index=f"milvus:{file}")
    monkeypatch.setattr("wherein.index.milvus.SECONDS", 1e-6)
    with pytest.raises(IndexUnavailable, match=r"cannot be searched \(no answer in time\)"):
        few.search("blue", index=f"milvus:{file}")


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "wherein", *words], capture_output=True, text=True)


def test_without_its_file_or_server_a_search_exits_2_with_one_line(few: wherein.Collection, tmp_path: Path) -> None:
    home, file = str(few.folder), str(tmp_path / "gone.db")
    told = command("push", "-c", home, "--index", f"milvus:{file}")
    assert (told.returncode, "300 rows sent" in told.stdout) == (0, True), told.stderr
    found = command("search", "red", "-c", home, "--index", f"milvus:{file}", "--json")
    assert (found.returncode, found.stdout) == (0, command("search", "red", "-c", home, "--json").stdout)
    shutil.rmtree(file)
    for index, reason in ((f"milvus:{file}", "there is no such file"), ("milvus:127.0.0.1:9", "cannot be reached")):
        gone = command("search", "red", "-c", home, "--index", index)
        assert (gone.returncode, gone.stdout, gone.stderr.count("\n")) == (2, "", 1), gone.stderr
        assert gone.stderr.startswith(f"wherein: {index}: {reason}")


def test_a_file_that_goes_while_it_is_used_is_missed(few: wherein.Collection, file: str) -> None:
    few.push(f"milvus:{file}")
    few.search("red", index=f"milvus:{file}")
    Path(file).rename(f"{file}.elsewhere")
    with pytest.raises(IndexUnavailable, match="there is no such file"):
        few.search("red", index=f"milvus:{file}")


def test_what_cannot_be_pushed_or_asked_is_refused(few: wherein.Collection, file: str) -> None:
    with pytest.raises(InputError, match="rows can be pushed to Milvus alone"):
        few.push("exact")
    with pytest.raises(InputError, match="no layer 'patches' can be pushed; there are: global"):
        few.push(f"milvus:{file}", layers=["patches"])
    with pytest.raises(InputError, match="'PQ' is no type of index"):
        few.push(f"milvus:{file}", index_type="PQ")
    with pytest.raises(SpecError, match="give the address of a server"):
        few.search("red", index="milvus:nonsense")
    few.push(f"milvus:{file}")
    few._store.folder.joinpath("kept", "identity").unlink()
    few._forget()
    with pytest.raises(IndexUnavailable, match="holds no global layer of this collection"):
        few.search("red", index=f"milvus:{file}")


def test_a_missing_extra_is_told_with_its_command(few: wherein.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingExtra, match=r"pip install 'wherein\[scale\]'"):
        few.search("red", index="milvus:127.0.0.1:9")


def test_nothing_of_it_is_loaded_unless_it_is_used(few: wherein.Collection) -> None:
    program = (
        "import sys, wherein; c = wherein.open(sys.argv[1]); c.search('red'); "
        "print({'pymilvus', 'grpc', 'ray', 'fsspec', 'boto3'} & set(sys.modules))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(few.folder)], capture_output=True, text=True, env=os.environ
    )
    assert told.stdout == "set()\n", told.stderr

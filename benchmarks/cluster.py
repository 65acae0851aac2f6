"""Milvus and Ray beside the local engines, on one collection in one run: the same hits, how fast, how many bytes.

    python benchmarks/cluster.py search --images 200000 --place /tmp/cluster            # a file of milvus-lite
    python benchmarks/cluster.py search --images 200000 --server --place /tmp/cluster   # a server of PyPI
    python benchmarks/cluster.py embed --photos 300 --place /tmp/cluster

`search` makes a collection of made-up embeddings, pushes it, and compares every answer with that of the exact index; of
a server, it also measures the memory that the loaded index takes. `embed` indexes copies of the demonstration's
photographs with threads and with Ray. Each prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import wherein
import wherein.index.milvus
from made_up import make_collection
from wherein.values.query import Part, Query

K = 20
PATIENCE = 120.0
"""Seconds that a request may take here, so that a busy machine is measured and not refused; people wait ten."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("search", "embed"))
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--photos", type=int, default=300)
    parser.add_argument("--index", default="")
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--index-type")
    parser.add_argument("--repeats", type=int, default=5, help="searches of which the median is told")
    parser.add_argument("--place", type=Path, required=True)
    given = parser.parse_args()
    if given.what == "embed":
        measured = embed(given)
    elif given.server:
        with server(given.place) as (address, process):
            given.index = f"milvus:{address}"
            measured = search(given, process)
    else:
        measured = search(given)
    print(json.dumps(measured, indent=1))


@contextmanager
def server(place: Path) -> Iterator[tuple[str, int]]:
    """The address of a Milvus server that runs meanwhile, and the number of its process."""
    ports = list[int]()
    for _ in range(3):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            ports.append(int(one.getsockname()[1]))
    home = place / "server"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    words = [sys.executable, str(Path(__file__).with_name("run_milvus.py")), str(home), *map(str, ports)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        if running.stdout is None or running.stdout.readline() != "ready\n":
            raise SystemExit("the server did not start")
        try:
            yield f"127.0.0.1:{ports[0]}", running.pid
        finally:
            running.terminate()


def memory(process: int) -> int:
    """Bytes in memory of a process and of those that it started."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in listed.splitlines()[1:]]
    own = {process}
    for _ in range(4):
        own |= {pid for pid, parent, _ in rows if parent in own}
    return 1024 * sum(rss for pid, _, rss in rows if pid in own)


def search(given: argparse.Namespace, process: int | None = None) -> dict[str, Any]:
    """The same questions through the exact index and through Milvus."""
    home = given.place / f"made-{given.images}"
    if not home.exists():
        make_collection(home, images=given.images, encoder="mini")
    wherein.index.milvus.SECONDS = PATIENCE  # type: ignore[misc]
    index = given.index or f"milvus:{given.place / 'cluster.db'}"
    before = 0 if process is None else memory(process)
    with wherein.open(home) as collection:
        (pushed,) = collection.push(index, layers=["global"], index_type=given.index_type)
        told(f"pushed {pushed.sent:,} rows in {pushed.seconds:.0f} s")
        rows = {}
        for name, (query, options) in questions(collection).items():
            exact, exact_seconds = timed(collection, query, given.repeats, index="exact", **options)
            found, seconds = timed(collection, query, given.repeats, index=index, **options)
            rows[name] = {"exact_s": exact_seconds, "milvus_s": seconds, **compared(exact, found)}
            told(f"{name}: {rows[name]}")
        loaded = {} if process is None else loaded_memory(index, process, before)
        return {
            "index": "milvus-lite" if process is None else "Milvus server 2.3.5",
            "images": given.images,
            "repeats": given.repeats,
            "pushed_rows_per_s": pushed.sent / pushed.seconds if pushed.sent else None,
            "push_s": pushed.seconds,
            "kind": pushed.kind,
            "recall_at_10": pushed.recall,
            "questions": rows,
            **loaded,
        }


def loaded_memory(index: str, process: int, before: int) -> dict[str, int]:
    """The server's memory: how much more it is than before the push, and than with the collection let go."""
    from pymilvus import MilvusClient

    client = MilvusClient(uri=f"http://{index.removeprefix('milvus:')}")
    (name,) = (name for name in client.list_collections() if name != "wherein_pushed")
    full = memory(process)
    client.release_collection(name)
    time.sleep(10)
    return {"memory_since_push": full - before, "memory_of_loaded": full - memory(process)}


def told(line: str) -> None:
    """Say how far it is."""
    print(line, file=sys.stderr, flush=True)


def questions(collection: wherein.Collection) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Of each kind one."""
    example = collection.thumb(collection.image_ids()[7])
    region = Query((Part(image=example, box=wherein.Box(0.1, 0.1, 0.6, 0.6)),))
    lacking = Query((Part(text="a dog"), Part(text="a cat", negative=True)))
    return {
        "text": ("a red car", {}),
        "region": (region, {}),
        "negative": (lacking, {}),
        "folder of a thousand": ("a red car", {"folder": "0003"}),
        "half of all": ("a red car", {"folder": "0[01]*"}),
    }


def timed(collection: wherein.Collection, query: Any, times: int, **options: Any) -> tuple[wherein.Ranking, float]:
    """An answer, and the median seconds of some more after this first."""
    ranking, seconds = collection.search(query, k=K, **options), list[float]()
    for _ in range(times):
        started = time.perf_counter()
        collection.search(query, k=K, **options)
        seconds.append(time.perf_counter() - started)
    return ranking, statistics.median(seconds)


def compared(exact: wherein.Ranking, found: wherein.Ranking) -> dict[str, Any]:
    """How many of the same images, and how far the scores lie apart."""
    shared = {hit.image_id for hit in exact} & {hit.image_id for hit in found}
    gaps = [abs(a.score - b.score) for a, b in zip(exact, found, strict=True)]
    return {"same": len(shared) / max(1, len(exact)), "largest_gap": float(np.max(gaps, initial=0.0))}


def embed(given: argparse.Namespace) -> dict[str, Any]:
    """The same photographs with threads and with Ray; Ray's start is told apart."""
    from wherein.demo import photos

    source = given.place / "photos"
    files = sorted(path for path in Path(next(iter(photos.__path__))).rglob("*.jpg"))
    source.mkdir(parents=True, exist_ok=True)
    for number in range(given.photos):
        data = files[number % len(files)].read_bytes()
        (source / f"{number:05}.jpg").write_bytes(data + number.to_bytes(4, "big"))  # no two are the same file
    taken = dict[str, float]()
    for executor in ("threads", "ray"):
        home = given.place / executor
        shutil.rmtree(home, ignore_errors=True)
        first = list[float]()
        started = time.perf_counter()
        with wherein.open(home, create=True) as collection:
            told = lambda progress: progress.done and first.append(time.perf_counter())  # noqa: E731, B023
            collection.add(source, executor=executor, on_progress=told)
            info = collection.info()
        taken[f"{executor}_s"] = time.perf_counter() - started
        taken[f"{executor}_first_s"] = first[0] - started
    layers = {layer.kind: layer.bytes_per_image for layer in info.layers}
    return {"photos": given.photos, **taken, "bytes_per_image": layers}


if __name__ == "__main__":
    main()

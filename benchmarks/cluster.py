"""Milvus and Ray beside the local engines, on one collection in one run: the same hits, how fast, how many bytes.

    python benchmarks/cluster.py search --images 200000 --index milvus:127.0.0.1:19530 --place /tmp/cluster
    python benchmarks/cluster.py embed --photos 300 --place /tmp/cluster

`search` makes a collection of made-up embeddings, pushes it, and compares every answer with that of the exact index.
`embed` indexes copies of the demonstration's photographs with threads and with Ray. Each prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import wherein
from made_up import make_collection
from wherein.values.query import Part, Query

K = 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("search", "embed"))
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--photos", type=int, default=300)
    parser.add_argument("--index", default="")
    parser.add_argument("--index-type")
    parser.add_argument("--place", type=Path, required=True)
    given = parser.parse_args()
    measured = search(given) if given.what == "search" else embed(given)
    print(json.dumps(measured, indent=1))


def search(given: argparse.Namespace) -> dict[str, Any]:
    """The same questions through the exact index and through Milvus."""
    home = given.place / f"made-{given.images}"
    if not home.exists():
        make_collection(home, images=given.images, encoder="mini")
    index = given.index or f"milvus:{given.place / 'cluster.db'}"
    with wherein.open(home) as collection:
        (pushed,) = collection.push(index, layers=["global"], index_type=given.index_type)
        rows = {}
        for name, (query, options) in questions(collection).items():
            exact, exact_seconds = timed(collection, query, index="exact", **options)
            found, seconds = timed(collection, query, index=index, **options)
            rows[name] = {"exact_s": exact_seconds, "milvus_s": seconds, **compared(exact, found)}
        return {
            "images": given.images,
            "pushed_rows_per_s": pushed.sent / pushed.seconds if pushed.sent else None,
            "kind": pushed.kind,
            "recall_at_10": pushed.recall,
            "questions": rows,
        }


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


def timed(collection: wherein.Collection, query: Any, **options: Any) -> tuple[wherein.Ranking, float]:
    """An answer, and the median of five after a first."""
    ranking, seconds = collection.search(query, k=K, **options), list[float]()
    for _ in range(5):
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

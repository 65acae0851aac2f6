"""A layer → Milvus: what is new or changed is sent in batches, what has gone is deleted; a second push does nothing.

One row of Milvus is one row of the layer: its image by the catalogue's number, the cell it describes and its box, and
for those who ask Milvus themselves the image_id, folder, date and tags.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from wherein.arrays import Floats, Ints, unit
from wherein.errors import InputError
from wherein.index.exact import ExactRows
from wherein.index.milvus import MilvusRows
from wherein.index.milvus.pushed import Pushed, name_of, signatures
from wherein.index.milvus.server import PUSH_SECONDS, Milvus, connect
from wherein.index.rows import Origin, RowTable
from wherein.values.records import Facts, PushReport

TYPES: Final = ("FLAT", "IVF_FLAT", "IVF_SQ8", "HNSW")
"""The types of index that can be chosen: every row, lists of rows, lists of 8-bit rows, a graph."""
FLAT_ROWS: Final = 50_000
"""Up to so many rows every one is compared, which takes tens of milliseconds and misses nothing; beyond, IVF_SQ8."""
RECALL: Final = 0.999
"""The share of the best ten images that must be found before no more lists are looked at. Of the 480 hits that it is
measured with none may be missed: 479 are 0.998."""
_ROWS_A_SECOND: Final = 1_000
"""Rows that a server writes out, indexes or loads in a second at least: on two busy cores it takes in 1,500."""
_BATCH_BYTES: Final = 8 << 20
"""Bytes of embeddings sent at a time; a server refuses messages beyond 64 MB."""
_QUERIES: Final = 48
"""Queries that recall is measured with: 480 hits, so that one missed is a fifth of a percent."""
_DEPTH: Final = 10
"""Best images of each query that recall is measured with."""
_LONGEST: Final = 8192
"""Bytes of the longest text that is sent; paths end at 4,096."""
_TAGS: Final = 256
"""Tags of an image that are sent at most; wherein itself reads them here, those who ask Milvus miss the others."""
_TAG_BYTES: Final = 512
"""Bytes of a tag that are sent at most. Milvus allows 65,535, and reserves what is declared."""
Tell = Callable[[int, int], None]
"""Is told how many rows of how many are done."""


@dataclass(frozen=True, slots=True)
class PushedLayer:
    """What is pushed: the whole of a layer, and what else is told of its images."""

    table: RowTable
    origin: Origin
    facts: Callable[[Sequence[int]], dict[int, Facts]]
    """By the catalogue's keys."""


def push(source: PushedLayer, address: str, *, kind: str | None = None, tell: Tell = lambda *_: None) -> PushReport:
    """Make Milvus hold what the layer holds now, and measure how much of the best it finds."""
    started = time.monotonic()
    if kind is not None and kind not in TYPES:
        raise InputError(f"{kind!r} is no type of index that can be chosen: give one of {', '.join(TYPES)}.")
    milvus, name = connect(address, create=True), name_of(source.origin)
    known = Pushed.read(milvus, name)
    before = Pushed() if known is None else known
    if known is None:
        _make(milvus, name, source.table)
    else:
        milvus.load(name, seconds=PUSH_SECONDS)
    now = {shard: (own, _told(source, shard)) for shard, own in signatures(source.origin).items()}
    changed = [shard for shard, own in now.items() if before.shards.get(shard) != own]
    gone = set(before.shards) - set(now)
    kept = int((~np.isin(source.origin.rows[:, 1], changed)).sum())
    replace(before, rows=kept).without({*changed, *gone}).write(milvus, name)
    sent = removed = 0
    total = len(source.origin.rows) - kept
    for shard in changed:
        keys = set[str]()
        for rows in _batches(source, shard):
            with milvus.told("cannot be written to"):
                milvus.client.upsert(name, rows, timeout=PUSH_SECONDS)
            keys.update(row["key"] for row in rows)
            sent += len(rows)
            tell(sent, total)
        if shard in before.shards:
            removed += _delete_others(milvus, name, shard, keys)
    for shard in sorted(gone):
        removed += _delete_others(milvus, name, shard, set())
    after = _indexed(milvus, name, replace(before, rows=len(source.origin.rows), shards=now), kind, sent + removed)
    after.write(milvus, name)
    if sent or removed or kind is not None or not after.recall:
        after = _measured(source.table, address, after, milvus, name)
    return PushReport(source.origin.layer, sent, removed, after.rows, after.kind, after.recall, _seconds(started))


def _seconds(started: float) -> float:
    return time.monotonic() - started


def _make(milvus: Milvus, name: str, table: RowTable) -> None:
    """An empty collection in place of one of which nobody knows what it holds."""
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("key", DataType.VARCHAR, max_length=64, is_primary=True)
    for field in ("image", "shard", "cell"):
        schema.add_field(field, DataType.INT64)
    schema.add_field("taken", DataType.DOUBLE)
    for field in ("image_id", "folder", "box"):
        schema.add_field(field, DataType.VARCHAR, max_length=_LONGEST)
    tags = {"element_type": DataType.VARCHAR, "max_capacity": _TAGS, "max_length": _TAG_BYTES}
    schema.add_field("tags", DataType.ARRAY, **tags)
    dim = table.gather(np.zeros(1, np.int64)).shape[1]
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
    with milvus.told("cannot be written to"):
        if milvus.client.has_collection(name, timeout=PUSH_SECONDS):
            milvus.client.drop_collection(name, timeout=PUSH_SECONDS)
        milvus.client.create_collection(name, schema=schema, consistency_level="Bounded", timeout=PUSH_SECONDS)


def _batches(source: PushedLayer, shard: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of a shard as Milvus takes them."""
    places = source.table.places
    mine = np.flatnonzero(places.rows[:, 1] == shard)
    facts = source.facts(places.rows[mine, 0].tolist())
    width = 4 * source.table.gather(mine[:1]).shape[1]
    step = max(1, _BATCH_BYTES // width)
    for start in range(0, len(mine), step):
        some = mine[start : start + step]
        vectors = source.table.gather(some)
        yield [_row(source.table, place, vector, facts) for place, vector in zip(some.tolist(), vectors, strict=True)]


def _row(table: RowTable, place: int, vector: Floats, facts: dict[int, Facts]) -> dict[str, Any]:
    image, shard, row = table.places.rows[place].tolist()
    box, told = table.places.boxes[place], facts[image]
    return {
        "key": f"{shard}.{row}.{image}",
        "image": image,
        "shard": shard,
        "cell": place - int(table.starts[table.places.owners[place]]),
        "box": "" if box is None else str(box),
        "image_id": _cut(told.image_id, _LONGEST),
        "folder": _cut(told.image_id.rpartition("/")[0], _LONGEST),
        "taken": told.taken,
        "tags": [_cut(tag, _TAG_BYTES) for tag in told.tags[:_TAGS]],
        "vector": vector,
    }


def _cut(text: str, most: int) -> str:
    """A text of at most so many bytes of UTF-8."""
    return text.encode("utf-8", "backslashreplace")[:most].decode("utf-8", "ignore")


def _told(source: PushedLayer, shard: int) -> str:
    """A hash of the facts of a shard's images: another one where any of them changed."""
    images = np.unique(source.origin.rows[source.origin.rows[:, 1] == shard, 0]).tolist()
    facts = sorted(source.facts(images).items())
    return hashlib.blake2b(repr(facts).encode("utf-8", "backslashreplace"), digest_size=6).hexdigest()


def _delete_others(milvus: Milvus, name: str, shard: int, keys: set[str]) -> int:
    """Delete the rows of a shard but those; returns how many."""
    held = {str(row["key"]) for row in milvus.query(name, f"shard == {shard}", ["key"])}
    gone = sorted(held - keys)
    if gone:
        with milvus.told("cannot be written to"):
            milvus.client.delete(name, ids=gone, timeout=PUSH_SECONDS)
    return len(gone)


def _indexed(milvus: Milvus, name: str, pushed: Pushed, kind: str | None, changes: int) -> Pushed:
    """Build the index of the wanted type, or let the server add what is new to the one it has; load it."""
    wanted = kind or ("FLAT" if pushed.rows <= FLAT_ROWS else pushed.kind if pushed.kind != "FLAT" else "") or "IVF_SQ8"
    client, patience = milvus.client, PUSH_SECONDS + pushed.rows / _ROWS_A_SECOND
    lists = min(65_536, max(16, 4 * math.isqrt(pushed.rows))) if wanted.startswith("IVF") else 0
    # An index is dealt out anew when it has grown fourfold: lists that are twice as long as meant cost as much again.
    if wanted != pushed.kind or lists > 2 * max(pushed.lists, 1):
        building = {"nlist": lists} if lists else {"M": 16, "efConstruction": 200} if wanted == "HNSW" else {}
        with milvus.told("cannot be indexed"):
            if client.list_indexes(name, timeout=PUSH_SECONDS):
                client.release_collection(name, timeout=PUSH_SECONDS)
                client.drop_index(name, "vector", timeout=PUSH_SECONDS)
            params = client.prepare_index_params()
            params.add_index("vector", index_type=wanted, metric_type="IP", params=building)
            client.flush(name, timeout=patience)
            client.create_index(name, params, timeout=patience)
        pushed = replace(pushed, kind=wanted, lists=lists, probes=0, recall=0.0)
    elif changes:
        with milvus.told("cannot be written to"):
            client.flush(name, timeout=patience)
    milvus.load(name, seconds=patience)
    return pushed


def _measured(table: RowTable, address: str, pushed: Pushed, milvus: Milvus, name: str) -> Pushed:
    """Look at more and more lists until nearly all of the best are found, and remember how many that were."""
    queries = _questions(table)
    truth = [set(top.images.tolist()) for top in ExactRows(table).top(queries, k=_DEPTH)]
    for probes in _probes(pushed):
        pushed = replace(pushed, probes=probes)
        pushed.write(milvus, name)
        index = MilvusRows(table, address, patience=PUSH_SECONDS)  # nobody waits for an answer
        shared = list[int]()
        for query, own in zip(queries, truth, strict=True):  # one at a time, as searches ask: each has its seconds
            (found,) = index.top(query[None], k=_DEPTH)
            shared.append(len(own & set(found.images.tolist())))
        pushed = replace(pushed, recall=sum(shared) / max(1, sum(map(len, truth))))
        if pushed.recall >= RECALL:
            break
    pushed.write(milvus, name)
    return pushed


def _probes(pushed: Pushed) -> list[int]:
    """From few lists, or a narrow search of a graph, to all."""
    if pushed.lists:
        return [*(probes for probes in (16, 64, 256, 1024) if probes < pushed.lists), pushed.lists]
    return [64, 256, 1024] if pushed.kind == "HNSW" else [0]


def _questions(table: RowTable) -> Floats:
    """(m, d): rows of the layer, each moved a little: what people look for lies near what there is."""
    random = np.random.default_rng(0)
    chosen: Ints = random.integers(0, len(table), _QUERIES)
    rows = table.gather(chosen)
    noise = random.standard_normal(rows.shape) / math.sqrt(rows.shape[1])
    return unit(np.asarray(rows + noise, np.float32))

"""What of a layer lies in Milvus: said there, shard by shard, so that every reader knows what it may rely on.

Shards never change, so a signature of a shard's rows says whether Milvus has them as they are. A shard that is being
pushed has none: until it is whole, its rows are compared here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from wherein.errors import IndexUnavailable
from wherein.index.milvus.server import PUSH_SECONDS, Milvus

if TYPE_CHECKING:
    from wherein.index.rows import Origin

STATE: Final = "wherein_pushed"
"""The collection of a server that says what lies in its other ones."""
_PART_SHARDS: Final = 1000
"""Shards that one row of it tells of: 40 bytes each, and a text of Milvus ends at 65,535."""
_UNFINISHED: Final = ""
"""The signature of a shard that is still being pushed: no shard that is whole has it."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """What was pushed of one layer, and how it is searched."""

    rows: int = 0
    kind: str = ""
    """The type of index, as Milvus calls it: FLAT, IVF_SQ8, …"""
    lists: int = 0
    """Of an IVF index, into how many lists its rows are dealt out."""
    probes: int = 0
    """How many of them are looked at, or how wide a graph is searched."""
    recall: float = 0.0
    """The share of the best ten images that it finds, measured when it was pushed."""
    shards: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Of each shard the signatures of its rows and of what else is told of its images; empty while it is pushed."""

    def without(self, shards: set[int]) -> Self:
        """The same, some shards unfinished."""
        unfinished = dict.fromkeys(sorted(shards), (_UNFINISHED, _UNFINISHED))
        return replace(self, shards={**self.shards, **unfinished})

    @classmethod
    def read(cls, milvus: Milvus, name: str) -> Self | None:
        """What a server says of one of its collections; None where it was never pushed."""
        if not milvus.has(STATE) or not milvus.has(name):
            return None
        milvus.load(STATE)
        parts = milvus.query(STATE, f'name == "{name}"', ["part", "text"])
        if not parts:
            return None
        try:
            found = [json.loads(one["text"]) for one in sorted(parts, key=lambda one: int(one["part"]))]
            shards = {int(shard): (str(a), str(b)) for one in found[1:] for shard, (a, b) in one.items()}
            if found[0]["parts"] != len(found):
                raise ValueError("parts of it are missing")
            return cls(**{key: value for key, value in found[0].items() if key != "parts"}, shards=shards)
        except (ValueError, TypeError, KeyError) as error:
            raise IndexUnavailable(
                f"milvus:{milvus.address}: what it says of {name} cannot be understood ({error}). Push again."
            ) from error

    def write(self, milvus: Milvus, name: str) -> None:
        """Say so on the server."""
        shards = sorted(self.shards.items())
        several = [dict(shards[start : start + _PART_SHARDS]) for start in range(0, len(shards), _PART_SHARDS)]
        head = {"rows": self.rows, "kind": self.kind, "lists": self.lists, "probes": self.probes, "recall": self.recall}
        texts = [json.dumps(head | {"parts": 1 + len(several)}), *map(json.dumps, several)]
        rows = [
            {"key": f"{name}/{part}", "name": name, "part": part, "text": text, "vector": [0.0, 0.0]}
            for part, text in enumerate(texts)
        ]
        _make_state(milvus)
        with milvus.told("cannot be written to"):
            milvus.client.upsert(STATE, rows, timeout=PUSH_SECONDS)
            beyond = milvus.query(STATE, f'name == "{name}" and part >= {len(rows)}', ["key"])
            if beyond:
                milvus.client.delete(STATE, ids=[one["key"] for one in beyond], timeout=PUSH_SECONDS)


def name_of(origin: Origin) -> str:
    """What a layer of a collection is called in Milvus, where names are letters, digits and underscores."""
    layer = hashlib.blake2b(origin.layer.encode(), digest_size=6).hexdigest()
    return f"wherein_{origin.collection}_{layer}"


def signatures(origin: Origin) -> dict[int, str]:
    """Of each shard of a layer, a hash of its living rows and of its bytes: another one where any of them changed."""
    order = np.lexsort((origin.rows[:, 0], origin.rows[:, 2], origin.rows[:, 1]))
    rows = origin.rows[order]
    shards, starts = np.unique(rows[:, 1], return_index=True)
    found = {}
    for shard, own in zip(shards.tolist(), np.split(rows, starts[1:]), strict=True):
        told = own[:, [0, 2]].tobytes() + origin.checksums[shard].to_bytes(8, "little", signed=True)
        found[shard] = hashlib.blake2b(told, digest_size=6).hexdigest()
    return found


def _make_state(milvus: Milvus) -> None:
    if milvus.has(STATE):
        return
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("key", DataType.VARCHAR, max_length=256, is_primary=True)
    schema.add_field("name", DataType.VARCHAR, max_length=256)
    schema.add_field("part", DataType.INT64)
    schema.add_field("text", DataType.VARCHAR, max_length=65_535)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)  # a collection of Milvus needs one
    with milvus.told("cannot be written to"):
        params = milvus.client.prepare_index_params()
        params.add_index("vector", index_type="FLAT", metric_type="IP", params={})
        milvus.client.create_collection(STATE, schema=schema, index_params=params, timeout=PUSH_SECONDS)

"""Rows as short codes: a rotation, clusters, and one bit a dimension or more (RaBitQ, by faiss), scanned with SIMD.

Codes are kept in segments, each of some shards of a layer, because shards never change: what is new becomes a segment
of its own, and small segments are made into one as they add up, so that adding costs in proportion to what is new.
"""

from __future__ import annotations

import json
import math
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.files import write_durably
from wherein.sums import crc_name, is_as_it_says, summed

BITS: Final = 1
"""Bits a dimension unless others are asked for: exact scores of a few thousand rows make up for what they lose, and
more bits were scanned several times slower (docs/decisions.md)."""
MOST_BITS: Final = 9
"""The most bits that faiss packs."""
_MOST_CLUSTERS: Final = 1024
"""More clusters cost more to train and to compare with than they save, up to ten million rows."""
_TRAINED_ON: Final = 64
"""Rows a cluster is trained on: faiss asks for 39 and uses up to 256, and more changes recall by under 0.1 %."""
_ENCODED: Final = 1 << 16
"""Rows encoded at a time: 200 MB as float32 at 768 dimensions."""
_QUERY_BITS: Final = 8
"""Bits of each number of a query: as many as the scan's tables hold."""
_FORMAT: Final = 1
"""The version of what is written; another is made anew."""

ReadShard = Callable[[int], Floats]
"""The rows (n, d) of a shard as float32."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The codes of some shards."""

    shards: tuple[tuple[int, int], ...]
    """(shard, its rows), in the order in which the rows are numbered"""
    index: Any
    """A faiss index; its ids are the numbers of the rows"""

    @property
    def rows(self) -> int:
        """How many rows it holds, those of deleted images included."""
        return sum(rows for _, rows in self.shards)

    def search(self, query: Floats, *, count: int, clusters: int, only: Any) -> tuple[Ints, Floats]:
        """The numbers of about `count` best rows in the nearest `clusters`, with their estimated scores."""
        import faiss

        inner, parameters = faiss.IVFRaBitQSearchParameters(), faiss.SearchParametersPreTransform()
        inner.nprobe, inner.qb, parameters.index_params = clusters, _QUERY_BITS, inner
        if only is not None:
            inner.sel = only
        faiss.omp_set_num_threads(1)  # of this thread: one query is too short to be worth waking others for
        scores, numbers = self.index.search(query[None], min(count, self.rows), params=parameters)
        found = numbers[0] >= 0
        return numbers[0][found], scores[0][found]


@dataclass(frozen=True, slots=True)
class Tuning:
    """How many clusters a search must scan to find what it should, and the recall when that was measured."""

    clusters: int
    """How many of the nearest clusters are scanned."""
    recall: float | None = None
    """The share of the best 100 images that was found, over the queries it was measured with."""
    rows: int = 0
    """How many rows there were then."""


@dataclass(slots=True)
class Codes:
    """The codes of a layer's rows."""

    trained: bytes
    """The empty faiss index, serialised: rotation and clusters"""
    clusters: int
    segments: list[Segment] = field(default_factory=list)
    tuning: Tuning = field(default_factory=lambda: Tuning(1))
    bits: int = BITS

    @classmethod
    def train(cls, sample: Floats, *, rows: int, bits: int = BITS) -> Codes:
        """Clusters and a rotation from a sample (n, d) of the `rows` that will be added."""
        import faiss

        dim, clusters = sample.shape[1], clusters_for(rows)
        rotation, coarse = faiss.RandomRotationMatrix(dim, dim), faiss.IndexFlatIP(dim)
        inner = faiss.IndexIVFRaBitQFastScan(coarse, dim, clusters, faiss.METRIC_INNER_PRODUCT, 32, True, bits)
        inner.cp.min_points_per_centroid, inner.cp.niter, inner.cp.seed = 1, 10, 0
        index = faiss.IndexPreTransform(rotation, inner)
        index.train(np.ascontiguousarray(sample))
        return cls(faiss.serialize_index(index).tobytes(), clusters, tuning=Tuning(clusters), bits=bits)

    @property
    def covered(self) -> frozenset[int]:
        """The shards that have codes."""
        return frozenset(shard for segment in self.segments for shard, _ in segment.shards)

    def encode(self, shards: Sequence[int], read: ReadShard) -> Segment:
        """A segment of some shards."""
        import faiss

        index = faiss.deserialize_index(np.frombuffer(self.trained, np.uint8))
        sizes = list[tuple[int, int]]()
        for shard in shards:
            rows = read(shard)
            for some in range(0, len(rows), _ENCODED):
                index.add(np.ascontiguousarray(rows[some : some + _ENCODED], np.float32))
            sizes.append((shard, len(rows)))
        return Segment(tuple(sizes), index)


def clusters_for(rows: int) -> int:
    """How many clusters that many rows are divided into: about the root, a power of two, if each has enough rows."""
    root = 1 << max(0, round(math.log2(max(1.0, math.sqrt(rows)))))
    enough = 1 << max(0, (rows // _TRAINED_ON).bit_length() - 1)
    return min(_MOST_CLUSTERS, root, enough)


def training_rows(rows: int) -> int:
    """How many rows a training needs at most."""
    return _TRAINED_ON * clusters_for(rows)


def due(segments: Sequence[Segment], live: Sequence[tuple[int, int]]) -> tuple[list[Segment], list[int]]:
    """(segments to keep, shards to encode as one new segment), given the (shard, rows) there are now.

    A segment whose shards are gone is given up. A new segment takes in older ones that are no larger than what it has
    so far, as counting in binary does: a row is encoded again at most once each time the collection doubles.
    """
    present = dict(live)
    kept = [own for own in segments if all(present.get(shard) == rows for shard, rows in own.shards)]
    covered = {shard for own in kept for shard, _ in own.shards}
    new = [shard for shard in present if shard not in covered]
    total = sum(present[shard] for shard in new)
    for own in sorted(kept, key=lambda own: own.rows) if new else ():
        if own.rows > total:
            break
        kept.remove(own)
        total += own.rows
        new += [shard for shard, _ in own.shards]
    return kept, sorted(new)


def codes_folder(derived: Path, layer: str) -> Path:
    """Where the codes of a layer are kept, below what is derived from a collection."""
    return derived / layer / "codes"


class SelectedRows:
    """Which rows of a segment a scan may return, as faiss reads it."""

    def __init__(self, allowed: Mask) -> None:
        import faiss

        self._bits = np.packbits(allowed, bitorder="little")
        self.selector = faiss.IDSelectorBitmap(len(self._bits), faiss.swig_ptr(self._bits))


class CodeFiles:
    """The codes of a layer on disk: a list, written last, of files that are whole; anything else there is ignored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> Codes | None:
        """The codes that are kept; None where there are none, or where a file is missing or was changed."""
        import faiss

        try:
            listed: dict[str, Any] = json.loads((self.folder / "codes.json").read_text("utf-8"))
            if listed["format"] != _FORMAT or not is_as_it_says(self.folder / "codes.json"):
                return None
            segments = [
                Segment(
                    tuple((int(shard), int(rows)) for shard, rows in one["shards"]),
                    faiss.deserialize_index(np.frombuffer(self._checked(one), np.uint8)),
                )
                for one in listed["segments"]
            ]
            trained = self._checked(listed["trained"])
            return Codes(trained, int(listed["clusters"]), segments, Tuning(**listed["tuning"]), int(listed["bits"]))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            return None

    def tuning(self) -> tuple[Tuning, int, int] | None:
        """(what was measured, bits a dimension, bytes on disk) without reading the codes; None where none are kept."""
        try:
            listed = json.loads((self.folder / "codes.json").read_text("utf-8"))
            size = sum(path.stat().st_size for path in self.folder.iterdir())
            return Tuning(**listed["tuning"]), int(listed["bits"]), size
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, codes: Codes) -> None:
        """Keep codes; segments that are kept already are not written again."""
        import faiss

        known = {tuple(map(tuple, one["shards"])): one for one in self._listed() if self._is_whole(one)}
        self.folder.mkdir(parents=True, exist_ok=True)
        trained = self._put(codes.trained)
        segments = []
        for own in codes.segments:
            kept = known.get(own.shards)
            if kept is None or kept.get("trained") != trained["file"]:
                kept = {**self._put(faiss.serialize_index(own.index).tobytes()), "shards": own.shards}
            segments.append({**kept, "trained": trained["file"]})
        listed = {
            "format": _FORMAT,
            "bits": codes.bits,
            "clusters": codes.clusters,
            "tuning": asdict(codes.tuning),
            "trained": trained,
            "segments": segments,
        }
        write_durably(self.folder / "codes.json", summed(listed))
        named = {"codes.json", trained["file"], *(str(one["file"]) for one in segments)}
        for path in self.folder.iterdir():
            if path.name not in named:
                path.unlink(missing_ok=True)

    def drop(self) -> None:
        """Forget the codes: first the list, so that no list names what is gone."""
        (self.folder / "codes.json").unlink(missing_ok=True)
        for path in self.folder.glob("*.faiss"):
            path.unlink(missing_ok=True)

    def _listed(self) -> Iterator[dict[str, Any]]:
        try:
            yield from json.loads((self.folder / "codes.json").read_text("utf-8"))["segments"]
        except (OSError, ValueError, KeyError, TypeError):
            return

    def _put(self, data: bytes) -> dict[str, Any]:
        crc, name = zlib.crc32(data), crc_name(data, ".faiss")
        if not self._is_whole({"file": name, "crc": crc}):
            write_durably(self.folder / name, data)
        return {"file": name, "crc": crc}

    def _checked(self, one: dict[str, Any]) -> bytes:
        data = (self.folder / str(one["file"])).read_bytes()
        if zlib.crc32(data) != one["crc"]:
            raise ValueError(f"{one['file']} was changed")
        return data

    def _is_whole(self, one: dict[str, Any]) -> bool:
        try:
            return bool(self._checked(one))
        except (OSError, ValueError, KeyError):
            return False


_READ: Final = dict[Path, tuple[tuple[int, int], Codes]]()
_TURN: Final = threading.Lock()


def write_codes(folder: Path, codes: Codes) -> None:
    """Keep codes in a folder, and in this process, which need not read them again."""
    CodeFiles(folder).write(codes)
    stamp = _stamp(folder)
    if stamp is not None:
        with _TURN:
            _READ[folder] = (stamp, codes)


def _stamp(folder: Path) -> tuple[int, int] | None:
    try:
        status = (folder / "codes.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def read_codes(folder: Path) -> Codes | None:
    """The codes of a folder, read once per process for as long as they stay the same; not to be changed."""
    stamp = _stamp(folder)
    if stamp is None:
        return None
    with _TURN:
        known = _READ.get(folder)
        if known is not None and known[0] == stamp:
            return known[1]
        codes = CodeFiles(folder).read()
        if codes is not None:
            _READ[folder] = (stamp, codes)
        return codes

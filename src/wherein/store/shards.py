"""Immutable arrays on disk. A shard is written under another name, synced, renamed: it is whole or absent."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wherein.errors import CollectionCorrupt
from wherein.files import write_durably
from wherein.store.seals import seal_of

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Written:
    """What the catalogue must know to verify a shard later."""

    rows: int
    bytes: int
    crc: int


def write_array(path: Path, rows: Array, *, labels: Any = None) -> Written:
    """Write one array, (n, …), as a shard; with labels every row has a checksum of its own."""
    body = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
    step = rows.nbytes // len(rows) if len(rows) else 0
    cuts = range(0, rows.nbytes + 1, step) if step else [0] * (len(rows) + 1)
    return _write(path, _head(rows.dtype, rows.shape), body, cuts, labels=labels)


def write_blobs(path: Path, blobs: Sequence[bytes], *, labels: Any = None) -> Written:
    """Write byte strings of any lengths as a shard: n + 1 offsets (int64), then the bytes."""
    offsets = _offsets(blobs)
    head = _head(np.dtype(np.uint8), (int(offsets[-1]),)) + offsets.tobytes()
    cuts = (offsets - offsets[0]).tolist()
    return _write(path, head, memoryview(b"".join(blobs)), cuts, labels=labels)


def _head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """How numpy describes an array at the beginning of its file."""
    buffer = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


def _offsets(blobs: Sequence[bytes]) -> npt.NDArray[np.int64]:
    """Where each byte string begins, and the last ends, behind these offsets themselves."""
    return np.cumsum([8 * (len(blobs) + 1), *map(len, blobs)], dtype=np.int64)


def as_blobs(blobs: Sequence[bytes]) -> Array:
    """Byte strings as one flat array, which `read_blob` takes apart again."""
    return np.frombuffer(_offsets(blobs).tobytes() + b"".join(blobs), np.uint8)


def read_array(path: Path) -> Array:
    """Map a shard into memory; nothing is read before it is used."""
    try:
        rows: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CollectionCorrupt(f"{path}: cannot be read ({error}). Run `wherein check` to mend it.") from error
    return rows.view(np.ndarray)  # indexing a plain array costs less than a mapped one


def read_blob(flat: Array, *, rows: int, row: int) -> bytes:
    """Byte string `row` of a blob shard of `rows`."""
    offsets = np.frombuffer(flat[: 8 * (rows + 1)].tobytes(), np.int64)
    return flat[offsets[row] : offsets[row + 1]].tobytes()


def intact(path: Path, written: Written) -> bool:
    """Whether the shard's bytes are those that were written."""
    try:
        crc, size, _ = checksum(path)
    except OSError:
        return False
    return crc == written.crc and size == written.bytes


def is_whole(path: Path) -> bool:
    """Whether an array's file is as long as its head says."""
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        return bool(path.stat().st_size == mapped.offset + mapped.nbytes)
    except (OSError, ValueError, EOFError):
        return False


def checksum(path: Path, *, until: int = 0) -> tuple[int, int, int]:
    """(checksum of a file, how many bytes it has, checksum of its first `until` bytes)."""
    crc, size, first = 0, 0, 0
    with path.open("rb") as file:
        while piece := file.read(min(1 << 20, until - size) if size < until else 1 << 20):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
            first = crc if size == until else first
    return crc, size, first


def _write(path: Path, head: bytes, body: memoryview, cuts: Sequence[int], *, labels: Any) -> Written:
    """Write what describes the rows, the rows, which are parted at `cuts` of `body`, and their seal."""
    crc = zlib.crc32(body, zlib.crc32(head))
    rows = [] if labels is None else [body[a:b] for a, b in pairwise(cuts)]
    seal = seal_of(head, rows, size=len(head) + len(body), crc=crc, labels=labels)
    write_durably(path, head, body, seal)  # none of them is copied: a shard may have hundreds of megabytes
    return Written(len(cuts) - 1, len(head) + len(body) + len(seal), zlib.crc32(seal, crc))


def as_floats(stored: Array) -> npt.NDArray[np.float32]:
    """Stored rows as numbers: int8 and float16 back to float32."""
    return np.asarray(stored, np.float32) * unit_of(stored)


def unit_of(stored: Array) -> np.float32:
    """The number that a stored 1 stands for: 1/127 in int8, which stores 1.0 as 127; 1 in every other type."""
    return np.float32(1 / 127 if stored.dtype == np.int8 else 1)

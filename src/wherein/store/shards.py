"""Immutable arrays on disk. A shard is written under another name, synced, renamed: it is whole or absent."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
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
    data, head = _as_file(rows)
    step = rows.nbytes // len(rows) if len(rows) else 0
    ends = [] if labels is None else [head + step * (row + 1) for row in range(len(rows))]
    return _write(path, data, len(rows), head=head, ends=ends, labels=labels)


def write_blobs(path: Path, blobs: Sequence[bytes], *, labels: Any = None) -> Written:
    """Write byte strings of any lengths as a shard: n + 1 offsets (int64), then the bytes."""
    data, head = _as_file(as_blobs(blobs))
    offsets = np.cumsum([head + 8 * (len(blobs) + 1), *map(len, blobs)]).tolist()
    ends = [] if labels is None else offsets[1:]
    return _write(path, data, len(blobs), head=offsets[0], ends=ends, labels=labels)


def _as_file(rows: Array) -> tuple[memoryview, int]:
    """An array as numpy writes it, and where its numbers begin."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(rows), allow_pickle=False)
    data = buffer.getbuffer()
    return data, len(data) - rows.nbytes


def as_blobs(blobs: Sequence[bytes]) -> Array:
    """Byte strings as one flat array, which `read_blob` takes apart again."""
    offsets = np.cumsum([8 * (len(blobs) + 1), *map(len, blobs)], dtype=np.int64)
    return np.frombuffer(offsets.tobytes() + b"".join(blobs), np.uint8)


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
    """(checksum of a file, its bytes, checksum of its first bytes `until` somewhere)."""
    crc, size, first = 0, 0, 0
    with path.open("rb") as file:
        while piece := file.read(min(1 << 20, until - size) if size < until else 1 << 20):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
            first = crc if size == until else first
    return crc, size, first


def _write(path: Path, data: memoryview, rows: int, *, head: int, ends: Sequence[int], labels: Any) -> Written:
    crc = zlib.crc32(data)
    seal = seal_of(data, crc=crc, head=head, ends=ends, labels=labels)
    write_durably(path, data, seal)
    return Written(rows, len(data) + len(seal), zlib.crc32(seal, crc))


def as_floats(stored: Array) -> npt.NDArray[np.float32]:
    """Stored rows as numbers: int8 and float16 back to float32."""
    return np.asarray(stored, np.float32) * unit_of(stored)


def unit_of(stored: Array) -> np.float32:
    """What the number 1 is stored as: int8 keeps numbers as shares of the largest, which is 127."""
    return np.float32(1 / 127 if stored.dtype == np.int8 else 1)

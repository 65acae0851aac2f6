"""Immutable arrays on disk. A shard is written under another name, synced, renamed: it is whole or absent."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wherein.errors import CollectionCorrupt
from wherein.files import write_durably

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Written:
    """What the catalogue must know to verify a shard later."""

    rows: int
    bytes: int
    crc: int


def write_array(path: Path, rows: Array) -> Written:
    """Write one array, (n, …), as a shard."""
    buffer = io.BytesIO()
    np.save(buffer, rows, allow_pickle=False)
    return _write(path, buffer.getbuffer(), len(rows))


def write_blobs(path: Path, blobs: Sequence[bytes]) -> Written:
    """Write byte strings of any lengths as a shard: n + 1 offsets (int64), then the bytes."""
    written = write_array(path, as_blobs(blobs))
    return Written(len(blobs), written.bytes, written.crc)


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
    crc, size = 0, 0
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                crc, size = zlib.crc32(piece, crc), size + len(piece)
    except OSError:
        return False
    return crc == written.crc and size == written.bytes


def _write(path: Path, data: memoryview, rows: int) -> Written:
    write_durably(path, data)
    return Written(rows, len(data), zlib.crc32(data))


def as_floats(stored: Array) -> npt.NDArray[np.float32]:
    """Stored rows as numbers: int8 and float16 back to float32."""
    return np.asarray(stored, np.float32) * unit_of(stored)


def unit_of(stored: Array) -> np.float32:
    """What one counts for in stored numbers: int8 holds 127ths of the largest."""
    return np.float32(1 / 127 if stored.dtype == np.int8 else 1)

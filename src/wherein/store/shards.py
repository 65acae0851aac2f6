"""Immutable arrays on disk. A shard is written under another name, synced, renamed: it is whole or absent."""

from __future__ import annotations

import errno
import io
import os
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from wherein.errors import CollectionCorrupt, InputError, StorageFull

Array = npt.NDArray[np.generic]
_T = TypeVar("_T")
_R = TypeVar("_R")
TEMPORARY: Final = ".tmp"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class Written:
    """What the catalogue must know to verify a shard later."""

    rows: int
    bytes: int
    crc: int


@contextmanager
def full_disk_told(where: Path) -> Iterator[None]:
    """Turn the many faces of a full disk into one StorageFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise storage_full(where, error) from error


@contextmanager
def unwritable_told(where: Path) -> Iterator[None]:
    """What a person named to be written cannot be: that is bad input, with its reason."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{where}: cannot be written ({error.strerror}). Choose another place.") from error


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


def default_workers() -> int:
    """As many as the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_parallel(look: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """What `look` answers for each shard or file, in their order; a thread a core, for what leaves Python's lock."""
    with ThreadPoolExecutor(default_workers()) as pool:
        return list(pool.map(look, items))


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


def write_durably(path: Path, data: bytes | memoryview) -> None:
    """Replace a file in one step: after a crash it holds either the old bytes or all the new ones."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # Its own for every call: threads of one process may write the same file at once, and the last one stays.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
    with full_disk_told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, data: memoryview, rows: int) -> Written:
    write_durably(path, data)
    return Written(rows, len(data), zlib.crc32(data))


def storage_full(where: Path, error: Exception) -> StorageFull:
    """The error of a disk that took no more bytes."""
    return StorageFull(
        f"{where}: the disk took no more bytes ({error}). Everything committed before is safe: "
        "free some space, then run the same command again and it goes on from there."
    )


def as_floats(stored: Array) -> npt.NDArray[np.float32]:
    """Stored rows as numbers: int8 and float16 back to float32."""
    return np.asarray(stored, np.float32) * unit_of(stored)


def unit_of(stored: Array) -> np.float32:
    """What one counts for in stored numbers: int8 holds 127ths of the largest."""
    return np.float32(1 / 127 if stored.dtype == np.int8 else 1)

"""The seal of an array's file: checksums of its rows, what each row is of, and a copy of the head.

    head | rows | labels | sums | footer | footer

The head is how numpy describes the array, and of byte strings also where each begins. numpy reads head and rows and
never looks further, so that files with and without a seal are read alike. The footer is there twice, because it is
what tells the rest apart: no single damaged byte hides which row it is in.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

_MAGIC: Final = b"wherein\x01"
_FIELDS: Final = struct.Struct("<8sQQQIII")
_OWN: Final = struct.Struct("<I")
_FOOTER: Final = _FIELDS.size + _OWN.size
_LENGTH: Final = struct.Struct("<Q")
_DEEPEST: Final = 1 << 28
"""Bytes of labels that are unpacked at most, far above those of the largest shard: a stranger's file may claim more."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What stands behind the rows of an array's file."""

    data_bytes: int
    """Bytes of head and rows together."""
    data_crc: int
    head: bytes | None
    """A copy of the head; None where the sums are damaged."""
    crcs: tuple[int, ...]
    """The checksum of each row; empty where the sums are damaged, or rows have none of their own."""
    labels: Any
    """What the rows are of, as it was written; None where that is damaged."""
    sound: bool = True
    """Whether no byte of the seal itself is damaged."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The seal of a file; None where it has none, or nothing of it can be trusted."""
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            if size < 2 * _FOOTER:
                return None
            file.seek(size - 2 * _FOOTER)
            both = file.read(2 * _FOOTER)
            fields = _footer(both[_FOOTER:], size) or _footer(both[:_FOOTER], size)
            if fields is None:
                return None
            data_bytes, label_bytes, sum_bytes, data_crc, label_crc, sum_crc = fields
            file.seek(data_bytes)
            packed, sums = file.read(label_bytes), file.read(sum_bytes)
        head, crcs = _unpack_sums(sums) if zlib.crc32(sums) == sum_crc else (None, ())
        labels = _unpack_labels(packed) if zlib.crc32(packed) == label_crc else None
        sound = both[:_FOOTER] == both[_FOOTER:] and head is not None and zlib.crc32(packed) == label_crc
        return cls(data_bytes, data_crc, head, crcs, labels, sound)


def seal_of(head: bytes, rows: Sequence[memoryview], *, size: int, crc: int, labels: Any = None) -> bytes:
    """The seal of a file of `size` bytes, a head and rows; where no rows are given, they have no sums of their own."""
    crcs = np.array([zlib.crc32(row) for row in rows], "<u4")
    sums = _LENGTH.pack(len(head)) + head + crcs.tobytes()
    packed = b"" if labels is None else zlib.compress(json.dumps(labels).encode())
    fields = _FIELDS.pack(_MAGIC, size, len(packed), len(sums), crc, zlib.crc32(packed), zlib.crc32(sums))
    footer = fields + _OWN.pack(zlib.crc32(fields))
    return packed + sums + footer + footer


def _footer(stored: bytes, size: int) -> tuple[int, ...] | None:
    fields, own = stored[: _FIELDS.size], stored[_FIELDS.size :]
    if _OWN.unpack(own)[0] != zlib.crc32(fields):
        return None
    magic, *rest = _FIELDS.unpack(fields)
    return tuple(rest) if magic == _MAGIC and sum(rest[:3]) + 2 * _FOOTER == size else None


def _unpack_sums(sums: bytes) -> tuple[bytes | None, tuple[int, ...]]:
    if len(sums) < _LENGTH.size:
        return None, ()
    head = _LENGTH.unpack_from(sums)[0]
    rest = sums[_LENGTH.size + head :]
    if len(rest) % 4:
        return None, ()
    return sums[_LENGTH.size : _LENGTH.size + head], tuple(np.frombuffer(rest, "<u4").tolist())


def _unpack_labels(packed: bytes) -> Any:
    if not packed:
        return None
    try:
        opened = zlib.decompressobj()
        text = opened.decompress(packed, _DEEPEST)
        return json.loads(text) if opened.eof else None
    except (zlib.error, ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Rescued:
    """The rows of a damaged file that are as they were written."""

    rows: dict[int, npt.NDArray[np.generic] | bytes]
    """By their number: arrays, or byte strings."""
    whole: bool
    """Whether every row is there, and only the head or the seal was damaged."""


def rescue(path: Path, *, rows: int, blobs: bool) -> Rescued:
    """What can be trusted of a file of so many rows that is not what was written."""
    nothing = Rescued({}, rows == 0)
    try:
        seal = Seal.read(path)
        data = path.read_bytes()
    except OSError:
        return nothing
    if seal is None:
        return nothing
    data = data[: seal.data_bytes]
    intact = zlib.crc32(data) == seal.data_crc
    head = seal.head if seal.head is not None else data[: _data_start(data, rows, blobs=blobs)] if intact else None
    if head is None:
        return nothing
    try:
        starts, dtype, shape = _layout(head, rows, blobs=blobs)
    except (ValueError, EOFError, struct.error):
        return nothing
    found = dict[int, npt.NDArray[np.generic] | bytes]()
    for row, (a, b) in enumerate(pairwise(starts)):
        if intact or (len(seal.crcs) == rows and zlib.crc32(data[a:b]) == seal.crcs[row]):
            found[row] = data[a:b] if blobs else np.frombuffer(data[a:b], dtype).reshape(shape)
    return Rescued(found, len(found) == rows)


def _layout(head: bytes, rows: int, *, blobs: bool) -> tuple[list[int], np.dtype[Any], tuple[int, ...]]:
    """(where each row begins, and the last ends; the numbers' kind; the shape of one row), as a head tells."""
    stream = io.BytesIO(head)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    start = stream.tell()
    if blobs:
        offsets = np.frombuffer(head[start : start + 8 * (rows + 1)], np.int64)
        return (offsets + start).tolist(), dtype, ()
    if dtype.hasobject or shape[0] != rows:
        raise ValueError("the head is of another array")
    step = int(np.prod(shape[1:])) * dtype.itemsize
    return [start + step * row for row in range(rows + 1)], dtype, shape[1:]


def _data_start(data: bytes, rows: int, *, blobs: bool) -> int:
    try:
        return _layout(data, rows, blobs=blobs)[0][0]
    except (ValueError, EOFError, struct.error):
        return 0

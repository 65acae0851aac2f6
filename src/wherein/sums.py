"""Files that say their own checksum: in their name, or as the entry `sum` of their JSON."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any, Final

from wherein.files import plain_files

_BY_CRC: Final = re.compile(r"([0-9a-f]{8})-(\d+)\.[a-z]+")
"""`CRC-BYTES.suffix`: the codes of a compressed index, the numbers of what was trained."""
_BY_DIGEST: Final = re.compile(r"[0-9a-f]{32}")
"""An uploaded example, by the digest of its bytes."""


def crc_name(data: bytes, suffix: str) -> str:
    """The name of a file that holds these bytes."""
    return f"{zlib.crc32(data):08x}-{len(data)}{suffix}"


def digest_name(data: bytes) -> str:
    """The name of an uploaded file that holds these bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def summed(document: dict[str, Any]) -> bytes:
    """A document as JSON, with its checksum."""
    return json.dumps(document | {"sum": _sum(document)}).encode()


def sums_below(folder: Path) -> dict[str, str]:
    """Of every file below a folder, by its path there: its checksum and its bytes, as in `crc_name`."""
    return {path.relative_to(folder).as_posix(): _file_sum(path) for path in plain_files(folder)}


def _file_sum(path: Path) -> str:
    crc = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            crc = zlib.crc32(piece, crc)
    return f"{crc:08x}-{path.stat().st_size}"


def is_as_it_says(path: Path) -> bool:
    """Whether a file holds what its name or its checksum says; one that says nothing cannot be told."""
    try:
        data = path.read_bytes()
        if path.suffix == ".json":
            document = json.loads(data)
            said = document.pop("sum", None)
            return said is None or said == _sum(document)
    except FileNotFoundError:
        return True  # another process dropped it meanwhile
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
    return says_its_sum(path.name, data)


def says_its_sum(name: str, data: bytes) -> bool:
    """Whether bytes are those that a file's name says; a name that says nothing fits all."""
    if _BY_CRC.fullmatch(name):
        return name == crc_name(data, Path(name).suffix)
    return not _BY_DIGEST.fullmatch(name) or name == digest_name(data)


def _sum(document: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(document, sort_keys=True).encode()):08x}"

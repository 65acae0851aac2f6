"""Files below `derived/` that say their own checksum: in their name, or as the entry `sum` of their JSON."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any, Final

_BY_CRC: Final = re.compile(r"([0-9a-f]{8})-(\d+)\.[a-z]+")
"""`CRC-BYTES.suffix`: the codes of a compressed index."""
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
    if _BY_CRC.fullmatch(path.name):
        return path.name == crc_name(data, path.suffix)
    return not _BY_DIGEST.fullmatch(path.name) or path.name == digest_name(data)


def _sum(document: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(document, sort_keys=True).encode()):08x}"

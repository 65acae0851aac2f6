"""What files hold, in a few letters; each file is read once in a process, however many encoders are made of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path


def files_digest(paths: Iterable[Path]) -> str:
    """SHA-256 over the SHA-256 of each file, in order."""
    digest = hashlib.sha256()
    for path in paths:
        status = path.stat()
        digest.update(_file_digest(path, status.st_ino, status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


@lru_cache(maxsize=256)
def _file_digest(path: Path, *_identity: int) -> bytes:
    """The SHA-256 of a file, read again where its number, size or time of writing changed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()

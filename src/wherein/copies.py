"""Second copies of what cannot be computed again: the manifest, the catalogue, and what people said (`kept/`).

They lie in `copies/`, each with its checksum, the last two of each. A copy shows that its file is damaged, and the file
comes back from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from wherein.files import make_folder, sync_folder, write_durably
from wherein.sums import says_its_sum

COPIES: Final = "copies"
QUARANTINE: Final = "quarantine"
_MARK: Final = b"wherein copy "


def write_guarded(home: Path, name: str, data: bytes) -> None:
    """Replace a file of a collection in one step; its copy is written first, so that no kill loses both."""
    write_copy(home, name, data)
    write_durably(home / name, data)


def write_copy(home: Path, name: str, data: bytes) -> None:
    """Write a copy with its checksum; the one before stays beside it."""
    copy = home / COPIES / name
    with suppress(FileNotFoundError):
        copy.replace(copy.with_name(f"{copy.name}.1"))
    write_durably(copy, _MARK, hashlib.blake2b(data, digest_size=16).hexdigest().encode(), b"\n", data)


def drop_guarded(home: Path, name: str) -> None:
    """Remove a file of a collection and its copies; they go first, so that no check brings it back."""
    copy = home / COPIES / name
    for path in (copy.with_name(f"{copy.name}.1"), copy, home / name):
        path.unlink(missing_ok=True)


def read_copy(path: Path) -> bytes | None:
    """What a copy holds; None where there is none, or it is damaged."""
    try:
        head, _, data = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if head == _MARK + hashlib.blake2b(data, digest_size=16).hexdigest().encode() else None


def guarded(home: Path) -> list[str]:
    """The files that have copies, or should: the manifest, what people said, and what was learnt from it."""
    found = set[str]()
    for below in (home, home / COPIES):
        for pattern in ("kept/*", "kept/trained/*/*"):
            found |= {path.relative_to(below).as_posix().removesuffix(".1") for path in below.glob(pattern)}
    return ["manifest.json", *sorted(name for name in found if name.endswith((".json", ".npz")))]


def mend_guarded(home: Path, *, repair: bool) -> list[tuple[Path, str]]:
    """(file, what was wrong and done) of every guarded file, or copy, whose bytes are not those that were written."""
    return [found for name in guarded(home) for found in _mend_one(home, name, repair=repair)]


def _mend_one(home: Path, name: str, *, repair: bool) -> Iterator[tuple[Path, str]]:
    path, copy, older = home / name, home / COPIES / name, home / COPIES / f"{name}.1"
    now = path.read_bytes() if path.is_file() else None
    newest, before = read_copy(copy), read_copy(older)
    if older.exists() and before is None:
        yield older, "a copy is damaged"
        if repair:
            older.unlink()
    if copy.exists() and newest is None:
        yield copy, "a copy is damaged"
    source = before if newest is None else newest
    if now is not None and _is_sound(name, now) and (source is None or not _is_damage(now, source, before)):
        if repair and now != newest:  # written by a version without copies, or its copy was damaged
            write_copy(home, name, now)
    elif now is not None and now == before and newest is not None:
        if repair:  # a kill came between the copy and the file
            write_durably(path, newest)
    elif source is None:
        yield path, "is damaged, and there is no copy of it"
    else:
        yield path, "is damaged or lost" + (", and came back from its copy" if repair else "")
        if repair:
            quarantine(home, path)
            write_durably(path, source)


def _is_damage(now: bytes, copy: bytes, before: bytes | None) -> bool:
    """Whether a file differs from its copy by damage or a kill, not because a version without copies wrote it.

    It then has the length of its copy, or is what the copy before held.
    """
    return now != copy and (now == before or len(now) == len(copy))


def _is_sound(name: str, data: bytes) -> bool:
    """Whether bytes can be those of a file: JSON, or arrays that are what the name says."""
    if name.endswith(".npz"):
        return says_its_sum(PurePosixPath(name).name, data)
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def quarantine(home: Path, path: Path) -> Path | None:
    """Keep what a damaged file holds, in a folder of its own; None where there is none."""
    if not path.is_file():
        return None
    folder = home / QUARANTINE
    make_folder(folder)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    target, number = folder / f"{stamp}-{path.parent.name}-{path.name}", 1
    while target.exists():
        number += 1
        target = folder / f"{stamp}-{number}-{path.parent.name}-{path.name}"
    try:
        os.link(path, target)
    except OSError:
        target.write_bytes(path.read_bytes())
    sync_folder(folder)
    return target

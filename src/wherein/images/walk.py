"""Finding files: every image and video below a folder, whatever its name, each once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wherein.images.picture import IMAGE_SUFFIXES, looks_like_image
from wherein.images.video import VIDEO_SUFFIXES
from wherein.values.address import Location

_TS_PACKET: Final = 188
"""Bytes of a packet of an MPEG transport stream, each of which begins with the same byte."""
HEAD_BYTES: Final = _TS_PACKET + 1
"""What must be read of a file to see whether it is an image or a video."""
LEAVES: Final = (
    "is a link that leaves the indexed folders; index with follow_links to take in what it leads to, or index that"
)
"""Why a link is not followed."""
_LATEST_NS: Final = 2**63 - 1
"""The largest whole number of an SQLite column."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a folder that, by its name or its first bytes, is an image or a video."""

    path: Location
    size: int
    mtime_ns: int
    real: Path | None = None
    """Where links led, if it was reached by some."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Something that was passed over, and why."""

    path: Location
    reason: str


def walk(folder: Path, *, real: Path | None = None, within: Sequence[Path] | None = None) -> Iterator[Found | Passed]:
    """Every image and video below `folder`, by name, each folder once. Hidden names are left out.

    Links to folders are followed last, so that a file reachable both ways keeps its own path; with `within`, only
    links that lead into one of those folders. `real` is where `folder` is, if it was reached by a link itself.
    """
    seen = set[tuple[int, int]]()
    waiting, linked = [(folder, real)], list[tuple[Path, Path | None]]()
    while waiting or linked:
        current, at = waiting.pop() if waiting else linked.pop(0)
        try:
            status = current.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            entries = sorted(os.scandir(current), key=lambda entry: entry.name)
        except OSError as error:
            yield Passed(current, f"folder cannot be read ({error.strerror}); check its permissions")
            continue
        folders = list[tuple[Path, Path | None]]()
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path, is_folder = Path(entry.path), _is_folder(entry)
            leads = _real(path) if entry.is_symlink() else None if at is None else at / entry.name
            found = None if is_folder else found_at(path, real=leads)
            if (is_folder or isinstance(found, Found)) and entry.is_symlink() and _leaves(leads, within):
                yield Passed(path, LEAVES)
            elif is_folder:
                (linked if entry.is_symlink() else folders).append((path, leads))
            elif found is not None:
                yield found
        waiting.extend(reversed(folders))


def _leaves(real: Path | None, within: Sequence[Path] | None) -> bool:
    return within is not None and (real is None or not any(real.is_relative_to(folder) for folder in within))


def _real(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself: looked at as a file, it says what is wrong
        return False


def is_transport_stream(head: bytes) -> bool:
    """`.ts` is MPEG's transport stream, packets that each begin with G, and also TypeScript."""
    return len(head) > _TS_PACKET and head[0] == head[_TS_PACKET] == ord("G")


def found_at(path: Path, *, real: Path | None = None) -> Found | Passed | None:
    """One file: Found when its name or first bytes are an image's or a video's; None when it is neither."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        return Passed(path, "its name is not valid Unicode; rename it")
    try:
        status = path.stat()
        if not path.is_file():
            return None
        suffix = path.suffix.lower()
        if suffix == ".ts" or suffix not in IMAGE_SUFFIXES | VIDEO_SUFFIXES:
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
            if not looks_like_image(head[:32]) and not (suffix == ".ts" and is_transport_stream(head)):
                return None
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        return Passed(path, reason) if path.suffix.lower() in IMAGE_SUFFIXES | VIDEO_SUFFIXES else None
    return Found(path, status.st_size, storable_time(status.st_mtime_ns), real)


def storable_time(mtime_ns: int) -> int:
    """A file's date as a catalogue can hold it: 64 bits of nanoseconds end in 2262, and dates of files do not."""
    within = max(-_LATEST_NS, min(mtime_ns, _LATEST_NS))
    return within if within != -1 else 0  # −1 marks a file that is not read to its end


def exists(path: Path) -> bool:
    """Whether something is at a path, also where it is not ours to look at."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def printable(path: Location) -> str:
    """A path as text that can be printed and stored, whatever bytes its name has."""
    return str(path).encode("utf-8", "backslashreplace").decode()

"""Finding files: every image and video below a folder, whatever its name, each once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wherein.image import IMAGE_SUFFIXES, looks_like_image
from wherein.video import VIDEO_SUFFIXES


@dataclass(frozen=True, slots=True)
class Found:
    """A file worth reading."""

    path: Path
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Passed:
    """Something that was passed over, and why."""

    path: Path
    reason: str


def walk(folder: Path) -> Iterator[Found | Passed]:
    """Every image and video below `folder`, by name. Hidden names are left out; links are followed once."""
    seen = set[tuple[int, int]]()
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            status = current.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            entries = sorted(os.scandir(current), key=lambda entry: entry.name)
        except OSError as error:
            yield Passed(current, f"folder cannot be read ({error.strerror}); check its permissions")
            continue
        folders = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = Path(entry.path)
            if entry.is_dir():
                folders.append(path)
            else:
                found = look(path)
                if found is not None:
                    yield found
        waiting.extend(reversed(folders))


def look(path: Path) -> Found | Passed | None:
    """One file: Found when its name or first bytes are an image's or a video's; None when it is neither."""
    try:
        path.name.encode("utf-8")
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        return Passed(path, "its name is not valid Unicode; rename it")
    try:
        status = path.stat()
        if not path.is_file():
            return None
        suffix = path.suffix.lower()
        if suffix not in IMAGE_SUFFIXES and suffix not in VIDEO_SUFFIXES:
            with path.open("rb") as file:
                if not looks_like_image(file.read(32)):
                    return None
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        return Passed(path, reason) if path.suffix.lower() in IMAGE_SUFFIXES | VIDEO_SUFFIXES else None
    return Found(path, status.st_size, status.st_mtime_ns)

"""The file of an image, opened as it was indexed: no link is followed again, and other content is refused.

Links are resolved once, when a folder is indexed. What is opened later is the place that they led to then: whoever
turns a link, or puts one in the place of a folder, gets nothing else read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from wherein.errors import UnreadableImage
from wherein.images.elsewhere import listed_elsewhere, open_elsewhere, read_elsewhere
from wherein.values.address import Address, Location
from wherein.values.records import FileRecord

_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
"""How a folder on the way to a file is opened."""
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
"""The flag with which a link is not followed; 0 where the system has none."""
_FILE: Final = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How the file itself is opened: no link, and without waiting, since a pipe may stand where an image was."""
_PIECE: Final = 1 << 20
"""Bytes that are read at a time when a file is hashed."""


@dataclass(frozen=True, slots=True)
class Original:
    """Where the file of an image was when it was indexed, and what it was."""

    folder: Location
    """The folder that was indexed: the root to which its path is relative."""
    record: FileRecord
    target: str | None = None
    """Where links led: a path in the root, or an absolute one; None where there are none."""

    @property
    def path(self) -> Location:
        """The file as people call it, links and all."""
        return self.folder / self.record.path

    def open(self) -> BinaryIO:
        """The file, if it is still what was indexed; else an UnreadableImage that says why not."""
        if isinstance(self.folder, Address):
            return self._elsewhere(self.folder / self.record.path)
        target = Path(self.target or self.record.path)
        base, inside = (Path(target.anchor), target.relative_to(target.anchor)) if target.anchor else (None, target)
        try:
            file = os.fdopen(_descriptor(base or self.folder, inside.parts), "rb")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UnreadableImage(
                f"{self.path}: cannot be opened as it was indexed ({reason}): it is gone, or a link is in its way. "
                "Index its folder again."
            ) from error
        if not self._same(file):
            file.close()
            raise self._changed()
        return file

    def read(self) -> bytes:
        """All bytes of the file."""
        if isinstance(self.folder, Address):  # one request: what came says by itself whether it is the same
            data = read_elsewhere(self.folder / self.record.path, size=self.record.size)
            if hashlib.blake2b(data, digest_size=16).digest() != self.record.hash:
                raise self._changed()
            return data
        with self.open() as file:
            return file.read()

    def _elsewhere(self, source: Address) -> BinaryIO:
        """A file elsewhere, to be read in parts."""
        now = listed_elsewhere(source)
        if now is None:
            raise UnreadableImage(f"{source}: is gone. Index its folder again.")
        file = open_elsewhere(source, size=now[0])
        same = (self.record.size, self.record.mtime_ns)
        if now != same and (now[0] != same[0] or content_hash(file) != self.record.hash):
            raise self._changed()
        return file

    def _changed(self) -> UnreadableImage:
        return UnreadableImage(f"{self.path}: is not what was indexed: it has changed. Index its folder again.")

    def _same(self, file: BinaryIO) -> bool:
        now = os.fstat(file.fileno())
        if not stat.S_ISREG(now.st_mode) or now.st_size != self.record.size:
            return False
        return now.st_mtime_ns == self.record.mtime_ns or content_hash(file) == self.record.hash


def content_hash(file: BinaryIO) -> bytes:
    """What says whether two files hold the same; the file is at its beginning before and after."""
    digest = hashlib.blake2b(digest_size=16)
    file.seek(0)
    while piece := file.read(_PIECE):
        digest.update(piece)
    file.seek(0)
    return digest.digest()


def _descriptor(folder: Path, parts: tuple[str, ...]) -> int:
    """An open file below a folder, reached step by step so that no step is a link."""
    if not parts or ".." in parts:
        raise ValueError("the path leaves its folder")
    if os.open not in os.supports_dir_fd:  # a system without such steps: links show in the path as a whole
        real = folder.resolve().joinpath(*parts)
        if real.resolve() != real:
            raise ValueError("the path goes through a link")
        return os.open(real, _FILE)
    at = os.open(folder, _FOLDER)
    for part in parts[:-1]:
        try:
            below = os.open(part, _FOLDER | _NO_LINK, dir_fd=at)
        finally:
            os.close(at)
        at = below
    try:
        return os.open(parts[-1], _FILE, dir_fd=at)
    finally:
        os.close(at)

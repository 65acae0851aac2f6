"""Files of equal content: which need no encoding again, and which of them another was made from."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import PurePosixPath

from wherein.store.catalogue import Catalogue
from wherein.values.records import FileRecord

Twin = tuple[int, FileRecord, bool]
"""(file, record, gone)"""


class Contents:
    """Which contents need no encoding. Workers ask, through a connection of their own."""

    def __init__(self, reader: Catalogue) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._begun = set[bytes]()
        self.each_once = True
        """Whether one of several equal files is enough to encode."""

    def of(self, hash_: bytes) -> list[Twin]:
        """The committed files with this content; what layers they lack is filled later."""
        with self._lock:
            return self._reader.files_with_hash(hash_)

    def known(self, file: FileRecord) -> bool:
        """Whether this content is in the collection, or on its way there in this run."""
        if self.of(file.hash):
            return True
        with self._lock:
            known = self.each_once and file.hash in self._begun
            self._begun.add(file.hash)
            return known


def origin(left: Sequence[Twin], file: FileRecord, catalogue: Catalogue) -> Twin:
    """Which of the twins that have left a file was moved from.

    One that left just now and has tags, which would be lost, comes before the file's own tombstone, that before
    others that left just now, and those before older tombstones; then the same name and the same root count.
    """

    def farness(twin: Twin) -> tuple[int, bool, bool]:
        key, record, gone = twin
        if not gone:
            rank = 0 if catalogue.is_tagged(key) else 2
        else:
            rank = 1 if (record.root, record.path) == (file.root, file.path) else 3
        other_name = PurePosixPath(record.path).name != PurePosixPath(file.path).name
        return rank, other_name, record.root != file.root

    return min(left, key=farness)


def moved_along(record: FileRecord, file: FileRecord) -> bool:
    """Whether a file lies in another root as one did in a root that is no longer there: the folder has moved."""
    return record.root != file.root and f"/{file.path}".endswith(f"/{record.path}")

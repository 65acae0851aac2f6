"""Every error wherein raises on purpose. Each message says what, where, why and the way out.

WhereinError
├── InputError              what was asked cannot be done as it was said (exit code 2, HTTP 4xx)
│   ├── ImageError          one image cannot be used
│   │   ├── UnreadableImage   missing, truncated, corrupt, or not an image at all
│   │   ├── OversizedImage    more pixels than the limit allows (a decompression bomb, or a real giant)
│   │   └── MissingExtra      the format needs an extra that is not installed
│   ├── ImageNotFound       no image of that id in the collection
│   ├── RegionError         a box, grid or mask that cannot exist
│   ├── QueryError          a query that cannot be understood
│   ├── SpecError           an unknown encoder or method word
│   └── DataError           benchmark files that are missing or malformed
├── Stopped                 what was asked took too long, or nobody waits for it any more
└── CollectionError         the collection on disk cannot serve
    ├── CollectionNotFound    there is none here
    ├── CollectionLocked      another process is writing to it
    ├── NotPrepared           a first search of this kind would keep everybody waiting
    ├── CollectionChanged     another process changed it in the middle of an answer
    ├── IndexUnavailable      an index elsewhere is gone, too slow, or not what was pushed to it
    ├── CollectionCorrupt     its files contradict each other
    └── StorageFull           the disk took no more bytes; nothing committed was lost
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class WhereinError(Exception):
    """Base of all errors raised on purpose."""


class InputError(WhereinError, ValueError):
    """What was asked cannot be done as it was said."""


class ImageError(InputError):
    """One image cannot be used; a batch goes on without it."""


class UnreadableImage(ImageError):
    """The file is missing, truncated, corrupt, or not an image."""


class OversizedImage(ImageError):
    """The image has more pixels than the limit allows."""


class MissingExtra(ImageError):
    """The format needs an extra that is not installed."""


class ImageNotFound(InputError):
    """The collection has no image of that id."""


class RegionError(InputError):
    """A box, grid or mask that cannot exist."""


class QueryError(InputError):
    """A query that cannot be understood."""


class SpecError(InputError):
    """An unknown encoder or method word."""


class DataError(InputError):
    """Benchmark files that are missing or malformed."""


class Stopped(WhereinError):
    """What was asked took longer than it may, or nobody waits for it any more."""


class CollectionError(WhereinError):
    """The collection on disk cannot serve."""


class CollectionNotFound(CollectionError):
    """There is no collection here."""


class CollectionLocked(CollectionError):
    """Another process is writing to the collection."""


class NotPrepared(CollectionError):
    """What a first search of this kind needs is not made yet, and the caller did not want to wait for it."""

    def __init__(self, message: str, *, query: Any = None, method: Any = "") -> None:
        super().__init__(message)
        self.query, self.method = query, method
        """What `Collection.prepare` is to be called with."""


class CollectionChanged(CollectionError):
    """Another process changed the collection in the middle of an answer; asked again, it answers."""


class IndexUnavailable(CollectionError):
    """An index that lies elsewhere cannot be asked: it is gone, too slow, or not what was pushed to it."""


class CollectionCorrupt(CollectionError):
    """The files of the collection contradict each other."""


class StorageFull(CollectionError):
    """The disk took no more bytes; nothing committed was lost."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'patches'?` where a known word is spelled much like `word`; else nothing. Ends a message."""
    from difflib import get_close_matches

    by_small = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_small, n=1)
    return f" Did you mean {by_small[close[0]]!r}?" if close else ""

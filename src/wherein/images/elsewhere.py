"""Images and videos that lie elsewhere: found in a listing, read whole or in parts, videos through a copy on disk."""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from wherein.errors import InputError, UnreadableImage
from wherein.images.picture import IMAGE_SUFFIXES, check_bytes, looks_like_image
from wherein.images.video import VIDEO_SUFFIXES
from wherein.images.walk import HEAD_BYTES, Found, Passed, is_transport_stream, storable_time
from wherein.images.walk import exists as exists_here
from wherein.parallel import in_parallel
from wherein.remote import AT_ONCE, Listed, RemoteFolder, Unanswered, folder_at
from wherein.values.address import Address, Location

_GONE: Final = "is gone; it was there when its folder was listed"
_CUT_OFF: Final = "has changed since it was listed, or was cut off"
_BLOCK: Final = 1 << 20
"""Bytes of one ranged read: a film is looked at in places, a photo in one to ten of these."""


def walk_elsewhere(target: Address, known: Mapping[str, tuple[int, int]]) -> Iterator[Found | Passed]:
    """Every image and video at an address or below it, by name. Hidden names are left out.

    Names without an ending are looked into, by their first bytes, unless they are `known` with that (size, stamp).
    OSError where it cannot be listed.
    """
    folder = folder_at(target.root)
    listing = sorted(folder.listing(target.path).items())
    named = [(name, one) for name, one in listing if not any(part.startswith(".") for part in name.split("/"))]
    unclear = [name for name, one in named if _unclear(name) and (one is None or known.get(name) != _kept(one))]
    looked = in_parallel(lambda name: _is_media(folder, name), unclear, workers=AT_ONCE)
    none = {name for name, is_media in zip(unclear, looked, strict=True) if not is_media}
    for name, one in named:
        at = Address(target.root, name)
        if name in none or not (_unclear(name) or at.suffix.lower() in IMAGE_SUFFIXES | VIDEO_SUFFIXES):
            continue
        if {"", ".", ".."} & set(name.split("/")) or not name.isprintable():
            yield Passed(at, "its name has an empty part, one of dots alone, or signs that cannot be shown; rename it")
        elif one is None:
            yield Passed(at, "its server tells neither its size nor its date")
        else:
            yield Found(at, *_kept(one))


def read_elsewhere(source: Address, *, size: int) -> bytes:
    """The bytes of an image that was listed with `size`."""
    check_bytes(str(source), size)
    try:
        data = folder_at(source.root).read(source.path)
    except OSError as error:
        _tell(source, error)
    if not data:
        raise UnreadableImage(f"{source}: is empty (zero bytes). Copy it again from its source.")
    if len(data) != size:
        _tell(source, Unanswered(_CUT_OFF))
    return data


class LocalCopy:
    """A file of this machine that holds what lies elsewhere; deleted when nobody needs it any more."""

    def __init__(self, source: Address, *, size: int) -> None:
        descriptor, name = tempfile.mkstemp(suffix=source.suffix, prefix="wherein-")
        os.close(descriptor)
        self.path = Path(name)
        weakref.finalize(self, self.path.unlink, missing_ok=True)
        try:
            folder_at(source.root).get(source.path, self.path, size=size)
        except OSError as error:
            _tell(source, error)


class RangedFile(io.RawIOBase):
    """A file elsewhere that is read part by part, each part tried again where it fails."""

    def __init__(self, source: Address, *, size: int) -> None:
        super().__init__()
        self._source, self._size, self._at = source, size, 0

    def readable(self) -> bool:
        """True: io.RawIOBase asks before it reads."""
        return True

    def seekable(self) -> bool:
        """True: decoders may jump to any byte, which is then asked for."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; nothing is read."""
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        """The number of the byte that is read next."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """The next bytes, as many as fit; an UnreadableImage where they cannot be had."""
        end = min(self._size, self._at + len(buffer))
        if end <= self._at:
            return 0
        try:
            data = folder_at(self._source.root).read(self._source.path, self._at, end)
            if len(data) != end - self._at:
                raise Unanswered(_CUT_OFF)
        except OSError as error:
            _tell(self._source, error)
        buffer[: len(data)] = data
        self._at = end
        return len(data)


def open_elsewhere(source: Address, *, size: int) -> BinaryIO:
    """A file elsewhere, to be read in parts."""
    return io.BufferedReader(RangedFile(source, size=size), _BLOCK)


def listed_elsewhere(source: Address) -> tuple[int, int] | None:
    """(size, stamp) of a file now; None where it is gone, UnreadableImage where that cannot be learnt."""
    try:
        one = folder_at(source.root).listed(source.path)
    except OSError as error:
        _tell(source, error)
    return None if one is None else _kept(one)


def require_elsewhere(location: Address) -> None:
    """Refuse an address at which nothing is, or of which nothing can be learnt."""
    try:
        there = folder_at(location.root).exists(location.path)
    except OSError as error:
        reason = (error.strerror or str(error)).removeprefix(f"{location}: ").strip()
        raise InputError(f"{location}: {reason}. Check the address and credentials.") from error
    if not there:
        raise InputError(f"{location}: nothing is there, or it cannot be reached. Check the address and credentials.")


def is_file_elsewhere(location: Address) -> bool:
    """Whether an address is that of one image or video; a folder may be called anything."""
    return location.suffix.lower() in IMAGE_SUFFIXES | VIDEO_SUFFIXES and listed_elsewhere(location) is not None


def exists(location: Location) -> bool:
    """Whether something is at a location, also where it is not ours to look at, or cannot be learnt now."""
    if isinstance(location, Path):
        return exists_here(location)
    try:
        return folder_at(location.root).exists(location.path)
    except OSError:
        return True


def _tell(source: Address, error: OSError) -> NoReturn:
    """Say that an image cannot be read now; asked later, it may be."""
    if isinstance(error, FileNotFoundError):
        reason = _GONE
    elif isinstance(error, PermissionError):
        reason = "may not be read with the credentials at hand"
    else:
        reason = error.strerror or str(error)
    cause = error if error.errno is not None else Unanswered(str(error))
    raise UnreadableImage(f"{source}: {reason.removeprefix(f'{source.root}: {source.path} ')}.") from cause


def _unclear(name: str) -> bool:
    """Whether a name does not say what the file is: it has no ending, or one of two meanings."""
    ending = os.path.splitext(name)[1].lower()  # noqa: PTH122 — names of stores are no paths
    return ending in ("", ".ts")


def _is_media(folder: RemoteFolder, name: str) -> bool:
    try:
        head = folder.read(name, 0, HEAD_BYTES)
    except OSError:
        return True  # told when it is read
    return looks_like_image(head[:32]) or (name.lower().endswith(".ts") and is_transport_stream(head))


def _kept(one: Listed) -> tuple[int, int]:
    return one.size, storable_time(one.stamp_ns)

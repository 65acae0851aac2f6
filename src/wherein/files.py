"""Files written so that they are whole or absent, what is said where they cannot be written, and plain paths."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

from wherein.errors import InputError, StorageFull

TEMPORARY: Final = ".tmp"
"""How the name of a file ends while it is being written."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a system says when a disk, a quota or the size of one file is used up."""

_DOCUMENTS: Final = frozenset({".json", ".npz", ".txt", ".1"})
"""How the names of files end that are read as a whole."""
_DOCUMENT_MOST: Final = 1 << 30
"""The most bytes that a file which is read as a whole may have: what people said of a million images takes
a tenth of that."""


def expanded(name: str | os.PathLike[str]) -> Path:
    """A path as people write it; `~` is their home, and `~nobody` a name like any other."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 — Path.expanduser raises where there is no such user


@contextmanager
def full_disk_told(where: Path) -> Iterator[None]:
    """Turn the many faces of a full disk into one StorageFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise storage_full(where, error) from error


@contextmanager
def unwritable_told(where: Path) -> Iterator[None]:
    """What a person named to be written cannot be: that is bad input, with its reason."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{where}: cannot be written ({error.strerror}). Choose another place.") from error


def write_durably(path: Path, *data: bytes | memoryview) -> None:
    """Replace a file in one step: after a crash it holds either the old bytes or all the new ones.

    Nobody may read it who may not read the files of its folder.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # Its own for every call: threads of one process may write the same file at once, and the last one stays.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{TEMPORARY}")
    with full_disk_told(path):
        make_folder(path.parent)
        try:
            with os.fdopen(create(temporary), "wb") as file:
                file.writelines(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def create(path: Path) -> int:
    """A new, empty file, open to be written; who may use it is who may use its folder."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), _mode_below(path) & 0o666)


def make_folder(folder: Path) -> None:
    """A folder and those above it, where they are missing, as open to others as the first that is there.

    Each survives a power cut.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=_mode_below(folder), exist_ok=True)
    sync_folder(folder.parent)


def _mode_below(path: Path) -> int:
    return stat.S_IMODE(path.parent.stat().st_mode) & 0o777


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def storage_full(where: Path, error: Exception) -> StorageFull:
    """The error of a disk that took no more bytes."""
    return StorageFull(
        f"{where}: the disk took no more bytes ({error}). Everything committed before is safe: "
        "free some space, then run the same command again and it goes on from there."
    )


def plain_files(folder: Path) -> list[Path]:
    """The files below a folder, in order; links to files are left out, and links to folders are not followed."""
    found = list[Path]()
    for home, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not (Path(home) / name).is_symlink()]
        found += [path for name in names if (path := Path(home) / name).is_file() and not path.is_symlink()]
    return sorted(found)


def refuse_strange_files(folder: Path) -> None:
    """Refuse a folder with files that nobody should read: a pipe may never end, a document may fill memory."""
    for home, _, names in os.walk(folder):
        for name in names:
            path = Path(home) / name
            with suppress(FileNotFoundError):  # a link that leads nowhere, or a file that was dropped meanwhile
                found = path.stat()
                if stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
                    raise InputError(f"{path}: is no plain file but a pipe or a device. Remove it.")
                if found.st_size > _DOCUMENT_MOST and path.suffix in _DOCUMENTS:
                    raise InputError(f"{path}: has {found.st_size:,} bytes, which wherein never writes. Remove it.")


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written anew, also within one tick of the clock; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def plain_path(name: str | os.PathLike[str]) -> Path:
    """A path as roots are written: absolute, without `..` or `~`."""
    return Path(os.path.abspath(os.path.expanduser(name)))  # noqa: PTH100, PTH111 — "~" may be no user


def on_disk(file: BinaryIO) -> BinaryIO:
    """A file of this machine with the same content: the file itself, or a nameless copy of one that lies elsewhere."""
    try:
        file.fileno()
    except OSError:
        copy = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 — closed by who reads it
        with file:
            shutil.copyfileobj(file, copy)
        copy.seek(0)
        return copy
    return file

"""The locks of a collection, one for its writer and one for `kept/`, and what those who wait are told of the writer."""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wherein.errors import CollectionError, CollectionLocked
from wherein.files import full_disk_told, write_durably


@contextmanager
def writers_place(folder: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the one writer's place; who still has not got it after `patience` seconds is told who has it."""
    holder = folder / "writer.json"
    with _locked(
        folder,
        "write.lock",
        patience,
        lambda: f"is being written to by {who(holder)}. Wait for it, or stop that process.",
    ):
        try:
            with full_disk_told(holder):
                write_durably(holder, json.dumps(me()).encode())
            yield
        finally:
            holder.unlink(missing_ok=True)


@contextmanager
def keepers_place(folder: Path, *, patience: float) -> Iterator[None]:
    """Hold the place of who changes what people said (`kept/`); indexing does not stand in the way."""
    with _locked(folder, "kept.lock", patience, lambda: "others keep changing what is kept there. Try again."):
        yield


@contextmanager
def _locked(folder: Path, name: str, patience: float, refusal: Callable[[], str]) -> Iterator[None]:
    import filelock

    lock = filelock.FileLock(folder / name, mode=0o600 | (folder.stat().st_mode & 0o066))
    try:
        with full_disk_told(folder):
            lock.acquire(timeout=patience)
    except filelock.Timeout:
        raise CollectionLocked(f"{folder}: {refusal()}") from None
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        yield
    finally:
        lock.release()


def unwritable(folder: Path, error: OSError) -> CollectionError:
    """The error of a folder that may not be written to."""
    return CollectionError(
        f"{folder}: cannot be written to ({error.strerror}). Check who owns the folder, or index into "
        "another collection."
    )


def me() -> dict[str, str | int]:
    """What the next one who wants to write is told of this process."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in many containers
        user = f"user {os.getuid()}" if hasattr(os, "getuid") else "someone"
    return {"pid": os.getpid(), "user": user, "host": socket.gethostname(), "command": Path(sys.argv[0]).name}


def who(holder: Path) -> str:
    """Who writes, as the file `holder` tells."""
    try:
        who = json.loads(holder.read_text())
        return f"`{who['command']}` (process {who['pid']} of {who['user']} on {who['host']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"

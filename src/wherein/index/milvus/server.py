"""A Milvus server, or a file of milvus-lite: connected once a process; whatever fails is told in one line."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final

from wherein.errors import IndexUnavailable, MissingExtra, SpecError

SECONDS: Final = 10.0
"""How long one request may take: a hundred times what a warm server needs, and less than people wait."""
PUSH_SECONDS: Final = 120.0
"""The same for requests that write, load or build."""
TOKEN_VARIABLE: Final = "WHEREIN_MILVUS_TOKEN"
"""Where the token of a server is read from; it is kept nowhere."""
OLDEST: Final = (2, 3)
"""The first version that can replace rows (`upsert`), without which a second push would double them."""
GROUPING: Final = (2, 4)
"""The first version that gives the best row of each image by itself (`group_by_field`)."""
_LITE: Final = "milvus_lite"
"""What the version that milvus-lite gives of itself begins with."""
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+:\d+|\[[0-9a-fA-F:]+\]:\d+")
_connected: Final = dict[str, "Milvus"]()
_lock: Final = Lock()


class Milvus:
    """One open server or file. Use `connect`."""

    def __init__(self, address: str) -> None:
        quiet()
        from pymilvus import MilvusClient

        self.address = address
        self.file = file_of(address)
        uri = str(self.file) if self.file is not None else address if "//" in address else f"http://{address}"
        with self.told("cannot be reached"):
            self.client = MilvusClient(uri=uri, token=os.environ.get(TOKEN_VARIABLE, ""), timeout=SECONDS)
            self.version: str = self.client.get_server_version(timeout=SECONDS)
        self.lite = self.version.startswith(_LITE)
        found = re.search(r"(\d+)\.(\d+)", self.version)
        number = (int(found[1]), int(found[2])) if found else OLDEST
        if not self.lite and number < OLDEST:
            raise IndexUnavailable(f"milvus:{address}: is version {self.version}, and 2.3 or newer is needed.")
        self.groups = self.lite or number >= GROUPING
        """Whether it gives the best row of each image by itself."""

    @contextmanager
    def told(self, trouble: str) -> Iterator[None]:
        """Any failure of the server as one line."""
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, grpc.RpcError, OSError, ValueError, TypeError) as error:
            code = error.code() if isinstance(error, grpc.Call) else None
            late = code is grpc.StatusCode.DEADLINE_EXCEEDED
            said = "no answer in time" if late else getattr(error, "message", None) or str(error)
            reason = " ".join(str(said or type(error).__name__).split())[:200]
            way_out = (
                "Start the server" if self.file is None else "Only one process may have the file open: end the other"
            )
            raise IndexUnavailable(
                f"milvus:{self.address}: {trouble} ({reason}). {way_out}, or search without this index."
            ) from error

    def require_file(self) -> None:
        """Refuse when the file has gone: milvus-lite would answer from memory, or begin an empty one."""
        if self.file is not None and not self.file.exists():
            raise _no_file(self.address)

    def query(self, name: str, expression: str, fields: list[str]) -> list[dict[str, Any]]:
        """Some fields of the rows that an expression names, as they are now."""
        with self.told("cannot be read"):
            return list(
                self.client.query(
                    name, filter=expression, output_fields=fields, consistency_level="Strong", timeout=SECONDS
                )
            )

    def count(self, name: str) -> int:
        """How many rows of a collection of the server can be searched."""
        return int(self.query(name, "", ["count(*)"])[0]["count(*)"])

    def load(self, name: str, *, seconds: float = SECONDS) -> None:
        """Wait until a collection of the server can be searched; milvus-lite loads it anew in every process."""
        with self.told("does not get loaded"):
            self.client.load_collection(name, timeout=seconds)

    def has(self, name: str) -> bool:
        """Whether there is a collection of that name."""
        with self.told("cannot be read"):
            return bool(self.client.has_collection(name, timeout=SECONDS))


def connect(address: str, *, create: bool = False) -> Milvus:
    """The server or file at an address, connected once; with `create`, a file that is not there yet is made."""
    file = file_of(address)
    if not file and not _HOST.fullmatch(address) and not re.match(r"https?://", address):
        raise SpecError(
            f"milvus:{address}: give the address of a server, as milvus:localhost:19530 or milvus:https://HOST, or a "
            "file of milvus-lite, as milvus:FILE.db."
        )
    with _lock:
        if file is not None and not file.exists() and not create:
            _connected.pop(address, None)
            raise _no_file(address)
        if address not in _connected:
            _connected[address] = Milvus(address)
        return _connected[address]


def disconnect(address: str) -> None:
    """Close a connection; milvus-lite lets go of its file, so that another process may open it."""
    with _lock:
        known = _connected.pop(address, None)
    if known is None:
        return
    known.client.close()
    if known.file is not None:
        from milvus_lite.server_manager import server_manager_instance

        server_manager_instance.release_server(str(known.file))


def _no_file(address: str) -> IndexUnavailable:
    return IndexUnavailable(
        f"milvus:{address}: there is no such file. Fill it with `wherein push --index milvus:{address}`, or search "
        "without this index."
    )


def file_of(address: str) -> Path | None:
    """The file of milvus-lite that an address names; None for a server."""
    return Path(address).expanduser().absolute() if address.endswith(".db") and "//" not in address else None


def quiet() -> None:
    """Raise MissingExtra without the packages; silence their loggers, since failures are told in one line anyway."""
    try:
        import grpc  # noqa: F401
        import pymilvus  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"milvus needs an extra ({error.name} is missing): pip install 'wherein[scale]'.") from None
    for name in ("pymilvus", "milvus_lite", "grpc"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)

"""Folders on object stores and web servers, through fsspec: listed, read, written. What fails is tried again.

Credentials are found where fsspec looks for them (variables of the environment, files of the store's own tools) and
kept nowhere. Nothing is asked of a machine that nobody named.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, Final, TypeVar

from wherein.errors import InputError, MissingExtra
from wherein.parallel import in_parallel
from wherein.values.address import refuse_secrets

T = TypeVar("T")
_LOG: Final = logging.getLogger("wherein.remote")
TRIES: Final = 4
"""How often a request is made that fails for a reason that may pass."""
PAUSE_SECONDS: Final = 0.5
"""Seconds between the first try of a request and the second; each later pause is twice as long as the one before."""
ANSWER_SECONDS: Final = 60.0
"""How long a request may take, and as long again for every `_SLOW_BYTES` of a file that is copied."""
_SLOW_BYTES: Final = 64 << 20
"""Bytes that a slow line of about 10 Mbit/s carries in a minute."""
AT_ONCE: Final = 16
"""Small requests that are on their way at once: each waits for its answer most of the time."""
_GIVEN_UP: Final = 8
"""Requests in a row that failed at every try; from then on each is made once, so that a dead server is soon told."""
_DATES: Final = ("LastModified", "last_modified", "updated", "mtime", "Last-Modified", "created", "timeCreated")
"""What kinds of stores call the date of an object; the first that is there counts."""
_TAGS: Final = ("ETag", "etag", "md5Hash", "content_md5", "Content-MD5", "Digest")
"""What kinds of stores call the tag of an object, which changes with its content; the first that is there counts."""
_NANO: Final = 10**9  # nanoseconds of a second


class Unanswered(OSError):
    """A request that failed at every try; asked later it may be answered."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EIO, reason)


@dataclass(frozen=True, slots=True)
class Listed:
    """What a store says of an object without sending it."""

    size: int
    stamp_ns: int
    """Its date in nanoseconds; where the store has whole seconds, the rest is a hash of its tag, so that both count."""


class RemoteFolder:
    """A folder elsewhere. Where a request fails at every try, `failed` is raised with the reason."""

    def __init__(self, url: str, *, failed: Callable[[str], Exception] = Unanswered) -> None:
        refuse_secrets(url)
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtra(f"{url}: needs an extra (fsspec is missing): pip install 'wherein[scale]'.") from None
        self.url, self._failed = url, failed
        try:
            self._files, self._root = url_to_fs(url, **(_web_options() if url.startswith("http") else {}))
        except ImportError as error:
            missing = getattr(error.__cause__, "name", None) or "wherein[scale]"  # fsspec says which on the way
            raise MissingExtra(f"{url}: needs a library ({_told(error)}): pip install '{missing}'.") from None
        except (ValueError, OSError) as error:
            raise InputError(f"{url}: is no address that can be opened ({_told(error)}).") from error
        self._failures = 0

    def read(self, name: str, start: int | None = None, end: int | None = None) -> bytes:
        """The bytes of a file, or those from `start` to `end`; FileNotFoundError where there is none."""
        data = bytes(self._tried("cat_file", name, start=start, end=end))
        if start is not None and end is not None and len(data) > end - start:
            return data[start:end]  # a web server that does not know of parts sends all
        return data

    def get(self, name: str, target: Path, *, size: int = 0) -> None:
        """Copy a file of `size` bytes here."""
        self._tried("get_file", name, str(target), size=size)

    def put(self, source: Path, name: str) -> None:
        """Copy a file there."""
        self._made_folder(name)
        self._tried("put_file", name, str(source), size=source.stat().st_size, first=False)

    def write(self, name: str, data: bytes) -> None:
        """Replace a file there."""
        self._made_folder(name)
        self._tried("pipe_file", name, data, size=len(data))

    def remove(self, name: str) -> None:
        """Delete a file there."""
        self._tried("rm_file", name)

    def sizes(self, folder: str) -> dict[str, int]:
        """name → bytes of every file below a folder."""
        return {name: int(info["size"]) for name, info in self._found(folder)}

    def listing(self, folder: str = "") -> dict[str, Listed | None]:
        """name → what is said of every file at a name or below it; None where nothing can be learnt of one.

        Either all are there, or an error: a list that ends early would make images vanish.
        """
        found = dict(self._found(folder))
        if any(info.get("size") is None for info in found.values()):  # web servers tell file by file
            return dict(zip(found, in_parallel(self._listed_or_none, list(found), workers=AT_ONCE), strict=True))
        return {name: _listed(info) for name, info in found.items()}

    def listed(self, name: str) -> Listed | None:
        """What is said of one file; None where there is none."""
        self._files.invalidate_cache()
        with suppress(FileNotFoundError):
            info = self._tried("info", name)
            return _listed(info) if info.get("type") != "directory" else None
        return None

    def exists(self, name: str = "") -> bool:
        """Whether there is a file or a folder of that name."""
        self._files.invalidate_cache()
        strict = "strict" in signature(getattr(self._files, "_exists", self._files.exists)).parameters
        return bool(self._tried("exists", name, **({"strict": True} if strict else {})))  # else failures read as absent

    def _listed_or_none(self, name: str) -> Listed | None:
        try:
            return self.listed(name)
        except OSError:
            return None

    def _found(self, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """(name, what is said of it) of every file below a folder."""
        from fsspec.asyn import AsyncFileSystem

        self._files.invalidate_cache()
        start = f"{self._root.rstrip('/')}/"
        whole = getattr(type(self._files), "_find", AsyncFileSystem._find) is not AsyncFileSystem._find
        try:
            infos = self._tried("find", folder, detail=True).values() if whole else self._walked(folder)
            for info in infos:
                path = str(info["name"])
                if path.startswith(start) and info.get("type") != "directory" and not path.endswith("/"):
                    yield path.removeprefix(start), info
        except FileNotFoundError:
            return

    def _walked(self, folder: str) -> Iterator[dict[str, Any]]:
        """Every file below a folder, folder by folder: fsspec's own walk leaves out folders that it cannot read."""
        top = self._at(folder)
        waiting, seen = [top], set[str]()
        while waiting:
            current = waiting.pop()
            try:
                infos = self._tried("ls", None, current, detail=True)
            except FileNotFoundError as error:
                if current == top:
                    raise
                raise self._failed(f"{self.url}: changed while it was listed") from error
            for info in infos:
                path = str(info["name"])
                if info["type"] != "directory":
                    yield info
                elif path not in seen and path.startswith(self._root.rstrip("/")):
                    seen.add(path)
                    waiting.append(path)

    def _made_folder(self, name: str) -> None:
        self._tried("makedirs", name.rpartition("/")[0], exist_ok=True)

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}" if name else str(self._root)

    def _tried(self, act: str, name: str | None, *more: Any, size: int = 0, first: bool = True, **options: Any) -> Any:
        """What a call of the file system gives, `name` among its words first or last; made again where it fails."""
        words = [*more] if name is None else [self._at(name), *more] if first else [*more, self._at(name)]
        seconds = ANSWER_SECONDS * (1 + size / _SLOW_BYTES)
        tries = TRIES if self._failures < _GIVEN_UP else 1
        for turn in range(tries):
            try:
                answer = self._called(act, words, options, seconds)
            except (FileNotFoundError, PermissionError):
                self._failures = 0
                raise
            except Exception as error:  # every kind of store has errors of its own
                if turn + 1 == tries:
                    self._failures += 1
                    raise self._failed(f"{self.url}: {name or ''} {_reason(error)}") from error
                _LOG.info("%s: %s failed (%s); trying again", self.url, name, error)
                time.sleep(PAUSE_SECONDS * 2**turn)
            else:
                self._failures = 0
                return answer
        raise AssertionError("the last try returns or raises")

    def _called(self, act: str, words: list[Any], options: dict[str, Any], seconds: float) -> Any:
        """One call; where the file system has an event loop, that ends it in time."""
        from fsspec.asyn import sync

        waiting = getattr(self._files, f"_{act}", None) if self._files.async_impl else None
        if waiting is None:
            return getattr(self._files, act)(*words, **options)
        return sync(self._files.loop, waiting, *words, timeout=seconds, **options)


@cache
def _web_options() -> dict[str, Any]:
    """How web servers are asked: what they redirect to is followed on the same server alone."""
    from aiohttp import TraceConfig

    async def follow(_session: Any, _context: Any, asked: Any) -> None:
        meant = asked.response.url.join(type(asked.url)(asked.response.headers["Location"]))
        safer = (asked.url.scheme, meant.scheme) == ("http", "https")
        if meant.host != asked.url.host or not (
            safer or (meant.scheme, meant.port) == (asked.url.scheme, asked.url.port)
        ):
            raise PermissionError(
                errno.EACCES, f"leads elsewhere, to {meant.scheme}://{meant.host}, which nobody named"
            )

    traced = TraceConfig()
    traced.on_request_redirect.append(follow)
    return {"client_kwargs": {"trace_configs": [traced]}}


@cache
def folder_at(url: str) -> RemoteFolder:
    """The folder at an address, opened once in a process."""
    return RemoteFolder(url)


def _listed(info: dict[str, Any]) -> Listed:
    return Listed(int(info.get("size") or 0), _stamp(info))


def _stamp(info: dict[str, Any]) -> int:
    """When an object was written, and by its tag what was: stores keep whole seconds, and tags need not be dates."""
    seconds = next((_seconds(info[key]) for key in _DATES if info.get(key) is not None), 0.0)
    tag = next((str(info[key]) for key in _TAGS if info.get(key)), "")
    if not tag:
        return round(seconds * _NANO)
    digest = int.from_bytes(hashlib.blake2b(tag.strip('"').encode(), digest_size=8).digest(), "big")
    return int(seconds) * _NANO + digest % _NANO


def _seconds(date: Any) -> float:
    """A date as stores write it: a moment, a number of seconds, or text."""
    if isinstance(date, datetime):
        return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
    if isinstance(date, int | float):
        return float(date)
    with suppress(ValueError):
        return datetime.fromisoformat(str(date)).timestamp()
    with suppress(ValueError, TypeError):
        return parsedate_to_datetime(str(date)).timestamp()
    return 0.0


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"was not answered within {ANSWER_SECONDS:g} s"
    return f"cannot be read or written ({_told(error)})"


def _told(error: Exception) -> str:
    """What an error says, in one line."""
    return " ".join(f"{error}".split())[:200] or type(error).__name__

"""Requests to one server of collections: answers as they came or decoded, errors as wherein's own."""

from __future__ import annotations

import json
import operator
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from wherein import errors

_SECONDS: Final = 60.0
"""How long the server may be silent: as long as one request may take it (`server.settings`)."""


class Door:
    """Requests to one server; its errors come back as wherein's own."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url, self._token = url, token
        # Not through a proxy of the environment: the server is near, and the query is nobody else's business.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def json(self, method: str, path: str, *, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        """The answer to one request, decoded from JSON."""
        data = None if body is None else _sent(body).encode()
        return json.loads(self.content(method, path, query=query, data=data, kind="application/json"))

    def events(self, path: str) -> Iterator[Any]:
        """Server-sent events as they come, decoded."""
        with self._opened("GET", path) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))

    def upload(self, path: str, body: Any, uploads: Sequence[tuple[str, bytes]]) -> Any:
        """A search with images, as multipart/form-data."""
        mark = "wherein-7d0b6f3a5c"
        while any(mark.encode() in data for _, data in uploads):
            mark += "x"
        pieces = [f'--{mark}\r\ncontent-disposition: form-data; name="query"\r\n\r\n{_sent(body)}\r\n'.encode()]
        for name, data in uploads:
            head = f'--{mark}\r\ncontent-disposition: form-data; name="images"; filename="{name}"\r\n'
            pieces.append(f"{head}content-type: application/octet-stream\r\n\r\n".encode() + data + b"\r\n")
        pieces.append(f"--{mark}--\r\n".encode())
        kind = f"multipart/form-data; boundary={mark}"
        return json.loads(self.content("POST", path, data=b"".join(pieces), kind=kind))

    def content(
        self, method: str, path: str, *, query: dict[str, Any] | None = None, data: bytes | None = None, kind: str = ""
    ) -> bytes:
        """The body of the answer, as bytes."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        asked = f"{path}?{urllib.parse.urlencode(given, doseq=True)}" if given else path
        with self._opened(method, asked, data, kind) as answer:
            content: bytes = answer.read()
            return content

    @contextmanager
    def _opened(self, method: str, path: str, data: bytes | None = None, kind: str = "") -> Iterator[Any]:
        address = f"{self.url}{path}"
        request = urllib.request.Request(address, data=data, method=method)
        if data is not None:
            request.add_header("content-type", kind)
        if self._token is not None:
            request.add_header("authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise _raised(error.read(), address) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise errors.CollectionError(
                f"{self.url}: does not answer ({reason}). Is `wherein serve` running?"
            ) from error


def _raised(content: bytes, address: str) -> errors.WhereinError:
    """The error that the server names, or a CollectionError where it says something else."""
    try:
        return named_error(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return errors.CollectionError(f"{address}: answered with something else than wherein's errors.")


def named_error(said: dict[str, Any]) -> errors.WhereinError:
    """The error that a server's answer tells of, as one of wherein's own."""
    kind, message = getattr(errors, str(said["kind"]), None), str(said["message"])
    if isinstance(kind, type) and issubclass(kind, errors.WhereinError):
        return kind(message)
    return (errors.InputError if 400 <= int(said.get("status", 500)) < 500 else errors.CollectionError)(message)


def _sent(body: Any) -> str:
    """A body as JSON; whole numbers of NumPy's are numbers too, as they are to a collection that is opened here."""
    return json.dumps(body, default=operator.index)

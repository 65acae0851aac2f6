"""One error shape on every route: {"error": {"kind", "message", "status"}}. The message says the way out."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from wherein import errors

_STATUS: Final = (
    (errors.ImageNotFound, 404),
    (errors.CollectionNotFound, 404),
    (errors.OversizedImage, 413),
    (errors.InputError, 422),
    (errors.CollectionLocked, 409),
    (errors.StorageFull, 507),
    (errors.Stopped, 503),
    (errors.CollectionError, 503),
)
"""The HTTP status of each kind of error, the closer kind first."""
_KINDS: Final = {
    400: "BadRequest",
    401: "TokenNeeded",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "TooSlow",
    409: "Conflict",
    413: "TooLarge",
    421: "HostNotAllowed",
    422: "InvalidRequest",
    431: "TooLarge",
    503: "Busy",
}
"""What an error without a kind of its own is called, by its status."""


BROKEN: Final = "something broke in wherein; its log has the details."
_UNTOLD: Final = {
    errors.CollectionLocked: "another process is writing to the collection. Wait for it to end, then try again.",
    errors.IndexUnavailable: "the index that this server asks cannot be used now. Try again, or ask the index exact.",
}
"""What is said of errors that tell about the server's machine: who writes, and where an index lies."""

_WANTED: Final = {"int_type": "a whole number", "float_type": "a number", "bool_type": "true or false"}
"""What is to be sent in place of a value of the wrong type, by what Pydantic calls the mistake."""
_TOO_MUCH: Final = {"less_than_equal", "too_long", "string_too_long"}
"""What Pydantic calls it where more was asked than the server takes."""
_LIMITED: Final = (
    "The limit is this server's, not the collection's: ask for less at once, "
    "or open the collection itself, in Python or with the command. "
)
_SHOWN: Final = 60
"""Characters of a refused value that are told: enough to know it again."""


class Problem(Exception):
    """An answer that is an error, with its HTTP status."""

    def __init__(self, status: int, message: str, *, kind: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.kind = kind or _KINDS.get(status, "Error")


def body(status: int, message: str, kind: str | None = None) -> dict[str, Any]:
    """The one error shape."""
    return {"error": {"kind": kind or _KINDS.get(status, "Error"), "message": message, "status": status}}


def of_error(error: errors.WhereinError) -> tuple[int, dict[str, Any]]:
    """The status and body of an error that the engine raised on purpose."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    # Which process and whose it is stays on this machine.
    message = next((said for kind, said in _UNTOLD.items() if isinstance(error, kind)), str(error))
    return status, body(status, message, type(error).__name__)


def install(app: FastAPI) -> None:
    """Answer every error in the one shape."""

    @app.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> JSONResponse:
        return JSONResponse(body(error.status, _said(request, error.message), error.kind), error.status)

    @app.exception_handler(errors.WhereinError)
    async def engine(request: Request, error: errors.WhereinError) -> JSONResponse:
        status, content = of_error(error)
        content["error"]["message"] = _said(request, content["error"]["message"])
        return JSONResponse(content, status)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        wrong = error.errors()[:5]
        way_out = _LIMITED if any(map(_is_limit, wrong)) else ""
        message = f"{'; '.join(map(_wrong, wrong))}. {way_out}See /docs for what this route takes."
        return JSONResponse(body(422, message), 422)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        message = f"{str(error.detail).rstrip('.')}."
        if error.status_code == 404:
            message = f"{request.url.path}: there is nothing here. The routes are listed at /docs."
        elif error.status_code == 405:
            message = f"{request.method} is not answered at {request.url.path}. The routes are listed at /docs."
        elif error.status_code == 400 and error.__cause__ is not None:
            message = f"the body of {request.url.path} cannot be read: {_unread(error.__cause__)}"
        return JSONResponse(body(error.status_code, message), error.status_code, headers=error.headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> JSONResponse:
        return JSONResponse(body(400, "the client went before its request was all there."), 400)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> JSONResponse:
        logging.getLogger("wherein.server").error("%s %s failed", request.method, request.url.path, exc_info=error)
        return JSONResponse(body(500, BROKEN, "Internal"), 500)


def _said(request: Request, message: str) -> str:
    """A message that calls folders by their names, not by where they are on disk."""
    told: str = request.app.state.library.places().said(message)
    return told


def _unread(cause: BaseException) -> str:
    """Why a body could not be read, where, and the way out."""
    if isinstance(cause, UnicodeDecodeError):
        return f"it is no UTF-8 at byte {cause.start:,} ({cause.reason}). Write its JSON in UTF-8."
    if isinstance(cause, RecursionError):
        return "its lists and objects lie too deep in one another. See /docs for what this route takes."
    return f"{str(cause).partition(';')[0] or type(cause).__name__}. See /docs for what this route takes."


def _wrong(entry: dict[str, Any]) -> str:
    """What is wrong with one field."""
    place, wanted = ".".join(map(str, entry["loc"])), _WANTED.get(entry["type"])
    if wanted is None:
        return f"{place}: {entry['msg']}"
    given = entry["input"]
    value = "a list or an object" if isinstance(given, list | dict) else json.dumps(given)[:_SHOWN]
    return f"{place} = {value}: send {wanted}{', without quotes' if isinstance(given, str) else ''}"


def _is_limit(entry: dict[str, Any]) -> bool:
    """Whether a field has more than the server takes; that a share is at most 1 is no limit of a server."""
    return entry["type"] in _TOO_MUCH and entry.get("ctx", {}).get("le") != 1

"""Who may ask, how much may be sent, and what a browser may do with the answers. Wraps the whole application."""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException

from wherein.server.bodies import Bodies
from wherein.server.lanes import receive_of_request
from wherein.server.problems import body
from wherein.server.settings import Settings

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

COOKIE: Final = "wherein_token"
_PAGES: Final = frozenset({"/", "/docs"})
"""The pages that take a token in their address."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Checks every request before the application sees it, and marks every answer."""

    def __init__(self, app: App, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._bodies = Bodies(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def marked(message: dict[str, Any]) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._admit(scope)
            if self._settings.token and await self._greeted(scope, marked):
                return
            self._authorise(scope)
            # HEAD is GET without its body, which is left out where answers are sent.
            asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
            sent = None if scope["method"] in _SAFE else self._bodies.of(scope, receive)
            given = receive if sent is None else sent.receive
            receive_of_request.set(given)
            try:
                await self._app(asked, given, marked)
            finally:
                if sent is not None:
                    sent.release()
        except HTTPException as refused:
            if not started:
                await _answer(marked, refused.status_code, refused.detail)

    def _admit(self, scope: Scope) -> None:
        """Only our own names, and no writes from other sites: a page elsewhere cannot use this server."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = _host_name(host)
        if name not in self._settings.names and not (self._settings.everywhere and name == _reached_at(scope)):
            raise HTTPException(421, f"host {name!r} is not served here. Allow it with --allow-host {name or 'NAME'}.")
        origin = headers.get("origin")
        foreign = origin is not None and _netloc(origin) != host.lower()
        foreign = foreign or headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if foreign and not (scope["method"] in _SAFE and _navigation(headers)):
            raise HTTPException(
                403, "this request comes from another site. Open the page from this server's own address."
            )

    def _authorise(self, scope: Scope) -> None:
        token = self._settings.token
        if token is None or scope["path"] == "/api/v1/health" or not scope["path"].startswith(("/api/", "/openapi")):
            return
        headers = Headers(scope=scope)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given if scheme.lower() == "bearer" else _cookie(headers)
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise HTTPException(
                401, "this server asks for its token: send `Authorization: Bearer TOKEN`, or open /?token=TOKEN."
            )

    async def _greeted(self, scope: Scope, send: Send) -> bool:
        """`/?token=…` keeps the token in a cookie that scripts and other sites cannot use, and hides it.

        What else the address asks for, such as a search, is asked for again without the token.
        """
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token", "")
        if (
            scope["path"] not in _PAGES
            or not given
            or not hmac.compare_digest(given.encode(), str(self._settings.token).encode())
        ):
            return False
        cookie = f"{COOKIE}={given}; HttpOnly; SameSite=Strict; Path=/"
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        location = f"{scope['path']}?{rest}" if rest else scope["path"]
        headers = [
            (b"location", location.encode()),
            (b"set-cookie", cookie.encode("latin-1")),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return True


async def _answer(send: Send, status: int, message: str) -> None:
    content = json.dumps(body(status, message)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _host_name(host: str) -> str:
    """The name in a Host header, without its port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _netloc(origin: str) -> str | None:
    """The host and port of an Origin header; None where it is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _reached_at(scope: Scope) -> str:
    """The address of this machine at which the request came in: no name that somebody else could point here."""
    address = str((scope.get("server") or ("",))[0])
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)


def _navigation(headers: Headers) -> bool:
    """Somebody followed a link to the page: harmless, since navigating only reads the page itself."""
    return headers.get("origin") is None and headers.get("sec-fetch-mode", "navigate") == "navigate"


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value

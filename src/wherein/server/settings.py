"""What a server allows: where it listens, who may ask, what may be indexed, how much may be sent."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wherein.errors import InputError
from wherein.plugins import AUTO
from wherein.values.address import Location

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
EVERYWHERE: Final = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and permissions of one server."""

    host: str = "127.0.0.1"
    port: int = 7333
    token: str | None = None
    """Asked of every request where it is set; it always is when the server can be reached from other machines."""
    hosts: tuple[str, ...] = ()
    """Further names in the Host header that are answered."""
    index_roots: tuple[Location, ...] = ()
    """Folders, here or elsewhere, below which the page may index; by default the roots of the served collections."""
    index: str = AUTO
    """The index that is asked; a request may name another only if it has no address."""
    publish: str | None = None
    """The address below which collections are published, each under its name; without one, none is."""
    executor: str = "threads"
    """What runs the work of index jobs."""
    reports: Path | None = None
    """A folder of benchmark reports to browse."""
    segmenter: str = ""
    """What the Label view may snap masks with beside its filter: `onnx:FOLDER` or `hf:NAME`."""
    max_upload_bytes: int = 32 << 20
    """The most bytes of the body of one request."""
    max_bodies_bytes: int = 256 << 20
    """The most bytes of all requests together that are being sent or answered: eight of the largest."""
    max_upload_pixels: int = 64_000_000
    """The most pixels of an uploaded image."""
    upload_seconds: float = 30.0
    """How long a request may take to arrive."""
    search_seconds: float = 60.0
    """What one request may make the server do, in seconds: as long as the Python client waits for an answer."""

    def __post_init__(self) -> None:
        if self.token is not None and not self.token.strip():
            raise InputError("--token: is blank, and would keep nobody out. Give one, or leave the option out.")
        if self.token is None and not is_loopback(self.host):
            raise InputError(f"--host {self.host}: other machines can reach it, so it needs a token. Give --token.")

    @property
    def everywhere(self) -> bool:
        """Whether it listens at every address of this machine."""
        return self.host in EVERYWHERE

    @property
    def names(self) -> frozenset[str]:
        """The host names that are answered."""
        own = () if self.everywhere else (self.host,)
        return frozenset(name.lower() for name in (*LOOPBACK_NAMES, *own, *self.hosts))


def is_loopback(host: str) -> bool:
    """Whether a host name or address stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

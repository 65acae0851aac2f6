"""What a server allows: where it listens, who may ask, what may be indexed, how much may be sent."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and permissions of one server."""

    host: str = "127.0.0.1"
    port: int = 7333
    token: str | None = None
    """Asked of every request where it is set; it always is when the server can be reached from other machines."""
    hosts: tuple[str, ...] = ()
    """Further names in the Host header that are answered."""
    index_roots: tuple[Path, ...] = ()
    """Folders below which the page may index; by default the roots of the served collections."""
    reports: Path | None = None
    """A folder of benchmark reports to browse."""
    max_upload_bytes: int = 32 << 20
    max_upload_pixels: int = 64_000_000
    upload_seconds: float = 30.0

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def names(self) -> frozenset[str]:
        """The host names that are answered."""
        own = () if self.host in ("0.0.0.0", "::", "") else (self.host,)
        return frozenset(name.lower() for name in (*LOOPBACK_NAMES, *own, *self.hosts))


def is_loopback(host: str) -> bool:
    """Whether a host name or address stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

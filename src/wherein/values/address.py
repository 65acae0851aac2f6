"""Where folders and files lie: a path of this machine, or an address elsewhere."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from wherein.errors import InputError
from wherein.files import plain_path

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+):/+(.+)")


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """A folder or a file elsewhere, as fsspec writes it: `s3://bucket/photos`.

    Only `root` is ever read as an address; `path`, what lies below it, is a name that others chose.
    """

    root: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.root}/{self.path}" if self.path else self.root

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __truediv__(self, name: str) -> Address:
        return Address(self.root, f"{self.path}/{name}" if self.path else name) if name else self

    @property
    def name(self) -> str:
        """The last part: `photo.jpg`."""
        return str(self).rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """How the name ends, as that of a path: `.jpg`."""
        return posixpath.splitext(self.name)[1]

    @property
    def parent(self) -> Address:
        """The folder that holds it."""
        above = self.path.rpartition("/")[0]
        return Address(self.root, above) if self.path else Address(self.root.rpartition("/")[0])

    def as_uri(self) -> str:
        """The address in full, as a person writes it: `s3://bucket/photos`."""
        return str(self)


Location = Path | Address
"""Where a folder or a file lies."""


def url_of(name: str | os.PathLike[str]) -> str | None:
    """The address that a name is, if it is one; a name that went through `Path` has lost one of its slashes."""
    found = _URL.fullmatch(os.fspath(name))
    if found is None:
        return None
    return f"{found[1]}://{'/' if found[1] == 'file' else ''}{found[2]}"


def location_of(name: str | os.PathLike[str] | Address) -> Location:
    """Where a folder or file lies that a person names; `file://` is a path of this machine as any other."""
    url = str(name) if isinstance(name, Address) else url_of(name)
    if url is None:
        return plain_path(os.fspath(name) if not isinstance(name, Address) else str(name))
    if url.startswith("file://"):
        return plain_path(url.removeprefix("file://"))
    refuse_secrets(url)
    return Address(url.rstrip("/"))


def written_location(text: str) -> Location:
    """A location from how it was written down."""
    url = url_of(text)
    return Path(text) if url is None else Address(url)


def refuse_secrets(url: str) -> None:
    """Refuse an address that holds a password, a signature or another address: it would be written down."""
    parts = urlsplit(url)
    user, _, _ = parts.netloc.rpartition("@")
    if ":" in user or (user and parts.scheme in ("http", "https")):
        raise InputError(
            f"{parts.scheme}://…@{parts.netloc.rpartition('@')[2]}: holds a name or password, which would be written "
            "down. Leave it out: credentials come from the environment or the files where fsspec looks for them."
        )
    if parts.query or parts.fragment or "::" in url:
        raise InputError(
            f"{parts.scheme}://{parts.netloc}{parts.path}: is followed by a query, a mark or another address. Give a "
            "plain one: signed addresses would be written down, and end."
        )


def inside(folder: Location, location: Location) -> str | None:
    """The path of a location below a folder, empty for the folder itself; None where it lies elsewhere."""
    if isinstance(folder, Path) or isinstance(location, Path):
        if not (isinstance(folder, Path) and isinstance(location, Path) and location.is_relative_to(folder)):
            return None
        path = location.relative_to(folder).as_posix()
        return "" if path == "." else path
    whole, start = str(location), str(folder)
    if whole == start:
        return ""
    return whole[len(start) + 1 :] if whole.startswith(f"{start}/") else None

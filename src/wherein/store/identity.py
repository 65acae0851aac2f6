"""The identity of a collection: what an index elsewhere knows it by, wherever its folder is moved or copied to."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from wherein.files import write_durably


def identity_of(folder: Path) -> str:
    """The identity of the collection in a folder; empty where it has none yet."""
    try:
        found = _path(folder).read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""
    return found if re.fullmatch("[0-9a-f]{16}", found) else ""


def give_identity(folder: Path) -> str:
    """The identity of a collection; made where it has none. The caller holds `Store.keeping`."""
    found = identity_of(folder)
    if not found:
        found = secrets.token_hex(8)
        write_durably(_path(folder), found.encode())
    return found


def _path(folder: Path) -> Path:
    return folder / "kept" / "identity"

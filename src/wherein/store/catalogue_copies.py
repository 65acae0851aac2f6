"""Copies of the catalogue, and the checksum it should have: SQLite notices broken pages, not changed values in them."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wherein.copies import COPIES, read_copy, write_copy
from wherein.files import make_folder, write_durably
from wherein.store.database import read_whole

if TYPE_CHECKING:
    from wherein.store.catalogue import Catalogue

_STATE: Final = "catalogue.json"
_LARGE: Final = 64 << 20
"""Bytes from which a catalogue is copied at most once an hour: a smaller one takes a tenth of a second."""
_HOUR: Final = 3600.0
"""Seconds between two copies of a large catalogue."""
_PAGE: Final = 4096
"""Bytes of a page of SQLite: what one commit changes is at least two of them."""


def secure(home: Path, catalogue: Catalogue) -> None:
    """Note the checksum of a catalogue as it is now, and copy it; a large one is copied seldom.

    Where others write or read at this very moment, it stays as it was noted before.
    """
    path, changes, state = home / "catalogue.sqlite", catalogue.changes(), noted(home)
    if state.get("changes") == changes:
        return
    with catalogue.still() as is_still:
        if not is_still:
            return
        size, now = path.stat().st_size, time.time()
        kept = [one for one in state.get("copies", []) if (home / COPIES / str(one["name"])).is_file()]
        if size >= _LARGE and kept and now - kept[0]["time"] < _HOUR:
            copy = None
        else:
            copy = home / COPIES / f"catalogue-{changes}.sqlite"
        data = catalogue.serialised()
        digest = _digest(data)
        if copy is not None:
            make_folder(copy.parent)
            write_durably(copy, data)
            kept = [{"name": copy.name, "sum": digest, "changes": changes, "time": now}, *kept][:2]
        write_copy(home, _STATE, json.dumps({"changes": catalogue.changes(), "sum": digest, "copies": kept}).encode())
    named = {str(one["name"]) for one in kept}
    for old in (home / COPIES).glob("catalogue-*.sqlite"):
        if old.name not in named:
            old.unlink(missing_ok=True)


def noted(home: Path) -> dict[str, Any]:
    """What was noted of a catalogue when it was last secured; empty where nothing was."""
    for name in (_STATE, f"{_STATE}.1"):
        data = read_copy(home / COPIES / name)
        if data is not None:
            state = json.loads(data)
            return state if isinstance(state, dict) else {}
    return {}


def is_as_noted(home: Path, changes: int) -> bool:
    """Whether a catalogue that has counted so many changes holds the bytes it should, as far as that is known."""
    path, state = home / "catalogue.sqlite", noted(home)
    log = path.with_name(f"{path.name}-wal")
    if not state or changes < 0 or (log.is_file() and log.stat().st_size):
        return True  # it was never secured, or changes are still in the log, where SQLite has checksums of its own
    if changes <= int(state["changes"]):
        return changes == int(state["changes"]) and _digest(read_whole(path)) == state["sum"]
    newest = next((home / COPIES / str(one["name"]) for one in sound_copies(home)), None)
    # It changed since, in a process that was killed. A commit changes several pages; a single one was damaged.
    return newest is None or _pages_apart(read_whole(path), newest.read_bytes()) != 1


def sound_copies(home: Path) -> list[dict[str, Any]]:
    """The copies of the catalogue whose bytes are those that were written, the newest first."""
    copies = noted(home).get("copies", [])
    return [one for one in copies if _digest_or_none(home / COPIES / Path(str(one["name"])).name) == one["sum"]]


def damaged_copies(home: Path) -> list[Path]:
    """The copies of the catalogue, and notes of them, that are not what was written."""
    before = noted(home)
    named = [(home / COPIES / Path(str(one["name"])).name, one["sum"]) for one in before.get("copies", [])]
    wrong = [path for path, digest in named if path.is_file() and _digest_or_none(path) not in (None, digest)]
    states = [home / COPIES / name for name in (_STATE, f"{_STATE}.1")]
    wrong += [path for path in states if path.is_file() and read_copy(path) is None]
    return [path for path in wrong if path.is_file()] if noted(home) == before else []  # else they were just replaced


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _digest_or_none(path: Path) -> str | None:
    try:
        return _digest(path.read_bytes())
    except OSError:
        return None


def _pages_apart(a: bytes, b: bytes) -> int:
    if len(a) != len(b):
        return abs(len(a) - len(b)) // _PAGE + 2
    return sum(a[at : at + _PAGE] != b[at : at + _PAGE] for at in range(0, len(a), _PAGE))

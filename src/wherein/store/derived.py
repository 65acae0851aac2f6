"""What is computed from a collection and kept under `derived/`; in memory where that folder cannot be written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from wherein.errors import CollectionCorrupt, StorageFull
from wherein.store.shards import Array, read_array, write_array

_OPEN: Final = WeakValueDictionary[Path, "Derived"]()
_TURN: Final = threading.Lock()


class Derived:
    """Values by name. A collection on a read-only or full disk is searched as any other; only the next process
    computes them again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._memory = dict[str, Any]()
        """What the disk did not take."""

    @classmethod
    def of(cls, folder: Path) -> Derived:
        """The one of a folder: every handle of a process shares what is in memory."""
        with _TURN:
            return _OPEN.setdefault(folder, cls(folder))

    def path(self, name: str) -> Path:
        """The file of a name."""
        return self.folder / f"{name}.npy"

    def recall(self, name: str) -> Any:
        """What is kept in memory under a name; None where nothing is."""
        return self._memory.get(name)

    def keep(self, name: str, value: Any, *, write: Callable[[Path], object]) -> None:
        """Let `write` put a value into its file; where the disk takes nothing, keep it in memory."""
        try:
            write(self.path(name))
        except (OSError, StorageFull):
            self._memory[name] = value

    def known(self, name: str) -> Array | None:
        """The array of a name as far as it is kept; None where it is not."""
        known: Array | None = self.recall(name)
        if known is not None:
            return known
        if self.path(name).exists():
            try:
                return read_array(self.path(name))
            except CollectionCorrupt as error:
                if not isinstance(error.__cause__, FileNotFoundError):  # else another handle dropped it meanwhile
                    raise
        return None

    def array(self, name: str, make: Callable[[], Array]) -> Array:
        """The array of a name, computed where it is not kept."""
        known = self.known(name)
        if known is not None:
            return known
        made = make()
        self.keep(name, made, write=lambda path: write_array(path, made))
        return made

    def drop(self, pattern: str) -> None:
        """Forget what has a name like `pattern`, a glob."""
        for name in [name for name in tuple(self._memory) if fnmatchcase(name, pattern)]:
            self._memory.pop(name, None)
        try:
            for path in self.folder.glob(f"{pattern}.npy"):
                path.unlink(missing_ok=True)
        except OSError:
            return  # it cannot be written; what is stale there stays unused

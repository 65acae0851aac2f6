"""The ignore list of a collection: files that people removed from it, which indexing leaves out from then on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from wherein.copies import write_guarded
from wherein.errors import CollectionCorrupt


class Ignored:
    """Files by root and path, in `kept/ignored.json`: {root: [path, …]}."""

    def __init__(self, folder: Path) -> None:
        self._home, self._path = folder, folder / "kept" / "ignored.json"

    def all(self) -> set[tuple[str, str]]:
        """(root, path) of every ignored file."""
        if not self._path.is_file():
            return set()
        try:
            kept: dict[str, list[str]] = json.loads(self._path.read_text("utf-8"))
            return {(root, str(path)) for root, paths in kept.items() for path in paths}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise CollectionCorrupt(
                f"{self._path}: is not a list of ignored files ({error}). Restore it from a backup, or delete it: "
                "then the next `wherein index` brings removed images back."
            ) from error

    def add(self, files: Iterable[tuple[str, str]]) -> None:
        """Leave files out from now on."""
        self._write(self.all() | set(files))

    def drop(self, files: Iterable[tuple[str, str]]) -> None:
        """Let files be indexed again."""
        self._write(self.all() - set(files))

    def _write(self, files: set[tuple[str, str]]) -> None:
        roots = {root: sorted(path for own, path in files if own == root) for root in sorted({one for one, _ in files})}
        if files or self._path.exists():
            write_guarded(self._home, "kept/ignored.json", json.dumps(roots, ensure_ascii=False, indent=1).encode())

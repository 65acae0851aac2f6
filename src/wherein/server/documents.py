"""Small documents the server keeps with a collection: selections, annotations, studies. One JSON file each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wherein.copies import write_guarded
from wherein.server.library import Served
from wherein.server.problems import Problem


def read(served: Served, name: str, default: Any) -> Any:
    """The document `name`.json, or `default` where there is none."""
    path = _path(served, name)
    if path.is_symlink():
        raise Problem(503, f"{path}: is a link, which may lead anywhere. Put the file itself there.", kind="Unreadable")
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return default
    except (OSError, ValueError, RecursionError) as error:
        raise Problem(503, f"{path}: cannot be read ({error}). Restore or remove it.", kind="Unreadable") from error


@contextmanager
def changed(served: Served, name: str, default: Any) -> Iterator[Any]:
    """The document, written back when the block ends well; one writer at a time."""
    with served.file_turn:
        document = read(served, name, default)
        yield document
        data = json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")
        write_guarded(served.folder, f"kept/{name}.json", data)


def _path(served: Served, name: str) -> Path:
    return served.folder / "kept" / f"{name}.json"

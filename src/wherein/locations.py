"""Where folders are indexed into: found, and checked before anything is made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from wherein.collection import open
from wherein.encoders import load
from wherein.errors import CollectionNotFound, InputError
from wherein.images.elsewhere import require_elsewhere
from wherein.images.walk import Found, found_at
from wherein.indexing.executors import load_executor
from wherein.indexing.layer_choice import check_kinds
from wherein.parallel import default_workers
from wherein.store.store import is_collection
from wherein.values.address import Address, Location, inside, location_of
from wherein.values.records import FOLDER

__all__ = ["check_executor", "check_kinds", "check_new", "home_of", "nearest", "targets_of"]


def nearest(start: Path) -> Path:
    """The nearest `.wherein` folder from `start` upwards, as git does; only one of the same user counts."""
    for folder in (start, *start.parents):
        found = folder / FOLDER
        if (found / "manifest.json").is_file() and _same_user(found):
            return found
    raise CollectionNotFound(
        f"{start}: no collection here or above. Make one with `wherein index FOLDER`, or name another collection."
    )


def targets_of(paths: Sequence[str | os.PathLike[str]]) -> list[Location]:
    """Folders and files to index, as roots are written; what cannot be indexed is refused."""
    targets = [location_of(path) for path in paths]
    for target in targets:
        if isinstance(target, Address):
            require_elsewhere(target)
            continue
        if not target.exists():
            raise InputError(f"{target}: does not exist. Check the spelling of the folder to index.")
        if not target.is_dir() and not isinstance(found_at(target), Found):
            raise InputError(f"{target}: is not an image or a video that can be read. Name a folder or an image.")
    return targets


def home_of(target: Location) -> Path:
    """Where a target is indexed into: its own collection, the nearest above that holds it, or a new one of its own."""
    if isinstance(target, Address):
        raise InputError(
            f"{target}: is elsewhere, and its collection must be on this machine: say where with -c FOLDER."
        )
    folder = target if target.is_dir() else target.parent
    if is_collection(folder):
        return folder
    try:
        above = nearest(folder)
    except CollectionNotFound:
        return folder
    with open(above) as opened:
        return above if any(inside(root, target) is not None for root in opened.roots.values()) else folder


def check_new(home: Path, *, encoder: str | None, layers: Sequence[str] | None) -> None:
    """Refuse what a collection that is not there yet could not be filled with: a slip must leave nothing behind."""
    if is_collection(home):
        return
    if layers is not None:
        check_kinds(layers)
    if encoder is not None:
        load(encoder)


def check_executor(name: str) -> None:
    """Refuse an executor that does not exist, lacks its extra, or has an address at which nobody answers."""
    reach = getattr(load_executor(name, workers=default_workers()), "reach", None)
    if reach is not None:
        reach()


def _same_user(folder: Path) -> bool:
    return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()

"""Which root of a collection a folder or file belongs to, and what lies there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from wherein.errors import InputError
from wherein.images.walk import LEAVES, Found, Passed, found_at, printable, walk
from wherein.store.store import Store


def roots_below(store: Store, folder: Path) -> list[Path]:
    """Roots inside a folder: they were indexed before it was, and keep their ids."""
    roots = map(store.root_path, store.manifest.roots)
    return [root for root in roots if root != folder and root.is_relative_to(folder)]


def look_at(store: Store, target: Path, base: Path) -> Iterator[Found | Passed]:
    """What is at a target below the root `base`; links are followed as far as the collection allows."""
    manifest, real = store.manifest, target.resolve() if target.exists() else target
    within = None if manifest.follow_links else [store.root_path(name).resolve() for name in manifest.roots]
    led = None if real == base.resolve() / target.relative_to(base) else real
    if led is not None and within is not None and not any(led.is_relative_to(root) for root in within):
        yield Passed(target, LEAVES)
    elif target.is_dir():
        yield from walk(target, real=led, within=within)
    elif os.path.lexists(target):
        found = found_at(target, real=led)
        yield found if found is not None else Passed(target, "is not an image or a video")


def require_there(store: Store, target: Path) -> None:
    """Refuse what is no folder or file and belongs to no root, before anything is written."""
    if any(target.is_relative_to(store.root_path(name)) for name in store.manifest.roots):
        return
    if not os.path.lexists(target) or not (target.is_dir() or target.parent.is_dir()):
        raise InputError(f"{printable(target)}: does not exist. Check the spelling of the folder to index.")
    folder = target if target.is_dir() else target.parent
    if printable(folder) != str(folder):
        raise InputError(f"{printable(folder)}: its name is not valid Unicode. Rename the folder, then index it.")


def holds_anything(store: Store, target: Path) -> bool:
    """Whether there is something at a target, or the collection remembers that there was."""
    if os.path.lexists(target):
        return True
    for name in store.manifest.roots:
        base = store.root_path(name)
        if target.is_relative_to(base):
            scope = target.relative_to(base).as_posix()
            return scope == "." or store.catalogue.knows(name, scope)
    return False


def locate(store: Store, target: Path) -> tuple[str, str]:
    """The root that holds `target`, and the path of `target` in it; a new root where none does."""
    for name in store.manifest.roots:
        base = store.root_path(name)
        if target.is_relative_to(base):
            path = target.relative_to(base).as_posix()
            return name, "" if path == "." else path
    require_there(store, target)
    folder = target if target.is_dir() else target.parent
    return store.add_root(folder), "" if folder == target else target.name

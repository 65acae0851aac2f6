"""Which root of a collection a folder or file belongs to, and what lies there; on this machine or elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from wherein.errors import InputError
from wherein.images.elsewhere import exists, is_file_elsewhere, require_elsewhere, walk_elsewhere
from wherein.images.walk import LEAVES, Found, Passed, found_at, printable, walk
from wherein.store.store import Store
from wherein.values.address import Address, Location, inside

Stamp = tuple[int, int]
"""Size and date of a file."""


def roots_below(store: Store, folder: Location) -> list[Location]:
    """Roots inside a folder: they were indexed before it was, and keep their ids."""
    roots = map(store.root_path, store.manifest.roots)
    return [root for root in roots if root != folder and inside(folder, root) is not None]


def look_at(store: Store, target: Location, base: Location, known: Mapping[str, Stamp]) -> Iterator[Found | Passed]:
    """What is at a target below the root `base`; links are followed as far as the collection allows.

    `known` has the size and date that files below the root had when they were indexed.
    """
    if isinstance(target, Address) or isinstance(base, Address):
        yield from walk_elsewhere(Address(str(base), inside(base, target) or ""), known)
        return
    manifest, real = store.manifest, target.resolve() if target.exists() else target
    folders = [root for root in map(store.root_path, manifest.roots) if isinstance(root, Path)]
    within = None if manifest.follow_links else [root.resolve() for root in folders]
    led = None if real == base.resolve() / target.relative_to(base) else real
    if led is not None and within is not None and not any(led.is_relative_to(root) for root in within):
        yield Passed(target, LEAVES)
    elif target.is_dir():
        yield from walk(target, real=led, within=within)
    elif os.path.lexists(target):
        found = found_at(target, real=led)
        yield found if found is not None else Passed(target, "is not an image or a video")


def why_absent(root: Location) -> str | None:
    """Why nothing can be said of a root now, so that its images must stay; None where it is there."""
    if isinstance(root, Path):
        return None if root.is_dir() else "the folder is not there"
    return None if exists(root) else "nothing is there"


def require_there(store: Store, target: Location) -> None:
    """Refuse what is no folder or file and belongs to no root, before anything is written."""
    if any(inside(store.root_path(name), target) is not None for name in store.manifest.roots):
        return
    if isinstance(target, Address):
        require_elsewhere(target)
        return
    if not os.path.lexists(target) or not (target.is_dir() or target.parent.is_dir()):
        raise InputError(f"{printable(target)}: does not exist. Check the spelling of the folder to index.")
    folder = target if target.is_dir() else target.parent
    if printable(folder) != str(folder):
        raise InputError(f"{printable(folder)}: its name is not valid Unicode. Rename the folder, then index it.")


def holds_anything(store: Store, target: Location) -> bool:
    """Whether there is something at a target, or the collection remembers that there was."""
    if exists(target) if isinstance(target, Address) else os.path.lexists(target):
        return True
    for name in store.manifest.roots:
        scope = inside(store.root_path(name), target)
        if scope is not None:
            return not scope or store.catalogue.knows(name, scope)
    return False


def locate(store: Store, target: Location) -> tuple[str, str]:
    """The root that holds `target`, and the path of `target` in it; a new root where none does."""
    for name in store.manifest.roots:
        path = inside(store.root_path(name), target)
        if path is not None:
            return name, path
    require_there(store, target)
    single = is_file_elsewhere(target) if isinstance(target, Address) else not target.is_dir()
    folder = target.parent if single else target
    return store.add_root(folder), target.name if single else ""

"""What people call images: ids, paths of files and films, folders."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wherein.errors import ImageNotFound, InputError, did_you_mean
from wherein.images.image import ImageLike
from wherein.store.store import Store
from wherein.values.address import Address, Location, inside, location_of, url_of
from wherein.values.records import Filter


def image_id_of(root: str, path: str) -> str:
    """The stable name of a file: its path in its root, after the root's name where it has one."""
    return f"{root}/{path}" if root else path


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Whether a path of a root is one of some folders or below one; an empty one is the root itself."""
    return any(not folder or path == folder or path.startswith(f"{folder}/") for folder in folders)


def named_image(source: Any) -> tuple[str, ImageLike]:
    """An image from memory with its id, checked."""
    if not isinstance(source, tuple) or len(source) != 2 or not isinstance(source[0], str):
        raise InputError(f"cannot add a {type(source).__name__}: give a folder, a file, or (image_id, image).")
    if not source[0].strip():
        raise InputError("an image_id is empty: give the image a name.")
    try:
        source[0].encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"{source[0]!a} cannot be an image_id: it is not valid Unicode. Choose another.") from None
    return source


def ids_of(store: Store, name: str | os.PathLike[str] | Address) -> list[str]:
    """The image_ids that a name means: an id, or the path of a file; a film is all its keyframes."""
    catalogue = store.catalogue
    if catalogue.image_at(str(name)) is not None:
        return [str(name)]
    location = location_of(name)
    for root in store.manifest.roots:
        below = inside(store.root_path(root), location)
        places = [] if below is None else [below]
        if str(name).startswith(image_id_of(root, "")):
            places.append(str(name).removeprefix(image_id_of(root, "")))
        for place in places:
            file = catalogue.file_at(root, place)
            if file is not None:
                return [record.image_id for _, record in catalogue.images_of(file)]
            if catalogue.image_at(image_id_of(root, place)) is not None:
                return [image_id_of(root, place)]
    raise ImageNotFound(f"{name}: no image of that id or path in {store.folder}.")


def by_ids(store: Store, filter_: Filter) -> Filter:
    """A filter whose folder is said as ids are: a path below a root from that root on, and as a glob.

    A folder that is there is taken literally, whatever characters its name holds; else the name is a glob.
    """
    if filter_.folder is None or _is_above_all(store, filter_.folder):
        return replace(filter_, folder=None)
    folder = _from_root(store, filter_.folder)
    literal = _literal(folder)
    if literal != folder and store.catalogue.live_images(Filter(folder=literal)):
        folder = literal
    return replace(filter_, folder=folder)


def _is_above_all(store: Store, folder: str) -> bool:
    """Whether a folder is the path of one that holds every root, so that all images are below it."""
    there, roots = _place_of(folder), store.manifest.roots
    absolute = isinstance(there, Address) or there.is_absolute()
    return absolute and bool(roots) and all(inside(there, store.root_path(root)) is not None for root in roots)


def _place_of(folder: str) -> Location:
    return location_of(folder) if url_of(folder) else Path(os.path.normpath(folder))


def _from_root(store: Store, folder: str) -> str:
    """A folder as ids begin: where it is a path below a root, from that root on."""
    there = _place_of(folder)
    for root in store.manifest.roots if isinstance(there, Address) or there.is_absolute() else ():
        below = inside(store.root_path(root), there)
        if below is not None:
            return image_id_of(root, below or ".")
    return folder


def _literal(folder: str) -> str:
    """A glob that means a name itself: `trip [2019]` → `trip [[]2019]`."""
    return re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", folder)


def unknown_names(store: Store, filter_: Filter) -> tuple[str, ...]:
    """What to tell where a filter lets nothing through: folders and tags that nothing bears, and what may be meant."""
    said = []
    if filter_.folder is not None and not store.catalogue.live_images(by_ids(store, Filter(folder=filter_.folder))):
        living = (Path(image_id) for _, image_id in store.catalogue.live_images())
        folders = {folder.as_posix() for image_id in living for folder in image_id.parents}
        meant = did_you_mean(_from_root(store, filter_.folder).strip("/"), sorted(folders - {"."}))
        said.append(f"no image is below a folder {filter_.folder!r}.{meant}")
    tags = store.catalogue.tags()
    said += [f"no image has the tag {tag!r}.{did_you_mean(tag, tags)}" for tag in filter_.tags if tag not in tags]
    return tuple(said)

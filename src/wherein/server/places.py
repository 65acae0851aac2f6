"""Folders by the names that answers show. Where they lie on the server's disk is nobody else's business."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from wherein.images.video import split_frame
from wherein.values.address import Location, location_of, url_of


class NamedFolders:
    """Known folders, each with a name of its own: `/home/ada/Pictures` is shown as `Pictures`."""

    def __init__(self, folders: Iterable[Location]) -> None:
        self._folders = dict[str, Location]()
        self._names = dict[Location, str]()
        for folder in folders:
            real = folder.resolve() if isinstance(folder, Path) else folder
            if real not in self._names:
                name, number = real.name or "files", 1
                while name in self._folders:
                    number += 1
                    name = f"{real.name}-{number}"
                self._folders[name], self._names[real] = real, name
            self._names[folder] = self._names[real]

    def said(self, text: str) -> str:
        """A text in which every known folder is called by its name."""
        for folder in sorted(self._names, key=lambda path: -len(str(path))):
            text = re.sub(rf"{re.escape(str(folder))}(?![^/\s:,;.)'\"`])", lambda _: self._names[folder], text)  # noqa: B023
        return text

    def meant(self, name: str) -> Location:
        """The folder that is named: `Pictures/holiday`, a path as it is on the server's disk, or an address."""
        first, _, rest = name.partition("/")
        if first in self._folders:
            return self._folders[first] / rest
        if url_of(name) is not None:
            return location_of(name)
        return Path(os.path.expanduser(name))  # noqa: PTH111 — "~" may be no user


def file_name(image_id: str) -> str:
    """The file of an image as its collection calls it: `films/clip.mp4#t=2` → `films/clip.mp4`."""
    frame = split_frame(image_id)
    return image_id if frame is None else frame[0]

"""The served collections. Each has lanes for searching and one for reading; writes open their own handle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import anyio
import anyio.to_thread

import wherein
from wherein.collection import Collection
from wherein.errors import CollectionNotFound, ImageError, NotPrepared, OversizedImage, UnreadableImage
from wherein.files import TEMPORARY, write_durably
from wherein.images import isolated
from wherein.images.image import Image, ImageLike
from wherein.images.picture import IMAGE_SUFFIXES, looks_like_image
from wherein.images.video import is_video
from wherein.options import Filters
from wherein.plugins import AUTO
from wherein.server.lanes import Lane, is_slow
from wherein.server.look_alikes import LookAlikes
from wherein.server.places import NamedFolders
from wherein.server.preparing import Preparing
from wherein.server.problems import Problem
from wherein.server.questions import QUESTIONS, AnsweredSearch
from wherein.server.rankings import RANKINGS, Answered
from wherein.server.recent import Recent
from wherein.server.settings import Settings
from wherein.sums import digest_name
from wherein.values.address import Address, Location, location_of
from wherein.values.records import FOLDER, Info

T = TypeVar("T")

MAX_PIXELS: Final = 200_000_000
"""Pixels of an image that is decoded for a request: fewer than while indexing, since requests come from strangers.
Pillow takes 800 MB for so many; half refuses photographs that phones take."""
_UPLOAD_SIDE: Final = 256
"""Pixels of the longer side, about, at which an upload is decoded to see that it can be."""
_EXAMPLES_ROOM: Final = 256 << 20
"""Bytes of uploaded images that are kept for each collection."""


class Served:
    """One collection as the server sees it."""

    def __init__(self, name: str, folder: Path, *, seconds: float, index: str = AUTO) -> None:
        self.name, self.folder = name, folder
        self._index = index
        self._seconds = seconds
        self._quick = Lane(folder, name=f"search {name}", opened=wherein.open(folder))
        self._slow = Lane(folder, name=f"slow search {name}")
        self._read = Lane(folder, name=f"read {name}", opened=wherein.open(folder))
        self._preparing = Preparing(folder, name=name)
        self._listed: tuple[tuple[int, str], list[str]] | None = None
        self._info: tuple[int, Info] | None = None
        self._living: tuple[int, frozenset[str]] | None = None
        self.rankings = Recent[tuple[object, ...], Answered](RANKINGS)
        self.questions = Recent[str, AnsweredSearch](QUESTIONS, joined=AnsweredSearch.joined)
        self.look_alikes = LookAlikes()
        self.decoding = anyio.CapacityLimiter(2)
        """Uploads are decoded two at a time: each may take some hundred megabytes."""
        self.file_turn = threading.Lock()
        """Held while one of the server's own files (selections, annotations, studies) is read and written again."""

    def index_of(self, name: str) -> str:
        """The index that a request means: the server's own unless it names another. Only the server says where."""
        if name in (AUTO, self._index.partition(":")[0]):
            return self._index
        if name.partition(":")[0] == "milvus":
            raise Problem(422, "index milvus: only the address that this server was started with (--index) is asked.")
        return name

    def depths(self) -> dict[str, int]:
        """Calls that run or wait in each lane."""
        return {"quick": self._quick.depth, "slow": self._slow.depth, "read": self._read.depth}

    async def searching(self, call: Callable[[Collection], T], *, method: str = "", unhurried: bool = False) -> T:
        """Run a search by that method, in the seconds a search may take; one that is `unhurried` may take longer.

        What the first search of its kind needs is made before, through a handle of its own: others search meanwhile,
        and whoever gives up waiting loses nothing of it.
        """
        lane = self._slow if unhurried or is_slow(method) else self._quick
        seconds = None if unhurried else self._seconds
        while True:
            try:
                return await lane.run(call, seconds=seconds)
            except NotPrepared as wanted:
                await self._preparing.wait_for(wanted, seconds=seconds)

    async def reading(self, call: Callable[[Collection], T]) -> T:
        """Run something quick that only reads."""
        return await self._read.run(call, seconds=self._seconds)

    async def writing(self, call: Callable[[Collection], T]) -> T:
        """Run something that writes, through a handle of its own; the lanes see the change."""

        def run() -> T:
            with wherein.open(self.folder) as collection:
                return call(collection)

        return await anyio.to_thread.run_sync(run)

    async def listed(self, filters: Filters) -> list[str]:
        """The ids that pass, looked up again only when the collection or the filters change."""

        def read(collection: Collection) -> list[str]:
            key = (collection.version, repr(filters))
            if self._listed is None or self._listed[0] != key:
                self._listed = (key, collection.image_ids(**filters))
            return self._listed[1]

        return await self.reading(read)

    async def info(self) -> Info:
        """What the collection holds; counted again only when it changed."""

        def read(collection: Collection) -> Info:
            if self._info is None or self._info[0] != collection.version:
                self._info = (collection.version, collection.info())
            return self._info[1]

        return await self.reading(read)

    async def living(self) -> frozenset[str]:
        """The ids of all images; looked up again only when the collection changed."""

        def read(collection: Collection) -> frozenset[str]:
            if self._living is None or self._living[0] != collection.version:
                self._living = (collection.version, frozenset(collection.image_ids()))
            return self._living[1]

        return await self.reading(read)

    def close(self) -> None:
        """Stop what runs, and close the handles."""
        self._preparing.close()
        for lane in (self._quick, self._slow, self._read):
            lane.close()

    def keep_example(self, data: bytes, *, max_pixels: int) -> tuple[str, tuple[int, int]]:
        """Keep an uploaded image, to be searched with; the oldest are forgotten."""
        size_wh = check_upload(data, max_pixels=max_pixels, name="the upload").full_wh
        name = digest_name(data)
        folder = self._examples
        write_durably(folder / name, data)
        kept = list[tuple[float, int, Path]]()
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # another upload may have finished with it meanwhile
                status = path.stat()
                kept.append((status.st_mtime, status.st_size, path))
        room = _EXAMPLES_ROOM
        for _, size, path in sorted(kept, reverse=True):
            room -= size
            if room < 0 and path.name != name and path.suffix != TEMPORARY:
                path.unlink(missing_ok=True)
        return name, size_wh

    def example(self, name: str) -> bytes:
        """The bytes of an uploaded image."""
        try:
            return (self._examples / name).read_bytes()
        except OSError:
            raise Problem(404, f"example {name}: was never sent here, or is forgotten. Send the image again.") from None

    @property
    def _examples(self) -> Path:
        return self.folder / "derived" / "examples"


class Library:
    """The collections by name."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._served = dict[str, Served]()
        self._turn = threading.Lock()

    def open(self, folder: Path) -> Served:
        """Serve the collection in `folder`, under the name of the folder that holds it."""
        with wherein.open(folder) as found:
            inside = found.folder
        with self._turn:
            for served in self._served.values():
                if served.folder == inside:
                    return served
            base = name = (inside.parent.name if inside.name == FOLDER else inside.name) or "images"
            number = 1
            while name in self._served:
                number += 1
                name = f"{base}-{number}"
            served = self._served[name] = Served(
                name, inside, seconds=self.settings.search_seconds, index=self.settings.index
            )
            return served

    def get(self, name: str) -> Served:
        """A collection that is served."""
        if name not in self._served:
            raise CollectionNotFound(f"no collection {name!r} is served here; there are: {', '.join(self.names())}.")
        return self._served[name]

    def names(self) -> list[str]:
        """The names of the served collections, in the order they were opened."""
        return list(self._served)

    def close(self) -> None:
        """Close every served collection."""
        for served in self._served.values():
            served.close()

    def places(self) -> NamedFolders:
        """The folders that answers may speak of, by name: those that are indexed, may be, or hold a collection."""
        folders = list(self.settings.index_roots)
        if self.settings.publish is not None:
            folders.append(location_of(self.settings.publish))
        for served in self._served.values():
            with wherein.open(served.folder) as opened:
                folders += opened.roots.values()
            folders.append(served.folder.parent if served.folder.name == FOLDER else served.folder)
        return NamedFolders(folders)

    def index_roots(self) -> list[Location]:
        """The folders below which indexing is allowed, resolved; those elsewhere as they were named."""
        roots = list(self.settings.index_roots)
        if not roots:
            for served in self._served.values():
                with wherein.open(served.folder) as opened:
                    roots += opened.roots.values()
        here = (root.resolve() for root in roots if isinstance(root, Path) and root.is_dir())
        return list(dict.fromkeys([*here, *(root for root in roots if isinstance(root, Address))]))


def check_upload(data: bytes, *, max_pixels: int, name: str) -> Image:
    """An image that was sent, decoded; refused where it is none, or too large."""
    try:
        return isolated.decode(data, at_least=lambda _: _UPLOAD_SIDE, max_pixels=max_pixels, name=name)
    except OversizedImage:
        raise OversizedImage(f"{name}: has more than the {max_pixels:,} pixels taken here. Send it smaller.") from None


def original_of(collection: Collection, image_id: str) -> BinaryIO:
    """The file of an image, opened as it was indexed, if it is still an image or a video."""
    details = collection.details(image_id)
    if details.path is None:
        raise Problem(404, f"{image_id}: was added from memory and has no file. Its thumbnail is kept.")
    try:
        file = collection.open_file(image_id)
    except UnreadableImage:
        raise Problem(
            404, f"{image_id}: its file is gone or has changed, or a link leads elsewhere. Index the folder again."
        ) from None
    head = file.read(32)
    file.seek(0)
    if not (looks_like_image(head) or is_video(details.path.name) or details.path.suffix.lower() in IMAGE_SUFFIXES):
        file.close()
        raise Problem(404, f"{image_id}: its file is no longer an image. Index the folder again.")
    return file


def picture_of(collection: Collection, image_id: str, *, side: int) -> Image:
    """An image, decoded so that its longer side has about `side` pixels or more."""
    details = collection.details(image_id)
    with original_of(collection, image_id) as file:
        if details.seconds is None:
            return isolated.decode(file.read(), at_least=lambda _: side, max_pixels=MAX_PIXELS, name=image_id)
        return isolated.frame_at(file, details.seconds)


def example_of(collection: Collection, image_id: str) -> ImageLike:
    """An image of the collection, to search with: its file, its frame, or the thumbnail where no file is left."""
    details = collection.details(image_id)
    try:
        if details.seconds is None:
            with original_of(collection, image_id) as file:
                return file.read()
        return picture_of(collection, image_id, side=1024).pixels
    except (Problem, ImageError):
        thumb = collection.thumb(image_id)
        if thumb is None:
            raise
        return thumb

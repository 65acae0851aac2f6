"""What a collection holds, image by image: names, facts, tags, files. A part of the facade."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar, Unpack

from wherein.errors import ImageError, ImageNotFound, InputError, UnreadableImage
from wherein.files import stamp_of
from wherein.images import isolated
from wherein.images.image import ImageLike
from wherein.indexing.layer_choice import describe_layers
from wherein.indexing.names import by_ids, ids_of, unknown_names
from wherein.indexing.scope import holds_anything
from wherein.indexing.upkeep import Upkeep
from wherein.layers import open_kind
from wherein.options import Askable, Filters, lists_options, only_filters, require_tag
from wherein.values.address import Address, Location
from wherein.values.query import Part, Query, marked
from wherein.values.ranking import PointMatches
from wherein.values.records import FOLDER, Details, Filter, Info

T = TypeVar("T")


class Inventory(Upkeep):
    """What is known of the images of a collection, and what people say of them."""

    @property
    def encoder(self) -> str:
        """The spec of the encoder that serves searches."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self._store.catalogue.counts()[0]

    @property
    def folder(self) -> Path:
        """Where the collection's own files are."""
        return self._store.folder

    @property
    def roots(self) -> dict[str, Location]:
        """The indexed folders by name, paths of this machine or addresses elsewhere."""
        self._store.refresh()
        return {name: self._store.root_path(name) for name in self._store.manifest.roots}

    @property
    def version(self) -> int:
        """A number that changes when somebody else changes the collection."""
        return self._store.catalogue.version()

    @property
    def state(self) -> tuple[object, ...]:
        """What searches answer by, as one value: it changes when anybody changes images, judgements or what is trained.

        It is read from this handle, and says nothing beside that of another.
        """
        kept = self.folder / "kept"
        files = [self.folder / "manifest.json", kept / "judged.json", *sorted(kept.glob("trained/*/card.json"))]
        return (self.version, *map(stamp_of, files))

    @property
    def searchable(self) -> int:
        """How many images the encoder that serves has described."""
        layers = self._store.manifest.layers.values()
        made = [layer.name for layer in layers if (layer.kind, layer.spec) == ("global", self.encoder)]
        return self._store.catalogue.covered(made[-1]) if made else 0

    def info(self) -> Info:
        """What the collection holds, and its bytes per image."""
        self._store.refresh()
        live, gone, skipped = self._store.catalogue.counts()
        return Info(
            folder=self.folder,
            encoder=self.encoder,
            roots=self.roots,
            images=live,
            tombstones=gone,
            skipped=skipped,
            ignored=len(self.ignored()),
            tags=self._store.catalogue.tags(),
            layers=describe_layers(self._store),
            bytes=self._store.size_on_disk(),
        )

    @lists_options(Filters)
    def image_ids(self, **filters: Unpack[Filters]) -> list[str]:
        """The ids of all living images, or of those that pass the filters, sorted."""
        return [image_id for _, image_id in self._passing(only_filters(filters))]

    def unknown_names(self, **filters: Unpack[Filters]) -> tuple[str, ...]:
        """Which folder and tags of a filter no image bears, and which may have been meant, in sentences."""
        return unknown_names(self._store, only_filters(filters))

    def details(self, image_id: str) -> Details:
        """What is known about one image."""
        self._store.refresh()
        key = self._keys([image_id])[0]
        image, file = self._store.catalogue.describe(key)
        return Details(
            image_id=image_id,
            size_wh=image.size_wh,
            taken=image.taken,
            seconds=image.seconds,
            path=self._store.file_path(key),
            file_bytes=file.size,
            digest=file.hash.hex(),
            tags=tuple(self._store.catalogue.tags(key)),
        )

    def frames(self, image_id: str) -> list[str]:
        """The images of the same file, in order: the keyframes of a video, or the image alone."""
        file = self._store.catalogue.file_of(self._keys([image_id])[0])
        return [record.image_id for _, record in self._store.catalogue.images_of(file)]

    def resolve(self, name: str | os.PathLike[str] | Address) -> list[str]:
        """The image_ids that an id or a path means; the path of a film is all its keyframes."""
        self._store.refresh()
        return ids_of(self._store, name)

    def thumb(self, image_id: str) -> bytes | None:
        """A small JPEG of an image, where the collection keeps one."""
        return self._steadily(lambda: self._store.thumb(self._keys([image_id])[0]))

    def open_file(self, image_id: str) -> BinaryIO:
        """The file of an image, opened as it was indexed: through no link that was turned since, with the same content.

        An image that was added from memory has none, and another's may be gone: UnreadableImage says so.
        """
        self._store.refresh()
        original = self._store.original(self._keys([image_id])[0])
        if original is None:
            raise UnreadableImage(f"{image_id}: was added from memory and has no file. Its thumbnail is kept.")
        return original.open()

    def marks(self, *, right: Iterable[str] = (), wrong: Iterable[str] = ()) -> tuple[Part, ...]:
        """Images of the collection that are right (✓) or wrong (✗), as parts of a query: `["a dog", *marks(…)]`.

        From three right and one wrong on, a search learns from them what is meant; fewer only move the query.
        """
        each = [(image_id, True) for image_id in right] + [(image_id, False) for image_id in wrong]
        return tuple(marked(image_id, self._picture(image_id), right=is_right) for image_id, is_right in each)

    def _picture(self, image_id: str) -> ImageLike:
        """An image to search with: its file, its frame, or the thumbnail where no file is left."""
        seconds = self.details(image_id).seconds
        try:
            with self.open_file(image_id) as file:
                return file.read() if seconds is None else isolated.frame_at(file, seconds).pixels
        except ImageError:
            thumb = self.thumb(image_id)
            if thumb is None:
                raise
            return thumb

    def matches(self, query: Askable, image: ImageLike) -> PointMatches:
        """Which points of an example of the query are seen again in an image: its id here, or another picture."""
        from wherein.search.matches import point_matches

        try:
            picture = self._picture(image) if isinstance(image, str) else image
        except ImageNotFound:
            picture = image
        return point_matches(Query.of(query), picture)

    def tag(self, tag: str, image_ids: Iterable[str]) -> None:
        """Tag images; several tags on one image are fine."""
        require_tag(tag)
        with self._store.catalogue.transaction():  # which waits for others, so that indexing does not stand in the way
            self._store.catalogue.put_tags(self._keys(image_ids), tag)
        self._store.secure()

    def untag(self, tag: str, image_ids: Iterable[str]) -> None:
        """Take a tag off images."""
        require_tag(tag)
        with self._store.catalogue.transaction():
            self._store.catalogue.drop_tags(self._keys(image_ids), tag)
        self._store.secure()

    def watch(self) -> Iterator[list[Path]]:
        """Wait for changes below the roots; yields the files and folders to `add` again, until interrupted."""
        from watchfiles import watch

        there = [root for root in self.roots.values() if isinstance(root, Path) and root.is_dir()]
        if not there:
            raise InputError(f"{self.folder}: no indexed folder is on this machine, so none can be watched.")
        for changes in watch(*there, watch_filter=lambda _, path: FOLDER not in Path(path).parts):
            changed = {Path(path) for _, path in changes}
            yield sorted(path for path in changed if holds_anything(self._store, path))

    def _passing(self, filter_: Filter) -> list[tuple[int, str]]:
        """(image, image_id) of the living images that pass."""
        return self._store.catalogue.live_images(by_ids(self._store, filter_))

    def _steadily(self, answer: Callable[[], T]) -> T:
        """An answer from one state of the collection."""
        raise NotImplementedError

    def seconds_to_fill(self, kind: str) -> float | None:
        """About how long filling a layer of all images will take, measured on this machine; None where it is quick."""
        return open_kind(kind).seconds(len(self))

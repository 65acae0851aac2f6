"""Layers that images of a collection lack: taken over from files of equal content, or else made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wherein.indexing.stages import IndexTask
from wherein.store.piece import Piece
from wherein.store.store import Store

Place = tuple[str, str]
"""(root, path)"""


class Filling:
    """Completes the layers of some living files, content by content; other layers of theirs stay as they are."""

    def __init__(self, store: Store, wanted: Sequence[str], files: Mapping[Place, IndexTask]) -> None:
        self._store, self._wanted, self._files = store, frozenset(wanted), dict(files)
        self._tried = set[Place]()
        self.completed = set[int]()
        """The images that got something."""

    def next(self) -> list[IndexTask]:
        """What is to be read: one file of each content that still lacks layers, and of these those not tried yet."""
        tasks = dict[bytes, IndexTask]()
        with self._store.catalogue.transaction():
            for place, task in list(self._files.items()):
                lacking = self._lacking(place)
                if lacking is None:
                    del self._files[place]
                elif place not in self._tried and lacking.file.hash not in tasks:
                    tasks[lacking.file.hash] = replace(task, file=lacking.file, layers=lacking.layers)
        self._tried.update((task.file.root, task.file.path) for task in tasks.values())
        return list(tasks.values())

    def _lacking(self, place: Place) -> IndexTask | None:
        """The file at a place and what it lacks, after others of its content gave what they have; None: nothing."""
        catalogue = self._store.catalogue
        file = catalogue.file_at(*place)
        if file is None:
            return None
        record = catalogue.file_record(file)
        lacking = self._wanted - catalogue.layers_of(file)
        for twin, _, _ in catalogue.files_with_hash(record.hash) if lacking else ():
            shared = lacking & catalogue.layers_of(twin)
            if shared and twin != file:
                self._share(twin, file, shared)
                lacking -= shared
        return IndexTask(record, "", b"", layers=lacking) if lacking else None

    def _share(self, source: int, target: int, layers: frozenset[str]) -> None:
        catalogue = self._store.catalogue
        given = {record.seconds: image for image, record in catalogue.images_of(source)}
        for image, record in catalogue.images_of(target):
            if record.seconds in given:
                catalogue.copy_rows(given[record.seconds], image, layers=layers)
                self.completed.add(image)

    def accepts(self, piece: Piece) -> bool:
        """Whether the image of a piece is one of the collection; a video may be cut into others than it once was."""
        file = self._store.catalogue.file_at(piece.file.root, piece.file.path)
        images = {} if file is None else {one.image_id: key for key, one in self._store.catalogue.images_of(file)}
        if piece.image.image_id not in images:
            return False
        self.completed.add(images[piece.image.image_id])
        return True

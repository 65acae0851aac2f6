"""Bring a collection up to date with folders: what is new, changed, renamed, doubled or gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from wherein.catalogue import FileRecord
from wherein.embed import Embedder, Known, Skipped, Task, layers_of
from wherein.encoders import Encoder
from wherein.errors import InputError
from wherein.image import ImageLike
from wherein.store import THUMBS, Layer, Piece, Store
from wherein.walk import Found, Passed, look, walk

_COMMIT_IMAGES: Final = 1024
_COMMIT_SECONDS: Final = 3.0
MEMORY_ROOT: Final = ":memory:"
"""The root of images that were added from memory and have no file."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A file that was left out, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class AddReport:
    """What an `add` did, in images; skipped and unchanged in files."""

    added: int = 0
    changed: int = 0
    renamed: int = 0
    duplicates: int = 0
    removed: int = 0
    unchanged: int = 0
    skipped: list[Skip] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an `add` is, in files."""

    done: int
    total: int
    skip: Skip | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """How files are read."""

    kinds: Sequence[str]
    workers: int
    max_pixels: int


class Sync:
    """One run of indexing; the caller holds the writer's lock."""

    def __init__(
        self, store: Store, encoder: Encoder, settings: Settings, on_progress: Callable[[Progress], None]
    ) -> None:
        self._store, self._encoder, self._settings = store, encoder, settings
        self._on_progress = on_progress
        self._layers: tuple[Layer, ...] = layers_of(encoder, settings.kinds)
        names = [layer.name for layer in self._layers]
        self._wanted = [*names, *([THUMBS] if THUMBS in settings.kinds else [])]
        self._report = AddReport()
        self._tasks = list[Task]()
        self._gone = list[int]()
        self._pieces = list[Piece]()
        self._committed = time.monotonic()
        self._fresh = set[tuple[str, str]]()
        self._total = 0
        self._done = 0

    def run(self, folders: Sequence[Path], images: Sequence[tuple[str, ImageLike]] = ()) -> AddReport:
        """Make the collection hold what `folders` (folders or files) hold now, and `images`."""
        started = time.monotonic()
        thumbs = [Layer(THUMBS, THUMBS)] if THUMBS in self._settings.kinds else []
        self._store.add_layers([*self._layers, *thumbs])
        if not self._store.manifest.encoder:
            self._store.serve(self._encoder.spec)
        complete = self._store.catalogue.files_with_layer(self._wanted)
        for folder in folders:
            self._plan(folder, complete)
        self._plan_memory(images, complete)
        self._total = len(self._tasks) + self._report.unchanged
        self._done = self._report.unchanged
        self._on_progress(Progress(self._done, self._total))
        while self._tasks:
            tasks, self._tasks = self._tasks, []
            self._embed(tasks)
        self._bury()
        catalogue = self._store.catalogue
        if catalogue.covered(self._layers[0].name) == catalogue.counts()[0]:
            self._store.serve(self._encoder.spec)
        self._report.seconds = time.monotonic() - started
        return self._report

    def _plan(self, target: Path, complete: set[int]) -> None:
        root, scope = self._locate(target)
        base = self._store.root_path(root)
        if not base.is_dir():
            raise InputError(
                f"{base}: the folder is not there; nothing was changed. Connect its disk, or correct the path."
            )
        known = self._store.catalogue.files(root, scope)
        skipped = self._store.catalogue.skipped()
        unseen, blocked = dict(known), list[str]()
        for found in self._look(target):
            path = found.path.relative_to(base).as_posix()
            if isinstance(found, Passed):
                blocked.append(path)
                self._skip(Skip(str(found.path), found.reason))
                continue
            unseen.pop(path, None)
            file, size, mtime, gone = known.get(path, (0, -1, -1, True))
            if (size, mtime) == (found.size, found.mtime_ns) and not gone and file in complete:
                self._report.unchanged += 1
                continue
            before = skipped.get((root, path))
            if before is not None and before[:2] == (found.size, found.mtime_ns):
                self._skip(Skip(str(found.path), before[2]))
                continue
            if not file:
                self._fresh.add((root, path))
            record = FileRecord(root, path, found.size, found.mtime_ns)
            self._tasks.append(Task(record, image_id_of(root, path), found.path))
        for path, (file, _, _, gone) in unseen.items():
            if not gone and not any(path == b or path.startswith(f"{b}/") for b in blocked):
                self._gone.append(file)

    def _look(self, target: Path) -> Iterator[Found | Passed]:
        if target.is_dir():
            yield from walk(target)
        elif target.exists():
            found = look(target)
            yield found if found is not None else Passed(target, "is not an image or a video")

    def _locate(self, target: Path) -> tuple[str, str]:
        """The root that holds `target`, and the path of `target` in it; a new root where none does."""
        for name in self._store.manifest.roots:
            base = self._store.root_path(name)
            if target.is_relative_to(base):
                path = target.relative_to(base).as_posix()
                return name, "" if path == "." else path
        folder = target if target.is_dir() else target.parent
        if not folder.is_dir():
            raise InputError(f"{target}: does not exist. Check the spelling of the folder to index.")
        return self._store.add_root(folder), "" if folder == target else target.name

    def _plan_memory(self, images: Sequence[tuple[str, ImageLike]], complete: set[int]) -> None:
        known = self._store.catalogue.files(MEMORY_ROOT) if images else {}
        now = time.time_ns()
        for image_id, image in images:
            if image_id not in known or known[image_id][0] not in complete:
                self._fresh.add((MEMORY_ROOT, image_id))
            self._tasks.append(Task(FileRecord(MEMORY_ROOT, image_id, 0, now), image_id, image))

    def _embed(self, tasks: Sequence[Task]) -> None:
        embedder = Embedder(
            self._encoder,
            kinds=self._settings.kinds,
            known=self._is_known,
            workers=self._settings.workers,
            max_pixels=self._settings.max_pixels,
        )
        try:
            for outcome in embedder.run(tasks):
                if isinstance(outcome, Piece):
                    self._take(outcome)
                elif isinstance(outcome, Known):
                    self._reuse(outcome)
                else:
                    self._leave_out(outcome)
        finally:
            self._commit()  # also after Ctrl-C: what is encoded is kept

    def _take(self, piece: Piece) -> None:
        self._pieces.append(piece)
        if (piece.file.root, piece.file.path) in self._fresh:
            self._report.added += 1
        else:
            self._report.changed += 1
        late = time.monotonic() - self._committed > _COMMIT_SECONDS
        if len(self._pieces) >= _COMMIT_IMAGES or late:
            self._commit()
        if piece.last:
            self._step()

    def _commit(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces:
            self._store.commit(pieces)
        self._committed = time.monotonic()

    def _is_known(self, file: FileRecord) -> bool:
        """Called by the workers: is this content in every wanted layer?"""
        found = self._store.catalogue.files_with_hash(file.hash)
        return any(self._store.catalogue.has_layers(key, self._wanted) for key, _, _ in found)

    def _reuse(self, known: Known) -> None:
        catalogue = self._store.catalogue
        same = [
            entry
            for entry in catalogue.files_with_hash(known.file.hash)
            if catalogue.has_layers(entry[0], self._wanted)
        ]
        here = [key for key, record, _ in same if (record.root, record.path) == (known.file.root, known.file.path)]
        left = [key for key, record, gone in same if gone or not self._exists(record)]
        with catalogue.transaction():
            catalogue.drop_skipped(known.file.root, known.file.path)
            if here:
                catalogue.touch_file(here[0], known.file)
                self._report.unchanged += 1
            elif left:
                self._rename(left[0], known)
                self._report.renamed += 1
            else:
                self._double(same[0][0], known)
                self._report.duplicates += 1
        self._step()

    def _rename(self, file: int, known: Known) -> None:
        catalogue = self._store.catalogue
        catalogue.drop_file(known.file.root, known.file.path)
        catalogue.touch_file(file, known.file)
        for image, record in catalogue.images_of(file):
            catalogue.rename_image(image, _with_time(known.task.image_id, record.image_id))
        self._gone = [gone for gone in self._gone if gone != file]

    def _double(self, file: int, known: Known) -> None:
        catalogue = self._store.catalogue
        catalogue.drop_file(known.file.root, known.file.path)
        twin = catalogue.put_file(known.file, whole=True)
        for image, record in catalogue.images_of(file):
            own = type(record)(
                _with_time(known.task.image_id, record.image_id), record.size_wh, record.taken, record.seconds
            )
            catalogue.copy_rows(image, catalogue.put_image(twin, own))

    def _exists(self, record: FileRecord) -> bool:
        return record.root == MEMORY_ROOT or (self._store.root_path(record.root) / record.path).exists()

    def _leave_out(self, skipped: Skipped) -> None:
        with self._store.catalogue.transaction():
            self._store.catalogue.put_skipped(skipped.file, skipped.reason)
            file = self._store.catalogue.file_at(skipped.file.root, skipped.file.path)
            if file is not None:  # it was an image once; what it showed is no longer there
                self._store.catalogue.bury_files([file])
        root = skipped.file.root
        base = Path() if root == MEMORY_ROOT else self._store.root_path(root)
        self._skip(Skip(str(base / skipped.file.path), skipped.reason))
        self._step()

    def _bury(self) -> None:
        with self._store.catalogue.transaction():
            self._store.catalogue.bury_files(self._gone)
        self._report.removed = len(self._gone)

    def _skip(self, skip: Skip) -> None:
        self._report.skipped.append(skip)
        self._on_progress(Progress(self._done, self._total, skip))

    def _step(self) -> None:
        self._done += 1
        self._on_progress(Progress(self._done, self._total))


def image_id_of(root: str, path: str) -> str:
    """The stable name of a file: its path in its root, after the root's name where it has one."""
    return f"{root}/{path}" if root else path


def default_workers() -> int:
    """As many as the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _with_time(image_id: str, old: str) -> str:
    _, mark, seconds = old.rpartition("#t=")
    return f"{image_id}{mark}{seconds}" if mark else image_id

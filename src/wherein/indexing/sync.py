"""Bring a collection up to date with folders: what is new, changed, renamed, doubled or gone."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from wherein.encoders import Encoder
from wherein.errors import InputError
from wherein.images.elsewhere import exists
from wherein.images.image import ImageLike
from wherein.images.video import EVERY, keyframe_id
from wherein.images.walk import Found, Passed, printable
from wherein.indexing.compress import encode_full
from wherein.indexing.duplicates import Contents, Twin, moved_along, origin
from wherein.indexing.executors import load_executor
from wherein.indexing.fill import Filling
from wherein.indexing.names import image_id_of, is_below
from wherein.indexing.scope import holds_anything, locate, look_at, require_there, roots_below, why_absent
from wherein.indexing.stages import IndexTask, Known, Skipped, Stages, Unfilled
from wherein.store.ignored import Ignored
from wherein.store.piece import Piece
from wherein.store.store import Store
from wherein.values.address import Location, inside
from wherein.values.records import MEMORY_ROOT, AddReport, FileRecord, ImageRecord, Progress, Skip

_LOG: Final = logging.getLogger("wherein.indexing")
_COMMIT_FILES: Final = 1024  # files whose rows wait in memory for a commit: some 100 MB of `mini`'s
_COMMIT_SECONDS: Final = 3.0
"""Seconds after which a commit is made: all that a kill loses. One of 400 images takes a tenth of a second."""
_EXTRAS: Final = ("av", "pillow_heif", "rawpy")
_ANY_CONDITIONS: Final = ""
"""The conditions of a file that is left out for a reason that may pass: none equal it, so the file is tried again."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """How `Collection.add` reads files: by which executor, how many at once, within which limits."""

    kinds: Sequence[str]
    workers: int
    max_pixels: int
    every: float = EVERY
    """Seconds that a video may go on without an image."""
    executor: str = "threads"
    """What runs the stages of indexing."""
    verify: bool = False
    """Whether files are read whose size and date are as they were, to see that their content is too."""


class Sync:
    """One run of indexing; the caller holds the writer's lock."""

    def __init__(
        self, store: Store, encoder: Encoder, settings: IndexSettings, on_progress: Callable[[Progress], None]
    ) -> None:
        self._store, self._encoder, self._settings, self._on_progress = store, encoder, settings, on_progress
        self._stages = Stages(encoder, settings.kinds, max_pixels=settings.max_pixels, every=settings.every)
        self._wanted = [layer.name for layer in self._stages.layers]
        self._conditions = _conditions(settings)
        self._report = AddReport()
        self._tasks = dict[tuple[str, str], IndexTask]()
        self._fresh = set[tuple[str, str]]()
        self._there = set[tuple[str, str]]()
        self._gone = dict[tuple[str, str], int]()
        self._pieces = list[Piece]()
        self._skips = list[Skipped]()
        self._touched = list[tuple[int, FileRecord]]()
        self._elsewhere = list[Known]()
        self._incomplete = dict[tuple[str, str], IndexTask]()
        self._filling: Filling | None = None
        self._committed = time.monotonic()
        self._ignored = Ignored(store.folder).all()
        self._contents: Contents
        self._total = self._done = 0

    def run(self, folders: Sequence[Location], images: Sequence[tuple[str, ImageLike]] = ()) -> AddReport:
        """Make the collection hold what `folders` (folders or files) hold now, and `images`."""
        started = time.monotonic()
        for folder in folders:
            require_there(self._store, folder)
        self._store.add_layers(self._stages.layers)
        if not self._store.manifest.encoder:
            self._store.serve(self._encoder.spec)
        self._store.read_videos(self._settings.every)
        self._mend()
        complete = self._store.catalogue.files_with_layers(self._wanted)
        inner = [root for folder in folders for root in roots_below(self._store, folder) if not why_absent(root)]
        for folder in dict.fromkeys([*folders, *inner]):
            self._plan(folder, complete)
        self._plan_memory(images)
        self._total = len(self._tasks) + len(self._incomplete) + self._report.unchanged
        self._done = self._report.unchanged
        self._on_progress(Progress(self._done, self._total))
        with closing(self._store.catalogue.reader()) as reader:
            self._contents = Contents(reader)
            while self._tasks:
                tasks, self._tasks = self._tasks, {}
                self._embed(list(tasks.values()))
                self._settle()
                self._contents.each_once = False  # what comes back now is read, whatever else is like it
        self._bury()
        self._fill()
        self._drop_moved_roots()
        catalogue = self._store.catalogue
        if catalogue.covered(self._wanted[0]) == catalogue.counts()[0]:
            self._store.serve(self._encoder.spec)
        self._report.seconds = time.monotonic() - started
        _LOG.info("%d of %d files read in %.1f s", self._done, self._total, self._report.seconds)
        return self._report

    def _plan(self, target: Location, complete: set[int]) -> None:
        root, scope = locate(self._store, target)
        base = self._store.root_path(root)
        known = self._store.catalogue.files(root, scope)
        seen = self._seen(target, root, base, {path: own[1:] for path, own in known.items()})
        if seen is None:
            return
        skipped = self._store.catalogue.skipped(root)
        unseen, blocked, again = dict(known), dict[str, Skipped](), set[str]()
        inner = roots_below(self._store, base)
        links, home = dict[str, str](), base.resolve() if isinstance(base, Path) else Path()
        for found in seen:
            path = inside(base, found.path) or ""
            if any(inside(other, found.path) is not None for other in inner):
                continue  # it is in the collection already, under the name of its own root
            if isinstance(found, Passed):
                left_out = FileRecord(root, printable(Path(path)), 0, 0)
                blocked[path] = Skipped(left_out, found.reason, passing=True)
                self._skip(Skip(printable(found.path), found.reason))
                continue
            if (root, path) in self._ignored:
                self._report.ignored += 1
                continue
            unseen.pop(path, None)
            self._there.add((root, path))
            if found.real is not None:
                links[path] = inside(home, found.real) or str(found.real)
            file, size, mtime = known.get(path, (0, -1, -1))
            record = FileRecord(root, path, found.size, found.mtime_ns)
            task = IndexTask(record, image_id_of(root, path), found.path)
            if self._settings.verify:
                self._fresh.update([(root, path)] if not file else [])
                self._tasks[root, path] = task
            elif (size, mtime) == (found.size, found.mtime_ns) and file in complete:
                self._report.unchanged += 1
            elif (size, mtime) == (found.size, found.mtime_ns):
                self._incomplete[root, path] = task
            elif path in skipped and skipped[path][:3] == (found.size, found.mtime_ns, self._conditions):
                again.add(path)
                self._skip(Skip(str(found.path), skipped[path][3]))
            else:
                self._fresh.update([(root, path)] if not file else [])
                self._tasks[root, path] = task
        with self._store.catalogue.transaction():
            self._store.catalogue.put_links(root, scope, links)
        hidden = list(blocked)
        lost = {path: file for path, (file, _, _) in unseen.items() if not is_below(path, hidden)}
        self._gone.update({(root, path): file for path, file in lost.items()})
        here = [path for path in skipped if not path or is_below(path, [scope])]
        self._note_skips(blocked.values(), forget=[(root, path) for path in here if path not in again])

    def _seen(
        self, target: Location, root: str, base: Location, known: Mapping[str, tuple[int, int]]
    ) -> list[Found | Passed] | None:
        """What is at a target now; None where nothing can be said of it, so that its images stay."""
        absent = why_absent(base)
        if absent is None and not holds_anything(self._store, target):
            self._skip(Skip(printable(target), "does not exist, and nothing was indexed there. Check its spelling."))
            return None
        seen = list[Found | Passed]()
        try:
            seen += [] if absent else look_at(self._store, target, base, known)
        except OSError as error:  # of a folder elsewhere, all of the list comes, or nothing is said of its images
            absent = error.strerror or str(error)
        if absent is None and known and not seen and target == base and not isinstance(base, Path):
            absent = "nothing is there"
        if absent is None:
            return seen
        self._pass_over(root, absent)
        return None

    def _pass_over(self, root: str, why: str) -> None:
        """Leave the images of a root as they are, and say why."""
        base = self._store.root_path(root)
        again = "Connect its disk" if isinstance(base, Path) else "Try again later"
        way_out = f"{again}, or forget it with `wherein remove {shlex.quote(str(base))}`."
        reason = f"{why}; its images stay as they were. {way_out}"
        self._skip(Skip(str(base), reason))
        self._note_skips([Skipped(FileRecord(root, "", 0, 0), reason, passing=True)])

    def _plan_memory(self, images: Sequence[tuple[str, ImageLike]]) -> None:
        catalogue = self._store.catalogue
        known = catalogue.files(MEMORY_ROOT) if images else {}
        now = time.time_ns()
        for image_id, image in images:
            key = catalogue.image_at(image_id)
            if key is not None and catalogue.describe(key)[1].root != MEMORY_ROOT:
                raise InputError(f"{image_id}: is the id of a file in this collection. Choose another id.")
            if image_id not in known:
                self._fresh.add((MEMORY_ROOT, image_id))
            record = FileRecord(MEMORY_ROOT, image_id, 0, now)
            self._tasks[MEMORY_ROOT, image_id] = IndexTask(record, image_id, image)

    def _embed(self, tasks: Sequence[IndexTask]) -> None:
        executor = load_executor(self._settings.executor, workers=self._settings.workers)
        try:
            with closing(executor.run(self._stages, tasks, known=self._contents.known)) as outcomes:
                for outcome in outcomes:
                    if isinstance(outcome, Piece):
                        self._take(outcome)
                    elif isinstance(outcome, Known):
                        self._recognise(outcome)
                    elif isinstance(outcome, Unfilled):
                        reason = f"its layer {outcome.layer} could not be made ({outcome.reason}); the others were"
                        self._skip(Skip(self._path_of(outcome.file), reason))
                    else:
                        self._leave_out(outcome)
                    waiting = len(self._pieces) + len(self._skips) + len(self._touched)
                    if waiting >= _COMMIT_FILES or time.monotonic() - self._committed > _COMMIT_SECONDS:
                        self._commit()
        finally:
            self._commit()  # also after Ctrl-C: what is encoded is kept

    def _take(self, piece: Piece) -> None:
        if self._filling is None or self._filling.accepts(piece):
            self._pieces.append(piece)
        if self._filling is None and (piece.file.root, piece.file.path) in self._fresh:
            self._report.added += 1
        elif self._filling is None:
            self._report.changed += 1
        if piece.last:
            self._step()

    def _recognise(self, known: Known) -> None:
        """Content that the collection has: at this very path, or elsewhere, which is settled when all is seen."""
        for file, record, gone in self._contents.of(known.file.hash):
            if not gone and (record.root, record.path) == (known.file.root, known.file.path):
                self._touched.append((file, known.file))
                self._incomplete[record.root, record.path] = known.task
                self._report.unchanged += 1
                self._step()
                return
        self._elsewhere.append(known)

    def _leave_out(self, skipped: Skipped) -> None:
        if self._filling is None:  # else the image stays, with the layers it has
            self._skips.append(skipped)
        self._skip(Skip(self._path_of(skipped.file), skipped.reason))
        self._step()

    def _path_of(self, file: FileRecord) -> str:
        return file.path if file.root == MEMORY_ROOT else str(self._store.root_path(file.root) / file.path)

    def _commit(self) -> None:
        pieces, self._pieces = self._pieces, []
        skips, self._skips = self._skips, []
        touched, self._touched = self._touched, []
        if pieces:
            self._store.commit(pieces)
            encode_full(self._store)
        self._note_skips(skips)
        if touched:
            with self._store.catalogue.transaction():
                for file, record in touched:
                    self._store.catalogue.touch_file(file, record)
                    self._store.catalogue.drop_skipped([(record.root, record.path)])
        self._committed = time.monotonic()

    def _note_skips(self, skips: Collection[Skipped], *, forget: Sequence[tuple[str, str]] = ()) -> None:
        catalogue = self._store.catalogue
        if not skips and not forget:
            return
        with catalogue.transaction():
            catalogue.drop_skipped(forget)
            for skipped in skips:
                conditions = _ANY_CONDITIONS if skipped.passing else self._conditions
                catalogue.put_skipped(skipped.file, conditions=conditions, reason=skipped.reason)
                if not skipped.passing:  # it may have been an image once; what it showed is no longer there
                    catalogue.bury_path(skipped.file.root, skipped.file.path)

    def _settle(self) -> None:
        """Renames and duplicates, decided when the content of every path of this run is known."""
        settled = sorted(self._elsewhere, key=lambda known: (known.file.root, known.file.path))
        now = {(known.file.root, known.file.path): known.file.hash for known in settled}
        self._elsewhere = []
        for start in range(0, len(settled), _COMMIT_FILES):
            with self._store.catalogue.transaction():
                for known in settled[start : start + _COMMIT_FILES]:
                    self._place(known, now)

    def _place(self, known: Known, now: dict[tuple[str, str], bytes]) -> None:
        catalogue, file = self._store.catalogue, known.file
        same = catalogue.files_with_hash(file.hash)
        if not same:  # its twin of this run could not be read after all
            self._tasks[file.root, file.path] = known.task
            return
        here = (file.root, file.path)
        left = [twin for twin in same if self._has_left(twin, file, now)]
        catalogue.drop_skipped([here])
        self._incomplete[here] = known.task
        if left:
            key, record, _ = origin(left, file, catalogue)
            images = self._rename(key, known)
            self._gone.pop((record.root, record.path), None)
            if (record.root, record.path) == here:
                self._report.added += images  # back where it was
            else:
                self._report.renamed += images
        else:
            copies = self._double(same[0][0], known)
            new = same[0][2]  # what it is a copy of was taken out, and stays out
            self._report.added += copies if new else 0
            self._report.duplicates += 0 if new else copies
        self._step()

    def _has_left(self, twin: Twin, file: FileRecord, now: dict[tuple[str, str], bytes]) -> bool:
        _, record, gone = twin
        place = (record.root, record.path)
        if place in self._gone or now.get(place, record.hash) != record.hash or (gone and place not in self._ignored):
            return True
        if place in self._there or record.root not in self._store.manifest.roots:
            return False
        base = self._store.root_path(record.root)
        return moved_along(record, file) if why_absent(base) else not exists(base / record.path)

    def _rename(self, file: int, known: Known) -> int:
        catalogue = self._store.catalogue
        catalogue.touch_file(file, known.file)
        images = catalogue.images_of(file)
        for image, record in images:
            catalogue.rename_image(image, _image_id(known.task, record))
        return len(images)

    def _double(self, file: int, known: Known) -> int:
        catalogue = self._store.catalogue
        twin = catalogue.put_file(known.file, whole=True)
        images = catalogue.images_of(file)
        for image, record in images:
            own = replace(record, image_id=_image_id(known.task, record))
            catalogue.copy_rows(image, catalogue.put_image(twin, own))
        catalogue.keep_images(twin, [_image_id(known.task, record) for _, record in images])
        return len(images)

    def _mend(self) -> None:
        """What earlier versions left behind: duplicates with two rows for the whole image."""
        catalogue = self._store.catalogue
        if catalogue.doubled(self._wanted[0]):
            with catalogue.transaction():
                catalogue.drop_doubles(catalogue.doubled())

    def _fill(self) -> None:
        """Make what images of this run lack, and nothing that they have."""
        self._filling = Filling(self._store, self._wanted, self._incomplete)
        while tasks := self._filling.next():
            self._total = self._done + len(tasks)
            self._embed(tasks)
        self._report.completed = len(self._filling.completed)

    def _bury(self) -> None:
        catalogue = self._store.catalogue
        self._report.removed = sum(len(catalogue.images_of(file)) for file in self._gone.values())
        with catalogue.transaction():
            catalogue.bury_files(self._gone.values())
            catalogue.drop_replaced()

    def _drop_moved_roots(self) -> None:
        """Forget roots that are not there and of which nothing is left: their files have been found elsewhere."""
        for name in list(self._store.manifest.roots):
            if not self._store.catalogue.files(name) and why_absent(self._store.root_path(name)):
                self._store.drop_root(name)

    def _skip(self, skip: Skip) -> None:
        self._report.skipped.append(skip)
        _LOG.debug("skipped %s: %s", skip.path, skip.reason)
        self._on_progress(Progress(self._done, self._total, skip))

    def _step(self) -> None:
        self._done += 1
        self._on_progress(Progress(self._done, self._total))


def _conditions(settings: IndexSettings) -> str:
    """What decides whether a file can be read, besides the file: a skipped one is tried again when this changes.

    It begins with a number that is raised when such files may be readable by a newer wherein.
    """
    extras = [name for name in _EXTRAS if find_spec(name) is not None]
    return f"2 max_pixels={settings.max_pixels} {' '.join(extras)}"


def _image_id(task: IndexTask, record: ImageRecord) -> str:
    return task.image_id if record.seconds is None else keyframe_id(task.image_id, record.seconds)

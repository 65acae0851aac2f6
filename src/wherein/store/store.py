"""A collection's folder: manifest, catalogue and shards, one writer at a time. It knows no model.

manifest.json      format, roots, the layers and which encoder serves
catalogue.sqlite   files, images, rows, tags
shards/LAYER/N.npy immutable arrays; a row exists in the catalogue only when its data does
derived/           what can be deleted and rebuilt
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from wherein.errors import CollectionCorrupt, CollectionError, CollectionLocked, CollectionNotFound
from wherein.files import TEMPORARY, full_disk_told, write_durably
from wherein.store.catalogue import Catalogue
from wherein.store.derived import Derived
from wherein.store.originals import Original
from wherein.store.shards import Array, intact, read_array, read_blob, write_array, write_blobs
from wherein.store.writer import me, who
from wherein.values.records import MEMORY_ROOT, CheckReport, FileRecord, ImageRecord
from wherein.values.region import Box

FORMAT: Final = 1
FOLDER: Final = ".wherein"
THUMBS: Final = "thumbs"
PATIENCE_SECONDS: Final = 5.0
"""How long a small change waits for its turn; many times what one takes, and less than people wait for an answer."""
_ROWS_PER_SHARD: Final = 4096


@dataclass(frozen=True, slots=True)
class Layer:
    """One kind of embedding of every image: what made it, and the shape of one row."""

    name: str
    kind: str
    spec: str = ""
    digest: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = "uint8"

    @property
    def row_bytes(self) -> int | None:
        """Bytes of one row; None where rows differ."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize if self.shape else None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What manifest.json holds. Roots: name → folder, relative to the collection where that is possible."""

    encoder: str = ""
    roots: Mapping[str, str] = field(default_factory=dict)
    layers: Mapping[str, Layer] = field(default_factory=dict)
    every: float | None = None
    """Seconds that a video may go on without an image; None: its videos were read before there was a choice."""
    follow_links: bool = False
    """Whether links that leave the roots are followed while indexing."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check a manifest."""
        try:
            values: dict[str, Any] = json.loads(path.read_text("utf-8"))
            if values["format"] != FORMAT:
                raise CollectionCorrupt(
                    f"{path}: has format {values['format']}, this wherein reads {FORMAT}. "
                    "Upgrade wherein, or index into a new collection."
                )
            layers = {n: Layer(**{**v, "shape": tuple(v["shape"])}) for n, v in values["layers"].items()}
            return cls(
                str(values["encoder"]),
                dict(values["roots"]),
                layers,
                values.get("every"),
                bool(values.get("follow_links")),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CollectionCorrupt(
                f"{path}: is not a valid manifest ({error}). Restore it, or delete the collection."
            ) from error

    def write(self, path: Path) -> None:
        """Replace the manifest in one step."""
        layers = {name: asdict(layer) for name, layer in self.layers.items()}
        document = {"format": FORMAT, "encoder": self.encoder, "roots": dict(self.roots), "layers": layers}
        document |= {} if self.every is None else {"every": self.every}
        document |= {"follow_links": True} if self.follow_links else {}
        write_durably(path, json.dumps(document, indent=2, ensure_ascii=False).encode())


@dataclass(frozen=True, slots=True)
class Piece:
    """One image on its way to disk: its rows per layer, and whether its file is finished with it."""

    file: FileRecord
    image: ImageRecord
    boxes: tuple[Box | None, ...] = (None,)
    """The region of each row: None is the whole image; tiles follow."""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """layer → (rows, …)"""
    thumb: bytes | None = None
    last: bool = True
    image_ids: tuple[str, ...] = ()
    """With the last image of a video, those of all: what else the file had is forgotten."""
    cells: Mapping[str, tuple[Box | None, ...]] = field(default_factory=dict)
    """layer → the region of each row, for layers that describe other regions than the tiles"""
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    """layer → the bytes of the whole image, for layers whose rows differ in length"""
    fills: bool = False
    """Whether it brings layers that an image of the collection lacks, and changes nothing else of it"""


class Store:
    """The files of one collection."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "manifest.json").is_file():
            raise CollectionNotFound(f"{folder}: is not a collection. Make one with `wherein index FOLDER`.")
        self.folder = folder
        self.derived = Derived.of(folder / "derived")
        self._stamp: tuple[int, int, int] | None = None
        self.refresh()
        catalogue = folder / "catalogue.sqlite"
        if self.manifest.layers and not (catalogue.is_file() and catalogue.stat().st_size):
            raise CollectionCorrupt(
                f"{catalogue}: is lost, and with it which row belongs to which image. Restore it from a backup, or "
                f"delete {folder} and index again; the images themselves are untouched."
            )
        self.catalogue = Catalogue(catalogue, read_only=not os.access(folder, os.W_OK))

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Make an empty collection, or open the one that is there."""
        try:
            if not (folder / "manifest.json").is_file():
                Manifest().write(folder / "manifest.json")
        except OSError as error:
            raise _unwritable(folder, error) from error
        return cls(folder)

    def close(self) -> None:
        """Close the catalogue."""
        self.catalogue.close()

    def refresh(self) -> None:
        """Read the manifest again if it changed: another process may have added roots or layers."""
        path = self.folder / "manifest.json"
        try:
            status = path.stat()
        except OSError as error:
            raise CollectionNotFound(f"{path}: is gone ({error.strerror}). Index again to make a new one.") from error
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self.manifest, self._stamp = Manifest.read(path), stamp

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Hold the place of who changes what people said (`kept/`); indexing does not stand in the way."""
        import filelock

        lock = filelock.FileLock(self.folder / "kept.lock")
        try:
            with full_disk_told(self.folder):
                lock.acquire(timeout=PATIENCE_SECONDS)
        except filelock.Timeout:
            raise CollectionLocked(f"{self.folder}: others keep changing what is kept there. Try again.") from None
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def writing(self, *, patience: float = 0.0) -> Iterator[None]:
        """Hold the one writer's place; who still has not got it after `patience` seconds is told who has it."""
        import filelock

        lock = filelock.FileLock(self.folder / "write.lock")
        holder = self.folder / "writer.json"
        try:
            with full_disk_told(self.folder):
                lock.acquire(timeout=patience)
        except filelock.Timeout:
            raise CollectionLocked(
                f"{self.folder}: is being written to by {who(holder)}. Wait for it, or stop that process."
            ) from None
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        try:
            with full_disk_told(holder):
                holder.write_text(json.dumps(me()))
            self.refresh()
            self._sweep()
            yield
        finally:
            holder.unlink(missing_ok=True)
            lock.release()

    def add_root(self, folder: Path) -> str:
        """The name of a root, added when it is new. The first has the empty name, so ids need no prefix."""
        for name in self.manifest.roots:
            if self.root_path(name) == folder:
                return name
        name = ""
        if self.manifest.roots:
            taken, number = set(self.manifest.roots), 1
            name = base = folder.name or "root"
            while name in taken or any((self.root_path(root) / name).exists() for root in taken):
                number += 1
                name = f"{base}-{number}"
        inside = self.folder.is_relative_to(folder)
        value = os.path.relpath(folder, self.folder) if inside else str(folder)
        self._save(replace(self.manifest, roots={**self.manifest.roots, name: value}))
        return name

    def drop_root(self, name: str) -> int:
        """Forget a root; its images become tombstones. Returns how many files that were."""
        with self.catalogue.transaction():
            files = self.catalogue.drop_root(name)
        self._save(replace(self.manifest, roots={n: path for n, path in self.manifest.roots.items() if n != name}))
        return files

    def root_path(self, name: str) -> Path:
        """The folder of a root."""
        return Path(os.path.normpath(self.folder / self.manifest.roots[name]))

    def add_layers(self, layers: Sequence[Layer]) -> None:
        """Make layers known before their first shard."""
        known = {layer.name: layer for layer in layers}
        if not known.keys() <= self.manifest.layers.keys():
            self._save(replace(self.manifest, layers={**self.manifest.layers, **known}))

    def read_videos(self, every: float) -> None:
        """Keep an image of a video at least `every` seconds; videos that were read otherwise are to be read again."""
        if self.manifest.every != every:
            with self.catalogue.transaction():
                self.catalogue.unfinish_videos()
            self._save(replace(self.manifest, every=every))

    def drop_layer(self, layer: Layer) -> int:
        """Forget a layer and what was derived from it. Returns the bytes freed."""
        freed = sum(written.bytes for _, _, written in self.catalogue.shards(layer.name))
        with self.catalogue.transaction():  # first: a layer without rows is filled again, rows without a layer are lost
            self.catalogue.drop_layer(layer.name)
        self._save(replace(self.manifest, layers={n: one for n, one in self.manifest.layers.items() if one != layer}))
        self._sweep()
        shutil.rmtree(self.folder / "derived" / layer.name, ignore_errors=True)
        for made in (self.folder / "derived").glob(f"*.{layer.name}.*.npy"):
            made.unlink(missing_ok=True)
        return freed

    def follow_links(self, follow: bool) -> None:
        """Whether links that leave the roots are followed, from now on."""
        if self.manifest.follow_links != follow:
            self._save(replace(self.manifest, follow_links=follow))

    def serve(self, encoder: str) -> None:
        """Search with `encoder` from now on."""
        if self.manifest.encoder != encoder:
            self._save(replace(self.manifest, encoder=encoder))

    def commit(self, pieces: Sequence[Piece]) -> None:
        """Write shards, then make them and their images known in one transaction."""
        shard = self.catalogue.next_shard()
        layers = sorted({layer for piece in pieces for layer in piece.arrays})
        placed = []
        for layer in layers:
            having = [piece for piece in pieces if layer in piece.arrays]
            written = write_array(self._path(layer, shard), np.concatenate([p.arrays[layer] for p in having]))
            placed.append((shard, layer, written, [(p, box) for p in having for box in p.cells.get(layer, p.boxes)]))
            shard += 1
        blobs = [{**p.blobs, **({} if p.thumb is None else {THUMBS: p.thumb})} for p in pieces]
        for layer in sorted({layer for own in blobs for layer in own}):
            having = [piece for piece, own in zip(pieces, blobs, strict=True) if layer in own]
            written = write_blobs(self._path(layer, shard), [own[layer] for own in blobs if layer in own])
            placed.append((shard, layer, written, [(piece, None) for piece in having]))
            shard += 1
        with self.catalogue.transaction():
            newest = self.catalogue.newest_image()
            keys = {piece.image.image_id: self._put_piece(piece) for piece in pieces}
            for shard, layer, written, rows in placed:
                self.catalogue.put_shard(shard, layer, written)
                numbered = [(row, keys[piece.image.image_id], box) for row, (piece, box) in enumerate(rows)]
                self.catalogue.put_rows(shard, numbered, newest=newest)
            self.catalogue.drop_skipped((piece.file.root, piece.file.path) for piece in pieces)

    def file_path(self, image: int) -> Path | None:
        """The file an image comes from; None for one that was added from memory."""
        _, file = self.catalogue.describe(image)
        return None if file.root == MEMORY_ROOT else self.root_path(file.root) / file.path

    def original(self, image: int) -> Original | None:
        """The file an image comes from, to be opened as it was indexed; None for one that was added from memory."""
        _, file = self.catalogue.describe(image)
        if file.root == MEMORY_ROOT:
            return None
        return Original(self.root_path(file.root), file, self.catalogue.link(file.root, file.path))

    def array(self, layer: str, shard: int) -> Array:
        """The rows of one shard, mapped."""
        return read_array(self._path(layer, shard))

    def thumb(self, image: int) -> bytes | None:
        """The small JPEG of an image, where the collection keeps one."""
        return self.blob(image, THUMBS)

    def blob(self, image: int, layer: str) -> bytes | None:
        """The bytes of an image in a layer whose rows differ in length, where it has some."""
        place = self.catalogue.place(image, layer)
        if place is None:
            return None
        shard, rows, row = place
        return read_blob(self.array(layer, shard), rows=rows, row=row)

    def size_on_disk(self) -> int:
        """What the collection's own files take on disk."""
        total = 0
        for path in self.folder.rglob("*"):
            with suppress(FileNotFoundError):  # a writer may finish with a file meanwhile
                total += path.stat().st_size if path.is_file() else 0
        return total

    def broken_shards(self) -> list[tuple[int, Path]]:
        """(shard, path) of every shard that is missing or whose bytes changed."""
        paths = [(shard, self._path(layer, shard), written) for shard, layer, written in self.catalogue.shards()]
        return [(shard, path) for shard, path, written in paths if not intact(path, written)]

    def check(self, *, repair: bool) -> CheckReport:
        """Verify every shard's bytes, and that no image has rows twice; what is wrong is dropped where asked."""
        shards, broken, doubled, again = self.catalogue.shards(), self.broken_shards(), self.catalogue.doubled(), 0
        if repair:
            with self.catalogue.transaction():
                self.catalogue.drop_doubles(doubled)
            again = self.drop_shards([shard for shard, _ in broken])
        return CheckReport(len(shards), tuple(path for _, path in broken), again, len(doubled))

    def drop_shards(self, shards: Sequence[int]) -> int:
        """Forget broken shards; returns how many images must be read again, which the next index run does."""
        files = set[int]()
        with self.catalogue.transaction():
            for shard in shards:
                files.update(self.catalogue.drop_shard(shard))
        self._sweep()
        return len(files)

    def compact(self) -> int:
        """Rewrite every layer without the rows nobody points to or that are there twice. Returns the bytes freed."""
        before = sum(written.bytes for _, _, written in self.catalogue.shards())
        with self.catalogue.transaction():
            self.catalogue.drop_doubles(self.catalogue.doubled())
            self.catalogue.drop_replaced()
            self.catalogue.drop_gone()
        for layer in {layer for _, layer, _ in self.catalogue.shards()}:
            self._compact_layer(layer)
        self._sweep()
        return before - sum(written.bytes for _, _, written in self.catalogue.shards())

    def _compact_layer(self, layer: str) -> None:
        shards = {shard: written for shard, _, written in self.catalogue.shards(layer)}
        used = self.catalogue.used_rows(layer)
        # A few shards at a time, so that memory stays flat however large the layer is.
        target = self.catalogue.next_shard()
        for start in range(0, len(used), _ROWS_PER_SHARD):
            part = used[start : start + _ROWS_PER_SHARD]
            path = self._path(layer, target)
            arrays = {shard: self.array(layer, shard) for shard in {shard for shard, _ in part}}
            if layer == THUMBS or self.manifest.layers[layer].row_bytes is None:
                blobs = [read_blob(arrays[s], rows=shards[s].rows, row=r) for s, r in part]
                written = write_blobs(path, blobs)
            else:
                written = write_array(path, np.stack([arrays[s][r] for s, r in part]))
            with self.catalogue.transaction():
                self.catalogue.put_shard(target, layer, written)
                self.catalogue.move_rows(((s, r, target, i) for i, (s, r) in enumerate(part)))
            target += 1
        with self.catalogue.transaction():
            self.catalogue.drop_empty_shards(layer)

    def _put_piece(self, piece: Piece) -> int:
        if piece.fills:
            return int(self.catalogue.image_at(piece.image.image_id) or 0)
        file = self.catalogue.put_file(piece.file, whole=piece.last)
        key = self.catalogue.put_image(file, piece.image)
        if piece.image_ids:
            self.catalogue.keep_images(file, piece.image_ids)
        return key

    def _sweep(self) -> None:
        """Delete what a crash left behind: files that no committed shard names."""
        named = {self._path(layer, shard) for shard, layer, _ in self.catalogue.shards()}
        for path in (*(self.folder / "shards").glob("*/*"), *self.folder.glob(f"*{TEMPORARY}")):
            if path not in named:
                path.unlink(missing_ok=True)

    def _path(self, layer: str, shard: int) -> Path:
        return self.folder / "shards" / layer / f"{shard:06d}.npy"

    def _save(self, manifest: Manifest) -> None:
        manifest.write(self.folder / "manifest.json")
        self.manifest = manifest


def home_in(folder: Path) -> Path:
    """The folder of the collection in `folder`: itself, or the `.wherein` that it holds or may hold."""
    return folder if (folder / "manifest.json").is_file() or folder.name == FOLDER else folder / FOLDER


def is_collection(folder: Path) -> bool:
    """Whether a folder is a collection, or holds one."""
    return (home_in(folder) / "manifest.json").is_file()


def _unwritable(folder: Path, error: OSError) -> CollectionError:
    return CollectionError(
        f"{folder}: cannot be written to ({error.strerror}). Check who owns the folder, or index into another with "
        "--collection."
    )

"""A collection's folder: manifest, catalogue and shards, one writer at a time. It knows no model.

manifest.json      format, roots, the layers and which encoder serves
catalogue.sqlite   files, images, rows, tags
shards/LAYER/N.npy immutable arrays; a row exists in the catalogue only when its data does
kept/              what people said, and what was learnt from it
derived/           what can be deleted and rebuilt
copies/            second copies, with checksums, of the manifest, the catalogue and kept/
quarantine/        damaged files that were taken out of use
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self
from weakref import WeakValueDictionary

import numpy as np

from wherein.errors import CollectionChanged, CollectionCorrupt, CollectionError, CollectionNotFound
from wherein.files import TEMPORARY, make_folder, refuse_strange_files, sync_folder
from wherein.images.elsewhere import exists
from wherein.store import catalogue_copies, checking, rewriting
from wherein.store.catalogue import Catalogue
from wherein.store.derived import Derived
from wherein.store.labels import Label, Labels
from wherein.store.manifest import THUMBS, Layer, Manifest
from wherein.store.originals import Original
from wherein.store.piece import Piece
from wherein.store.shards import Array, Written, read_array, read_blob, write_array, write_blobs
from wherein.store.writer import keepers_place, unwritable, writers_place
from wherein.values.address import Location, written_location
from wherein.values.records import FOLDER, MEMORY_ROOT, CheckReport
from wherein.values.region import Box

PATIENCE_SECONDS: Final = 5.0
"""How long a small change waits for its turn; many times what one takes, and less than people wait for an answer."""
_ABANDONED_SECONDS: Final = 3600.0
"""After an hour nobody is writing a temporary file any more; those of the one writer are abandoned at once."""
_MAPPED: Final = WeakValueDictionary[Path, Array]()
"""The shards that are mapped in this process, each once: a mapping costs a descriptor. Their bytes never change."""


class Store:
    """The files of one collection."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "manifest.json").is_file():
            raise CollectionNotFound(f"{folder}: is not a collection. Make one with `wherein index FOLDER`.")
        refuse_strange_files(folder)
        self.folder = folder
        self.derived = Derived.of(folder / "derived")
        self._stamp: tuple[int, int, int] | None = None
        self._mapped = WeakValueDictionary[tuple[str, int], Array]()
        """Shards of this collection that are mapped, by layer and number: a search asks for some a hundred times."""
        self.refresh()
        catalogue = folder / "catalogue.sqlite"
        if self.manifest.layers and not (catalogue.is_file() and catalogue.stat().st_size):
            raise CollectionCorrupt(
                f"{catalogue}: is lost, and with it which row belongs to which image. `wherein check -c {folder}` "
                "mends it from its copy and from what the shards say."
            )
        self.catalogue = Catalogue(catalogue, read_only=not os.access(folder, os.W_OK))

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Make an empty collection, or open the one that is there."""
        try:
            if not (folder / "manifest.json").is_file():
                if not folder.exists():
                    make_folder(folder.parent)
                    folder.mkdir(mode=0o700, exist_ok=True)  # what pictures show is nobody else's business
                    sync_folder(folder.parent)
                Manifest().write(folder / "manifest.json")
        except OSError as error:
            raise unwritable(folder, error) from error
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
        with keepers_place(self.folder, patience=PATIENCE_SECONDS):
            yield

    @contextmanager
    def writing(self, *, patience: float = 0.0) -> Iterator[None]:
        """Hold the one writer's place; who still has not got it after `patience` seconds is told who has it."""
        with writers_place(self.folder, patience=patience):
            self.refresh()
            self.catalogue.migrate()
            self.sweep()
            try:
                yield
            finally:
                self.secure()

    def secure(self) -> None:
        """Copy the catalogue and note its checksum, so that damage is noticed and mended."""
        with suppress(CollectionError, OSError):  # a full disk takes no copy; what is committed is safe all the same
            catalogue_copies.secure(self.folder, self.catalogue)

    def add_root(self, folder: Location) -> str:
        """The name of a root, added when it is new. The first has the empty name, so ids need no prefix."""
        for name in self.manifest.roots:
            if self.root_path(name) == folder:
                return name
        name = ""
        if self.manifest.roots:
            taken, number = set(self.manifest.roots), 1
            name = base = folder.name or "root"
            while name in taken or any(exists(self.root_path(root) / name) for root in taken):
                number += 1
                name = f"{base}-{number}"
        self._save(replace(self.manifest, roots={**self.manifest.roots, name: self._named(folder)}))
        return name

    def relate_roots(self) -> None:
        """Name the roots anew as `add_root` does: those that hold the collection move with it."""
        self._save(replace(self.manifest, roots={n: self._named(self.root_path(n)) for n in self.manifest.roots}))

    def _named(self, folder: Location) -> str:
        if isinstance(folder, Path) and self.folder.is_relative_to(folder):
            return os.path.relpath(folder, self.folder)
        return str(folder)

    def drop_root(self, name: str) -> int:
        """Forget a root; its images become tombstones. Returns how many files that were."""
        with self.catalogue.transaction():
            files = self.catalogue.drop_root(name)
        self._save(replace(self.manifest, roots={n: path for n, path in self.manifest.roots.items() if n != name}))
        return files

    def root_path(self, name: str) -> Location:
        """The folder of a root, on this machine or elsewhere."""
        said = written_location(self.manifest.roots[name])
        return Path(os.path.normpath(self.folder / said)) if isinstance(said, Path) else said

    def add_layers(self, layers: Sequence[Layer]) -> None:
        """Make layers known before their first shard."""
        known = {layer.name: layer for layer in layers}
        if not known.keys() <= self.manifest.layers.keys():
            self._save(replace(self.manifest, layers={**self.manifest.layers, **known}))

    def read_videos(self, every: float) -> None:
        """Keep an image of a video at least every `every` seconds; videos that were read otherwise are read again."""
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
        self.sweep()
        shutil.rmtree(self.folder / "derived" / layer.name, ignore_errors=True)
        for made in (self.folder / "derived").glob(f"*.{layer.name}.*.npy"):
            made.unlink(missing_ok=True)
        return freed

    def follow_links(self, follow: bool) -> None:
        """Whether links that leave the roots are followed, from now on."""
        if self.manifest.follow_links != follow:
            self._save(replace(self.manifest, follow_links=follow))

    def keep_index(self, name: str) -> None:
        """Keep that index from now on; empty: as the size calls for."""
        if self.manifest.index != name:
            self._save(replace(self.manifest, index=name))

    def serve(self, encoder: str) -> None:
        """Search with `encoder` from now on."""
        if self.manifest.encoder != encoder:
            self._save(replace(self.manifest, encoder=encoder))

    def commit(self, pieces: Sequence[Piece]) -> None:
        """Write shards, then make them and their images known in one transaction."""
        shard = self.catalogue.next_shard()
        placed = list[tuple[int, str, Written, list[tuple[Piece, Box | None]]]]()
        for layer in sorted({layer for piece in pieces for layer in piece.rows}):
            having = [piece for piece in pieces if layer in piece.rows]
            rows: list[tuple[Piece, Box | None]] = [(p, box) for p in having for box in p.rows[layer].boxes]
            values = np.concatenate([p.rows[layer].values for p in having])
            written = write_array(self.path_of(layer, shard), values, labels=self._labels(layer, rows))
            placed.append((shard, layer, written, rows))
            shard += 1
        for layer in sorted({layer for piece in pieces for layer in piece.blobs}):
            having = [piece for piece in pieces if layer in piece.blobs]
            rows = [(piece, None) for piece in having]
            strings = [piece.blobs[layer] for piece in having]
            written = write_blobs(self.path_of(layer, shard), strings, labels=self._labels(layer, rows))
            placed.append((shard, layer, written, rows))
            shard += 1
        with self.catalogue.transaction():
            newest = self.catalogue.newest_image()
            keys = {piece.image.image_id: self._put_piece(piece) for piece in pieces}
            for shard, layer, written, rows in placed:
                self.catalogue.put_shard(shard, layer, written)
                numbered = [(row, keys[piece.image.image_id], box) for row, (piece, box) in enumerate(rows)]
                self.catalogue.put_rows(shard, numbered, newest=newest)
            self.catalogue.drop_skipped((piece.file.root, piece.file.path) for piece in pieces)
        rewriting.merge_small(self, {layer for _, layer, _, _ in placed})

    def _labels(self, layer: str, rows: Sequence[tuple[Piece, Box | None]]) -> Any:
        labels = (Label(row, piece.file, piece.last, piece.image, box) for row, (piece, box) in enumerate(rows))
        known = self.manifest.layers.get(layer, Layer(layer, layer))
        return Labels(known, tuple(labels), self.manifest.roots).to_document()

    def file_path(self, image: int) -> Location | None:
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
        """The rows of one shard, mapped; whoever holds them keeps them, also when the shard is compacted away."""
        known = self._mapped.get((layer, shard))
        if known is not None:
            return known
        path = self.path_of(layer, shard)
        mapped = _MAPPED.get(path)
        if mapped is None:
            try:
                mapped = read_array(path)
            except CollectionCorrupt as error:
                if isinstance(error.__cause__, FileNotFoundError) and not self.catalogue.has_shard(shard):
                    raise CollectionChanged(f"{path}: was compacted away meanwhile. Search again.") from error
                raise
            _MAPPED[path] = mapped
        self._mapped[layer, shard] = mapped
        return mapped

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

    def check(self, *, repair: bool) -> CheckReport:
        """Verify the bytes of every file, and that no image has rows twice; what is wrong is mended where asked."""
        return checking.check(self, repair=repair)

    def compact(self) -> int:
        """Rewrite every layer without the rows nobody points to or that are there twice. Returns the bytes freed."""
        return rewriting.compact(self)

    def _put_piece(self, piece: Piece) -> int:
        if piece.fills:
            return int(self.catalogue.image_at(piece.image.image_id) or 0)
        file = self.catalogue.put_file(piece.file, whole=piece.last)
        key = self.catalogue.put_image(file, piece.image)
        if piece.image_ids:
            self.catalogue.keep_images(file, piece.image_ids)
        return key

    def sweep(self) -> None:
        """Delete what a crash or a rewrite left behind: files that no committed shard names.

        Who has such a shard mapped keeps its bytes until they let go of it.
        """
        named = {self.path_of(layer, shard) for shard, layer, _ in self.catalogue.shards()}
        for path in (*(self.folder / "shards").glob("*/*"), *self.folder.glob(f"*{TEMPORARY}")):
            if path not in named:
                path.unlink(missing_ok=True)
        for path in self.folder.rglob(f"*{TEMPORARY}"):  # in folders where others write without the writer's place
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    path.unlink()

    def path_of(self, layer: str, shard: int) -> Path:
        """The file of a shard. A catalogue may come from a stranger: no name of a layer leads out of the folder."""
        if layer in ("", ".", "..") or not layer.isprintable() or any(mark in layer for mark in "/\\:"):
            raise CollectionCorrupt(f"{self.folder}: its catalogue names a layer {layer!r}, which is no layer's name.")
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

"""A collection that cannot be opened, made whole: the manifest and the catalogue come back from copies and shards.

Every shard says what its rows are of. What a copy of the catalogue does not know yet is taken from the shards that
were written after it; without a copy, everything is. Tags are in copies only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from wherein.copies import COPIES, mend_guarded, quarantine
from wherein.errors import CollectionError, CollectionNotFound
from wherein.files import refuse_strange_files, write_durably
from wherein.store.catalogue import Catalogue
from wherein.store.catalogue_copies import is_as_noted, secure, sound_copies
from wherein.store.ignored import Ignored
from wherein.store.labels import Labels
from wherein.store.manifest import Layer, Manifest
from wherein.store.seals import Seal
from wherein.store.shards import Written, checksum
from wherein.store.writer import writers_place


def mend(folder: Path, *, repair: bool = True) -> list[str]:
    """Make a collection openable; returns what was wrong and done, in sentences. Nobody else may have it open."""
    if not any((folder / name).exists() for name in ("manifest.json", "catalogue.sqlite", "shards", COPIES)):
        raise CollectionNotFound(f"{folder}: is not a collection. Make one with `wherein index FOLDER`.")
    refuse_strange_files(folder)
    if not repair or not os.access(folder, os.W_OK):  # what may only be read can still be looked through
        return _flaws(folder)
    with writers_place(folder):
        notes = [f"{path.relative_to(folder).as_posix()}: {said}" for path, said in mend_guarded(folder, repair=True)]
        labelled = None
        if not _reads_manifest(folder):
            labelled = list(_labelled(folder))
            _rebuild_manifest(folder, [labels for _, _, _, labels in labelled])
            notes.append("manifest.json: was made again from what the shards say")
        if _catalogue_flaws(folder):
            notes += _rebuild_catalogue(folder)
    return notes


def _flaws(folder: Path) -> list[str]:
    found = [f"{path.relative_to(folder).as_posix()}: {said}" for path, said in mend_guarded(folder, repair=False)]
    return found + [f"catalogue.sqlite: {said}" for said in _catalogue_flaws(folder)]


def _reads_manifest(folder: Path) -> bool:
    try:
        Manifest.read(folder / "manifest.json")
    except CollectionError as error:
        if "Upgrade wherein" in str(error):
            raise
        return False
    return True


def _catalogue_flaws(folder: Path) -> list[str]:
    path = folder / "catalogue.sqlite"
    has_rows = any((folder / "shards").glob("*/*.npy"))
    if not path.is_file() or not path.stat().st_size:
        return ["is lost"] if has_rows else []
    try:
        with closing(Catalogue(path, read_only=not os.access(folder, os.W_OK))) as catalogue:
            return catalogue.flaws() or (
                [] if is_as_noted(folder, catalogue.changes()) else ["its bytes are not those that were written"]
            )
    except CollectionError as error:
        return [str(error)]


def _labelled(folder: Path) -> Iterator[tuple[int, Path, Written, Labels]]:
    """(number, file, what the catalogue must know of it, labels) of every sound shard that says what it holds."""
    paths = [path for path in (folder / "shards").glob("*/*.npy") if path.stem.isdecimal()]
    for path in sorted(paths, key=lambda path: int(path.stem)):
        seal = Seal.read(path)
        labels = None if seal is None else Labels.of(seal.labels)
        if seal is None or labels is None or labels.layer.name != path.parent.name:
            continue
        crc, size, data_crc = checksum(path, until=seal.data_bytes)
        if data_crc == seal.data_crc and len(seal.crcs) > max((label.row for label in labels.rows), default=-1):
            yield int(path.stem), path, Written(len(seal.crcs), size, crc), labels


def _rebuild_manifest(folder: Path, found: list[Labels]) -> None:
    layers, roots = dict[str, Layer](), dict[str, str]()
    for labels in found:
        layers[labels.layer.name] = labels.layer
        roots |= labels.roots
    serving = [layer.spec for layer in layers.values() if layer.kind == "global"]
    quarantine(folder, folder / "manifest.json")
    Manifest(serving[-1] if serving else "", roots, layers).write(folder / "manifest.json")


def _rebuild_catalogue(folder: Path) -> list[str]:
    path = folder / "catalogue.sqlite"
    aside = quarantine(folder, path)
    for part in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
        if part != path:
            quarantine(folder, part)
        part.unlink(missing_ok=True)
    said, replayed = "", 0
    for copy in [*sound_copies(folder), None]:  # a copy may be of a catalogue that was damaged already
        path.unlink(missing_ok=True)
        if copy is not None:
            write_durably(path, (folder / COPIES / Path(str(copy["name"])).name).read_bytes())
        try:
            with closing(Catalogue(path)) as catalogue:
                if copy is not None and catalogue.flaws():
                    continue
                replayed = _replay(folder, catalogue)
                secure(folder, catalogue)
        except CollectionError:
            if copy is None:
                raise
            continue
        said = (
            "came back from its copy" if copy is not None else "was made again from what the shards say; tags were lost"
        )
        break
    notes = [f"catalogue.sqlite: was damaged or lost, and {said}"]
    notes += [f"{replayed} shards were taken in again by what they say they hold"] if replayed else []
    return notes + ([f"what the catalogue held before is in {aside.relative_to(folder).as_posix()}"] if aside else [])


def _replay(folder: Path, catalogue: Catalogue) -> int:
    """Take in the shards that a catalogue does not know; what was removed by people stays out. Returns how many."""
    known, taken, ignored = {shard for shard, _, _ in catalogue.shards()}, 0, Ignored(folder).all()
    whole = set[tuple[str, str, bytes]]()
    for shard, _, written, labels in _labelled(folder):
        if shard in known:
            continue
        with catalogue.transaction():
            newest, rows = catalogue.newest_image(), []
            for label in labels.rows:
                if (label.file.root, label.file.path) in ignored:
                    continue
                content = (label.file.root, label.file.path, label.file.hash)
                if label.whole:
                    whole.add(content)
                file = catalogue.put_file(label.file, whole=content in whole)
                rows.append((label.row, catalogue.put_image(file, label.image), label.box))
            catalogue.put_shard(shard, labels.layer.name, written)
            catalogue.put_rows(shard, rows, newest=newest)
        taken += 1
    with catalogue.transaction():
        for layer in {layer for _, layer, _ in catalogue.shards()}:
            catalogue.drop_empty_shards(layer)
    return taken

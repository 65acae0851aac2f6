"""A copy of a collection that is whole, made while it is in use; and the way back."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from wherein.copies import guarded, write_guarded
from wherein.errors import CollectionCorrupt, CollectionLocked, InputError
from wherein.files import full_disk_told, make_folder, plain_files, sync_folder
from wherein.store.catalogue import Catalogue
from wherein.store.shards import Written, intact
from wherein.store.store import Store

_ROUNDS: Final = 20
"""How often the catalogue is read again because shards were compacted away meanwhile; each round copies the rest."""


def backup(store: Store, target: Path) -> int:
    """Copy a collection as it is at one moment to `target`, a new folder. Returns the bytes; others may go on with it.

    What can be made again (`derived/`) stays behind. The folders of the images are named in full, so that the copy is
    a collection that can be opened where it is.
    """
    if target.exists():
        raise InputError(f"{target}: is there already. A backup is a new folder: choose another name.")
    begun = target.with_name(f"{target.name}.unfinished")
    with full_disk_told(target):
        make_folder(begun)
        begun.chmod(0o700)
        catalogue = begun / "catalogue.sqlite"
        for _ in range(_ROUNDS):
            catalogue.unlink(missing_ok=True)
            store.refresh()
            manifest = store.manifest
            store.catalogue.copy_to(catalogue)
            if _copy_shards(store, begun, catalogue):
                break
        else:
            raise CollectionLocked(f"{store.folder}: is compacted again and again. Make the backup when it rests.")
        roots = {name: str(store.root_path(name)) for name in manifest.roots}
        replace(manifest, roots=roots).write(begun / "manifest.json")
        with store.keeping():
            _copy_kept(store.folder, begun)
        begun.replace(target)
        sync_folder(target.parent)
    return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())


def _copy_kept(home: Path, target: Path) -> None:
    """Copy what people said and what was learnt from it; links are left behind, since they may lead anywhere."""
    copied = set(guarded(home))
    for path in plain_files(home / "kept"):
        name = path.relative_to(home).as_posix()
        if name in copied:
            write_guarded(target, name, path.read_bytes())
        else:  # the collection's identity, and the files of a fine-tuned model, which may be large
            make_folder((target / name).parent)
            shutil.copyfile(path, target / name)


def _copy_shards(store: Store, target: Path, catalogue: Path) -> bool:
    """Copy the shards that a copied catalogue names; False where one of them has gone meanwhile."""
    with closing(Catalogue(catalogue, read_only=True)) as opened:
        shards = opened.shards()
    named = set[Path]()
    for shard, layer, written in shards:
        source = store.path_of(layer, shard)
        copy = target / source.relative_to(store.folder)
        named.add(copy)
        if not copy.exists():
            try:
                _copy_shard(source, copy, written)
            except FileNotFoundError:
                return False
    for path in (target / "shards").glob("*/*"):
        if path not in named:
            path.unlink()
    return True


def _copy_shard(source: Path, copy: Path, written: Written) -> None:
    make_folder(copy.parent)
    temporary = copy.with_name(f"{copy.name}.tmp")
    shutil.copyfile(source, temporary)
    if not intact(temporary, written):
        if not source.exists():
            raise FileNotFoundError(source)
        raise CollectionCorrupt(f"{source}: is damaged. Run `wherein check` before a backup.")
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(copy)
    sync_folder(copy.parent)


def restore(source: Path, target: Path) -> int:
    """Make a collection at `target`, a folder that is not there, from a backup. Returns how many images it holds.

    Everything is verified before anything is written.
    """
    if target.exists():
        raise InputError(f"{target}: is there already. Move it away, or restore to another folder.")
    with closing(Store(source)) as saved:
        found = saved.check(repair=False)
        if found.broken:
            raise CollectionCorrupt(f"{found.broken[0]}: is damaged. Run `wherein check -c {source}`, then restore.")
        images, _, _ = saved.catalogue.counts()
        backup(saved, target)
    with closing(Store(target)) as made, made.writing():
        made.relate_roots()
    return images

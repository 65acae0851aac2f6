"""Looking after a collection: forgetting images, folders and layers, verifying, freeing space. A part of the facade."""

from __future__ import annotations

import os
from collections.abc import Iterable

from wherein.errors import ImageNotFound, InputError
from wherein.files import plain_path
from wherein.indexing.compress import update_codes
from wherein.indexing.layer_choice import layer_named
from wherein.indexing.names import image_id_of
from wherein.options import image_ids_of
from wherein.store.ignored import Ignored
from wherein.store.store import PATIENCE_SECONDS, Store
from wherein.values.address import Address, inside, location_of
from wherein.values.records import MEMORY_ROOT, CheckReport


class Upkeep:
    """What keeps a collection in order."""

    _store: Store

    def _forget(self) -> None:
        """Forget what was loaded: the collection has changed."""
        raise NotImplementedError

    def remove(self, *image_ids: str | Iterable[str]) -> int:
        """Forget images, named one by one or in lists, and ignore their files, which stay on disk, from now on.

        Returns how many files that were; `unignore` lets them be indexed again.
        """
        catalogue = self._store.catalogue
        files = {catalogue.file_of(key): catalogue.describe(key)[1] for key in self._keys(image_ids)}
        left_out = [(file.root, file.path) for file in files.values() if file.root != MEMORY_ROOT]
        with self._store.writing(patience=PATIENCE_SECONDS):
            Ignored(self._store.folder).add(left_out)
            with catalogue.transaction():
                catalogue.bury_files(files)
        self._forget()
        return len(files)

    def remove_root(self, folder: str | os.PathLike[str] | Address) -> int:
        """Forget an indexed folder and all its images (its files stay on disk). Returns how many files that were."""
        path = location_of(folder)
        with self._store.writing():
            found = [name for name in self._store.manifest.roots if self._store.root_path(name) == path]
            if not found:
                raise InputError(f"{path}: is no indexed folder; `wherein info` names them.")
            ignored = Ignored(self._store.folder)
            ignored.drop([file for file in ignored.all() if file[0] == found[0]])
            files = self._store.drop_root(found[0])
        self._forget()
        return files

    def ignored(self) -> list[str]:
        """The ids of files that were removed and that indexing leaves out, sorted."""
        return sorted(image_id_of(root, path) for root, path in Ignored(self._store.folder).all())

    def unignore(self, *names: str | os.PathLike[str]) -> int:
        """Let removed files be indexed again by the next `add`: ids, paths, or folders of them. Returns how many."""
        with self._store.writing(patience=PATIENCE_SECONDS):
            ignored = Ignored(self._store.folder)
            every = ignored.all()
            back = {name: {file for file in every if self._is_named(file, name)} for name in names}
            unknown = [os.fspath(name) for name, files in back.items() if not files]
            if unknown:
                raise InputError(f"{unknown[0]}: is not ignored; `wherein info --ignored` lists what is.")
            files = set[tuple[str, str]]().union(*back.values())
            ignored.drop(files)
        return len(files)

    def drop_layer(self, name: str) -> int:
        """Forget a layer: its kind, as `info` lists it, or its full name. Returns the bytes freed."""
        with self._store.writing():
            freed = self._store.drop_layer(layer_named(self._store.manifest, name))
        self._forget()
        return freed

    def check(self, *, repair: bool = True) -> CheckReport:
        """Verify every file, and that no image has rows twice. Damaged rows are set aside; `add()` makes them again.

        The file they were in stays in `quarantine/`. A damaged catalogue is only told of here, because others may have
        it open: `mend` rebuilds it.
        """
        found = self._store.check(repair=False)
        if repair and (found.broken or found.doubled):
            with self._store.writing():  # nobody else compacts now
                found = self._store.check(repair=True)
            self._forget()
        return found

    def backup(self, target: str | os.PathLike[str]) -> int:
        """Copy the collection to a new folder, as it is at this moment, while others use it. Returns the bytes.

        `wherein.restore` makes a collection of it again; `wherein.open` opens it where it is.
        """
        from wherein.store.backup import backup

        return backup(self._store, plain_path(target))

    def compact(self) -> int:
        """Free the space of removed and replaced images. Returns the bytes freed."""
        with self._store.writing():
            freed = self._store.compact()
            update_codes(self._store)
        self._forget()
        return freed

    def _keys(self, image_ids: str | Iterable[str | Iterable[str]]) -> list[int]:
        keys = []
        for image_id in image_ids_of(image_ids):
            key = self._store.catalogue.image_at(image_id)
            if key is None:
                raise ImageNotFound(f"{image_id}: no image of that id in {self._store.folder}.")
            keys.append(key)
        return keys

    def _is_named(self, file: tuple[str, str], name: str | os.PathLike[str]) -> bool:
        """Whether an id or a path is that of a file, or of a folder that holds it."""
        root, path = file
        image_id, asked = image_id_of(root, path), os.fspath(name).rstrip("/")
        if image_id == asked or image_id.startswith(f"{asked}/"):
            return True
        known = root in self._store.manifest.roots
        return known and inside(location_of(name), self._store.root_path(root) / path) is not None

"""A collection on an object store: published there by its one writer, opened read-only by any number of machines.

    published.json           what is there now: a version, the manifest, the catalogue's file, every shard; written last
    catalogues/DIGEST.sqlite the catalogue as it was then
    shards/LAYER/N.npy       the shards, which never change
    kept/…                   what people said

A reader keeps the catalogue and the shards it has looked at in a folder of its own, a cache that can be deleted. Any
address that fsspec understands will do (s3://, gs://, https://, file://); credentials are found where fsspec looks for
them, and kept nowhere.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from wherein.errors import CollectionChanged, CollectionCorrupt, CollectionError, CollectionNotFound
from wherein.files import make_folder, write_durably
from wherein.remote import RemoteFolder
from wherein.store.catalogue import Catalogue
from wherein.store.database import connect
from wherein.store.manifest import Manifest
from wherein.store.shards import Array, Written, intact
from wherein.store.store import Store

_LOG: Final = logging.getLogger("wherein.store")
HEAD: Final = "published.json"
FORMAT: Final = 1
"""The version of a published collection; another is refused."""
ADDRESS: Final = "published-at"
"""The file of a cache that says what it is a cache of."""
LOOK_SECONDS: Final = 10.0
"""Seconds after which a reader looks again whether something new was published: one request, for `published.json`."""
_KEPT: Final = re.compile(r"[a-z_-]+(\.json)?")


def publish(store: Store, url: str, tell: Callable[[int, int], None] = lambda *_: None) -> tuple[int, int]:
    """Make an address hold the collection as it is now. Returns (files sent, images). Readers see all of it or none.

    What the version before needs stays until the next; what is older is deleted.
    """
    remote = RemoteFolder(url, failed=CollectionError)
    with TemporaryDirectory() as folder, store.writing():  # nobody compacts meanwhile
        before = _head(remote)
        copy = Path(folder) / "catalogue.sqlite"
        store.catalogue.copy_to(copy)
        digest = hashlib.blake2b(copy.read_bytes(), digest_size=16).hexdigest()
        with closing(Catalogue(copy, read_only=True)) as opened:
            shards = [(layer, shard, written) for shard, layer, written in opened.shards()]
            images = opened.counts()[0]
        named = {_name(layer, shard): [written.rows, written.bytes, written.crc] for layer, shard, written in shards}
        there = remote.sizes("shards")
        missing = [one for one in shards if there.get(_name(one[0], one[1])) != one[2].bytes]
        for done, (layer, shard, written) in enumerate(missing):
            if not intact(store.path_of(layer, shard), written):
                raise CollectionCorrupt(
                    f"{store.path_of(layer, shard)}: is damaged. Run `wherein check`, then publish."
                )
            remote.put(store.path_of(layer, shard), _name(layer, shard))
            tell(done + 1, len(missing))
        catalogue, kept = f"catalogues/{digest}.sqlite", _kept(store.folder)
        remote.put(copy, catalogue)
        for name, data in kept.items():
            remote.write(f"kept/{name}", data)
        manifest = replace(store.manifest, roots={n: str(store.root_path(n)) for n in store.manifest.roots})
        manifest.write(Path(folder) / "manifest.json")
        head = {
            "format": FORMAT,
            "version": int(before.get("version", 0)) + 1,
            "manifest": json.loads((Path(folder) / "manifest.json").read_text("utf-8")),
            "catalogue": {"file": catalogue, "digest": digest},
            "shards": named,
            "kept": sorted(kept),
        }
        remote.write(HEAD, json.dumps(head).encode())
    needed = {*named, *before.get("shards", {}), catalogue, before.get("catalogue", {}).get("file", "")}
    for name in {*there, *remote.sizes("catalogues")} - needed:
        remote.remove(name)
    return len(missing) + 1, images


def _name(layer: str, shard: int) -> str:
    return f"shards/{layer}/{shard:06d}.npy"


def _kept(folder: Path) -> dict[str, bytes]:
    """What people said, and the identity."""
    files = sorted((folder / "kept").glob("*")) if (folder / "kept").is_dir() else []
    return {path.name: path.read_bytes() for path in files if path.is_file() and _KEPT.fullmatch(path.name)}


def _head(remote: RemoteFolder) -> dict[str, Any]:
    """What is published at an address; empty where nothing is."""
    try:
        head: dict[str, Any] = json.loads(remote.read(HEAD))
    except FileNotFoundError:
        return {}
    except (PermissionError, ValueError) as error:
        raise CollectionError(f"{remote.url}: {HEAD} cannot be read ({error}).") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise CollectionCorrupt(f"{remote.url}: was published in a format that this wherein does not read. Upgrade it.")
    return head


class PublishedStore(Store):
    """A published collection, read through a cache; nothing of it can be changed."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._remote, self._cache = RemoteFolder(url, failed=CollectionError), cache_of(url)
        self._looked = 0.0
        self._fetched = dict[str, Written]()
        self._update()
        super().__init__(self._cache)

    def refresh(self) -> None:
        """Look, now and then, whether something newer was published."""
        if time.monotonic() - self._looked > LOOK_SECONDS:
            try:
                self._update()
            except CollectionError as error:  # what is here goes on to serve
                self._looked = time.monotonic()
                _LOG.warning("%s", error)
        super().refresh()

    def array(self, layer: str, shard: int) -> Array:
        """The rows of one shard, fetched when they are first looked at."""
        path = self.path_of(layer, shard)
        if not path.is_file():
            self._fetch(layer, shard, path)
        return super().array(layer, shard)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Refuse: nothing can be kept here."""
        raise self._unwritable()
        yield

    @contextmanager
    def writing(self, *, patience: float = 0.0) -> Iterator[None]:  # noqa: ARG002 — nobody gets the place
        """Refuse: only where the collection was made can it be changed."""
        raise self._unwritable()
        yield

    def _unwritable(self) -> CollectionError:
        return CollectionError(f"{self.url}: is published, so it is only read. Change the collection it was made from.")

    def _fetch(self, layer: str, shard: int, path: Path) -> None:
        written = self._fetched.get(_name(layer, shard))
        make_folder(path.parent)
        begun = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            self._remote.get(_name(layer, shard), begun, size=0 if written is None else written.bytes)
        except FileNotFoundError as error:
            self._looked = 0.0
            raise CollectionChanged(f"{self.url}: something newer was published meanwhile. Search again.") from error
        if written is None or not intact(begun, written):
            begun.unlink(missing_ok=True)
            raise CollectionCorrupt(f"{self.url}: {_name(layer, shard)} is not what was published. Publish again.")
        begun.replace(path)

    def _update(self) -> None:
        """Bring the cache up to date with what is published."""
        import filelock

        head = _head(self._remote)
        if not head:
            raise CollectionNotFound(f"{self.url}: holds no published collection. Make one with `wherein publish`.")
        self._looked = time.monotonic()
        try:
            self._fetched = {name: Written(*map(int, own)) for name, own in head["shards"].items()}
            make_folder(self._cache)
            with filelock.FileLock(self._cache / "update.lock"):
                self._take(head)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CollectionCorrupt(f"{self.url}: {HEAD} is damaged ({error}). Publish again.") from error

    def _take(self, head: dict[str, Any]) -> None:
        version, told = self._cache / "version", str(head["version"])
        catalogue = self._cache / "catalogue.sqlite"
        if version.is_file() and version.read_text() == told and catalogue.is_file():
            return
        begun = self._cache / f"catalogue.{os.getpid()}.tmp"
        named = str(head["catalogue"]["file"])
        there = self._remote.listed(named)
        self._remote.get(named, begun, size=0 if there is None else there.size)
        if hashlib.blake2b(begun.read_bytes(), digest_size=16).hexdigest() != head["catalogue"]["digest"]:
            raise CollectionCorrupt(f"{self.url}: its catalogue is not what was published. Publish again.")
        # Through SQLite, so that whoever has the cache open sees a change like any other.
        with closing(connect(begun, read_only=True)) as source, closing(connect(catalogue, read_only=False)) as target:
            source.backup(target)
        begun.unlink()
        for name in head["kept"]:
            if _KEPT.fullmatch(str(name)):
                write_durably(self._cache / "kept" / str(name), self._remote.read(f"kept/{name}"))
        write_durably(self._cache / ADDRESS, self.url.encode())
        write_durably(self._cache / "manifest.json", json.dumps(head["manifest"]).encode())
        Manifest.read(self._cache / "manifest.json")
        write_durably(version, told.encode())
        for path in (self._cache / "shards").glob("*/*.npy"):
            if _name(path.parent.name, int(path.stem)) not in self._fetched:
                path.unlink(missing_ok=True)


def cache_of(url: str) -> Path:
    """The folder in which a reader keeps what it has fetched of a published collection."""
    given = os.environ.get("WHEREIN_CACHE") or os.environ.get("XDG_CACHE_HOME")
    home = Path(given).expanduser() if given else Path.home() / ".cache"
    name = re.sub(r"[^\w.-]+", "-", url.rstrip("/").rpartition("/")[2])[:40]
    return home / "wherein" / f"{name}-{hashlib.blake2b(url.encode(), digest_size=6).hexdigest()}"


def address_of(folder: Path) -> str | None:
    """The address that a folder is a cache of; None for other collections, and for a cache that was moved or copied."""
    path = folder / ADDRESS
    url = path.read_text("utf-8").strip() if path.is_file() else None
    return url if url is not None and cache_of(url) == folder else None

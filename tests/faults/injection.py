"""Calls that change the disk, counted; the one that was chosen kills the process, cuts the power, or fails.

Used in a forked process: nothing is undone. Only calls made in Python are counted (all of wherein's own files); what
SQLite does in C is met by kills at random moments.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = ("open", "fsync", "replace", "unlink", "mkdir", "write")


class Faults:
    """Counts the calls; at number `at` it does what `how` says: kill, cut, or the number of an error."""

    def __init__(self, how: str | int, at: int, *, seed: int = 0) -> None:
        self.how, self.at, self.count, self._draw = how, at, 0, random.Random(seed)
        self._unsynced = set[str]()
        self._renames = list[tuple[str, str, bytes | None]]()
        self._real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in CALLS}

    def install(self) -> None:
        """From now on, in this process."""
        for name in CALLS:
            setattr(os, name, self._counted(name))

    def _counted(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not (len(arguments) > 1 and arguments[1] & (os.O_CREAT | os.O_WRONLY)):
                return real(*arguments, **options)
            self.count += 1
            if self.count == self.at:
                self._strike()
            if name == "replace":
                self._before_rename(*arguments)
            done = real(*arguments, **options)
            if name == "open":
                self._unsynced.add(str(arguments[0]))
            elif name == "fsync":
                self._synced(arguments[0])
            return done

        return call

    def _strike(self) -> None:
        if isinstance(self.how, int):
            raise OSError(self.how, os.strerror(self.how), "injected")
        if self.how == "cut":
            self._lose()
        os._exit(137)

    def _before_rename(self, source: Any, target: Any) -> None:
        old = Path(target).read_bytes() if Path(target).is_file() else None
        self._renames.append((str(source), str(target), old))
        if str(source) in self._unsynced:
            self._unsynced.discard(str(source))
            self._unsynced.add(str(target))

    def _synced(self, descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        self._unsynced.discard(path)
        self._renames = [one for one in self._renames if str(Path(one[1]).parent) != path]

    def _lose(self) -> None:
        """What the disk may have after a power cut: unsynced bytes are lost, unsynced renames in any order."""
        real_open = self._real["open"]
        for path in self._unsynced:
            if Path(path).is_file():
                size = Path(path).stat().st_size
                os.truncate(path, self._draw.randrange(size + 1))
        for _, target, old in self._draw.sample(self._renames, len(self._renames)):
            if self._draw.random() < 0.5:
                if old is None:
                    if Path(target).exists():
                        self._real["unlink"](target)
                else:
                    handle = real_open(target, os.O_WRONLY | os.O_TRUNC)
                    self._real["write"](handle, old)
                    os.close(handle)

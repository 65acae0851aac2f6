"""The executor that indexes with Ray: on this machine, or on a cluster. The driver alone commits.

Files are dealt out in chunks to workers, processes that hold one encoder each. A worker first says what it has read, so
that the driver can tell what the collection knows already; then it sends the rows of the others. A chunk counts when
all of it has come back: where a worker or its machine is lost, another gets the chunk, so nothing is lost and nothing
comes twice. A worker gets chunks when it runs: one for which there is no machine left keeps nobody waiting. A file that
ends its workers again and again is left out.
"""

from __future__ import annotations

import os
import re
import socket
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from typing import Any, Final

from wherein.errors import ImageError, InputError, MissingExtra
from wherein.indexing.stages import IndexTask, Known, Outcome, Prepared, Read, Skipped, Stages
from wherein.values.records import FileRecord

CHUNK: Final = 32
"""Files that a worker gets at a time: a second of work and a few megabytes of rows, so that a lost one costs little."""
AHEAD: Final = 2
"""Chunks that each worker has at once, so that it reads on while the driver commits."""
TRIES: Final = 3
"""Workers that a chunk may end; then its files are tried one by one, and one that ends two more alone is left out."""
_STORE_BYTES: Final = 512 << 20
"""Shared memory of a Ray that is started here: a hundred chunks."""
_WAIT_SECONDS: Final = 1.0
"""How long one wait for workers lasts at most, so that the work can be stopped in between."""
_LISTENS_SECONDS: Final = 5.0
"""How long a cluster may take to accept a connection."""
_ENDS_WORKERS: Final = "the process that read it ended each time; the file may be harmful"


class Ray:
    """Workers of a cluster, one for each of its processors (or accelerators); without an address, of this machine."""

    def __init__(self, address: str = "", *, workers: int) -> None:
        if find_spec("ray") is None:
            raise MissingExtra("ray needs an extra (ray is missing): pip install 'wherein[scale]'.")
        self._address, self._workers = address, workers

    def run(
        self, stages: Stages, tasks: Iterable[IndexTask], *, known: Callable[[FileRecord], bool]
    ) -> Generator[Outcome, None, None]:
        """The outcome of every task; the images of one video keep their order."""
        ray = _ray()
        started = not ray.is_initialized()
        if started:
            self._start(ray)
        try:
            yield from _Run(ray, stages, tasks, known, self._count(ray, stages)).outcomes()
        finally:
            if started:
                ray.shutdown()

    def _start(self, ray: Any) -> None:
        self.reach()
        quiet = {"include_dashboard": False} if not self._address else {}
        own = {"num_cpus": self._workers, "object_store_memory": _STORE_BYTES} if not self._address else {}
        try:
            ray.init(address=self._address or "local", logging_level="ERROR", log_to_driver=False, **quiet, **own)
        except Exception as error:  # Ray raises bare exceptions when a machine is too busy to start it
            raise self._unanswered(error) from error

    def reach(self) -> None:
        """Refuse an address at which nobody listens: Ray itself would try again for ever."""
        found = re.fullmatch(r"(?:ray://)?(.+):(\d+)", self._address)
        if found is None:
            return
        try:
            with socket.create_connection((found[1].strip("[]"), int(found[2])), timeout=_LISTENS_SECONDS):
                pass
        except OSError as error:
            raise self._unanswered(error) from error

    def _unanswered(self, error: Exception) -> InputError:
        reason = " ".join(str(error).split())[:200]
        return InputError(
            f"no Ray answers at {self._address or 'this machine'} ({reason}). Start one with `ray start --head`, or "
            "leave the address out."
        )

    def _count(self, ray: Any, stages: Stages) -> int:
        kind = "GPU" if _accelerated(stages) else "CPU"
        return max(1, int(ray.cluster_resources().get(kind, 1))) if self._address else self._workers


@dataclass(slots=True, eq=False)
class _Chunk:
    """Some tasks on their way."""

    tasks: Sequence[IndexTask]
    lost: int = 0
    """How many workers ended while they had it."""
    asked: bool = False
    """Whether the driver has said already that it knows none of them."""


class _Worker:
    """What runs in a process of its own: reads a chunk, then makes what the driver does not know."""

    def __init__(self, stages: Stages) -> None:
        self._stages, self._read = stages, dict[int, list[Read | Skipped]]()

    def ready(self) -> bool:
        """Answers as soon as the process runs and has its encoder."""
        return True

    def read(self, number: int, tasks: Sequence[IndexTask]) -> list[FileRecord | Skipped]:
        """Read the files of a chunk; they stay here."""
        self._read[number] = [self._tried(task) for task in tasks]
        return [one if isinstance(one, Skipped) else one.file for one in self._read[number]]

    def make(self, number: int, known: Sequence[bool]) -> list[Outcome]:
        """The outcomes of a chunk that was read, without those that are known."""
        done, batch = list[Outcome](), list[Prepared]()
        for read, is_known in zip(self._read.pop(number), known, strict=True):
            if is_known:
                continue
            if isinstance(read, Skipped):
                done.append(read)
                continue
            try:
                for item in self._stages.prepare(read):
                    batch.append(item)
                    if len(batch) >= self._stages.batch:
                        done += self._stages.encode(batch)
                        batch = []
            except ImageError as error:
                done.append(Skipped.of(read.task, error))
        return [*done, *self._stages.encode(batch)]

    def _tried(self, task: IndexTask) -> Read | Skipped:
        try:
            return self._stages.read(task)
        except ImageError as error:
            return Skipped.of(task, error)


@dataclass(slots=True, eq=False)
class _Actor:
    """A worker process, as the driver sees it."""

    handle: Any
    starting: Any
    """What it was asked when it was started; None once it has answered."""
    has: dict[Any, tuple[int, _Chunk, bool]] = field(default_factory=dict)
    """What it was asked for → (number, chunk, whether it was read already)."""

    @property
    def has_suspect(self) -> bool:
        """Whether it has a chunk that a worker was lost over."""
        return any(chunk.lost for _, chunk, _ in self.has.values())


class _Run:
    """One run over some tasks."""

    def __init__(
        self, ray: Any, stages: Stages, tasks: Iterable[IndexTask], known: Callable[[FileRecord], bool], workers: int
    ) -> None:
        self._ray, self._stages, self._known, self._workers = ray, ray.put(stages), known, workers
        self._again, self._tasks = deque[_Chunk](), iter(tasks)
        self._number, self._unstarted = 0, 0
        told = ray.exceptions
        self._lost = (told.RayActorError, told.ObjectLostError, told.WorkerCrashedError, told.NodeDiedError)
        self._start = ray.remote(num_cpus=1, num_gpus=1 if _accelerated(stages) else 0)(_Worker).remote

    def outcomes(self) -> Iterator[Outcome]:
        """What the workers made, a chunk at a time."""
        actors = list[_Actor]()
        try:
            while self._dealt(actors):
                pending = [asked for actor in actors for asked in (*actor.has, actor.starting) if asked is not None]
                ready, _ = self._ray.wait(pending, num_returns=1, timeout=_WAIT_SECONDS)
                for asked in ready:
                    actor = next(one for one in actors if asked in one.has or asked is one.starting)
                    if asked is actor.starting:
                        self._begin(actors, actor)
                    else:
                        yield from self._settled(actors, actor, asked)
        finally:
            for actor in actors:
                self._ray.kill(actor.handle)

    def _dealt(self, actors: list[_Actor]) -> bool:
        """Give every worker enough to do, starting workers where some are missing; whether anything is left to do."""
        waiting = list[_Chunk]()
        for turn in range(AHEAD):
            for place in range(self._workers):
                known = actors[place] if place < len(actors) else None
                if known is not None and (known.starting is not None or len(known.has) > turn or known.has_suspect):
                    continue
                chunk = self._next()
                if chunk is None:
                    continue
                if known is None:  # others may do it before this one runs
                    handle = self._start(self._stages)
                    actors.append(_Actor(handle, handle.ready.remote()))
                    waiting.append(chunk)
                    continue
                if chunk.lost and known.has:  # what may end a worker is alone with it, so that nothing else is blamed
                    waiting.append(chunk)
                    continue
                self._number += 1
                asked = known.handle.read.remote(self._number, chunk.tasks)
                known.has[asked] = (self._number, chunk, False)
        self._again.extendleft(reversed(waiting))
        return bool(self._again) or any(actor.has for actor in actors)

    def _begin(self, actors: list[_Actor], actor: _Actor) -> None:
        """A worker that was started runs, or has ended; where one after the other ends, that is told."""
        try:
            self._ray.get(actor.starting)
        except self._lost as error:
            actors.remove(actor)
            self._unstarted += 1
            if self._unstarted >= TRIES:
                reason = " ".join(str(error).split())[:200]
                raise InputError(f"the workers of Ray do not start ({reason}).") from error
        else:
            actor.starting, self._unstarted = None, 0

    def _next(self) -> _Chunk | None:
        if self._again:
            return self._again.popleft()
        tasks = list(islice(self._tasks, CHUNK))
        return _Chunk(tasks) if tasks else None

    def _settled(self, actors: list[_Actor], actor: _Actor, asked: Any) -> Iterator[Outcome]:
        """What an answer of a worker gives; where the worker was lost, its chunks are dealt out again."""
        number, chunk, was_read = actor.has[asked]
        try:
            answer = self._ray.get(asked)
        except self._lost:
            actors.remove(actor)
            self._ray.kill(actor.handle)
            yield from self._dealt_again(actor)
            return
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause or error) from None
        del actor.has[asked]
        if was_read:
            yield from answer
            return
        known = list[bool]()
        for task, read in zip(chunk.tasks, answer, strict=True):
            new = chunk.asked or task.layers is not None or isinstance(read, Skipped) or not self._known(read)
            known.append(not new)
            if not new and isinstance(read, FileRecord):
                yield Known(read, task)
        left = [task for task, is_known in zip(chunk.tasks, known, strict=True) if not is_known]
        made = actor.handle.make.remote(number, known)
        actor.has[made] = (number, _Chunk(left, chunk.lost, asked=True), True)

    def _dealt_again(self, gone: _Actor) -> Iterator[Outcome]:
        """What a lost worker still had: it worked in order, so it was lost over the first that it did not finish.

        Or over the next, where the answer to that one was lost on its way; so what is blamed is tried again alone.
        """
        blamed = False
        for asked, (_, chunk, was_read) in gone.has.items():
            try:
                answer = self._ray.get(asked)
            except self._lost:
                lost, blamed = chunk.lost + (not blamed), True
            else:
                if was_read:
                    yield from answer
                    continue
                lost = chunk.lost
            if lost < TRIES and chunk.tasks:
                self._again.append(_Chunk(chunk.tasks, lost, chunk.asked))
            elif len(chunk.tasks) > 1:
                self._again.extend(_Chunk([task], 1, chunk.asked) for task in chunk.tasks)
            else:
                yield from (Skipped(task.file, _ENDS_WORKERS, False) for task in chunk.tasks)


def _accelerated(stages: Stages) -> bool:
    return stages.encoder.device.startswith("cuda")


def _ray() -> Any:
    """The library, told before it is loaded to report nothing to its makers.

    It is also told to leave the variables that name visible GPUs as they are for workers that get none.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray
    import ray.exceptions

    return ray

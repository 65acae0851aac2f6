"""The executor that indexes with threads of this process: decode ahead, encode, write behind.

A few equal workers share one rule: encode when a batch is ready, else have the next file decoded. No core waits for
another stage, and none is oversubscribed, because every encoder call runs on the one thread that makes it. Of
several workers there is one more than was asked for: files are decoded in processes of their own, and while one worker
waits for such a process, another has work for its core. One worker alone keeps the order of the files.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator

from wherein.errors import ImageError
from wherein.indexing.stages import IndexTask, Known, Outcome, Prepared, Skipped, Stages
from wherein.values.records import FileRecord


class Threads:
    """So many workers, each a thread, and one more where there are several."""

    def __init__(self, *, workers: int) -> None:
        self._workers = workers + 1 if workers > 1 else 1

    def run(
        self, stages: Stages, tasks: Iterable[IndexTask], *, known: Callable[[FileRecord], bool]
    ) -> Generator[Outcome, None, None]:
        """The outcome of every task; the images of one video keep their order."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):  # the workers are the parallelism
            yield from _Run(stages, iter(tasks), known, self._workers).outcomes()


class _Run:
    """One run of the workers over some tasks."""

    def __init__(
        self, stages: Stages, tasks: Iterator[IndexTask], known: Callable[[FileRecord], bool], workers: int
    ) -> None:
        self._stages, self._tasks, self._known, self._workers = stages, tasks, known, workers
        self._ready = list[Prepared]()
        self._decoding = 0
        self._state = threading.Condition()
        self._outcomes: queue.Queue[list[Outcome] | BaseException | None] = queue.Queue(maxsize=8 * workers)
        self._stopped = threading.Event()

    def outcomes(self) -> Generator[Outcome, None, None]:
        """What the workers made, as they make it."""
        threads = [
            threading.Thread(target=self._work, name=f"wherein-embed-{i}", daemon=True) for i in range(self._workers)
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                outcomes = self._outcomes.get()
                if outcomes is None:
                    running -= 1
                elif isinstance(outcomes, BaseException):
                    raise outcomes
                else:
                    yield from outcomes
        finally:
            self._stopped.set()
            with self._state:
                self._state.notify_all()
            for thread in threads:
                while thread.is_alive():
                    self._drain()  # a worker may be waiting to put one more outcome
                    thread.join(0.01)

    def _drain(self) -> None:
        while not self._outcomes.empty():
            self._outcomes.get_nowait()

    def _work(self) -> None:
        try:
            while not self._stopped.is_set():
                batch = self._take_batch(whole=True)
                if batch:
                    self._encode(batch)
                    continue
                with self._state:
                    task = next(self._tasks, None)
                    self._decoding += task is not None
                if task is not None:
                    self._decode(task)
                elif not self._finish():
                    break
        except BaseException as error:  # the consumer raises it; a worker must never die silently
            self._outcomes.put(error)
        finally:
            self._outcomes.put(None)

    def _take_batch(self, *, whole: bool) -> list[Prepared]:
        with self._state:
            if whole and sum(len(item.inputs) for item in self._ready) < self._stages.batch:
                return []
            batch, count = list[Prepared](), 0
            while self._ready and count < self._stages.batch:
                count += len(self._ready[0].inputs)
                batch.append(self._ready.pop(0))
            return batch

    def _finish(self) -> bool:
        """Nothing left to decode: encode the rest. False when nothing is left at all."""
        with self._state:
            while self._decoding and not self._ready and not self._stopped.is_set():
                self._state.wait()
        rest = self._take_batch(whole=False)
        if rest:
            self._encode(rest)
        return bool(rest) or self._decoding > 0

    def _decode(self, task: IndexTask) -> None:
        try:
            read = self._stages.read(task)
            if task.layers is None and self._known(read.file):
                self._outcomes.put([Known(read.file, task)])
            elif read.is_video:
                self._decode_video(self._stages.prepare(read))
            else:
                (item,) = self._stages.prepare(read)
                if not item.inputs:  # nothing is left for the encoder
                    self._encode([item])
                    return
                with self._state:
                    self._ready.append(item)
        except ImageError as error:
            self._outcomes.put([Skipped.of(task, error)])
        finally:
            with self._state:
                self._decoding -= 1
                self._state.notify_all()

    def _decode_video(self, frames: Iterator[Prepared]) -> None:
        """One worker takes a whole video, in order and a batch at a time, so that memory stays flat."""
        batch = list[Prepared]()
        for frame in frames:
            if self._stopped.is_set():
                return
            batch.append(frame)
            if len(batch) == self._stages.batch:
                self._encode(batch)
                batch = []
        if batch:
            self._encode(batch)

    def _encode(self, batch: list[Prepared]) -> None:
        self._outcomes.put([*self._stages.encode(batch)])  # a batch at a time: the consumer wakes up seldom

"""Where the stages of indexing run: one protocol, one file per executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wherein import plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from wherein.indexing.stages import IndexTask, Outcome, Stages
    from wherein.values.records import FileRecord


class Executor(Protocol):
    """Runs the stages of indexing, in this process or in others. Built as `Engine(workers=…)`, or, named
    with an address, `Engine(address, workers=…)`; the caller commits."""

    def run(
        self, stages: Stages, tasks: Iterable[IndexTask], *, known: Callable[[FileRecord], bool]
    ) -> Generator[Outcome, None, None]:
        """What becomes of every task, in any order; the images of one video keep theirs.

        `known` says, in this process, whether a content that was read needs no encoding: it is asked once for each
        task whose `layers` is None, before anything is decoded. An ImageError is an outcome (`Skipped.of`), any other
        error is raised here, and who stops asking for outcomes leaves nothing running.
        """


def load_executor(name: str, *, workers: int) -> Executor:
    """The executor of a name (`threads`, `ray`, `ray:ADDRESS`, or what another package registers)."""
    kind, _, address = name.partition(":")
    engine = plugins.load("executors", kind)
    made: Executor = engine(address, workers=workers) if address else engine(workers=workers)
    return made

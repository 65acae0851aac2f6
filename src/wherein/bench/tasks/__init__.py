"""Every benchmark that can be run, one file per kind; a task is loaded by its benchmark's name."""

from importlib import import_module
from pathlib import Path
from typing import Final

from wherein.bench.evaluate import PROTOCOLS
from wherein.bench.task import Options, Task
from wherein.errors import SpecError

TASKS: Final = {
    "captions": "captions:CaptionsTask",
    "covers": "examples:ExamplesTask",
    "facades": "examples:ExamplesTask",
    "objects": "examples:ExamplesTask",
    "masks": "masks:MasksTask",
    "road": "road:RoadTask",
    "underwater": "underwater:UnderwaterTask",
    "classes": "classes:ClassesTask",
    "searchad": "searchad:SearchADTask",
    "forb": "forb:ForbTask",
    "subregion": "subregion:SubRegionTask",
    "roxford5k": "revisited:RevisitedTask",
    "rparis6k": "revisited:RevisitedTask",
    "proxford": "pixel:PixelTask",
    "prparis": "pixel:PixelTask",
}


def load_task(benchmark: str, data: Path, options: Options | None = None) -> Task:
    """The task of a benchmark on the data in a folder."""
    if benchmark not in TASKS:
        raise SpecError(f"no benchmark is called {benchmark!r}; choose one of {', '.join(TASKS)}")
    asked = options or Options()
    if asked.protocol not in (None, *PROTOCOLS):
        raise SpecError(f"--protocol {asked.protocol} is none of {', '.join(PROTOCOLS)}")
    module, _, name = TASKS[benchmark].partition(":")
    kind = getattr(import_module(f"wherein.bench.tasks.{module}"), name)
    task: Task = kind.load(benchmark, data, asked)
    return task

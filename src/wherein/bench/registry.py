"""Every benchmark that can be run, one file per kind; a task is loaded by its benchmark's name."""

from importlib import import_module
from pathlib import Path
from typing import Final

from wherein.bench.evaluate import PROTOCOLS
from wherein.bench.task import Options, Task
from wherein.errors import SpecError

TASKS: Final = {
    "captions": "local.captions:CaptionsTask",
    "covers": "local.examples:ExamplesTask",
    "facades": "local.examples:ExamplesTask",
    "objects": "local.examples:ExamplesTask",
    "masks": "local.masks:MasksTask",
    "road": "local.road:RoadTask",
    "underwater": "local.underwater:UnderwaterTask",
    "classes": "local.classes:ClassesTask",
    "coco": "captioned.task:CaptionedTask",
    "flickr30k": "captioned.task:CaptionedTask",
    "xm3600": "captioned.task:CaptionedTask",
    "searchad": "searchad.task:SearchADTask",
    "forb": "forb.task:ForbTask",
    "subregion": "subregion.task:SubRegionTask",
    "roxford5k": "revisited.task:RevisitedTask",
    "rparis6k": "revisited.task:RevisitedTask",
    "proxford": "pixel.task:PixelTask",
    "prparis": "pixel.task:PixelTask",
}


def load_task(benchmark: str, data: Path, options: Options | None = None) -> Task:
    """The task of a benchmark on the data in a folder."""
    if benchmark not in TASKS:
        raise SpecError(f"no benchmark is called {benchmark!r}; choose one of {', '.join(TASKS)}")
    asked = options or Options()
    if asked.protocol not in (None, *PROTOCOLS):
        raise SpecError(f"--protocol {asked.protocol} is none of {', '.join(PROTOCOLS)}")
    module, _, name = TASKS[benchmark].partition(":")
    kind = getattr(import_module(f"wherein.bench.{module}"), name)
    task: Task = kind.load(benchmark, data, asked)
    return task

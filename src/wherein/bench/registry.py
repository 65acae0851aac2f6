"""Every benchmark that can be run: its name → the class of its task, which is imported when it is loaded."""

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from wherein.bench.task import COMMON, BenchOption, Task, Variant
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


def load_task(benchmark: str, data: Path, options: Variant | None = None) -> Task:
    """The task of a benchmark on the data in a folder; options that it does not declare are refused."""
    asked = options or Variant()
    asked.check(declared_options(benchmark), benchmark=benchmark)
    task: Task = _kind(benchmark).load(benchmark, data, asked)
    return task


def declared_options(benchmark: str) -> tuple[BenchOption, ...]:
    """Every option that a benchmark takes, as its task declares them."""
    return (*_kind(benchmark).takes(benchmark), *COMMON)


def every_option() -> dict[str, dict[str, BenchOption]]:
    """The options of all benchmarks: name → benchmark → what the option means there."""
    found: dict[str, dict[str, BenchOption]] = {}
    for benchmark in TASKS:
        for option in declared_options(benchmark):
            found.setdefault(option.name, {})[benchmark] = option
    return found


def _kind(benchmark: str) -> Any:
    """The class of a benchmark's task."""
    if benchmark not in TASKS:
        raise SpecError(f"no benchmark is called {benchmark!r}; choose one of {', '.join(TASKS)}")
    module, _, name = TASKS[benchmark].partition(":")
    return getattr(import_module(f"wherein.bench.{module}"), name)

"""The libraries of the extra `hf`, how they are loaded, and on which device they run. Nothing else imports torch."""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from wherein.errors import MissingExtra, SpecError

QUIET: Final = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",  # its threads and our forks do not mix
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
}
"""Read by the libraries when they are loaded: they send nothing to their makers."""
DEVICES: Final = ("auto", "cpu", "cuda", "mps")
PRECISIONS: Final = ("auto", "half", "full")
_LIBRARIES: Final = ("torch", "transformers", "huggingface_hub")
_OPERATORS: Final = ("nms", "qnms")
"""Compiled operators of torchvision that its Python files describe when they are imported."""

_remote_code = False


def library(name: str, spec: str) -> Any:
    """A module of the extra `hf`, imported by name and with telemetry off; a missing one names the one command."""
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what libraries say of one another while they load
            _mend_torchvision()
            return import_module(name)
    except ImportError as error:
        raise MissingExtra(f"{spec} needs an extra ({error.name} is missing): pip install 'wherein[hf]'.") from None


def require_libraries(spec: str) -> None:
    """Refuse a spec whose libraries are not installed, without loading them."""
    for name in _LIBRARIES:
        try:
            missing = find_spec(name) is None
        except ValueError:  # a module that is barred from being imported
            missing = True
        if missing:
            raise MissingExtra(f"{spec} needs an extra ({name} is missing): pip install 'wherein[hf]'.")


def torch_for(spec: str) -> Any:
    """The module torch; a missing one is told with the command that installs it."""
    return library("torch", spec)


def transformers_for(spec: str) -> Any:
    """transformers, which from then on says only what went wrong."""
    found = library("transformers", spec)
    found.utils.logging.set_verbosity_error()
    found.utils.logging.disable_progress_bar()
    return found


def choose_device(asked: str, spec: str) -> str:
    """The device of torch that is meant: `auto` takes the first GPU there is. One that is not there is refused."""
    torch = torch_for(spec)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if asked == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    kind = asked.partition(":")[0]
    if kind not in there:
        raise SpecError(f"device {asked!r} is unknown; known: {', '.join(DEVICES)}, cuda:NUMBER.")
    if not there[kind]:
        raise SpecError(f"device {asked!r} is not on this machine, as torch {torch.__version__} sees it; use cpu.")
    return asked


def choose_precision(asked: str, device: str, spec: str) -> Any:
    """The number type of the weights: `auto` is half on GPUs and full on the CPU, where half is slower."""
    torch = torch_for(spec)
    if asked not in PRECISIONS:
        raise SpecError(f"precision {asked!r} is unknown; known: {', '.join(PRECISIONS)}.")
    if asked == "full" or (asked == "auto" and device == "cpu"):
        return torch.float32
    return torch.bfloat16 if device == "cpu" else torch.float16


def allow_remote_code(allowed: bool) -> None:
    """Let model repositories run their own Python from now on, in this process. Only a person at a door may call it."""
    global _remote_code
    _remote_code = allowed


def remote_code_allowed() -> bool:
    """Whether a person has said in this process that model repositories may run their own Python."""
    return _remote_code


@cache
def _mend_torchvision() -> None:
    """Make torchvision importable beside a torch for which its compiled part was not built (CPU torch, CUDA build).

    Its Python files, all that the libraries here use, then fail only because two operators are not declared.
    """
    try:
        import_module("torchvision")
        return
    except ImportError:
        return
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    torch = import_module("torch")
    declared = torch.library.Library("torchvision", "FRAGMENT")
    for name in _OPERATORS:
        declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _KEPT.append(declared)  # an operator lives as long as the library that declared it
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    import_module("torchvision")


_KEPT: Final = list[Any]()

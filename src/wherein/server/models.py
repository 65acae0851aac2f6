"""Which models a request may name: those that come with wherein, and those the collection was made by.

Loading a model opens the files that its spec names, so a stranger's spec is compared, never tried.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from wherein.server.problems import Problem
from wherein.values.method import Method
from wherein.values.models import is_model

_UPRIGHT: Final = "rootsift:upright"
"""The one variant that comes with wherein and reads no file."""


def check_method(spec: str, known: Set[str]) -> None:
    """Refuse a method that would open a folder of models; `known` is what the collection was made by."""
    method = Method.parse(spec)
    features = "" if method.words is None else method.words.features
    if any(is_model(value) for _, _, value in method.chosen) or any(":" in step for step in method.steps):
        _refuse(f"method {spec!r}")
    for named in (method.encoder or "", features):
        _require(named, known, said=f"method {spec!r}")


def check_job(encoder: str | None, layers: Sequence[str] | None, known: Set[str]) -> None:
    """Refuse to index with a model that would be read from a folder the request names."""
    _require(encoder or "", known, said=f"encoder {encoder!r}")
    for kind in layers or ():
        _require(kind.partition(":")[2], known, said=f"layer {kind!r}")


def _require(spec: str, known: Set[str], *, said: str) -> None:
    if ":" in spec and spec not in known and spec != _UPRIGHT:
        _refuse(said)


def _refuse(said: str) -> None:
    raise Problem(
        422,
        f"{said}: a request cannot name a folder of models or a variant that the collection was not made by. Name an "
        "encoder of the collection, or use the command on the machine that has the folder.",
    )

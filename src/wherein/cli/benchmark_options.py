"""The options of `wherein bench run` that benchmarks declare: read from their tasks when the command is used."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
import typer.core
import typer.main

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wherein.bench.task import BenchOption

_GIVEN: Final = "wherein.benchmark_options"
"""The key under which a command's context keeps the benchmark options that were given."""


class BenchmarkCommand(typer.core.TyperCommand):
    """A command that takes, beside its own options, those that any benchmark declares."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own options, then those of the benchmarks; `--help` stays the last."""
        *own, help_ = super().get_params(ctx)
        return [*own, *_declared(), help_]

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what was given for benchmarks waits in the context, see `given_options`."""
        found = {option.name: ctx.params.pop(option.name) for option in _declared()}
        ctx.meta[_GIVEN] = {name: _plain(value) for name, value in found.items() if _was_given(value)}
        return super().invoke(ctx)


def given_options(context: typer.Context) -> dict[str, Any]:
    """The options of benchmarks that were given, by name: folders in full, repeated ones as a tuple."""
    given: dict[str, Any] = context.meta[_GIVEN]
    return given


def _was_given(value: Any) -> bool:
    """Whether an option was given; a zero or an empty text that was given counts."""
    return value is not None and value is not False and value not in ((), [])


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.absolute())
    return tuple(value) if isinstance(value, list | tuple) else value


@cache
def _declared() -> tuple[Any, ...]:
    """The declared options as those of a command."""
    from wherein.bench.registry import TASKS, every_option

    def nothing() -> None:
        """Only the signature is read."""

    made = [_parameter(meanings, of_all=len(meanings) == len(TASKS)) for meanings in every_option().values()]
    nothing.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(nothing)
    params: list[Any] = typer.main.get_command(app).params
    return tuple(params)


def _parameter(meanings: Mapping[str, BenchOption], *, of_all: bool) -> inspect.Parameter:
    """One option as a parameter of a function, which typer reads; what it means is said benchmark by benchmark."""
    from wherein.bench.task import Kind

    one = next(iter(meanings.values()))
    types: dict[Kind, Any] = {
        Kind.TEXT: str | None,
        Kind.TEXTS: list[str] | None,
        Kind.NUMBER: int | None,
        Kind.FOLDER: Path | None,
        Kind.FLAG: bool,
    }
    default = False if one.kind is Kind.FLAG else None
    told = typer.Option(default, one.flag, min=one.least, help=explained(meanings, of_all=of_all))
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=told, annotation=types[one.kind])


def explained(meanings: Mapping[str, BenchOption], *, of_all: bool) -> str:
    """What an option means, with the benchmarks that take it in front: `coco, flickr30k: test (default) or val`."""
    takers: dict[str, list[str]] = {}
    for benchmark, option in meanings.items():
        takers.setdefault(option.explained, []).append(benchmark)
    if of_all and len(takers) == 1:
        (text,) = takers
        return f"{text[0].upper()}{text[1:]}."
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in takers.items()) + "."

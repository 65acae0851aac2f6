"""The command `wherein`: thin doors to the facade. One file a group of commands; nothing heavy at import."""

from __future__ import annotations

import os
import sys
import warnings
from copy import copy
from importlib import import_module
from typing import Annotated, Any, Final

import typer
import typer.core

from wherein.cli.log import VERBOSE, tell_log
from wherein.cli.options import with_address
from wherein.cli.spelling import in_flags
from wherein.errors import InputError, WhereinError, did_you_mean

_GROUPS: Final = (
    "index",
    "search",
    "locate",
    "manage",
    "doctor",
    "share",
    "models",
    "demo",
    "train",
    "label",
    "evaluate",
    "searchad",
    "bench",
    "serve",
)


class _Commands(typer.core.TyperGroup):
    """The commands; `--verbose` may stand anywhere among their words, and a pipe may close when it has enough."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--verbose` out of the words before `--`, so that every command has it."""
        end = args.index("--") if "--" in args else len(args)
        plain = [word for word in args[:end] if word != VERBOSE]
        tell_log(verbose=len(plain) < end)
        return super().parse_args(ctx, [*with_address(plain), *args[end:]])

    def invoke(self, ctx: Any) -> Any:
        """Run a command; when the reader of a pipe closes it, the command has done what was wanted."""
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # What Python still holds for the closed pipe has to go somewhere when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        return answer


app = typer.Typer(
    name="wherein",
    cls=_Commands,
    help="Find images and where in them: by text, by example, by any sum of those.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    verbose: Annotated[  # noqa: ARG001 — taken out of the words by _Commands, listed here for --help
        bool,
        typer.Option(VERBOSE, help="Tell what is done, on stderr; with any command. WHEREIN_LOG=debug tells more."),
    ] = False,
) -> None:
    if version:
        from wherein import __version__

        typer.echo(__version__)
        raise typer.Exit


for _group in _GROUPS:
    import_module(f"wherein.cli.{_group}").register(app)


@app.command("help")
def help_(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="COMMAND…", help="A command, as `search`.")] = None,
) -> None:
    """Explain a command, as its --help does; without one, list them all."""
    here: Any = context.find_root()
    for word in words or []:
        known = getattr(here.command, "commands", {})
        if word not in known:
            listed = f"; there are: {', '.join(known)}" if known else ""
            raise InputError(f"there is no command {word!r}{listed}.{did_you_mean(word, known)}")
        here = typer.Context(known[word], info_name=word, parent=here)
    typer.echo(here.command.get_help(here))


def _only(words: list[str]) -> typer.Typer:
    """The app with the one command that is asked for: typer builds every one that it has, which takes a while."""
    asked = next((word for word in words if not word.startswith("-")), "")
    named = [(one.name or getattr(one.callback, "__name__", ""), one) for one in app.registered_commands]
    commands = [one for name, one in named if name == asked != "help"]
    groups = [one for one in app.registered_groups if one.name == asked]
    if not commands and not groups:
        return app
    alone = copy(app)
    alone.registered_commands, alone.registered_groups = commands, groups
    return alone


def main() -> None:
    """Run the command: 0 found, 1 no match, 2 bad input, 130 stopped by Ctrl-C."""
    # Pillow warns of broken EXIF in files that we read all the same.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        _only(sys.argv[1:])(prog_name="wherein")
    except WhereinError as error:
        typer.echo(f"wherein: {in_flags(str(error))}", err=True)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        typer.echo(f"wherein: {os.fsdecode(error.filename)}: cannot be used ({error.strerror}).", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)

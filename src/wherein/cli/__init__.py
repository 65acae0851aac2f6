"""The command `wherein`: thin doors to the facade. One file a group of commands; nothing heavy at import."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Final

import typer

from wherein.errors import WhereinError

_GROUPS: Final = ("index", "search", "locate", "manage", "demo", "evaluate", "searchad", "bench", "serve")

app = typer.Typer(
    name="wherein",
    help="Find images and where in them: by text, by example, by any sum of those.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from wherein import __version__

        typer.echo(__version__)
        raise typer.Exit


for _group in _GROUPS:
    import_module(f"wherein.cli.{_group}").register(app)


def main() -> None:
    """Run the command: 0 found, 1 no match, 2 bad input, 130 stopped by Ctrl-C."""
    # Pillow warns of broken EXIF in files that we read all the same.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        app()
    except WhereinError as error:
        typer.echo(f"wherein: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of a pipe had enough
        sys.stderr.close()
        sys.exit(0)

"""What the engine says is the same in every door: no message names a flag of the command."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import wherein
from wherein.cli.spelling import in_flags

HOME = Path(wherein.__file__ or "").parent
OUTSIDE = {"cli", "server", "bench", "demo"}
"""The doors, which speak their own language."""
TERMINAL = {"output/present.py"}
"""What the command prints, and style sheets."""
COMMAND = re.compile(r"`[^`]*`")
"""A whole command in backticks is a way out for everybody who has the collection's machine."""
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def strings(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, its docstrings left out; what is filled in when it runs is an X."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside | alone:
            yield node.value


ENGINE = sorted(path for path in HOME.rglob("*.py") if path.relative_to(HOME).parts[0] not in OUTSIDE)


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: path.relative_to(HOME).as_posix())
def test_no_message_of_the_engine_names_a_flag(path: Path) -> None:
    if path.relative_to(HOME).as_posix() not in TERMINAL:
        said = [text for text in strings(ast.parse(path.read_text("utf-8"))) if FLAG.search(COMMAND.sub("", text))]
        assert said == [], "say what is meant, and how the command spells it in wherein/cli/spelling.py"


@pytest.mark.parametrize(
    ("said", "spelled"),
    [
        ("bow compares pictures: give an example image, or leave it.", "an example image (--image FILE), or"),
        ("the place was not used. Try the method static-36.", "Try the method static-36 (--method static-36)."),
        ("as by the method mini:my.head+sp, or not.", "the method mini:my.head+sp (--method mini:my.head+sp), or"),
        ("name a place, or leave out zoom.", "name a place (--where), or leave out zoom."),
        ("raise it: max_pixels 4096.", "raise it: --max-pixels 4096."),
        ("run `wherein index --layers local`.", "run `wherein index --layers local`."),
    ],
)
def test_the_command_adds_its_flags(said: str, spelled: str) -> None:
    assert spelled in in_flags(said)

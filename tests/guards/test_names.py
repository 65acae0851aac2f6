"""Names say one thing, and numbers say what they are."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import wherein

HOME = Path(wherein.__file__ or "").parent
SOURCES = sorted(HOME.rglob("*.py"))


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.relative_to(HOME).as_posix())
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}, (
        "one word has one meaning: rename one"
    )


def bare_numbers(path: Path) -> Iterator[str]:
    """The constants of a file that hold a number and of which nothing is said, neither below nor beside them."""
    lines, body = path.read_text("utf-8").splitlines(), ast.parse(path.read_text("utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None or node.end_lineno is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(target, ast.Name) or not target.id.strip("_").isupper():
            continue
        held = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
        number = any(isinstance(value, int | float) and not isinstance(value, bool) for value in held)
        said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if number and not said and "#" not in lines[node.end_lineno - 1] + lines[max(node.lineno - 2, 0)]:
            yield target.id


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(HOME).as_posix())
def test_every_constant_says_what_its_number_is(path: Path) -> None:
    assert list(bare_numbers(path)) == [], "say below it what it is, and where the number comes from"

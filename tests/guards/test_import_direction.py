"""Each file imports only from files above it in this list, which is the flow of an image and of a query."""

import ast
from pathlib import Path

import pytest

import wherein

HOME = Path(wherein.__file__ or "").parent
ORDER = (
    "errors",
    "region",
    "masks",
    "image",
    "video",
    "encoders",
    "proposals",
    "pyramid",
    "features",
    "verify",
    "expansion",
    "evidence",
    "localizers",
    "shards",
    "index",
    "cells",
    "kernels",
    "database",
    "records",
    "schema",
    "catalogue",
    "store",
    "walk",
    "embed",
    "kinds",
    "names",
    "query",
    "method",
    "options",
    "calibrate",
    "scorers",
    "local",
    "views",
    "search",
    "locating",
    "reranking",
    "zoom",
    "twins",
    "sync",
    "collection",
    "homes",
    "client",
    "present",
    "exports",
    "demo",
    "bench",
    "server",
    "cli",
    "__main__",
)


def part_of(path: Path) -> str:
    """`cli/index.py` → cli, `store.py` → store."""
    return path.relative_to(HOME).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The parts of wherein that a file imports, at its top or inside its functions, for types or for good."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "wherein" else [node.module]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        parts = [name.split(".") for name in names]
        found.update(part[1] for part in parts if part[0] == "wherein" and len(part) > 1 and part[1] in ORDER)
    return found


SOURCES = sorted(path for path in HOME.rglob("*.py") if path != HOME / "__init__.py")


def test_the_list_names_every_part() -> None:
    assert {part_of(path) for path in SOURCES} - set(ORDER) == set(), "give the new file its place in ORDER"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(HOME).as_posix())
def test_imports_come_from_above(path: Path) -> None:
    mine = part_of(path)
    below = ORDER[ORDER.index(mine) + 1 :]
    assert imports(path) & set(below) == set()


def test_only_the_facade_is_called_from_the_doors() -> None:
    private = {"database", "catalogue", "shards", "store", "scorers", "views", "walk"}
    reached = {path.relative_to(HOME).as_posix(): imports(path) & private for path in SOURCES if part_of(path) == "cli"}
    assert {name: parts for name, parts in reached.items() if parts} == {}


def test_relative_imports_are_not_used() -> None:
    nodes = ((path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text())))
    assert [path.name for path, node in nodes if isinstance(node, ast.ImportFrom) and node.level] == []

"""Each file imports only from files above it in this list, which is the flow of an image and of a query."""

import ast
from pathlib import Path

import pytest

import wherein

HOME = Path(wherein.__file__ or "").parent
ORDER = (
    "errors",
    "plugins",
    "arrays",
    "limits",
    "files",
    "parallel",
    "values.region",
    "values.masks",
    "values.records",
    "values.ranking",
    "images.image",
    "images.video",
    "images.walk",
    "encoders",
    "images",
    "features",
    "detectors",
    "search.verify",
    "search.expansion",
    "search.background",
    "search.evidence",
    "localizers",
    "store.seals",
    "store.shards",
    "index.rows",
    "index",
    "search.candidates",
    "kernels",
    "store",
    "layers",
    "indexing.stages",
    "indexing.executors",
    "indexing.threads",
    "indexing.ray",
    "indexing.layer_choice",
    "indexing.compress",
    "indexing.names",
    "values",
    "options",
    "search.calibrate",
    "search.judgements",
    "search.crops",
    "search.scorers",
    "search.style",
    "search.reading",
    "search.unknown",
    "search.words",
    "search.local",
    "search.views",
    "search.sources",
    "search.clips",
    "search.engine",
    "search",
    "indexing.duplicates",
    "indexing.scope",
    "indexing.fill",
    "indexing.sync",
    "indexing.upkeep",
    "indexing.sharing",
    "collection",
    "indexing",
    "client",
    "output",
    "demo",
    "bench",
    "server",
    "cli",
    "__main__",
)


def part_of(path: Path) -> str:
    """`cli/index.py` → cli, `values/region.py` → values.region: the place in ORDER that names it most closely."""
    return named(path.relative_to(HOME).as_posix().removesuffix(".py").removesuffix("/__init__").replace("/", "."))


def named(module: str) -> str:
    """The longest entry of ORDER that a module lies in; its first word where there is none."""
    within = [part for part in ORDER if module == part or module.startswith(f"{part}.")]
    return max(within, key=len, default=module.partition(".")[0])


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
        found.update(named(name.removeprefix("wherein.")) for name in names if name.startswith("wherein."))
    return found & set(ORDER)


SOURCES = sorted(path for path in HOME.rglob("*.py") if path != HOME / "__init__.py")


def test_the_list_names_every_part() -> None:
    assert {part_of(path) for path in SOURCES} - set(ORDER) == set(), "give the new file its place in ORDER"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(HOME).as_posix())
def test_imports_come_from_above(path: Path) -> None:
    mine = part_of(path)
    below = ORDER[ORDER.index(mine) + 1 :]
    assert imports(path) & set(below) == set()


def test_only_the_facade_is_called_from_the_doors() -> None:
    private = {"store.shards", "store", "search.scorers", "search.views", "images.walk"}
    reached = {path.relative_to(HOME).as_posix(): imports(path) & private for path in SOURCES if part_of(path) == "cli"}
    assert {name: parts for name, parts in reached.items() if parts} == {}


def test_relative_imports_are_not_used() -> None:
    nodes = ((path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text())))
    assert [path.name for path, node in nodes if isinstance(node, ast.ImportFrom) and node.level] == []

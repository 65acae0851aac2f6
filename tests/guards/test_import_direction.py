"""Folders import only from folders above them in this list, which is the flow of an image and of a query."""

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
    "sums",
    "copies",
    "parallel",
    "values.address",
    "remote",
    "values.region",
    "values.masks",
    "values.records",
    "values.ranking",
    "values.models",
    "images",
    "values",
    "encoders",
    "features",
    "detectors",
    "localizers",
    "store",
    "index",
    "kernels",
    "layers",
    "options",
    "search",
    "indexing",
    "training",
    "collection",
    "locations",
    "doctor",
    "models",
    "door",
    "client_learning",
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


DOORS = ("cli", "server", "bench", "demo")
ENGINES = set(ORDER[ORDER.index("encoders") : ORDER.index("training") + 1]) - {"options"}
"""Folders that only the facade may call; doors have its answers as values."""


@pytest.mark.parametrize("door", DOORS)
def test_doors_call_the_facade_and_the_values_and_no_engine(door: str) -> None:
    reached = {
        path.relative_to(HOME).as_posix(): {part for part in imports(path) if part.partition(".")[0] in ENGINES}
        for path in SOURCES
        if path.relative_to(HOME).parts[0] == door
    }
    assert reached, f"there is no door {door}"
    assert {name: parts for name, parts in reached.items() if parts} == {}


MOST_LINES = 400
"""A file that outgrows this has two subjects (docs/architecture.md)."""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(HOME).as_posix())
def test_no_file_outgrows_its_page(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCES}), ids=lambda path: path.name)
def test_every_folder_says_in_its_first_sentence_what_lives_there(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8")))
    assert said
    assert len(said.split()) > 3


def test_relative_imports_are_not_used() -> None:
    nodes = ((path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text())))
    assert [path.name for path, node in nodes if isinstance(node, ast.ImportFrom) and node.level] == []

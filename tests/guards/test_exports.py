"""The public surface: every name resolves, none is forgotten, and it is what `dir` shows."""

import ast
from pathlib import Path

import pytest

import wherein
from wherein import errors


@pytest.mark.parametrize("name", wherein.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(wherein, name) is not None


def test_dir_shows_the_public_names_and_they_are_sorted() -> None:
    assert dir(wherein) == sorted(wherein.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        wherein.nothing  # noqa: B018


def test_type_checkers_see_the_names_that_are_loaded_lazily() -> None:
    tree = ast.parse(Path(wherein.__file__ or "").read_text())
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(wherein.__all__) - {"__version__"}


def test_every_public_name_has_a_docstring() -> None:
    bare = [name for name in wherein.__all__ if name != "__version__" and not getattr(wherein, name).__doc__]
    assert bare == []


def test_the_error_tree_is_drawn_as_it_is() -> None:
    drawn = errors.__doc__ or ""
    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, Exception):
            assert name in drawn, f"{name} is missing in the drawing"
            assert issubclass(error, errors.WhereinError)

"""Docs and doors cannot drift: commands, options, method words, links and the error tree are as the docs say."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from wherein import errors, plugins
from wherein.cli import app
from wherein.values.method import QUERY_OPTIONS, Declared, declared_step, declared_word, search_words

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> dict[str, Any]:
    """Every command by its words: `search`, `bench run`, …"""
    found: dict[str, Any] = {}
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        below = getattr(command, "commands", {})
        found |= {f"{name} {inner}": leaf for inner, leaf in below.items()} or {name: command}
    return found


def said() -> str:
    return "\n".join(page.read_text("utf-8") for page in PAGES)


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_is_in_the_docs_and_explains_itself(name: str) -> None:
    assert re.search(rf"`?(wherein )?{name}\b", said()), f"no page mentions `wherein {name}`"
    assert commands()[name].help


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_in_a_page_exists(page: Path) -> None:
    known = commands()
    first = {name.split()[0] for name in known}
    for line in re.findall(r"^\$ (?:\S*/)?wherein (.+)$", page.read_text("utf-8"), re.MULTILINE):
        words = line.split()
        assert words[0] in first, line
        name = words[0] if words[0] in known else " ".join(words[:2])
        options = {flag for option in known[name].get_params(typer.Context(known[name])) for flag in option.opts}
        for word in re.findall(r"(?<=\s)--[a-z][a-z-]*", line.split("#")[0]):
            assert word in options, f"{line}: no option {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def spellings() -> list[str]:
    """Every search word, step and option."""
    declared: list[Declared] = [declared_word(word) for word in (*search_words(), "static-9")]
    declared += [declared_step(step) for step in plugins.table("steps")]
    options = [*QUERY_OPTIONS, *(option for one in declared for option in one.options)]
    return sorted({*search_words(), *plugins.table("steps"), *(f"~{value}" for one in options for value in one.values)})


@pytest.mark.parametrize("word", spellings())
def test_every_method_word_is_explained(word: str) -> None:
    assert f"`{word}`" in (ROOT / "docs" / "search.md").read_text("utf-8")


def test_the_error_tree_is_drawn_as_it_is() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or "")) | {"WhereinError"}
    real = {name for name, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__}
    assert drawn == real


def test_the_architecture_page_names_every_part() -> None:
    tree = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    home = ROOT / "src" / "wherein"
    parts = [path.name for path in home.glob("*.py") if not path.stem.startswith("__")]
    parts += [f"{path.parent.name}/" for path in home.glob("*/__init__.py")]
    assert [part for part in parts if part not in tree] == []

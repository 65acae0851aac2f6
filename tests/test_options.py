"""Options are checked once, for every door: one of the wrong kind is refused by name, and help lists them all."""

import inspect
import pydoc
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wherein
from wherein.client import RemoteCollection
from wherein.errors import InputError
from wherein.options import Asked, Filters, Options, image_ids_of
from wherein.values.records import stamp


@pytest.fixture
def filled(collection: wherein.Collection, folder: Path) -> wherein.Collection:
    """The four pictures, indexed."""
    collection.add(folder)
    return collection


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("k", 2.5, "k = 2.5: give a whole number."),
        ("k", "5", "k = '5': give a whole number."),
        ("k", True, "k = True: give a whole number."),
        ("k", 0, "k = 0: give at least 1."),
        ("min_side", "100", "min_side = '100': give a whole number."),
        ("min_side", -1, "min_side = -1: give at least 0."),
        ("min_confidence", "0.5", "min_confidence = '0.5': give a number between 0 and 1."),
        ("min_confidence", 2, "min_confidence = 2: give a number between 0 and 1."),
        ("after", 2018.5, "after = 2018.5 is not a date"),
        ("after", "soon", "after = 'soon' is not a date"),
        ("before", 20180501, "before = 20180501 is not a date"),
        ("before", "2018-13", "before = '2018-13' is not a date"),
        ("folder", 3, "folder = 3: give the name or the path of a folder."),
        ("tags", 3, "tags = 3: give a text, or a list of texts."),
        ("tags", [3], "tags = 3: give a text each."),
        ("among", {"a": 1}, "among = {'a': 1}: give a text, or a list of texts."),
        ("method", 3, "method = 3: give a text such as 'whole' or 'patches', or a Method."),
        ("locate", "yes", "locate = 'yes': give True or False."),
        ("methd", "whole", "Did you mean 'method'?"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_by_name(option: str, value: object, told: str) -> None:
    options: Any = {option: value}
    with pytest.raises(InputError) as refused:
        Asked.of("red", options)
    assert told in str(refused.value)


def test_numbers_of_numpy_and_paths_are_taken() -> None:
    options: Any = {"k": np.int64(3), "min_confidence": np.float32(0.5), "folder": Path("holiday")}
    asked = Asked.of("red", options)
    assert (asked.k, asked.cut.least, asked.filter.folder) == (3, 0.5, "holiday")


@pytest.mark.parametrize("said", ["2022", 2022, "2022-01", "2022-1", "2022-01-01", date(2022, 1, 1)])
def test_a_year_and_a_month_are_their_first_day(said: Any) -> None:
    assert stamp(said) == stamp(date(2022, 1, 1))
    assert stamp("2022-05") == stamp("2022-05-01") != stamp("2022")


def test_images_are_named_one_by_one_or_in_lists(filled: wherein.Collection) -> None:
    assert image_ids_of(("a", ["b", "c"])) == ("a", "b", "c")
    assert filled.remove(["red.png", "blue.png"], "holiday/half.png") == 3
    assert filled.image_ids() == ["holiday/third.png"]
    with pytest.raises(InputError, match="image_ids = 3: give"):
        filled.remove(3)  # type: ignore[arg-type]


def test_a_ranking_without_hits_is_empty(filled: wherein.Collection) -> None:
    none, some = filled.search("red", folder="nowhere"), filled.search("red")
    assert (none.empty, none.nothing_indexed) == (True, False)
    assert not some.empty


@pytest.mark.parametrize("kind", [wherein.Collection, RemoteCollection])
def test_help_lists_every_option_with_its_default_and_meaning(kind: Any) -> None:
    shown = pydoc.plain(pydoc.render_doc(kind.search))
    for option in Options.__optional_keys__:
        assert f"{option} (" in shown, option
        assert option in inspect.signature(kind.search).parameters
    assert "k (20): how many hits." in shown
    assert set(Filters.__optional_keys__) < set(inspect.signature(kind.image_ids).parameters)

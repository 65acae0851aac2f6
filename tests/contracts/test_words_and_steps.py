"""Every search word and every step keeps the public contract, and the check itself can fail."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wherein
from wherein import plugins
from wherein.encoders.toy import COLOURS
from wherein.errors import SpecError
from wherein.search.contract import check_step, check_word
from wherein.search.engine import Context, Ranked
from wherein.search.steps.segrank import Segrank
from wherein.search.words.whole import Whole

IMAGES = 16
METHODS = {"static": "static-9"}
"""What is written for a word whose name alone is no method."""
DETECTED = {"detected", "ground"}
"""What needs a detector goes through the same check in tests/models."""
STEPS = {
    "sp": "bow+sp",
    "propagate": "bow+sp+propagate",
    "hypergraph": "bow+sp+hypergraph",
}
"""What is written for a step that is not done after whole images."""


def covered(number: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A picture full of corners in the toy encoder's colours; its left half has shares of its own."""
    random, palette = np.random.default_rng(number), np.array(list(COLOURS.values()), np.uint8)
    halves = [random.choice(len(palette), (12, 8), p=random.dirichlet(np.full(len(palette), 0.5))) for _ in range(2)]
    return np.kron(palette[np.hstack(halves)], np.ones((20, 20, 1), np.uint8))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wherein.Collection]:
    """16 images with every layer that a word or a step reads, as files."""
    import PIL.Image

    root = tmp_path_factory.mktemp("pictures")
    for number in range(IMAGES):
        PIL.Image.fromarray(covered(number)).save(root / f"{number:02d}.png")
    with wherein.open(root, create=True, encoder="toy") as collection:
        collection.add(root, layers=["patches", "cells", "dense", "local", "proposals", "pyramid", "thumbs"])
        yield collection


@pytest.fixture(params=[8192, 8], ids=["all are the sample", "candidates"])
def sampled(request: pytest.FixtureRequest, pictures: wherein.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched as small collections are, then as large ones."""
    for module in ("background", "sources"):
        monkeypatch.setattr(f"wherein.search.{module}.SAMPLE", request.param)
    pictures._forget()


@pytest.mark.usefixtures("sampled")
@pytest.mark.parametrize("word", sorted(set(plugins.table("words")) - DETECTED))
def test_every_search_word_keeps_the_contract(word: str, pictures: wherein.Collection) -> None:
    check_word(METHODS.get(word, word), pictures, covered(3))


@pytest.mark.parametrize("step", sorted(set(plugins.table("steps")) - DETECTED))
def test_every_step_keeps_the_contract(step: str, pictures: wherein.Collection) -> None:
    check_step(STEPS.get(step, f"whole+{step}"), pictures, covered(3))


def named_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Whole, "name", "all")


def said_to_use_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Whole, "uses_place", True)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (named_otherwise, "calls itself 'all'"),
        (said_to_use_a_place, "says that it looks at a place, and finds the same in every place"),
    ],
    ids=["another name", "a place that is not used"],
)
def test_a_broken_word_is_told_why(
    broken: Callable[[pytest.MonkeyPatch], None],
    complaint: str,
    pictures: wherein.Collection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch)
    with pytest.raises(SpecError, match=f"search word 'whole' breaks the contract: it {complaint}"):
        check_word("whole", pictures, covered(3))


def test_a_step_that_turns_the_ranking_upside_down_is_told(
    pictures: wherein.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turned(_: Segrank, __: Context, ranked: Ranked) -> Ranked:
        return replace(ranked, candidates=ranked.candidates[::-1])

    monkeypatch.setattr(Segrank, "__call__", turned)
    with pytest.raises(SpecError, match="step 'segrank' breaks the contract: it is not ordered by score"):
        check_step("whole+segrank", pictures, covered(3))


def test_a_method_without_a_step_has_none_to_check(pictures: wherein.Collection) -> None:
    with pytest.raises(SpecError, match="has no step"):
        check_step("whole", pictures, covered(3))

"""Sweeps: what they vary, the folders and collection their runs share, figures combined."""

from pathlib import Path

import pytest

from wherein.bench.run import Plan
from wherein.bench.sweep import Sweep, combined, parse_spread, sweep, with_overlap
from wherein.bench.task import Variant
from wherein.errors import SpecError


def test_overlaps_go_into_the_grid_of_a_method() -> None:
    assert with_overlap("mini+static-9~best", 0.1) == "mini+static-9@0.1~best"
    assert with_overlap("mini+static-5@0.2", 0.0) == "mini+static-5"
    with pytest.raises(SpecError, match="no grid"):
        with_overlap("mini", 0.1)


@pytest.mark.parametrize(("text", "spread"), [("0,0", (0, 0)), ("0.1,10%", (0.1, 0.1)), ("0.5, 0.25", (0.5, 0.25))])
def test_spreads_are_read(text: str, spread: tuple[float, float]) -> None:
    assert parse_spread(text) == pytest.approx(spread)


@pytest.mark.parametrize("text", ["", "0.1", "a,b", "-1,0", "1,2,3"])
def test_spreads_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--perturb"):
        parse_spread(text)


def test_figures_are_combined_one_by_one() -> None:
    first = {"a": {"x": 1.0, "y": None}, "timing": {"s": 1}}
    second = {"a": {"x": 3.0, "y": 2.0}, "timing": {"s": 2}}
    assert combined([first, second], max) == {"a": {"x": 3.0}}


def test_random_support_sets_give_mean_and_spread(tmp_path: Path, searchad_data: Path) -> None:
    plan = Plan("searchad", searchad_data, "toy", tmp_path / "out", Variant(modality="vision", seed=1))
    found = sweep(plan, Sweep(draws=3))
    summary = found.scores["random sets"]
    assert len(found.scores["runs"]["random sets"]) == 3
    assert 0 <= summary["std"]["overall"]["MAP"] < 0.5
    assert 0.5 < summary["mean"]["overall"]["MAP"] <= 1
    folders = sorted(path.name for path in (tmp_path / "out/random-sets").iterdir())
    assert folders == ["draw-00", "draw-01", "draw-02"]
    with pytest.raises(SpecError, match="--modality vision"):
        sweep(Plan("searchad", searchad_data, "toy", tmp_path / "text"), Sweep(draws=2))


def test_perturbed_boxes_are_drawn_five_times_and_shared(tmp_path: Path, subregion_data: Path) -> None:
    plan = Plan("subregion", subregion_data, "toy", tmp_path / "out")
    found = sweep(plan, Sweep(perturbations=((0.0, 0.0), (0.25, 0.25)), draws=5))
    runs = found.scores["runs"]
    assert {name: len(folders) for name, folders in runs.items()} == {"shift 0 size 0": 1, "shift 0.25 size 0.25": 5}
    assert found.scores["shift 0.25 size 0.25"]["mean"]["all"]["long"]["R@1"] == 1.0
    assert (tmp_path / "out/collection").is_dir()
    assert not list((tmp_path / "out").glob("shift-*/draw-*/collection")), "one collection serves all draws"

"""Scores of places: which cells a box chooses, how they are standardised, and what a sloppy box costs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein import Box, Part
from wherein.arrays import Floats, Ints
from wherein.encoders import Encoder
from wherein.index.cells import Cells, PlaceRows, lengths_of, per_length, sixths
from wherein.index.exact import ExactRows
from wherein.index.patches import PatchGrids
from wherein.index.rows import in_memory
from wherein.search.crops import crop_embeddings
from wherein.search.scorers import RowScorer, SampledScorer, Share, SumScorer
from wherein.search.words import theoretical
from wherein.search.words.patches import PatchScorer
from wherein.search.words.static import WHOLE_SHARE, CellScorer
from wherein.store.originals import Original
from wherein.values.region import Grid, iou

Picture = Callable[..., PIL.Image.Image]
CELLS = Grid(9).boxes()
TEXT = np.array([[1.0, 0.0]], np.float32)


def scores_of(made: SampledScorer, where: Box | None) -> Floats:
    """(1, images): what every image scores for TEXT."""
    return made.scores(TEXT, where, np.arange(made.backgrounds(TEXT, where)[0].n))


def scorer(shown: dict[int, tuple[int, float]], *, images: int = 4, choose: str = "soft") -> CellScorer:
    """Images that show nothing but, in one cell, so much of what is asked for: image → (cell, cosine)."""
    rows = np.zeros((9, images, 2), np.float32)
    rows[..., 1] = 1.0
    for image, (cell, cosine) in shown.items():
        rows[cell, image] = (cosine, (1 - cosine**2) ** 0.5)
    return CellScorer(as_cells(rows), CELLS, np.arange(images), choose=choose)


def as_cells(rows: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Cells:
    """(cells, images, d) directions, each cell stored by itself."""
    values = np.rint(127 * rows.transpose(1, 0, 2)).astype(np.int8)
    stored = [PlaceRows(values, np.arange(len(values)), np.arange(len(values)))]
    shares = np.eye(len(rows), dtype=np.float32)
    return Cells(stored, shares, per_length(lengths_of(stored, shares, images=len(values))))


@pytest.mark.parametrize("choose", ["soft", "best", "any"])
def test_a_place_finds_what_is_there_and_not_what_is_elsewhere(choose: str) -> None:
    scores = scores_of(scorer({1: (0, 0.5), 2: (8, 1.0)}, choose=choose), Box(0.05, 0.05, 0.3, 0.3))
    assert scores.argmax() == 1
    assert scores[0, 2] == pytest.approx(scores[0, 0])


def test_a_cell_that_always_shows_it_counts_less_than_one_that_seldom_does() -> None:
    rows = {image: (0, 0.9 + 0.02 * image) for image in range(3)} | {3: (1, 0.6)}
    best = scores_of(scorer(rows, choose="any"), Box(0.0, 0.0, 0.6, 0.3)).argmax()
    assert best == 3


def test_soft_cells_count_as_much_as_they_share_with_the_box() -> None:
    made = scorer({0: (0, 0.5), 1: (1, 0.5)})
    mostly_first = scores_of(made, Box(0.0, 0.0, 0.4, 0.3))[0]
    assert mostly_first[0] > mostly_first[1] > mostly_first[2]
    evenly = scores_of(made, Box(1 / 6, 0.0, 0.5, 0.3))[0]
    assert evenly[0] == pytest.approx(evenly[1], abs=1e-3)


def test_the_cell_shown_is_one_that_the_box_is_mostly_in() -> None:
    made = scorer({0: (0, 0.3), 1: (4, 1.0)})
    assert made.regions(TEXT[0], Box(0.0, 0.0, 0.4, 0.4), np.array([0, 1])) == [CELLS[0], CELLS[0]]


def test_scorers_are_standardised_and_summed_by_their_shares() -> None:
    rows = np.array([[1, 0], [0, 1], [0, 1], [0, 1]], np.float32)
    table = in_memory(rows, np.arange(4))
    whole = Share(RowScorer(table, ExactRows(table), np.arange(4)), WHOLE_SHARE, 2.0)
    made = SumScorer([Share(scorer({1: (0, 0.5)})), whole], count=4, sample=np.arange(4))
    apart = np.array([3, -1, -1, -1]) / 3**0.5
    assert scores_of(made, CELLS[0])[0] == pytest.approx(apart[[1, 0, 2, 3]] + WHOLE_SHARE * apart, abs=1e-4)
    assert scores_of(made, None)[0] == pytest.approx(apart[[1, 0, 2, 3]] + 2.0 * apart, abs=1e-4)
    assert made.regions(TEXT[0], CELLS[0], np.array([1])) == [CELLS[0]]


def test_the_best_whole_images_are_the_same_whether_more_were_found_just_before_or_not() -> None:
    rows = np.random.default_rng(5).normal(size=(40, 2)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    table = in_memory(rows, np.arange(40))

    def tops(*wanted: tuple[Floats, int, bool]) -> list[tuple[list[int], list[float]]]:
        made, odd = RowScorer(table, ExactRows(table), np.arange(40)), np.arange(40) % 2 == 1
        found = [made.top(query, None, k=k, allowed=odd if some else None)[0] for query, k, some in wanted]
        return [(top.images.tolist(), top.scores.tolist()) for top in found]

    other = TEXT[:, ::-1].copy()
    asked = ((TEXT, 10, False), (TEXT, 4, False), (TEXT, 4, True), (TEXT, 12, False), (other, 4, False))
    assert tops(*asked) == [tops(one)[0] for one in asked]


def test_the_region_is_the_cell_that_stands_out_among_those_chosen() -> None:
    made = scorer({0: (1, 0.5), 1: (8, 1.0)})
    assert made.regions(TEXT[0], Box(0.0, 0.0, 0.6, 0.3), np.array([0])) == [CELLS[1]]
    assert made.regions(TEXT[0], None, np.array([0, 1])) == [CELLS[1], CELLS[8]]


def patches(*reds: tuple[int, int, float], images: int = 3, alone: bool = False) -> PatchScorer:
    """Grids of 4 × 4 patches that show nothing but so much of what is asked for: (image, patch, cosine)."""
    grids = np.zeros((images, 16, 2), np.float32)
    for image, patch, cosine in reds:
        grids[image, patch, 0] = cosine
    stored = np.rint(grids * 127).astype(np.int8).reshape(images, 4, 4, 2)
    grids_of = PatchGrids([(stored, np.arange(images))], np.arange(images), [None] * images, None, images)
    return PatchScorer(grids_of, np.arange(images), alone=alone)


def test_the_best_patch_counts_by_what_is_unusual_at_its_place() -> None:
    made = patches(*((image, 15, 0.9) for image in range(3)), (1, 0, 0.5))
    scores = scores_of(made, None)[0]
    assert scores.argmax() == 1
    assert scores[0] == pytest.approx(0.0, abs=0.01)
    assert made.regions(TEXT[0], None, np.array([1])) == [Box(0, 0, 0.25, 0.25)]


def test_alone_the_best_patch_and_the_best_cell_count_by_their_cosines() -> None:
    made = patches(*((image, 15, 0.9) for image in range(3)), (1, 0, 0.5), alone=True)
    assert scores_of(made, None)[0] == pytest.approx([0.9] * 3, abs=0.01)
    assert scores_of(made, Box(0, 0, 0.5, 0.25))[0] == pytest.approx([0.0, 0.5, 0.0], abs=0.01)
    cells = CellScorer(
        as_cells(np.full((9, 1, 2), [0.6, 0.8], np.float32)), CELLS, np.arange(1), choose="any", alone=True
    )
    assert scores_of(cells, Box(0, 0, 0.5, 0.25)) == pytest.approx(np.array([[0.6]]), abs=0.01)
    assert (made.kind, cells.kind) == ("cosine", "cosine")


def test_under_a_box_the_mean_patch_counts() -> None:
    made = patches((0, 0, 1.0), (1, 0, 0.6), (1, 1, 0.6), (2, 15, 1.0))
    scores = scores_of(made, Box(0, 0, 0.5, 0.25))[0]
    assert scores.argsort().tolist() == [2, 0, 1]
    half = scores_of(made, Box(0, 0, 0.375, 0.25))[0]  # the second patch lies half under it, and counts half
    assert half[0] - half[2] == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize(
    "method",
    ["", "patches", "static-5", "static-9", "static-36", "static-9@0.1~best", "static-9~any", "static-9~any~alone"],
)
@pytest.mark.parametrize("off", [0.0, 0.12], ids=["an exact box", "a sloppy box"])
def test_every_grid_of_a_collection_finds_the_photo_with_the_thing_in_that_corner(
    tmp_path: Path, picture: Picture, method: str, off: float
) -> None:
    places = {"top-left": (0, 0), "top-right": (40, 0), "bottom-left": (0, 40), "bottom-right": (40, 40)}
    (tmp_path / "photos").mkdir()
    for name, corner in places.items():
        image = picture("blue").resize((64, 64))
        image.paste(picture("red").resize((24, 24)), corner)
        image.save(tmp_path / "photos" / f"{name}.png")
    with wherein.open(tmp_path / "c", create=True, encoder="toy") as collection:
        collection.add(tmp_path / "photos", layers=("global", "patches", "cells", "static-9"))
        for name, (x, y) in places.items():
            left, top = (min(max(side / 64 + (off if side == 0 else -off), 0.0), 1.0) for side in (x, y))
            where = Box(left, top, min(1.0, left + 0.375), min(1.0, top + 0.375))
            first = collection.search(Part(text="red", where=where), method=method)[0]
            assert first.image_id == f"{name}.png"
            assert first.box is not None


def test_a_collection_without_cells_says_how_to_add_them(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "photos").mkdir()
    picture("red").save(tmp_path / "photos" / "red.png")
    with wherein.open(tmp_path / "c", create=True, encoder="toy") as collection:
        collection.add(tmp_path / "photos", layers=("global", "patches"))
        with pytest.raises(wherein.InputError, match="--layers global,cells,patches,thumbs"):
            collection.search(Part(text="red", where=Box(0, 0, 0.5, 0.5)))


def test_right_under_the_box_counts_beside_the_cell_around_it(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "photos").mkdir()
    for name, corner in {
        "in-the-box": (0, 0),
        "beside-it": (16, 16),
        "a": (56, 56),
        "b": (56, 0),
        "c": (0, 56),
    }.items():
        image = picture("blue").resize((64, 64))
        image.paste(picture("red").resize((8, 8)), corner)
        image.save(tmp_path / "photos" / f"{name}.png")
    with wherein.open(tmp_path / "c", create=True, encoder="toy:8") as collection:
        collection.add(tmp_path / "photos")
        part = Part(text="red", where=Box(0, 0, 0.125, 0.125))
        apart = collection.search(part, method="static-5")
        assert apart[0].image_id == "in-the-box.png"
        assert apart[0].score > apart[1].score + 1.0
        alike = collection.search(part, method="static-5~alone")
        assert alike[0].score == pytest.approx(alike[1].score, abs=0.02)


def float64_reference(
    values: np.ndarray[Any, np.dtype[np.int8]], query: Floats, where: Box
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """(images,) what the cells of a grid of nine, weighed softly, and the mean patch under a box score."""
    asked, stored = query[0].astype(np.float64), values.astype(np.float64)
    cells = stored.reshape(len(stored), 9, -1)
    cosines = cells @ asked / np.linalg.norm(cells, axis=2)
    weights = np.array([iou(cell, where) for cell in CELLS])
    apart = (cosines - cosines.mean(axis=0)) / cosines.std(axis=0)
    under = np.outer([0.1, 1 / 3, 0.1], [1 / 3, 0.2, 0.0]).ravel()  # how much of each third lies under the box
    means = (stored.reshape(len(stored), 9, -1) @ asked / 127) @ (under / under.sum())
    return apart @ (weights / weights.sum()), (means - means.mean()) / means.std()


@pytest.mark.parametrize("seed", range(4))
def test_standardised_scores_are_those_of_float64_to_the_fifth_digit(seed: int) -> None:
    draw = np.random.default_rng(seed)
    shared = draw.standard_normal(64)  # as embeddings do, all point one way, so that cosines are spread little
    rows = shared + 0.3 * draw.standard_normal((500, 3, 3, 64))
    values = np.rint(127 * rows / np.abs(rows).max(axis=-1, keepdims=True)).astype(np.int8)
    query = np.asarray(shared + draw.standard_normal(64), np.float32)[None]
    query /= np.linalg.norm(query)
    where = Box(0.0, 1 / 3 - 0.1, 1 / 3 + 0.2, 2 / 3 + 0.1)
    numbers = np.arange(len(values))
    stored, shares = [PlaceRows(values.reshape(500, 9, 64), numbers, numbers)], np.eye(9, dtype=np.float32)
    cells = Cells(stored, shares, per_length(lengths_of(stored, shares, images=500)))
    by_cells, by_patches = float64_reference(values, query, where)
    found = CellScorer(cells, CELLS, numbers, choose="soft").scores(query, where, numbers)[0]
    np.testing.assert_allclose(found, by_cells, atol=1e-5, rtol=1e-5)
    made = PatchScorer(PatchGrids([(values, numbers)], numbers, [None] * 500, None, 500), numbers)
    (background,) = made.backgrounds(query, where)
    standardised = background.standardise(made.scores(query, where, numbers)[0])
    np.testing.assert_allclose(standardised, by_patches, atol=1e-5, rtol=1e-5)


def test_a_scorer_that_counts_nothing_anywhere_is_not_asked() -> None:
    shares = [Share(scorer({1: (0, 0.5)})), Share(patches((0, 0, 1.0), images=4), 1.0, anywhere=0.0)]
    made = SumScorer(shares, count=4, sample=np.arange(4))
    assert scores_of(made, None).argmax() == 1
    assert scores_of(made, Box(0, 0, 0.25, 0.25))[0, 0] > scores_of(made, None)[0, 0]


def test_the_cells_of_an_image_are_as_long_as_what_they_show_beside_the_others() -> None:
    grid = np.zeros((1, 6, 6, 2), np.float32)
    grid[0, 0, 0] = 0.5, 0.0
    grid[0, 5, 5] = 0.0, 0.25
    cells = sixths(grid)[0]
    assert cells[0, 0] == pytest.approx([1.0, 0.0])
    assert cells[5, 5] == pytest.approx([0.0, 0.5])
    assert not sixths(np.zeros((1, 6, 6, 2), np.float32)).any()


def test_a_place_is_cropped_once_for_queries_that_follow_each_other(
    collection: wherein.Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection.add(folder)
    cropped = list[Box]()

    def watched(files: Sequence[Original | None], place: Box, encoder: Encoder) -> tuple[Ints, Floats]:
        cropped.append(place)
        return crop_embeddings(files, place, encoder)

    monkeypatch.setattr(theoretical, "crop_embeddings", watched)
    left, right = Box(0, 0, 0.5, 1), Box(0.5, 0, 1, 1)
    found = dict[tuple[str, Box], dict[str, float]]()
    for place in (left, right):
        for colour in ("red", "blue"):
            ranking = collection.search(wherein.Query((Part(text=colour, where=place),)), method="theoretical")
            found[colour, place] = {hit.image_id: hit.score for hit in ranking}
    assert cropped == [left, right]
    half = {asked: scores["holiday/half.png"] for asked, scores in found.items()}
    assert min(half["red", left], half["blue", right]) > 0.9 > 0.5 > max(half["red", right], half["blue", left])

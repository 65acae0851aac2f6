"""Rough copies: what they estimate is near, and the best images are those that scoring all of them finds."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein import Box, Part
from wherein.index.rough import main_directions, pooling, rough_cells, rough_patches
from wherein.search import background, beside, candidates
from wherein.search.candidates import Estimated


def test_the_best_by_estimates_are_the_best_and_few_are_scored() -> None:
    random = np.random.default_rng(0)
    exact = random.standard_normal(20_000).astype(np.float32)
    rough = 3 * exact + 0.3 * random.standard_normal(20_000).astype(np.float32) - 7
    sample = np.arange(0, 20_000, 20)
    made = Estimated.of(rough, sample, exact[sample])
    assert made.error == pytest.approx(0.1, abs=0.02)
    top = made.top(lambda images: exact[images], k=20, allowed=None)
    assert top is not None
    assert top.images.tolist() == np.argsort(-exact)[:20].tolist()
    assert len(made.images) < 2_000
    few = np.zeros(20_000, np.bool_)
    few[:30] = True
    some = made.top(lambda images: exact[images], k=5, allowed=few)
    assert some is not None
    assert some.images.tolist() == np.argsort(-exact[:30])[:5].tolist()


@pytest.mark.parametrize("k", [1, 20, candidates.FEW, candidates.FEW + 300])
def test_however_many_are_asked_for_they_are_the_best(k: int) -> None:
    random = np.random.default_rng(1)
    exact = random.standard_normal(40_000).astype(np.float32)
    rough = exact + 0.05 * random.standard_normal(40_000).astype(np.float32)
    sample = np.arange(0, 40_000, 20)
    made = Estimated.of(rough, sample, exact[sample])
    top = made.top(lambda images: exact[images], k=k, allowed=None)
    assert top is not None
    assert top.images.tolist() == np.argsort(-exact, kind="stable")[:k].tolist()
    assert len(made.images) < max(100, 4 * k)


def test_estimates_that_say_nothing_are_given_up() -> None:
    random = np.random.default_rng(0)
    exact, rough = random.standard_normal((2, 20_000)).astype(np.float32)
    sample = np.arange(0, 20_000, 20)
    made = Estimated.of(rough, sample, exact[sample])
    assert made.top(lambda images: exact[images], k=20, allowed=None) is None


def test_rough_patches_are_means_and_rough_cells_keep_what_differs_most() -> None:
    random = np.random.default_rng(0)
    grids = random.integers(-100, 100, (3, 4, 6, 2)).astype(np.int8)
    means = grids.reshape(3, 2, 2, 3, 2, 2).mean(axis=(2, 4)).transpose(1, 2, 0, 3).reshape(6, 3, 2)
    assert np.abs(rough_patches(grids) - means).max() <= 0.5
    assert pooling((5, 5)).sum(axis=1) == pytest.approx(np.ones(9))
    flat = np.zeros((50, 6, 6, 300), np.int8)
    flat[..., :40] = random.integers(-30, 30, (50, 6, 6, 40))
    directions = main_directions(flat)
    query = random.standard_normal(300).astype(np.float32)
    found = rough_cells(flat, directions).astype(np.float32).transpose(1, 0, 2) @ (query @ directions)
    real = flat.reshape(50, 36, 300).astype(np.float32) @ query
    assert np.abs(found - real).std() < 0.02 * real.std()


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Ninety pictures of coloured squares."""
    random = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(90):
        small = random.integers(0, 256, (4, 4, 3), np.uint8)
        PIL.Image.fromarray(small).resize((64, 64), PIL.Image.Resampling.NEAREST).save(
            tmp_path / "photos" / f"{number:02}.png"
        )
    return tmp_path


@pytest.mark.parametrize("method", ["whole", "patches", "static-9", "static-36", "patches~alone", "static-9~any~alone"])
def test_a_large_collection_finds_in_a_place_what_a_scan_of_all_finds(
    many: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "SAMPLE", 30)
    monkeypatch.setattr(candidates, "FEW", 8)
    monkeypatch.setattr(candidates, "MOST_SHARE", 2)
    places = (None, Box(0.1, 0.1, 0.4, 0.4), Box(0.0, 0.0, 0.5, 1.0))
    found = []
    for large in (40, 1000):
        monkeypatch.setattr(beside, "LARGE", large)
        with wherein.open(many / f"c{large}", create=True, encoder="toy:8") as collection:
            collection.add(many / "photos", layers=("global", "patches", "cells"))
            kept = list((collection.folder / "derived").glob("rough.*"))
            assert bool(kept) == (large == 40)
            hits = [collection.search(Part(text="red", where=where), k=5, method=method) for where in places]
            found.append([[(hit.image_id, round(hit.score, 4)) for hit in ranking] for ranking in hits])
    assert [[name for name, _ in own] for own in found[0]] == [[name for name, _ in own] for own in found[1]]
    for rough, real in zip(*found, strict=True):
        # The spread that scores are measured in is known to eight bits of each of the toy's eight numbers.
        assert [score for _, score in rough] == pytest.approx([score for _, score in real], rel=4e-3, abs=1e-3)


def test_who_asks_for_an_exact_index_gets_no_estimates(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SAMPLE", 30)
    monkeypatch.setattr(beside, "LARGE", 40)
    with wherein.open(many / "c", create=True, encoder="toy:8") as collection:
        collection.add(many / "photos", layers=("global", "patches", "cells"))
        for path in (collection.folder / "derived").glob("rough.*"):
            path.unlink()
        for method in ("whole", "patches", "static-9"):
            assert len(collection.search("red", k=5, method=method, index="exact")) == 5
        assert not list((collection.folder / "derived").glob("rough.*"))
        collection.search("red", k=5, method="whole")
        assert list((collection.folder / "derived").glob("rough.*"))


def test_rough_copies_follow_the_collection(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SAMPLE", 30)
    monkeypatch.setattr(beside, "LARGE", 40)
    with wherein.open(many / "c", create=True, encoder="toy:8") as collection:
        collection.add(many / "photos", layers=("global", "patches", "cells"))
        folder = collection.folder / "derived"
        before = {path.name for path in folder.glob("rough.*")}
        PIL.Image.new("RGB", (64, 64), "red").save(many / "photos" / "red.png")
        collection.add(many / "photos")
        after = {path.name for path in folder.glob("rough.*")}
        assert before < after
        part = Part(text="red", where=Box(0.0, 0.0, 0.5, 0.5))
        assert collection.search(part, method="static-36")[0].image_id == "red.png"
        collection.compact()
        assert not before & {path.name for path in folder.glob("rough.*")}
        assert collection.search(part, method="static-36")[0].image_id == "red.png"

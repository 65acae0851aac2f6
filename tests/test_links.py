"""Matches between stored images are looked for once, and kept."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wherein
from wherein.features import LocalFeatures
from wherein.features.verify import match
from wherein.search import verification
from wherein.search.links import Shown, packed, unpacked

Cover = Callable[..., Any]
LAYERS = ("global", "thumbs", "local")
STEPS = ("propagate", "hypergraph")
PLACES = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**20))
PAIRS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=6)


@given(st.dictionaries(PLACES, PAIRS, max_size=5))
def test_links_come_back_as_they_were_written(told: dict[tuple[int, int], list[tuple[int, int]]]) -> None:
    links = {place: np.array(pairs, np.int64).reshape(-1, 2) for place, pairs in told.items()}
    found = unpacked(packed(links))
    assert list(found) == list(links)
    assert all((found[place] == links[place]).all() and found[place].shape == links[place].shape for place in links)


def test_matches_of_a_region_are_those_of_its_keypoints() -> None:
    features = LocalFeatures(np.zeros((2, 4), np.float32), np.zeros((2, 8), np.float32), (10, 10))
    shown = Shown(1, features, np.array([3, 7]))
    assert shown.own(np.array([[0, 5], [7, 2], [3, 9], [4, 1]])).tolist() == [[1, 2], [0, 9]]
    assert shown.own(np.zeros((0, 2), np.int64)).shape == (0, 2)


@pytest.fixture
def shelf(tmp_path: Path, cover: Cover) -> Path:
    """Three photos of one cover, each with another beside it, and four more covers."""
    root = tmp_path / "shelf"
    root.mkdir()
    for number in range(3):
        pair = np.concatenate([cover(80)[:, :200], cover(90 + number)[:, :140]], axis=1)
        PIL.Image.fromarray(pair).save(root / f"pair{number}.png")
    for seed in range(4):
        PIL.Image.fromarray(cover(seed)).save(root / f"cover{seed}.png")
    return root


def indexed(root: Path) -> wherein.Collection:
    collection = wherein.open(root, create=True, encoder="toy")
    collection.add(root, layers=LAYERS)
    return collection


def answer(collection: wherein.Collection, query: Any, step: str) -> list[tuple[Any, ...]]:
    hits = collection.search(query, method=f"bow+sp+{step}", k=9)
    return [(hit.image_id, hit.inliers, hit.score, hit.box) for hit in hits]


@pytest.mark.parametrize("step", STEPS)
def test_the_second_query_matches_no_stored_images_again(
    shelf: Path, cover: Cover, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(query: LocalFeatures, image: LocalFeatures) -> Any:
        calls.append(1)
        return match(query, image)

    monkeypatch.setattr(verification, "match", counted)
    left, right = (np.ascontiguousarray(part) for part in (cover(80)[:, :190], cover(80)[:, 10:200]))
    needed = {}
    with indexed(shelf) as collection:
        for name, query, method in (
            ("first", left, f"bow+sp+{step}"),
            ("alone", right, "bow+sp"),
            ("second", right, f"bow+sp+{step}"),
        ):
            calls.clear()
            collection.search(query, method=method, k=9)
            needed[name] = len(calls)
    assert needed["first"] > needed["second"]
    assert needed["second"] == needed["alone"]  # only the example itself is compared
    with wherein.open(shelf) as collection:  # and whoever opens it later knows them too
        calls.clear()
        collection.search(right, method=f"bow+sp+{step}", k=9)
    assert len(calls) == needed["alone"]


@pytest.mark.parametrize("step", STEPS)
def test_known_links_change_no_answer(shelf: Path, cover: Cover, step: str) -> None:
    query = np.ascontiguousarray(cover(80)[:, :200])
    with indexed(shelf) as collection:
        before = answer(collection, query, step)
        assert any("links-nearest" in path.as_posix() for path in collection.folder.rglob("derived/**/*.npy"))
        assert answer(collection, query, step) == before
        shutil.rmtree(next(collection.folder.rglob("links-nearest")))
        assert answer(collection, query, step) == before


@pytest.mark.parametrize("step", STEPS)
def test_an_image_that_changed_has_new_links(shelf: Path, cover: Cover, step: str, tmp_path: Path) -> None:
    query = np.ascontiguousarray(cover(80)[:, :200])
    with indexed(shelf) as collection:
        answer(collection, query, step)
        PIL.Image.fromarray(cover(60)).save(shelf / "pair1.png")
        shutil.copyfile(shelf / "pair2.png", shelf / "later.png")
        collection.add(shelf)
        after = {name: (inliers, box) for name, inliers, _, box in answer(collection, query, step)}
        collection.compact()
        assert not any(collection.folder.rglob("links-nearest/*.npy"))
        moved = {name: (inliers, box) for name, inliers, _, box in answer(collection, query, step)}
    assert after == moved
    assert after["pair1.png"] == (0, None)
    assert after["later.png"] == after["pair2.png"]
    assert after["pair2.png"][0] > 0

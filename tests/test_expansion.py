"""Expansion, augmentation, diffusion, propagation: small cases by hand, and slow references."""

from typing import Any

import numpy as np
import pytest

from wherein.arrays import unit
from wherein.search.expansion import augment, diffuse, expand, expansion, nearest, passed_on


def rows(seed: int, n: int, d: int = 8) -> Any:
    return unit(np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32))


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("average", [1, 2]), ("ranked", [1, 2 / 3 + 1 / 3]), ("alpha", [1, 0.5**3 + 0.25**3])],
)
def test_a_query_moves_towards_its_hits(weighting: Any, expected: list[float]) -> None:
    hits = np.array([[0, 1], [0, 1]], np.float32)
    moved = expand(np.array([1, 0], np.float32), hits, np.array([0.5, 0.25], np.float32), weighting=weighting)
    assert moved.tolist() == pytest.approx((np.array(expected) / np.linalg.norm(expected)).tolist(), abs=1e-6)


@pytest.mark.parametrize("weighting", ["average", "ranked", "alpha"])
def test_scores_alone_give_the_expanded_scores(weighting: Any) -> None:
    database, query = rows(1, 30), rows(2, 1)[0]
    scores = database @ query
    near = np.argsort(-scores)[:5]
    vector = expand(query, database[near], scores[near], weighting=weighting)
    added, length = expansion(database[near], scores[near], weighting=weighting)
    assert np.allclose((scores + database @ added) / length, database @ vector, atol=1e-5)


def test_nearest_others_leave_out_the_row_itself_even_beside_its_twin() -> None:
    database = rows(3, 12)
    database[5] = database[4]
    found, scores = nearest(database, neighbours=3)
    assert not (found == np.arange(12)[:, None]).any()
    cosines = database @ database.T
    np.fill_diagonal(cosines, -2)
    assert np.allclose(scores, -np.sort(-cosines, axis=1)[:, :3], atol=1e-6)
    assert nearest(database[:1], neighbours=3)[0].shape == (1, 0)


def test_augmentation_is_expansion_of_every_row() -> None:
    database = rows(4, 10)
    found, scores = nearest(database, neighbours=2)
    expected = [expand(database[n], database[found[n]], scores[n]) for n in range(10)]
    assert np.allclose(augment(database, neighbours=2), expected, atol=1e-6)
    assert augment(database[:0]).shape == (0, 8)


def test_diffusion_reaches_along_a_chain_and_not_across_a_gap() -> None:
    angles = np.radians([0, 12, 24, 36, 48, 180, 190, 200])
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    # The query is like the first only; the others of its chain follow, the far side stays behind.
    scores = np.array([0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], np.float32)
    spread = diffuse(nearest(circle, neighbours=2), scores, seeds=1)
    assert spread[0] == pytest.approx(0.9)
    assert (spread[1:5] > spread[5:].max()).all()
    assert spread[1] > spread[3] > 0


def test_diffusion_of_nothing_changes_nothing() -> None:
    assert diffuse(nearest(rows(5, 1), neighbours=3), np.array([0.5], np.float32)).tolist() == [0.5]
    assert diffuse(nearest(rows(5, 4), neighbours=3), np.zeros(4, np.float32)).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("verified", "link", "expected"),
    [(0, 40, 0), (40, 0, 0), (40, 20, 18), (20, 40, 18), (8, 8, 7)],
    ids=["unverified", "no link", "weak link", "weak source", "both at the least"],
)
def test_a_chain_is_worth_its_weaker_link_and_a_tenth_less(verified: int, link: int, expected: int) -> None:
    assert passed_on(verified, link) == expected

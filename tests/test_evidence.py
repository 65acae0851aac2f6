"""Fusing: what stands out decides, whichever kind of score it is."""

from math import erfc, log, sqrt

import numpy as np
import pytest

from wherein.arrays import Floats
from wherein.search import evidence
from wherein.search.background import Background
from wherein.search.evidence import CHANCE_NATS, centrality, embedding_nats, inlier_nats, local_nats, roots


def surprise(scores: Floats) -> Floats:
    """The nats of scores among themselves."""
    return evidence.surprise(scores, Background.of(scores))


def fused(cosines: Floats, shares: list[Floats]) -> Floats:
    """Nats of an embedding and of local features among themselves, summed."""
    local = [local_nats(roots(own), Background.of(roots(own))) for own in shares]
    return np.asarray(np.sum([embedding_nats(cosines, Background.of(cosines)), *local], axis=0), np.float32)


def test_nothing_and_equal_scores_say_nothing() -> None:
    assert surprise(np.zeros(0, np.float32)).tolist() == []
    assert surprise(np.full(5, 0.3, np.float32)).tolist() == pytest.approx([log(2)] * 5, abs=1e-5)


def test_it_is_the_tail_of_a_normal_distribution() -> None:
    # Median 0 and median deviation 1, so that one step is 1/1.4826 standard deviations.
    scores = np.array([-6, -2, -1, -1, 0, 0, 1, 1, 2, 6, 0], np.float32)
    expected = [-log(0.5 * erfc(score / 1.4826 / sqrt(2))) for score in scores.tolist()]
    assert surprise(scores).tolist() == pytest.approx(expected, rel=2e-3)


def test_scale_and_shift_change_nothing() -> None:
    scores = np.random.default_rng(0).normal(size=200).astype(np.float32)
    assert np.allclose(surprise(scores), surprise(scores * 7 + 3), rtol=1e-3)


def test_the_evidence_that_is_strong_decides() -> None:
    random = np.random.default_rng(1)
    noise = random.normal(size=500).astype(np.float32)
    sharp = random.normal(size=500).astype(np.float32) * np.float32(0.1)
    sharp[17] = 2.0
    assert int(np.add(surprise(noise), surprise(sharp)).argmax()) == 17
    assert int(np.add(surprise(sharp), surprise(noise)).argmax()) == 17


def test_mostly_equal_scores_do_not_make_a_small_one_enormous() -> None:
    scores = np.zeros(1000, np.float32)
    scores[:10] = 0.01
    scores[0] = 1.0
    found = surprise(scores)
    assert found[0] > 100 * found[1]
    assert found[1] < 5


def test_more_inliers_are_more_evidence_and_none_are_none() -> None:
    worths = [np.ones(count, np.float32) for count in (0, 10, 100)]
    assert [inlier_nats(worth) for worth in worths] == pytest.approx([0, 12.5, 125])
    assert inlier_nats(np.array([0.2, 0.6], np.float32)) == pytest.approx(1.0)


def test_places_at_the_border_of_a_photo_count_less_than_those_in_its_middle() -> None:
    border = np.array([[0.0, 0.5], [1.0, 0.5], [0.5, 0.0], [0.5, 1.0]], np.float32)
    # One half side away is 3.33 standard deviations: exp(−5.556) each.
    assert centrality(border).tolist() == pytest.approx([0.003866] * 4, rel=1e-3)
    assert centrality(np.full((9, 2), 0.5, np.float32)).tolist() == [1.0] * 9
    assert centrality(border[:0]).tolist() == []


def test_fusing_counts_an_embedding_twice_and_local_scores_as_roots() -> None:
    random = np.random.default_rng(2)
    cosines, shares = random.random(50).astype(np.float32), random.random(50).astype(np.float32)
    expected = 2 * surprise(cosines) + np.maximum(surprise(np.sqrt(shares)) - CHANCE_NATS, 0)
    assert np.allclose(fused(cosines, [shares]), expected, rtol=1e-5)
    assert np.allclose(fused(cosines, []), 2 * surprise(cosines), rtol=1e-5)


def test_words_that_say_nothing_leave_the_order_of_the_embedding() -> None:
    cosines = np.linspace(0, 1, 40, dtype=np.float32)
    shares = np.random.default_rng(3).uniform(0.2, 0.3, 40).astype(np.float32)
    shares[-2] = 0.22  # the second best is like the others
    quiet = surprise(np.sqrt(shares)) < log(5)
    found = fused(cosines, [shares])
    assert quiet.sum() > 25
    assert np.allclose(found[quiet], 2 * surprise(cosines)[quiet])
    assert (np.diff(found[quiet]) > 0).all()

"""Exact search, against a slow obvious reference, ties included; what every index must keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherein.arrays import Floats, Ints
from wherein.errors import SpecError
from wherein.index import check_index
from wherein.index.exact import ExactRows, best
from wherein.index.rows import ArrayCache, Places, RowTable
from wherein.store.shards import Array


class InShards:
    """Rows dealt out to shards of seven, as a collection's are."""

    def __init__(self, rows: Floats) -> None:
        self.rows, self.read = rows, list[int]()

    def array(self, layer: str, shard: int) -> Array:
        """One shard."""
        self.read.append(shard)
        return self.rows[7 * shard : 7 * shard + 7]


def table_of(rows: Floats, owners: Ints, cache: ArrayCache | None = None) -> RowTable:
    """A table of rows that lie in several shards."""
    numbers = np.arange(len(rows))
    images = np.unique(owners)
    places = Places(np.stack([owners, numbers // 7, numbers % 7], axis=1), [None] * len(rows), images, owners)
    return RowTable("rows", places, cache or ArrayCache(InShards(rows)))


# Few different values, so that most cases hold ties.
few = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0])


def reference(scores: list[float], k: int, allowed: list[bool]) -> list[tuple[int, float]]:
    candidates = [(-score, number) for number, score in enumerate(scores) if allowed[number]]
    return [(number, -negated) for negated, number in sorted(candidates)[: max(k, 0)]]


@given(data=st.data(), scores=st.lists(few, max_size=40), k=st.integers(0, 45))
def test_the_best_k_are_those_of_the_reference(data: st.DataObject, scores: list[float], k: int) -> None:
    allowed = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    top = best(np.array(scores, np.float32), k=k, allowed=np.array(allowed, bool))
    assert list(zip(top.images.tolist(), top.scores.tolist(), strict=True)) == reference(scores, k, allowed)
    everything = best(np.array(scores, np.float32), k=k)
    assert everything.images.tolist() == [number for number, _ in reference(scores, k, [True] * len(scores))]


@pytest.mark.parametrize("k", [1, 40, 1000, 29_999])
@pytest.mark.parametrize("kind", ["spread", "few levels", "the highest side by side"])
def test_the_best_of_many_are_those_of_a_full_sort(kind: str, k: int) -> None:
    random = np.random.default_rng(0)
    scores = random.standard_normal(30_000).astype(np.float32)
    scores = scores.round(1) if kind == "few levels" else scores
    scores[7:900:7] += 9 if kind == "the highest side by side" else 0  # every seventh is what a guess is made from
    order = np.argsort(-scores, kind="stable")
    assert best(scores, k=k).images.tolist() == order[:k].tolist()
    allowed = np.arange(len(scores)) % 2 == 0
    assert best(scores, k=k, allowed=allowed).images.tolist() == order[allowed[order]][:k].tolist()


def test_nothing_to_search_finds_nothing() -> None:
    index = ExactRows(table_of(np.zeros((0, 3), np.float32), np.zeros(0, np.int64)))
    (top,) = index.top(np.ones((1, 3), np.float32), k=5)
    assert (top.images.tolist(), top.scores.tolist()) == ([], [])
    assert index.scores(np.zeros((0, 3), np.float32), np.zeros(0, np.int64)).shape == (0, 0)


def slow_scores(rows: Floats, owners: Ints, query: Floats) -> list[float]:
    images = sorted(set(owners.tolist()))
    return [max(float(rows[r] @ query) for r in np.flatnonzero(owners == image)) for image in images]


@settings(max_examples=50)
@given(
    rows_each=st.lists(st.integers(1, 4), min_size=1, max_size=10), queries=st.integers(1, 3), seed=st.integers(0, 99)
)
def test_an_image_scores_as_its_best_row(rows_each: list[int], queries: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    owners = np.repeat(np.arange(len(rows_each)), rows_each)
    rows = random.normal(size=(len(owners), 5)).astype(np.float32)
    asked = random.normal(size=(queries, 5)).astype(np.float32)
    index = ExactRows(table_of(rows, owners))
    images = np.arange(len(rows_each))
    for query, scores in zip(asked, index.scores(asked, images), strict=True):
        np.testing.assert_allclose(scores, slow_scores(rows, owners, query), rtol=1e-5, atol=1e-6)
    some = random.permutation(images)[: max(1, len(images) - 1)]
    np.testing.assert_allclose(index.scores(asked, some), index.scores(asked, images)[:, some], rtol=1e-5, atol=1e-6)
    winners = index.winners(asked[0], images)
    assert owners[winners].tolist() == images.tolist()
    np.testing.assert_allclose(rows[winners] @ asked[0], slow_scores(rows, owners, asked[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dim", [11, 64, 512, 513])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
def test_equal_rows_tie_wherever_they_lie(dim: int, count: int) -> None:
    random = np.random.default_rng(dim)
    rows = np.tile(random.normal(size=dim).astype(np.float32), (count, 1))
    (top,) = ExactRows(table_of(rows, np.arange(count))).top(random.normal(size=(1, dim)).astype(np.float32), k=count)
    assert len(set(top.scores.tolist())) == 1
    assert top.images.tolist() == list(range(count))


def test_the_exact_index_keeps_the_contract_that_every_index_must() -> None:
    rows = np.random.default_rng(0).normal(size=(90, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    check_index("exact", table_of(rows, np.repeat(np.arange(30), 3)))
    with pytest.raises(SpecError, match="none of the indexes is called 'exakt'"):
        check_index("exakt", table_of(rows, np.repeat(np.arange(30), 3)))


def test_rows_are_read_once_and_leave_when_the_budget_is_spent() -> None:
    rows = np.ones((28, 4), np.float32)
    shards = InShards(rows)
    table = table_of(rows, np.arange(28), ArrayCache(shards, most=3 * 7 * 4 * 4))
    shards.read.clear()  # a table maps its shards when it is made, and reads them later
    for shard in (0, 1, 0, 2, 0, 3, 0, 1):
        table.shard(shard)
    assert shards.read == [0, 1, 2, 3, 1]


def test_what_was_compacted_away_is_forgotten_and_the_rest_is_not_read_again() -> None:
    rows = np.ones((21, 4), np.float32)
    shards = InShards(rows)
    cache = ArrayCache(shards)
    table = table_of(rows, np.arange(21), cache)
    shards.read.clear()
    list(table.blocks())
    cache.keep([("rows", 0), ("rows", 2)])
    list(table.blocks())
    assert shards.read == [0, 1, 2, 1]


def test_a_row_beyond_its_shard_is_never_taken_for_another() -> None:
    rows = np.ones((21, 4), np.float32)
    table = table_of(rows, np.arange(21))
    table.places.rows[9, 2] = 7  # shards hold seven
    assert table.gather(np.array([8, 10])).shape == (2, 4)
    with pytest.raises(IndexError):
        table.gather(np.array([8, 9]))

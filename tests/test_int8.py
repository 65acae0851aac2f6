"""Products of int8 rows with queries, against floats."""

import numpy as np
import pytest

from wherein.index.int8 import Int8Query


@pytest.mark.parametrize("dim", [1, 3, 64, 512])
def test_products_are_those_of_floats(dim: int) -> None:
    random = np.random.default_rng(dim)
    rows = random.integers(-127, 128, (50, 3, dim), np.int8)
    query = random.standard_normal(dim).astype(np.float32)
    asked = Int8Query.of(query)
    exact = rows[:, 1].astype(np.float64) @ query.astype(np.float64)
    largest = 127 * np.abs(query).max() * np.sqrt(dim)
    np.testing.assert_allclose(asked.step * asked.products(rows[:, 1]), exact, atol=3e-7 * largest, rtol=0)
    np.testing.assert_allclose(asked.step * asked.rough(rows[:, 1]), exact, atol=8e-3 * largest, rtol=0)


def test_nothing_has_no_products_and_a_query_of_zeros_gives_zeros() -> None:
    assert Int8Query.of(np.ones(4, np.float32)).products(np.zeros((0, 4), np.int8)).shape == (0,)
    zeros = Int8Query.of(np.zeros(4, np.float32))
    assert not (zeros.step * zeros.products(np.full((3, 4), 127, np.int8))).any()

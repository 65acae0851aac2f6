"""Work on every core: answers in order, errors told, no waiting for each other, and BLAS as it was afterwards."""

import threading

import pytest
from threadpoolctl import threadpool_info

from wherein.parallel import on_every_core, one_blas_thread


def test_answers_come_in_order_also_where_the_work_shares_out_more_work() -> None:
    def squares(number: int) -> list[int]:
        return on_every_core(lambda one: one * one, range(number))

    assert on_every_core(squares, range(40)) == [[one * one for one in range(number)] for number in range(40)]
    assert on_every_core(squares, []) == []


def test_an_error_in_any_thread_is_raised() -> None:
    def fail(number: int) -> int:
        if number == 7:
            raise ValueError("seven")
        return number

    with pytest.raises(ValueError, match="seven"):
        on_every_core(fail, range(20))
    assert on_every_core(fail, range(5)) == [0, 1, 2, 3, 4]


def blas_threads() -> set[int]:
    """Of numpy's own library, which searches use; others may have been loaded since (torch's, scipy's)."""
    own = [one for one in threadpool_info() if one["user_api"] == "blas" and "numpy" in one["filepath"]]
    return {int(one["num_threads"]) for one in own}


def test_blas_has_its_threads_back_after_searches_that_overlap() -> None:
    before, entered, leave = blas_threads(), threading.Event(), threading.Event()
    assert before

    def search() -> None:
        with one_blas_thread():
            entered.set()
            leave.wait(20)

    other = threading.Thread(target=search)
    with one_blas_thread():
        other.start()
        assert entered.wait(20)
        assert blas_threads() == {1}
    leave.set()
    other.join()
    assert blas_threads() == before

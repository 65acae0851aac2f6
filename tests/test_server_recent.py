"""What the server keeps of what was used last: by number or by bytes, the least used forgotten first."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from wherein.server.recent import Recent


def test_nothing_is_known_at_first() -> None:
    assert Recent[str, int](2).get("a") is None


@pytest.mark.parametrize(
    ("asked", "left"),
    [([], {"b": 2, "c": 3}), (["a"], {"a": 1, "c": 3}), (["a", "b"], {"b": 2, "c": 3})],
    ids=["the first goes", "one that was asked for stays", "the one nobody asked for longest goes"],
)
def test_the_least_used_is_forgotten(asked: list[str], left: dict[str, int]) -> None:
    kept = Recent[str, int](2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    for key in asked:
        kept.get(key)
    kept.keep("c", 3)
    assert {key: kept.get(key) for key in left} == left
    assert sum(kept.get(key) is not None for key in "abc") == 2


def test_room_may_be_of_bytes() -> None:
    kept = Recent[str, bytes](10, size=len)
    for key, value in (("a", b"1234"), ("b", b"1234"), ("a", b"123456"), ("c", b"12345678901")):
        kept.keep(key, value)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (b"123456", b"1234", None)  # c alone has no room
    kept.keep("c", b"12")
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (None, b"1234", b"12")


def test_values_of_one_key_are_joined_also_when_many_come_at_once() -> None:
    kept = Recent[str, frozenset[int]](2, joined=frozenset.union)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: kept.keep("a", frozenset({number})), range(200)))
    assert kept.get("a") == frozenset(range(200))

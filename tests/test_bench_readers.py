"""Benchmark files: errors name file and line, large objects stream, pickles can build nothing but data."""

import collections
import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wherein.bench.pickles import read_npy, read_pickle
from wherein.bench.readers import field_of, finite, read_json, read_ndjson, require_file, stream_json_object
from wherein.errors import DataError


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- JSON -----------------------------------------------------------------------------------------------

BAD_JSON = [
    pytest.param("", "line 1", id="an empty file"),
    pytest.param('{"a": 1,\n "b": }', "line 2", id="a broken second line"),
    pytest.param('{"a": NaN}', "NaN", id="not a number"),
    pytest.param('{"a": [1, -Infinity]}', "-Infinity", id="infinity"),
    pytest.param('{"a": 1, "a": 2}', "'a' appears twice", id="a key given twice"),
]


@pytest.mark.parametrize(("text", "said"), BAD_JSON)
def test_bad_json_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path / "x.json", text)
    with pytest.raises(DataError, match=said) as caught:
        read_json(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_json(tmp_path / "none.json")
    with pytest.raises(DataError, match=r"truth: .*none does not exist; look here"):
        require_file(tmp_path / "none", what="truth", hint="look here")
    with pytest.raises(DataError, match="is a folder, not a file"):
        require_file(tmp_path, what="truth", hint="look here")


def test_ndjson_gives_line_numbers_and_skips_blank_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "x.ndjson", '{"a": 1}\n\n{"a": 2}\n')
    assert list(read_ndjson(path)) == [(1, {"a": 1}), (3, {"a": 2})]


@pytest.mark.parametrize("line", ["[1]", "{", '{"score": NaN}', "7", "[" * 100_000])
def test_a_bad_ndjson_line_is_named(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "x.ndjson", '{"a": 1}\n' + line + "\n")
    with pytest.raises(DataError, match="line 2"):
        list(read_ndjson(path))


@pytest.mark.parametrize("value", [None, True, "1", [], 10**400, float("inf"), float("nan")])
def test_only_finite_numbers_are_numbers(value: Any) -> None:
    with pytest.raises(DataError, match=r"here: .* is not a finite number"):
        finite(value, where="here")


def test_finite_numbers_become_floats() -> None:
    assert [finite(value, where="here") for value in (0, -3, 2.5, 10**300)] == [0.0, -3.0, 2.5, 1e300]


def test_a_field_of_something_else_than_an_object_is_refused() -> None:
    with pytest.raises(DataError, match="an object with 'box' is needed, found a number"):
        field_of(5, "box", list, where="here")


# --- streaming ------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(document=st.dictionaries(st.text(max_size=6), json_values, max_size=5), indent=st.sampled_from([None, 4]))
def test_streaming_gives_what_decoding_the_whole_file_gives(
    tmp_path: Path, document: dict[str, Any], indent: int | None
) -> None:
    for ascii_only in (True, False):
        text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
        path = written(tmp_path / "x.json", text.encode("utf-8", "surrogatepass"))
        assert dict(stream_json_object(path)) == document


def test_streaming_opens_the_nested_object(tmp_path: Path) -> None:
    document = {"metadata": {"Team Name": "]}"}, "predictions": {"a": [1, 2], "b": []}, "last": 3}
    path = written(tmp_path / "x.json", json.dumps(document))
    streamed = list(stream_json_object(path, nested="predictions"))
    assert streamed == [("metadata", {"Team Name": "]}"}), ("a", [1, 2]), ("b", []), ("last", 3)]


BAD_STREAMS = [
    pytest.param("", "is empty", id="an empty file"),
    pytest.param("[1]", "an object", id="a list at the top"),
    pytest.param('{"a": [1, 2}', "never ends", id="a list that is not closed"),
    pytest.param('{"a": [1,, 2], "b": [3]}', "line 1", id="a doubled comma"),
    pytest.param('{\n"a": ["x",\n bad], "b": [3]}', "line 3", id="a bare word on line three"),
    pytest.param('{"a": [1], "a": [2]}', "appears twice", id="a key given twice"),
    pytest.param('{"a": [1]} x', "after the end", id="text after the end"),
    pytest.param('{"a": [NaN]}', "NaN", id="not a number"),
    pytest.param('{"a": ' + "[" * 100_000 + "]", "line 1", id="lists in lists in lists"),
    pytest.param('{"a" [1]}', '"key":', id="no colon"),
    pytest.param('{"a": [1] "b": 2}', "comma", id="no comma"),
    pytest.param(b'{"a": ["\xff"]}', "line 1", id="not UTF-8"),
]


@pytest.mark.parametrize(("text", "said"), BAD_STREAMS)
def test_a_bad_stream_is_refused_with_its_place(tmp_path: Path, text: str | bytes, said: str) -> None:
    path = written(tmp_path / "x.json", text)
    with pytest.raises(DataError, match=said) as caught:
        list(stream_json_object(path))
    assert str(path) in str(caught.value)


# --- pickles --------------------------------------------------------------------------------------------

DATA = {
    "imlist": ["a.jpg", "é.jpg"],
    "gnd": [
        {"easy": np.array([1, 2]), "hard": [], "junk": np.arange(3, dtype=">i4"), "bbx": [1.5, 2, 3, np.float32(4)]},
    ],
    "mixed": (1, 2.5, None, True, b"\x00\xff", 2**70, 1 + 2j),
    "sets": [{1, 2}, frozenset({3})],
    "objects": np.array([[1, 2], None, "x"], dtype=object),
    "names": np.array(["é", "bb"]),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "ordered": collections.OrderedDict(a=1, b=[2]),
    "bytes": bytearray(b"abc"),
    "nothing": np.empty((0, 2)),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_comes_back_whole(tmp_path: Path, protocol: int) -> None:
    path = written(tmp_path / "x.pkl", pickle.dumps(DATA, protocol=protocol))
    read = read_pickle(path)
    assert read["imlist"] == DATA["imlist"]
    assert read["mixed"] == DATA["mixed"]
    assert read["sets"] == DATA["sets"]
    assert read["ordered"] == {"a": 1, "b": [2]}
    assert read["bytes"] == b"abc"
    truth = read["gnd"][0]
    assert truth["easy"].tolist() == [1, 2]
    assert truth["junk"].tolist() == [0, 1, 2]
    assert float(truth["bbx"][3]) == 4.0
    assert read["objects"].tolist() == [[1, 2], None, "x"]
    assert read["names"].tolist() == ["é", "bb"]
    assert read["columns"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read["nothing"].shape == (0, 2)


class _Call:
    """Pickles as a call of `function` with `arguments`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.made = (function, arguments)

    def __reduce__(self) -> Any:
        return self.made


class _Ordinary:
    """An object of a class of its own."""


HOSTILE = [
    pytest.param(_Call(os.system, "touch proof"), "system", id="a shell command"),
    pytest.param(_Call(eval, "1+1"), "builtins.eval", id="eval"),
    pytest.param(_Call(getattr, "", "upper"), "builtins.getattr", id="getattr"),
    pytest.param(_Call(io.open, "proof", "w"), "open", id="opening a file"),
    pytest.param(_Call(np.load, "x.npy"), "numpy", id="another function of numpy"),
    pytest.param(Path("x"), "pathlib", id="a path"),
    pytest.param(_Call(collections.defaultdict, list), "collections.defaultdict", id="a default dict"),
    pytest.param(np.zeros(2, dtype=[("a", "i4"), ("b", "O")]), "dtype", id="a structured array"),
    pytest.param(np.array(["2020-01-01"], dtype="M8[D]"), "dtype", id="dates"),
    pytest.param([_Call(eval, "1")], "builtins.eval", id="eval inside a list"),
    pytest.param(np.array([_Call(eval, "1")], dtype=object), "builtins.eval", id="eval inside an array"),
]


@pytest.mark.parametrize(("thing", "name"), HOSTILE)
def test_anything_but_data_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thing: Any, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "x.pkl", pickle.dumps(thing))
    with pytest.raises(DataError, match="refused") as caught:
        read_pickle(path)
    assert name in str(caught.value)
    assert not (tmp_path / "proof").exists()


def test_a_dict_in_npy_is_refused_the_same_way(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array({"k": _Call(eval, "1")}, dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"builtins\.eval"):
        read_npy(tmp_path / "x.npy")


DAMAGED = [
    pytest.param(b"", id="nothing at all"),
    pytest.param(b"not a pickle", id="text"),
    pytest.param(pickle.dumps(DATA)[:-40], id="cut short"),
    pytest.param(b"\x80\x04cnumpy\nndarray\n.", id="a bare name"),
    pytest.param(b"\x80\x02cnumpy\ndtype\n}b.", id="state for a function"),
    pytest.param(b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R(K\x01K\x02tb.", id="an array without parts"),
    pytest.param(b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", id="two gigabytes of zeros"),
]


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_pickle_is_an_error_not_a_crash(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DataError, match=r"x\.pkl"):
        read_pickle(written(tmp_path / "x.pkl", data))


def test_a_list_inside_itself_is_refused(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(DataError, match="inside themselves"):
        read_pickle(written(tmp_path / "x.pkl", pickle.dumps(loop)))


def test_shared_parts_stay_shared_so_that_nesting_cannot_explode(tmp_path: Path) -> None:
    part: list[Any] = ["x"]
    for _ in range(50):
        part = [part, part]
    read = read_pickle(written(tmp_path / "x.pkl", pickle.dumps(part)))
    assert read[0] is read[1]


@pytest.mark.parametrize("shape", [(10**12, 70), (0, 10**23), (10**30,)], ids=["terabytes", "no rows", "no machine"])
def test_an_npy_header_cannot_ask_for_more_than_the_file_holds(tmp_path: Path, shape: tuple[int, ...]) -> None:
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(80)
    with pytest.raises(DataError, match=r"x\.npy is cut short or damaged"):
        read_npy(written(tmp_path / "x.npy", data))


def test_npy_arrays_and_dicts_come_back(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6).reshape(2, 3))
    assert read_npy(tmp_path / "a.npy").tolist() == [[0, 1, 2], [3, 4, 5]]
    np.save(tmp_path / "d.npy", {"0_1": "x.json"}, allow_pickle=True)  # type: ignore[arg-type]
    assert read_npy(tmp_path / "d.npy") == {"0_1": "x.json"}


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x93NUMPY\x09\x00"], ids=["empty", "a zip", "version 9"])
def test_what_is_not_npy_says_so(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DataError, match=r"x\.npy"):
        read_npy(written(tmp_path / "x.npy", data))


def test_a_short_npy_says_so(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(100))
    with pytest.raises(DataError, match="cut short"):
        read_npy(written(tmp_path / "b.npy", (tmp_path / "a.npy").read_bytes()[:-8]))

"""Arrays and byte strings on disk: whole or absent, and every changed byte is noticed."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wherein.errors import CollectionCorrupt, StorageFull
from wherein.files import full_disk_told, write_durably
from wherein.store.shards import intact, read_array, read_blob, write_array, write_blobs

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(np.zeros((0, 3), np.float16), id="no rows"),
        pytest.param(np.arange(6, dtype=np.float16).reshape(2, 3), id="two rows of halves"),
        pytest.param(np.arange(24, dtype=np.int8).reshape(2, 3, 4), id="two small grids"),
    ],
)
def test_an_array_comes_back_as_it_was(tmp_path: Path, rows: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    path = tmp_path / "layer" / "000001.npy"
    written = write_array(path, rows)
    again = read_array(path)
    assert again.dtype == rows.dtype
    assert again.shape == rows.shape
    assert again.tobytes() == rows.tobytes()
    assert (written.rows, written.bytes) == (len(rows), path.stat().st_size)
    assert intact(path, written)


@in_one_folder
@given(blobs=st.lists(st.binary(max_size=50), max_size=8))
def test_byte_strings_of_any_length_come_back(tmp_path: Path, blobs: list[bytes]) -> None:
    written = write_blobs(tmp_path / "b.npy", blobs)
    flat = read_array(tmp_path / "b.npy")
    assert written.rows == len(blobs)
    assert [read_blob(flat, rows=len(blobs), row=row) for row in range(len(blobs))] == blobs


@in_one_folder
@given(data=st.data())
def test_any_flipped_byte_and_any_missing_byte_is_noticed(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.npy"
    written = write_array(path, np.arange(20, dtype=np.float16))
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:at])
    assert not intact(path, written)
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    assert not intact(path, written)


def test_a_missing_shard_is_not_intact_and_says_what_to_run(tmp_path: Path) -> None:
    written = write_array(tmp_path / "a.npy", np.zeros(3, np.int8))
    (tmp_path / "a.npy").unlink()
    assert not intact(tmp_path / "a.npy", written)
    with pytest.raises(CollectionCorrupt, match="wherein check"):
        read_array(tmp_path / "a.npy")


@pytest.mark.parametrize("data", [b"", b"rubbish", b"\x93NUMPY\x01\x00"])
def test_a_shard_that_is_no_array_says_what_to_run(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(CollectionCorrupt, match="wherein check"):
        read_array(tmp_path / "a.npy")


def test_writing_leaves_one_file_and_replaces_the_old_one(tmp_path: Path) -> None:
    write_durably(tmp_path / "a", b"old")
    write_durably(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()  # a folder cannot be replaced by a file
    (tmp_path / "a" / "kept").touch()
    with pytest.raises(OSError, match="director"):
        write_durably(tmp_path / "a", b"new")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "kept"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_has_one_name_and_says_what_to_do(tmp_path: Path, code: int) -> None:
    with pytest.raises(StorageFull, match="free some space"), full_disk_told(tmp_path):
        raise OSError(code, os.strerror(code))


def test_other_failures_are_not_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), full_disk_told(tmp_path):
        raise PermissionError(errno.EACCES, "denied")


def test_threads_may_write_one_file_at_once(tmp_path: Path) -> None:
    written = [bytes([number]) * 100_000 for number in range(8)]
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda data: write_durably(tmp_path / "a", data), written * 10))
    assert (tmp_path / "a").read_bytes() in written
    assert [path.name for path in tmp_path.iterdir()] == ["a"]

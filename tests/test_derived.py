"""What is computed from a collection and kept: in pieces, on any disk, never for what cannot be answered."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.errors import NotPrepared, QueryError
from wherein.kernels import codebook
from wherein.kernels.codebook import Codebook
from wherein.search import local
from wherein.store.derived import Derived
from wherein.values.records import Progress

Cover = Callable[..., Any]
LAYERS = ("global", "patches", "cells", "thumbs", "local")


@pytest.fixture
def shelf(tmp_path: Path, cover: Cover) -> Path:
    """A collection of five covers that was never searched."""
    root = tmp_path / "shelf"
    root.mkdir()
    for seed in range(5):
        PIL.Image.fromarray(cover(seed)).save(root / f"cover{seed}.png")
    with wherein.open(root, create=True, encoder="toy") as collection:
        collection.add(root, layers=LAYERS)
    return root


SEARCH = """
import sys, wherein
for method in ("static-9", "bow", "vlad", "toy+dba"):
    with wherein.open(sys.argv[1]) as collection:
        print(collection.search(__import__("pathlib").Path(sys.argv[1]) / "cover3.png", method=method)[0].image_id)
"""


def _may_mount() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run(["unshare", "-rm", "true"]).returncode


@pytest.mark.skipif(not _may_mount(), reason="nobody may mount anything here; the next test shows the same")
def test_a_collection_on_a_read_only_disk_is_searched_in_memory(shelf: Path) -> None:
    mounted = ["mount", "--bind", str(shelf), str(shelf)], ["mount", "-o", "remount,ro,bind", str(shelf)]
    words = " && ".join(" ".join(command) for command in mounted)
    run = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f'{words} && exec "$0" -c "$1" "$2"', sys.executable, SEARCH, str(shelf)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.stdout.split(), run.stderr) == (["cover3.png"] * 4, "")
    assert not (shelf / ".wherein" / "derived").exists()


@pytest.mark.skipif(not _may_mount(), reason="nobody may mount anything here")
def test_a_collection_on_a_read_only_disk_is_verified(shelf: Path) -> None:
    words = f"mount --bind {shelf} {shelf} && mount -o remount,ro,bind {shelf}"
    check = ["sh", "-c", f'{words} && exec "$0" -m wherein check -c {shelf}', sys.executable]
    run = subprocess.run(["unshare", "-rm", *check], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("all intact\n")


def test_where_derived_cannot_be_written_all_handles_share_what_is_in_memory(shelf: Path, cover: Cover) -> None:
    (shelf / ".wherein" / "derived").write_text("a file where the folder should be")
    with wherein.open(shelf) as one, wherein.open(shelf) as other:
        other.prepares = False
        for method in ("static-9", "bow", "toy+dba"):
            assert one.search(cover(3), method=method)[0].image_id == "cover3.png"
            assert other.search(cover(3), method=method)[0].image_id == "cover3.png"


def test_a_name_is_made_once_and_dropped_by_its_glob(tmp_path: Path) -> None:
    kept = Derived(tmp_path)
    made = list[int]()

    def make() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        made.append(1)
        return np.arange(3)

    assert [kept.array("a.1", make).tolist() for _ in range(2)] == [[0, 1, 2]] * 2
    assert len(made) == 1
    kept.drop("a.*")
    kept.array("a.1", make)
    assert len(made) == 2
    assert Derived.of(tmp_path) is Derived.of(tmp_path)


class _Stopped(Exception):
    """Ctrl-C, or a time-out."""


def test_what_is_interrupted_goes_on_where_it_stopped(
    shelf: Path, cover: Cover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "BLOCK", 2)
    monkeypatch.setattr(codebook, "_TWO_LEVELS", 8)
    method = "bow@81"  # learnt in two levels: nine pieces and one
    whole = list[Progress]()
    with wherein.open(shelf) as collection:
        collection.prepare(cover(1), method=method, on_progress=whole.append)
        expected = [hit.score for hit in collection.search(cover(1), method=method)]
    stages = [step.stage for step in whole]
    assert [stages.count(stage) for stage in dict.fromkeys(stages)] == [3, 10, 3]
    for path in (shelf / ".wherein" / "derived").rglob("*.npy"):
        path.unlink()

    again, runs = list[Progress](), 0
    finished = False
    while not finished:
        runs += 1
        steps = list[Progress]()

        def stop_soon(step: Progress, steps: list[Progress] = steps) -> None:
            steps.append(step)
            if len([one for one in steps if one.stage != "reading a sample of the features"]) > 4:
                raise _Stopped

        try:
            with wherein.open(shelf) as collection:
                collection.prepare(cover(1), method=method, on_progress=stop_soon)
            finished = True
        except _Stopped:
            pass
        again += steps
        assert runs < 20, "nothing of an interrupted run is kept"
    assert runs == 4  # thirteen pieces, four at a time
    described = [step.done for step in again if step.stage == "describing images by their words"]
    assert sorted(set(described)) == [0, 2, 4]
    assert len(described) <= 3 + runs
    with wherein.open(shelf) as collection:
        assert [hit.score for hit in collection.search(cover(1), method=method)] == expected
    assert not list((shelf / ".wherein" / "derived").rglob("codebook@81.*.0001.npy"))


@pytest.mark.parametrize(("most", "read"), [(2, 2), (3, 3), (4, 4), (5, 5), (9, 5)])
def test_a_codebook_is_learnt_from_as_many_images_as_are_meant(
    shelf: Path, cover: Cover, monkeypatch: pytest.MonkeyPatch, most: int, read: int
) -> None:
    monkeypatch.setattr(local, "SAMPLE", most)
    steps = list[Progress]()
    with wherein.open(shelf) as collection:
        collection.prepare(cover(1), method="bow", on_progress=steps.append)
    assert {step.total for step in steps if step.stage == "reading a sample of the features"} == {read}


def test_what_is_prepared_needs_no_more_steps(shelf: Path, cover: Cover) -> None:
    with wherein.open(shelf) as collection:
        collection.prepares = False
        with pytest.raises(NotPrepared, match="reading a sample of the features: 0 of 5"):
            collection.search(cover(1), method="bow")
        collection.prepare(cover(1), method="bow")
        assert collection.search(cover(1), method="bow")[0].image_id == "cover1.png"
        steps = list[Progress]()
        collection.prepare(cover(1), method="bow", on_progress=steps.append)
        assert steps == []


def test_images_of_equal_content_are_all_found_by_their_words(shelf: Path, cover: Cover) -> None:
    (shelf / "copy.png").write_bytes((shelf / "cover3.png").read_bytes())
    with wherein.open(shelf) as collection:
        assert collection.add().duplicates == 1
        for method in ("bow", "asmk", "vlad", "toy+bow"):
            first = [hit.image_id for hit in collection.search(cover(3), method=method)][:2]
            assert sorted(first) == ["copy.png", "cover3.png"]


@pytest.mark.parametrize("method", ["bow", "vlad", "asmk+sp", "bow@4096"])
def test_a_text_is_refused_before_any_word_is_learnt(shelf: Path, serve: Callable[..., str], method: str) -> None:
    address = serve(shelf)
    with wherein.open(shelf) as here:
        for collection in (here, wherein.connect(address)):
            with pytest.raises(QueryError, match="understands no text"):
                collection.search("a dog", method=method)
    learnt = [path for path in (shelf / ".wherein" / "derived").glob("*") if not path.name.startswith("bank.")]
    assert learnt == []  # the bank of plain texts is embedded beside it, by a server that prepares searches by text


def test_others_search_while_a_server_prepares(
    shelf: Path, cover: Cover, serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    begun, go_on = threading.Event(), threading.Event()
    train = Codebook.train

    def slow(*args: Any, **options: Any) -> Any:
        begun.set()
        assert go_on.wait(30)
        return train(*args, **options)

    monkeypatch.setattr(Codebook, "train", slow)
    remote = wherein.connect(serve(shelf))
    found = list[str]()
    first = threading.Thread(target=lambda: found.append(remote.search(cover(4), method="bow")[0].image_id))
    first.start()
    assert begun.wait(30)
    assert remote.search("red", k=1)  # answered while the words are learnt
    assert not found
    go_on.set()
    first.join(30)
    assert found == ["cover4.png"]


def test_handles_may_drop_and_make_at_once(tmp_path: Path) -> None:
    derived = Derived(tmp_path)

    def work(_: int) -> int:
        derived.drop("a.*")
        return len(derived.array("a.1", lambda: np.zeros(3, np.float32)))

    with ThreadPoolExecutor(8) as handles:
        assert set(handles.map(work, range(400))) == {3}

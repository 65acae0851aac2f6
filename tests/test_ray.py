"""Indexing with Ray: the same collection as with threads, also when workers or the driver are killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import wherein
from wherein.encoders.toy import COLOURS, ToyEncoder
from wherein.errors import InputError, MissingExtra
from wherein.indexing import ray as executor
from wherein.indexing.stages import IndexTask, Read, Skipped, Stages
from wherein.store.piece import Piece
from wherein.values.records import FileRecord, Progress

Paint = Callable[..., Path]
COUNT = 150
# Ray leaves the processes that it has ended to the interpreter, which warns of them when it collects garbage.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 pictures, a copy of one, and a file that is none."""
    import PIL.Image

    root, names = tmp_path_factory.mktemp("pictures"), list(COLOURS)
    for number in range(COUNT):
        chosen = [COLOURS[names[(number * step + step) % len(names)]] for step in (1, 3, 5, 7)]
        pixels = np.repeat(np.array(chosen, np.uint8), [8, 8, 8, 8 + number], axis=0)
        PIL.Image.fromarray(np.broadcast_to(pixels, (40, *pixels.shape)).copy()).save(root / f"{number:03}.png")
    (root / "copy.png").write_bytes((root / "000.png").read_bytes())
    (root / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return root


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Ray of two processors that stays for the tests of this file."""
    ray = executor._ray()
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield ray
    ray.shutdown()


def rows_of(home: Path) -> tuple[list[str], Any]:
    with wherein.open(home) as collection:
        return collection.embeddings()


def test_ray_makes_the_collection_that_threads_make(pictures: Path, tmp_path: Path, cluster: Any) -> None:
    reports = {}
    for name in ("threads", "ray"):
        with wherein.open(tmp_path / name, create=True, encoder="toy") as collection:
            done = list[Progress]()
            report = collection.add(pictures, executor=name, on_progress=done.append)
            reports[name] = (report.added, report.duplicates, [skip.path for skip in report.skipped])
            assert (done[-1].done, done[-1].total) == (COUNT + 2, COUNT + 2)
            again = collection.add(executor=name)
            assert (again.added, again.unchanged) == (0, COUNT + 1)
    assert reports["ray"] == reports["threads"] == (COUNT, 1, [str(pictures / "broken.png")])
    (ids, rows), (other_ids, other_rows) = rows_of(tmp_path / "threads"), rows_of(tmp_path / "ray")
    assert ids == other_ids
    np.testing.assert_array_equal(rows, other_rows)


def test_a_worker_that_is_killed_costs_nothing(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "CHUNK", 4)
    killed = list[int]()

    def kill(progress: Progress) -> None:
        if progress.done >= 20 and not killed:
            children = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout
            killed.extend(int(line.split()[0]) for line in children.splitlines() if "ray::_Worker" in line)
            for pid in killed[:1]:
                os.kill(pid, signal.SIGKILL)

    with wherein.open(tmp_path / "ray", create=True, encoder="toy") as collection:
        report = collection.add(pictures, executor="ray", workers=2, on_progress=kill)
        assert killed, "no worker was found to be killed"
        assert (report.added, report.duplicates, len(report.skipped)) == (COUNT, 1, 1)
        assert collection.check(repair=False).doubled == 0
    with wherein.open(tmp_path / "threads", create=True, encoder="toy") as collection:
        collection.add(pictures)
    (ids, rows), (other_ids, other_rows) = rows_of(tmp_path / "threads"), rows_of(tmp_path / "ray")
    assert ids == other_ids
    np.testing.assert_array_equal(rows, other_rows)


class Deadly(Stages):
    """Stages that end the process which reads a certain file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Deadly, (ToyEncoder(), self.kinds)

    def read(self, task: IndexTask) -> Read:
        """A file, unless it is the one."""
        if task.image_id == "007.png":
            os._exit(1)
        return super().read(task)


class Unloadable(Stages):
    """Stages whose encoder is not there where they are sent."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing_there, ()


def _nothing_there() -> Stages:
    raise FileNotFoundError("no such model")


def test_a_file_that_ends_its_workers_is_left_out(
    pictures: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "CHUNK", 3)
    cluster.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    names = [f"{number:03}.png" for number in range(12)]
    tasks = [IndexTask(FileRecord("", name, 0, 0), name, pictures / name) for name in names]
    asked = list[str]()

    def known(file: FileRecord) -> bool:
        asked.append(file.path)
        return file.path == "001.png"

    found = list(executor.Ray(workers=2).run(Deadly(ToyEncoder(), ["global"]), tasks, known=known))
    made = sorted(one.image.image_id for one in found if isinstance(one, Piece))
    left_out = [(one.file.path, one.reason) for one in found if isinstance(one, Skipped)]
    assert made == [name for name in names if name not in ("001.png", "007.png")]
    assert left_out == [("007.png", "the process that read it ended each time; the file may be harmful")]
    assert sorted(asked) == [name for name in names if name != "007.png"], "each is asked about once"


def test_a_driver_that_is_killed_goes_on_where_it_was(pictures: Path, tmp_path: Path) -> None:
    program = (
        "import sys, time, wherein; c = wherein.open(sys.argv[1], create=True, encoder='toy');"
        "from wherein.indexing import ray, sync; ray.CHUNK = 2; sync._COMMIT_FILES = 8;"
        "tell = lambda p: (print(p.done, flush=True), time.sleep(.05));"
        "c.add(sys.argv[2], executor='ray', workers=2, on_progress=tell)"
    )
    words = [sys.executable, "-c", program, str(tmp_path), str(pictures)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if int(line) >= 40:
                break
        running.kill()
    with wherein.open(tmp_path) as collection:
        before = len(collection)
        assert 0 < before < COUNT
        report = collection.add(pictures)
        assert (report.added + report.unchanged, len(collection)) == (COUNT, COUNT + 1)
        assert collection.check(repair=False).doubled == 0


def test_a_machine_that_is_lost_costs_nothing(pictures: Path, tmp_path: Path) -> None:
    program = """
import sys, threading, wherein
from wherein.indexing import ray as executor
ray = executor._ray()
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=1)
executor.CHUNK = 4
killed = []
def tell(progress):
    if progress.done >= 30 and not killed:
        killed.append(len(ray.nodes()))
        cluster.remove_node(node, allow_graceful=False)
with wherein.open(sys.argv[1], create=True, encoder="toy") as made:
    report = made.add(sys.argv[2], executor=f"ray:{cluster.address}", on_progress=tell)
    print(killed, report.added, report.duplicates, len(report.skipped), made.check(repair=False).doubled)
ray.shutdown()
cluster.shutdown()
"""
    words = [sys.executable, "-c", program, str(tmp_path / "ray"), str(pictures)]
    with TemporaryDirectory(prefix="ray") as own:  # a short name: sockets lie there
        places = os.environ | {"RAY_TMPDIR": own}
        told = subprocess.run(words, capture_output=True, text=True, timeout=240, env=places)
    assert told.stdout.splitlines()[-1:] == [f"[2] {COUNT} 1 1 0"], told.stdout + told.stderr
    with wherein.open(tmp_path / "threads", create=True, encoder="toy") as collection:
        collection.add(pictures)
    (ids, rows), (other_ids, other_rows) = rows_of(tmp_path / "threads"), rows_of(tmp_path / "ray")
    assert ids == other_ids
    np.testing.assert_array_equal(rows, other_rows)


def test_workers_that_do_not_start_are_told(pictures: Path, cluster: Any) -> None:
    cluster.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    tasks = [IndexTask(FileRecord("", "000.png", 0, 0), "000.png", pictures / "000.png")]
    with pytest.raises(InputError, match="the workers of Ray do not start"):
        list(executor.Ray(workers=2).run(Unloadable(ToyEncoder(), ["global"]), tasks, known=lambda file: False))


def test_the_command_takes_an_address_or_none_and_a_folder_after_it(pictures: Path, tmp_path: Path) -> None:
    from wherein.cli.options import with_address

    assert with_address(["index", "--ray", "photos"]) == ["index", "--ray=here", "photos"]
    assert with_address(["index", "photos", "--ray", "10.0.0.1:6379"]) == ["index", "photos", "--ray=10.0.0.1:6379"]
    assert with_address(["index", "--ray", "ray://head:10001", "x"]) == ["index", "--ray=ray://head:10001", "x"]
    words = [sys.executable, "-m", "wherein", "index", str(pictures), "-c", str(tmp_path), "--encoder", "toy", "--ray"]
    told = subprocess.run([*words, "--workers", "2"], capture_output=True, text=True)
    assert (told.returncode, f"{COUNT} added" in told.stdout) == (0, True), told.stdout + told.stderr
    words = [*words[:6], str(tmp_path / "other"), *words[7:], "127.0.0.1:9"]
    gone = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (gone.returncode, gone.stderr.count("\n")) == (2, 1), gone.stderr
    assert "no Ray answers at 127.0.0.1:9" in gone.stderr


def test_ray_reads_what_lies_elsewhere(pictures: Path, tmp_path: Path, bucket: tuple[str, Any]) -> None:
    import fsspec

    files = fsspec.filesystem("s3")
    for number in range(12):
        files.put_file(str(pictures / f"{number:03}.png"), f"{bucket[0]}/{number:03}.png")
    program = (
        "import sys, wherein; c = wherein.open(sys.argv[1], create=True, encoder='toy');"
        "r = c.add(sys.argv[2], executor='ray', workers=2); print(r.added, len(r.skipped))"
    )
    words = [sys.executable, "-c", program, str(tmp_path), bucket[0]]
    told = subprocess.run(words, capture_output=True, text=True)  # a Ray of its own, which knows where the server is
    assert told.stdout == "12 0\n", told.stderr


def test_ray_reports_nothing_to_its_makers(cluster: Any) -> None:
    from ray._common.usage import usage_lib

    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not usage_lib.usage_stats_enabled()


def test_a_missing_extra_and_a_slip_are_told_before_anything_is_touched(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        with pytest.raises(InputError, match="none of the executors is called 'rai'"):
            collection.add(pictures, executor="rai")
        monkeypatch.setattr(executor, "find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match=r"pip install 'wherein\[scale\]'"):
            collection.add(pictures, executor="ray")
        assert (len(collection), collection.roots) == (0, {})

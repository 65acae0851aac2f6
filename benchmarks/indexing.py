"""How close indexing comes to what the cores can do.

    python benchmarks/indexing.py [--encoder toy] [--seconds 20] [--sizes "1 MP" "12 MP"] [--against FOLDER]

For 1 MP and 12 MP JPEGs: the core-seconds that one image takes to be decoded (read, hashed, decoded, resized,
thumbnailed) and encoded, nothing written, while every core does the same (two hardware threads may share one core, so
an idle neighbour would flatter); the rate this allows; the rate of `Collection.add` end to end, writing included; and
their ratio, which should be at least 0.95. Also the core-seconds with one thread alone. Peak memory is the process's.

With `--against`, the `src` folder of another version: both index the same files in rounds, each version in a process of
its own, which of them goes first alternates, and the medians are compared: of the rate, and of the core-milliseconds an
image of all processes together, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import wherein
from photos import make_photos
from wherein.encoders import load
from wherein.indexing.stages import IndexTask, Stages
from wherein.indexing.threads import Threads
from wherein.layers import DEFAULT_KINDS
from wherein.store.catalogue import FileRecord

ADD = """
import sys, time, wherein
with wherein.open(sys.argv[2], create=True, encoder=sys.argv[3]) as collection:
    started = time.perf_counter()
    report = collection.add(sys.argv[1])
    print(report.added / (time.perf_counter() - started))
"""
"""What each version runs; every version of wherein understands it."""
ROUNDS = 6
"""How often each version indexes the files; even, so that each goes first as often as the other."""
SIZES = {"1 MP": (1152, 864), "12 MP": (4000, 3000)}


def main() -> None:
    """Print one line a size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", default="toy")
    parser.add_argument("--seconds", type=float, default=20.0, help="about how long each end-to-end run takes")
    parser.add_argument("--against", type=Path, help="the src folder of another version, to be compared with this one")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    arguments = parser.parse_args()
    sizes = {name: SIZES[name] for name in arguments.sizes}
    if arguments.against is not None:
        compare(arguments.against, arguments.encoder, arguments.seconds, sizes)
        return
    cores = len(os.sched_getaffinity(0))
    print(f"encoder {arguments.encoder}, {cores} cores")
    for name, size_wh in sizes.items():
        with tempfile.TemporaryDirectory() as folder:
            photos = Path(folder) / "photos"
            make_photos(photos, count=64, size_wh=size_wh)
            alone = core_seconds(photos, arguments.encoder, workers=1)
            busy = core_seconds(photos, arguments.encoder, workers=cores)
            possible = cores / busy
            count = max(64, int(arguments.seconds * possible))
            multiply(photos, count)
            measured = max(end_to_end(photos, Path(folder) / f"run-{n}", arguments.encoder) for n in range(2))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{name}: {1000 * busy:.1f} core-ms an image ({1000 * alone:.1f} alone), "
                f"so {possible:.1f} images/s possible; "
                f"indexed {count} at {measured:.1f} images/s; ratio {measured / possible:.3f}; peak {peak:.0f} MB"
            )


def core_seconds(photos: Path, spec: str, *, workers: int) -> float:
    """Processor seconds an image, nothing written; the best of three rounds."""
    encoder = load(spec, threads=1)
    files = sorted(photos.glob("*.jpg"))
    tasks = [IndexTask(FileRecord("", file.name, 0, 0), file.name, file) for file in files]
    rounds = []
    for _ in range(4):
        stages = Stages(encoder, DEFAULT_KINDS)
        started = time.process_time()
        for _ in Threads(workers=workers).run(stages, tasks, known=lambda _: False):
            pass
        rounds.append((time.process_time() - started) / len(files))
    return float(np.min(rounds[1:]))


def multiply(photos: Path, count: int) -> None:
    """Copies that differ in their last byte, so that no two have the same content."""
    originals = sorted(photos.glob("*.jpg"))
    data = [file.read_bytes() for file in originals]
    for number in range(len(originals), count):
        (photos / f"{number:06d}.jpg").write_bytes(data[number % len(data)] + number.to_bytes(4, "big"))


def end_to_end(photos: Path, place: Path, spec: str) -> float:
    """Images a second of a whole `add`."""
    with wherein.open(place, create=True, encoder=spec) as collection:
        started = time.perf_counter()
        report = collection.add(photos)
        return report.added / (time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one `add` took, in a process of its own."""

    rate: float
    """Images a second, from the call of `add` to its end."""
    core_ms: float
    """Milliseconds of processor time an image, of the process and of those it started, from start to end."""


def compare(other: Path, spec: str, seconds: float, sizes: dict[str, tuple[int, int]]) -> None:
    """Print one line a size: the median rates and costs of this version and of another, and their ratios."""
    sources = {"this": Path(wherein.__file__).parents[1], "other": other.resolve()}
    for name, size_wh in sizes.items():
        with tempfile.TemporaryDirectory() as folder:
            photos, place = Path(folder) / "photos", Path(folder) / "collection"
            make_photos(photos, count=64, size_wh=size_wh)
            slower = min(cost_of_add(source, photos, place, spec).rate for source in sources.values())
            multiply(photos, max(64, int(seconds * slower)))
            costs: dict[str, list[Cost]] = {"this": [], "other": []}
            for number in range(ROUNDS):
                for version in sorted(sources, reverse=number % 2 == 0):
                    costs[version].append(cost_of_add(sources[version], photos, place, spec))
            rate, other_rate = (float(np.median([one.rate for one in costs[version]])) for version in sources)
            core, other_core = (float(np.median([one.core_ms for one in costs[version]])) for version in sources)
            print(
                f"{spec}, {name}: {rate:.1f} against {other_rate:.1f} images/s, ratio {rate / other_rate:.3f}; "
                f"{core:.1f} against {other_core:.1f} core-ms an image, ratio {core / other_core:.3f} (rates of this "
                f"{told(costs['this'])}; of the other {told(costs['other'])})",
                flush=True,
            )


def told(costs: list[Cost]) -> str:
    """The rates of every round, in their order."""
    return ", ".join(f"{one.rate:.1f}" for one in costs)


def cost_of_add(source: Path, photos: Path, place: Path, spec: str) -> Cost:
    """What a whole `add` takes with the version in a folder, in a process of its own."""
    words = [sys.executable, "-c", ADD, str(photos), str(place), spec]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        words, env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(place)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(float(ended.stdout), 1000 * spent / sum(1 for _ in photos.iterdir()))


if __name__ == "__main__":
    main()

"""How close indexing comes to what the cores can do.

    python benchmarks/indexing.py [--encoder toy] [--seconds 20] [--against FOLDER]

For 1 MP and 12 MP JPEGs: the core-seconds that one image takes to be decoded (read, hashed, decoded, resized,
thumbnailed) and encoded, nothing written, while every core does the same (two hardware threads may share one core, so
an idle neighbour would flatter); the rate this allows; the rate of `Collection.add` end to end, writing included; and
their ratio, which should be at least 0.95. Also the core-seconds with one thread alone. Peak memory is the process's.

With `--against`, the `src` folder of another version: both index the same files in turns, each in a process of its own,
and the medians of their rates are compared.
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
from pathlib import Path

import numpy as np

import wherein
from photos import make_photos
from wherein.encoders import load
from wherein.indexing.stages import Stages, Task
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
ROUNDS = 5
"""How often each version indexes the files, in turns."""
SIZES = {"1 MP": (1152, 864), "12 MP": (4000, 3000)}


def main() -> None:
    """Print one line a size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", default="toy")
    parser.add_argument("--seconds", type=float, default=20.0, help="about how long each end-to-end run takes")
    parser.add_argument("--against", type=Path, help="the src folder of another version, to be compared with this one")
    arguments = parser.parse_args()
    if arguments.against is not None:
        compare(arguments.against, arguments.encoder, arguments.seconds)
        return
    cores = len(os.sched_getaffinity(0))
    print(f"encoder {arguments.encoder}, {cores} cores")
    for name, size_wh in SIZES.items():
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
    tasks = [Task(FileRecord("", file.name, 0, 0), file.name, file) for file in files]
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


def compare(other: Path, spec: str, seconds: float) -> None:
    """Print one line a size: the median rates of this version and of another, in turns, and their ratio."""
    sources = {"this": Path(wherein.__file__).parents[1], "other": other.resolve()}
    for name, size_wh in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            photos = Path(folder) / "photos"
            make_photos(photos, count=64, size_wh=size_wh)
            rate = added_by(sources["this"], photos, Path(folder) / "first", spec)
            multiply(photos, max(64, int(seconds * rate)))
            rates: dict[str, list[float]] = {"this": [], "other": []}
            for number in range(ROUNDS):
                for version, source in sources.items():
                    rates[version].append(added_by(source, photos, Path(folder) / f"{version}-{number}", spec))
            ours, theirs = (float(np.median(rates[version])) for version in ("this", "other"))
            told = "; ".join(f"{version} {', '.join(f'{one:.1f}' for one in own)}" for version, own in rates.items())
            print(f"{spec}, {name}: {ours:.1f} against {theirs:.1f} images/s, ratio {ours / theirs:.3f} ({told})")


def added_by(source: Path, photos: Path, place: Path, spec: str) -> float:
    """Images a second of a whole `add` of the version in a folder, in a process of its own."""
    words = [sys.executable, "-c", ADD, str(photos), str(place), spec]
    told = subprocess.run(
        words, env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True
    )
    shutil.rmtree(place)
    return float(told.stdout)


if __name__ == "__main__":
    main()

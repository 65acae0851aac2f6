"""A collection of 100,000 images: memory while indexing, cold search, import, exact search against faiss.

    python benchmarks/scale.py [--images 100000] [--encoder toy]

Every figure is measured in a process of its own, as a user would meet it; times are the median of five.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from indexing import multiply
from photos import make_photos

MEMORY = """
import sys, wherein
from pathlib import Path

def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024

marks = []
def step(progress):
    if progress.total and progress.done * 10 // progress.total > len(marks):
        marks.append(resident())

with wherein.open(sys.argv[2], create=True, encoder=sys.argv[3]) as collection:
    report = collection.add(sys.argv[1], on_progress=step)
print(f"{report.added} images indexed at {report.added / report.seconds:.0f} images/s")
print("resident MB at each tenth:", *marks)
"""


def main() -> None:
    """Print one line a figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--encoder", default="toy")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        photos, place = Path(folder) / "photos", Path(folder) / "collection"
        make_photos(photos, count=200, size_wh=(96, 72))
        multiply(photos, arguments.images)
        run(["-c", MEMORY, str(photos), str(place), arguments.encoder], show=True)
        search = ["-m", "wherein", "search", "red", "-c", str(place), "--json"]
        print(f"cold `wherein search`: {seconds(search):.2f} s")
        print(f"cold search --in 0001*: {seconds([*search, '--in', '0001*']):.2f} s")
        print(f"again `wherein index`: {seconds(['-m', 'wherein', 'index', str(photos), '-c', str(place)]):.2f} s")
    bare, with_wherein = seconds(["-c", "pass"]), seconds(["-c", "import wherein"])
    print(f"import wherein: {with_wherein - bare:.3f} s (Python itself {bare:.3f} s)")
    against_faiss(arguments.images)


def run(arguments: list[str], *, show: bool = False) -> None:
    """One Python process."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=None if show else subprocess.DEVNULL)


def seconds(arguments: list[str]) -> float:
    """Wall-clock of a process, the median of five."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        run(arguments)
        times.append(time.perf_counter() - started)
    return median(times)


def against_faiss(count: int) -> None:
    """Exact search of count × 512 float32, one query at a time, beside faiss' flat index."""
    import faiss

    from wherein.index.exact import Exact

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((count, 512), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    flat = faiss.IndexFlatIP(512)
    flat.add(rows)
    exact = Exact(rows, np.arange(count))
    ours, theirs, agree = [], [], 0
    for number in range(25):
        query = rows[number : number + 1] + 0.1 * rng.standard_normal((1, 512), dtype=np.float32)
        started = time.perf_counter()
        top = exact.top(query, k=20)[0]
        middle = time.perf_counter()
        _, ids = flat.search(query, 20)
        theirs.append(time.perf_counter() - middle)
        ours.append(middle - started)
        agree += int(set(top.images.tolist()) == set(ids[0].tolist()))
    print(
        f"exact search of {count} × 512: {1000 * median(ours):.1f} ms, faiss flat {1000 * median(theirs):.1f} ms, "
        f"ratio {median(ours) / median(theirs):.2f}; the same 20 images for {agree} of 25 queries"
    )


if __name__ == "__main__":
    main()

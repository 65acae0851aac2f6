"""How long it takes until wherein does something: imported, its help told, a small collection opened and searched.

    python benchmarks/starting.py [--against SRC] [--encoder mini] [--rounds 11]

Each act is a process of its own, from its start to its end. With `--against`, the `src` folder of another version,
both take turns, and each searches a collection of 40 small photographs that it indexed itself. Printed for each act:
the medians on the clock and of the processor, in milliseconds; what Python alone takes is in all of them.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import wherein
from photos import make_photos

ADD = "import sys, wherein\nwherein.open(sys.argv[1], create=True, encoder=sys.argv[2]).add(sys.argv[1])"
OPEN = "import sys, wherein\nwherein.open(sys.argv[1])"
ASK = "import sys, wherein\nprint(wherein.open(sys.argv[1]).search('red', k=3)[0].image_id)"
ACTS = {
    "Python alone": ["-c", "pass"],
    "`import wherein`": ["-c", "import wherein"],
    "`wherein --help`": ["-m", "wherein", "--help"],
    "`wherein.open`": ["-c", OPEN, "PLACE"],
    "`wherein.open`, `.search`": ["-c", ASK, "PLACE"],
    "`wherein search`": ["-m", "wherein", "search", "red", "-c", "PLACE"],
}
"""What is done, as arguments of Python; every version understands them."""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--rounds", type=int, default=11)
    given = parser.parse_args()
    sources = {"now": Path(wherein.__file__).parents[1]}
    if given.against is not None:
        sources["before"] = given.against.resolve()
    with tempfile.TemporaryDirectory() as folder:
        places = {version: Path(folder) / version for version in sources}
        for version, place in places.items():
            make_photos(place, count=40, size_wh=(320, 240))
            timed(sources[version], ["-c", ADD, str(place), given.encoder])
        print(f"| {given.encoder} | " + " | ".join(f"{version}: clock, processor (ms)" for version in sources) + " |")
        print("|---" * (len(sources) + 1) + "|")
        for name, words in ACTS.items():
            times: dict[str, list[tuple[float, float]]] = {version: [] for version in sources}
            for number in range(given.rounds):
                for version in sorted(sources, reverse=number % 2 == 0):
                    own = [str(places[version]) if word == "PLACE" else word for word in words]
                    times[version].append(timed(sources[version], own))
            told = ("{:.0f}, {:.0f}".format(*1000 * np.median(times[version], axis=0)) for version in sources)
            print(f"| {name} | " + " | ".join(told) + " |", flush=True)


def timed(source: Path, words: list[str]) -> tuple[float, float]:
    """(seconds on the clock, of the processor) of Python with some arguments, and the version in a folder."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(source)}
    subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=True)
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended - started, spent


if __name__ == "__main__":
    main()

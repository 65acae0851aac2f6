"""Give a parser what atheris makes up, guided by which lines of it were reached: an answer or an error of ours.

    python tests/faults/fuzz.py method --runs 100000

Ends with 0 where nothing else came of it; what did is printed, with the input. Needs the extra `fuzz`.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["wherein"]):
    from parsers import FILES, PARSERS

    from wherein.errors import WhereinError


SEEDS = (
    "0.1,0.2,0.5,0.9", "static-9@0.1~crop+qe~average", "mini+bow:rootsift@64+sp~affine",
    "a red car^2 in the upper left",
    "a.jpg@0,0,1,1^0.5", "clip.mp4#t=4", "2024-05-01", "500ms", "top-left", "3x3",
    '{"format": 1, "encoder": "toy", "roots": {"a": "/b"}, "layers": {}}',
)  # fmt: skip
"""What it begins with: one of each kind."""


def of_text(parse: Callable[[str], Any]) -> Callable[[bytes], None]:
    """A target that parses texts."""

    def target(data: bytes) -> None:
        try:
            parse(data.decode("utf-8", "replace"))
        except WhereinError:
            return

    return target


def of_file(read: Callable[[Path], Any], path: Path) -> Callable[[bytes], None]:
    """A target that reads files."""

    def target(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read(path)
        except WhereinError:
            return

    return target


def main() -> None:
    """Fuzz one parser."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted([*PARSERS, *FILES]))
    parser.add_argument("--runs", type=int, default=100_000)
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp())
    os.chdir(home)  # what atheris writes of a failure lies here
    target = of_text(PARSERS[asked.name]) if asked.name in PARSERS else of_file(FILES[asked.name], home / "file")
    (home / "seeds").mkdir()
    for number, seed in enumerate(SEEDS):
        (home / "seeds" / str(number)).write_text(seed)
    atheris.Setup(
        [sys.argv[0], "seeds", f"-runs={asked.runs}", "-seed=19", "-max_len=400", "-rss_limit_mb=2048"], target
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()

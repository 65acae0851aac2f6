"""What it costs to decode in processes of their own.

    python benchmarks/isolation.py [--encoder toy] [--count 200] [--rounds 3]

The same photos are indexed with decoders in processes of their own and with decoding in threads of this process, in
turns, so that whatever else runs on the machine slows both alike. Printed: images a second of each, and their ratio.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from indexing import SIZES, end_to_end, multiply
from photos import make_photos
from wherein.images import isolated


def main() -> None:
    """Print one line a size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--encoder", default="toy")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    for name, size_wh in SIZES.items():
        rates: dict[bool, list[float]] = {True: [], False: []}
        with tempfile.TemporaryDirectory() as folder:
            photos = Path(folder) / "photos"
            make_photos(photos, count=16, size_wh=size_wh)
            multiply(photos, asked.count)
            for number in range(2 * asked.rounds):
                apart = number % 2 == 0
                isolated.ISOLATED = apart
                rates[apart].append(end_to_end(photos, Path(folder) / f"run-{number}", asked.encoder))
        best = {apart: max(own) for apart, own in rates.items()}
        print(
            f"{name}: {best[True]:.1f} images/s in processes of their own, {best[False]:.1f} in threads; "
            f"ratio {best[True] / best[False]:.3f}"
        )


if __name__ == "__main__":
    main()

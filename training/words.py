"""The list of words that `wherein.encoders.words` takes as known, from the texts that the towers were trained on.

    python words.py --data DATA --weights ../src/wherein/encoders/weights/mini

Only hashes of the words are kept, 4 bytes of information each, not the texts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from wherein.encoders.words import trained_hashes


def main() -> None:
    """Write words.npy beside the towers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    arguments = parser.parse_args()
    files = sorted(arguments.data.glob("captions*.jsonl"))
    hashes = trained_hashes(text for file in files for line in file.open() for text in json.loads(line)["texts"])
    np.save(arguments.weights / "words.npy", hashes.astype(np.uint32))
    print(f"{len(hashes):,} words")


if __name__ == "__main__":
    main()

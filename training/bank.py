"""Embed the bank of plain texts (`src/wherein/search/bank.txt`) with the shipped weights of mini, as int8.

    python training/bank.py

Run it after the weights have changed: without it every collection embeds the bank itself, once, in some seconds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wherein.encoders import load
from wherein.search.bank import BATCH, texts
from wherein.search.views import quantise_int8

OUT = Path("src/wherein/search/bank.mini.npz")


def main() -> None:
    """Write the file beside the texts."""
    encoder, every = load("mini"), texts()
    rows = np.concatenate([encoder.texts(every[at : at + BATCH]) for at in range(0, len(every), BATCH)])
    np.savez_compressed(OUT, rows=quantise_int8(rows), digest=np.array(encoder.digest))


if __name__ == "__main__":
    main()

"""How sharp a picture may be: `mini` with pictures squashed to some sides first and enlarged from there.

    python sharpness.py --data EVAL/captions [--weights FOLDER] [--sides 256 240 224 208 192]

Training pictures are at most 224 pixels wide, most of them, and stored as JPEG. At 256 a photograph is as sharp as its
file, and so sharper than what the towers know.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import evaluate
from wherein.encoders import mini


def main() -> None:
    """Print the recall of captions for each side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the captions folder of EVAL")
    parser.add_argument("--weights", type=Path, default=mini.WEIGHTS)
    parser.add_argument("--sides", type=int, nargs="+", default=[256, 240, 224, 208, 192])
    args = parser.parse_args()
    encoder = mini.MiniEncoder(str(args.weights))
    for side in args.sides:
        encoder.sharpness = side
        print(json.dumps({side: evaluate.captions(encoder, args.data)}), flush=True)


if __name__ == "__main__":
    main()

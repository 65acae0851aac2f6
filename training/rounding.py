"""What products of 8 bits cost the text tower: each text twice, multiplied in integers and in floats, pairwise.

    python rounding.py --data DATA --vocabulary DATA/vocabulary.json [--captions FOLDER] [--together 32]

Pictures and texts are those of `proxies.py`; FOLDER is a development set of captions, as `wherein evaluate` reads it.
Numbers are rounded in runs of `--together`, each with a scale of its own; 32 is what the runtime does unless told.
Texts are embedded one at a time, as a search asks them; how much a text differs alone and among others is printed too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxies import embed, held_back
from quiet import onnxruntime
from wherein.encoders import mini
from wherein.encoders.hubs import kinds_of
from wherein.images.image import decode
from wordings import interval, ranks

Floats = NDArray[np.float32]
# Texts of which each is embedded alone and among others, and how many together.
BATCHED, BATCH = 320, 32


def session(path: Path, *, integers: bool, together: int) -> Any:
    """The text tower with products of integers, so many numbers to a scale, or of floats."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "0" if integers else "1")
    options.add_session_config_entry("session.qdq_matmulnbits_block_size", str(together))
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def vectors(encoder: mini.MiniEncoder, tower: Any, said: list[str], batch: int = 1) -> Floats:
    """(n, d): texts as the tower gives them."""
    parts = [said[at : at + batch] for at in range(0, len(said), batch)]
    return np.concatenate([tower.run(None, encoder.tokenized(part))[0] for part in parts])


def compare(
    encoder: mini.MiniEncoder, towers: list[Any], asked: list[tuple[str, int]], images: Floats
) -> dict[str, Any]:
    """What integers change: recall with a 95 % interval by pairs, and cosines of the same text."""
    said, owners = [text for text, _ in asked], [owner for _, owner in asked]
    plain, rounded = (vectors(encoder, tower, said) for tower in towers)
    levels = [encoder.hubs.level_texts(found, kinds_of(said)) for found in (plain, rounded)]
    before, after = (ranks(found, images, owners) for found in levels)
    some = said[:BATCHED]
    apart = (rounded[: len(some)] * vectors(encoder, towers[1], some, BATCH)).sum(1)
    cosines = (plain * rounded).sum(1)
    gains = {f"R@{k}": interval((after < k).astype(np.float32) - (before < k)) for k in (1, 10)}
    cosine = {
        "mean": float(cosines.mean()),
        "least": float(cosines.min()),
        "least alone and among others": float(apart.min()),
    }
    return {"texts": len(said), **gains, "cosine": {name: round(value, 6) for name, value in cosine.items()}}


def main() -> None:
    """Print one JSON object for each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--captions", type=Path)
    parser.add_argument("--together", type=int, default=32, help="a power of two from 16 to 256")
    args = parser.parse_args()
    encoder = mini.MiniEncoder()
    towers = [
        session(mini.WEIGHTS / "text.onnx", integers=integers, together=args.together) for integers in (False, True)
    ]
    rows, parts = held_back(args.data, args.vocabulary)
    for title, numbers in (("captions", parts.captions), ("web", parts.web), ("words", parts.words)):
        own = [rows[number] for number in numbers]
        texts = [[row["label"].lower()] if title == "words" else row["texts"] for row in own]
        asked = [(text, place) for place, several in enumerate(texts) for text in several]
        print(json.dumps({title: compare(encoder, towers, asked, embed(encoder, args.data, own))}), flush=True)
    if args.captions:
        shown = [json.loads(line) for line in (args.captions / "captions.jsonl").read_text("utf-8").splitlines()]
        pictures = (decode((args.captions / row["image"]).read_bytes()) for row in shown)
        images = np.concatenate([encoder.images(encoder.prepare(picture)[None]).global_ for picture in pictures])
        asked = [(text, place) for place, row in enumerate(shown) for text in row["captions"]]
        print(json.dumps({"development captions": compare(encoder, towers, asked, images)}), flush=True)


if __name__ == "__main__":
    main()

"""The bank and directions with which `wherein.encoders.hubs` levels hubs, from the exported towers and the captions.

    python hubs.py --data DATA --weights ../src/wherein/encoders/weights/mini

Run it after export.py. Sharpness and strength were chosen on the 700 held-back captioned training photographs, for both
banks alike: one of sentences, people's and from the web, and one of names.
"""

from __future__ import annotations

import argparse
import io
import random
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures
from tokenizers import Tokenizer

from data import read_rows
from quiet import onnxruntime
from wherein.encoders.hubs import Hubs

Floats = NDArray[np.float32]
# What the banks are made of: people's captions and captions from the web; names.
CAPTIONS, WEB, NAMES = 1800, 600, 500
# Texts of other pictures and photographs that the two directions must not lie along.
OTHERS, PHOTOS = 1000, 400
HUMAN = ("coco_human", "flickr8k")


def main() -> None:
    """Write hubs.npz beside the towers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--held-back", type=Path, help="a file of validation picture names, one a line")
    arguments = parser.parse_args()
    held = set(arguments.held_back.read_text().split()) if arguments.held_back else set()
    rows = sorted(
        (row for row in read_rows(arguments.data) if row["file"] not in held),
        key=lambda row: (row["shard"], row["file"]),
    )
    rng = random.Random(7)
    human = rng.sample([row for row in rows if row["source"] in HUMAN], CAPTIONS)
    web = rng.sample([row for row in rows if row["source"] == "ccs_synth"], WEB)
    names = rng.sample(sorted({row["label"].lower() for row in rows if "label" in row}), NAMES)
    sentences = embed_texts([rng.choice(row["texts"]) for row in human + web], arguments.weights)
    banks = (sentences, embed_texts(names, arguments.weights))
    named = rng.sample([row for row in rows if row["source"] not in HUMAN], OTHERS)
    texts = np.concatenate([*banks, embed_texts([row["texts"][0] for row in named], arguments.weights)])
    images, patches = embed_pictures(rng.sample(rows, PHOTOS), arguments.data, arguments.weights)
    u, v = unused_directions(texts, images, patches)
    starts = Hubs(banks, u, v, mean=np.zeros(2, np.float32)).head_starts(images)
    path = arguments.weights / "hubs.npz"
    captions, called = (bank.astype(np.float16) for bank in banks)
    np.savez(path, captions=captions, names=called, u=u, v=v, mean=starts.mean(axis=0))
    print(f"{path}: {path.stat().st_size:,} bytes; head starts {starts.mean(axis=0)} ± {starts.std(axis=0)}")


def unused_directions(texts: Floats, images: Floats, patches: Floats) -> tuple[Floats, Floats]:
    """Three directions orthogonal to every text that pictures use least: one for each bank (2, d), and v (d,)."""
    strengths, directions = np.linalg.eigh(texts.T.astype(np.float64) @ texts)
    unused = directions[:, strengths < 1e-6 * strengths[-1]]
    energy = sum(rows.T.astype(np.float64) @ rows / len(rows) for rows in (images, patches))
    _, least = np.linalg.eigh(unused.T @ energy @ unused)
    directions = (unused @ least[:, :3]).T.astype(np.float32)
    return directions[:2], directions[2]


def embed_texts(texts: list[str], weights: Path) -> Floats:
    """(n, d), as the text tower gives them."""
    session = onnxruntime.InferenceSession(str(weights / "text.onnx"))
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
    tokenizer.enable_truncation(64)
    tokenizer.enable_padding()
    parts = []
    for start in range(0, len(texts), 32):
        rows = tokenizer.encode_batch(texts[start : start + 32])
        feeds = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows]}
        parts.append(session.run(None, {name: np.array(values, np.int64) for name, values in feeds.items()})[0])
    return np.concatenate(parts)


def embed_pictures(rows: list[dict[str, str]], data: Path, weights: Path) -> tuple[Floats, Floats]:
    """(n, d) embeddings and (m, d) patches, as the image tower gives them."""
    session = onnxruntime.InferenceSession(str(weights / "image.onnx"))
    images, patches = [], []
    for row in rows:
        with zipfile.ZipFile(data / row["shard"]) as archive:
            picture = Pictures.open(io.BytesIO(archive.read(row["file"]))).convert("RGB").resize((256, 256))
        found = session.run(None, {"pixels": np.asarray(picture)[None]})
        images.append(found[0][0])
        patches.append(found[1].reshape(-1, found[1].shape[-1])[::16])
    return np.stack(images), np.concatenate(patches)


if __name__ == "__main__":
    main()

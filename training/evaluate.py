"""Measure the shipped encoder: caption retrieval, pointing game and speed, through the package itself."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

from wherein.encoders import Encoded, mini
from wherein.encoders.mini import MiniEncoder
from wherein.images.image import decode

Floats = NDArray[np.float32]
Inside = Callable[[float, float], bool]
ROAD_TEXTS = ("a strange object", "an obstacle", "something odd")


def embed(encoder: MiniEncoder, paths: list[Path]) -> Encoded:
    """Every picture's layers but the dense one."""
    parts = [encoder.images(encoder.prepare(decode(path))[None]) for path in paths]
    patches = np.concatenate([part.patches for part in parts if part.patches is not None])
    return Encoded(np.concatenate([part.global_ for part in parts]), patches)


def captions(encoder: MiniEncoder, folder: Path) -> dict[str, float]:
    """Text→image recall at 1, 5 and 10, in percent."""
    rows = [json.loads(line) for line in (folder / "captions.jsonl").read_text().splitlines()]
    images = embed(encoder, [folder / row["image"] for row in rows]).global_
    said = [text for row in rows for text in row["captions"]]
    texts = np.concatenate([encoder.texts(said[at : at + 32]) for at in range(0, len(said), 32)])
    owners = np.array([number for number, row in enumerate(rows) for _ in row["captions"]])
    scores = texts @ images.T
    ranks = (scores > scores[np.arange(len(owners)), owners][:, None]).sum(1)
    return {f"R@{k}": round(100 * float((ranks < k).mean()), 2) for k in (1, 5, 10)}


def point(patches: Floats, text: Floats) -> tuple[float, float]:
    """The centre (x, y) of the patch that fits a text best, in [0, 1]."""
    heat = patches @ text
    y, x = np.unravel_index(int(heat.argmax()), heat.shape)
    return (float(x) + 0.5) / heat.shape[1], (float(y) + 0.5) / heat.shape[0]


def game(cases: list[tuple[Floats, Floats, Inside, float]]) -> dict[str, float]:
    """Pointing game over (patches, text, inside?, area): ours, the centre point, and chance (the mean area)."""
    ours = [inside(*point(patches, text)) for patches, text, inside, _ in cases]
    centre = [inside(0.5, 0.5) for _, _, inside, _ in cases]
    chance = [area for *_, area in cases]
    rates = {"ours": ours, "centre": centre, "chance": chance, "cases": []}
    return {name: round(100 * float(np.mean(hits)), 1) if hits else len(cases) for name, hits in rates.items()}


def underwater(encoder: MiniEncoder, folder: Path) -> dict[str, float]:
    """One case for each label of each picture: is the best patch in one of its boxes?"""
    rows = [json.loads(line) for line in (folder / "boxes.jsonl").read_text().splitlines()]
    patches = embed(encoder, [folder / row["image"] for row in rows]).patches
    labels = sorted({box["label"] for row in rows for box in row["boxes"]})
    texts = dict(zip(labels, encoder.texts([label.replace("_", " ") for label in labels]), strict=True))
    cases = []
    for number, row in enumerate(rows):
        for label in sorted({box["label"] for box in row["boxes"]}):
            boxes = [tuple(box["box"]) for box in row["boxes"] if box["label"] == label]
            inside = in_boxes(boxes)
            assert patches is not None
            cases.append((patches[number], texts[label], inside, covered(inside)))
    return game(cases)


def in_boxes(boxes: list[tuple[float, ...]]) -> Inside:
    """Whether a point lies in any of some boxes."""
    return lambda x, y: any(x1 <= x <= x2 and y1 <= y <= y2 for x1, y1, x2, y2 in boxes)


def covered(inside: Inside, side: int = 24) -> float:
    """Share of the picture where `inside` holds."""
    steps = (np.arange(side) + 0.5) / side
    return float(np.mean([inside(x, y) for x in steps for y in steps]))


def road(encoder: MiniEncoder, folder: Path) -> dict[str, float]:
    """One case for each odd thing and plain wording: is the best patch inside the thing's mask?"""
    masks = sorted((folder / "masks").iterdir())
    pictures = [next((folder / "images").glob(f"{mask.stem}.*")) for mask in masks]
    patches = embed(encoder, pictures).patches
    texts = encoder.texts(ROAD_TEXTS)
    cases = []
    for number, mask in enumerate(masks):
        area = np.asarray(Pictures.open(mask).convert("L")) > 127
        assert patches is not None
        cases += [(patches[number], text, in_mask(area), float(area.mean())) for text in texts]
    return game(cases)


def in_mask(area: NDArray[np.bool_]) -> Inside:
    """Whether a point lies in a mask."""
    h, w = area.shape
    return lambda x, y: bool(area[min(int(y * h), h - 1), min(int(x * w), w - 1)])


def speed(encoder: MiniEncoder) -> dict[str, float]:
    """Processor milliseconds per picture and per text query, on one thread."""
    picture = np.random.default_rng(0).integers(0, 256, (1, *encoder.input_hw, 3), dtype=np.uint8)
    acts = {"image_ms": lambda: encoder.images(picture), "text_ms": lambda: encoder.texts(["a photo of an okapi"])}
    result = {}
    for name, act in acts.items():
        act()
        times = []
        for _ in range(20):
            begin = time.process_time()
            act()
            times.append(1000 * (time.process_time() - begin))
        result[name] = round(float(np.median(times)), 1)
    return result


def main() -> None:
    """Print one JSON object per measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the eval folder")
    parser.add_argument("--weights", type=Path, default=mini.WEIGHTS)
    args = parser.parse_args()
    mini.WEIGHTS = args.weights
    encoder = MiniEncoder()
    print(json.dumps({"speed": speed(encoder)}))
    print(json.dumps({"captions": captions(encoder, args.data / "captions")}))
    print(json.dumps({"underwater": underwater(encoder, args.data / "underwater")}))
    print(json.dumps({"road": road(encoder, args.data / "road")}))


if __name__ == "__main__":
    main()

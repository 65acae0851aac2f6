"""What the constants of fusion were chosen on: sets made of the training photographs, not of any that is reported.

    python benchmarks/fusion.py TRAIN_FOLDER [--out out/fusion]

Writes `warps` (photographs seen at an angle before others, blurred and badly lit, and shrunk to 40 to 100 pixels;
shaped as `covers`) and `groceries` (four shots each of 24 goods, shaped as `objects`: the same thing, another view),
then measures `mini`, `bow+sp` and `mini+bow+sp` on both with `wherein bench run`. Local features should win on the
first, the embedding on the second, fused neither lose.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image

from wherein.image import decode

METHODS = ("mini", "bow+sp", "mini+bow+sp")
SOURCES = ("imagenet1000", "cc3m", "scenes6")
DATABASE, QUERIES, GOODS, SHOTS = 600, 80, 24, 4
Pixels = npt.NDArray[np.uint8]


def main() -> None:
    """Make what is missing, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("train", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/fusion"))
    arguments = parser.parse_args()
    if not arguments.out.exists():
        lines = [json.loads(line) for line in (arguments.train / "captions.jsonl").open()]
        make_warps(arguments.train, [line for line in lines if line["source"] in SOURCES], arguments.out / "warps")
        make_goods(
            arguments.train, [line for line in lines if line["source"] == "grocery"], arguments.out / "groceries"
        )
    for name, shape in (("warps", "covers"), ("groceries", "objects")):
        for method in METHODS:
            folder = arguments.out / "runs" / name
            words = ["run", shape, "--data", str(arguments.out / name), "--method", method, "--json"]
            words += ["--out", str(folder / method), "--index", str(folder / "index")]
            command = [sys.executable, "-m", "wherein", "bench", *words]
            figures = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
            print(f"{name}, {method}: mAP {100 * figures['mAP']:.2f}, t-mAP@5 {100 * figures['t-mAP@5']:.2f}")


def make_warps(train: Path, lines: list[dict[str, str]], out: Path) -> None:
    """A database of photographs, and bad photos of some of them."""
    random = np.random.default_rng(0)
    order = random.permutation(len(lines))[: DATABASE + QUERIES]
    photos = [decode(data).pixels for data in read(train, [lines[number] for number in order])]
    for folder in ("database", "queries"):
        (out / folder).mkdir(parents=True)
    for number, pixels in enumerate(photos[:DATABASE]):
        PIL.Image.fromarray(pixels).save(out / f"database/{number:03d}.png")
    with (out / "qrels.jsonl").open("w") as qrels:
        for number in range(QUERIES):
            pixels, behind = photos[number], photos[DATABASE + number]
            seen = at_an_angle(pixels, behind, random) if number % 2 else shrunk(pixels, random)
            PIL.Image.open(io.BytesIO(badly_lit(seen, random))).save(out / f"queries/{number:03d}.png")
            line = {"query": f"queries/{number:03d}.png", "relevant": [f"database/{number:03d}.png"]}
            qrels.write(json.dumps(line) + "\n")


def at_an_angle(pixels: Pixels, behind: Pixels, random: np.random.Generator) -> Pixels:
    """A third to four fifths of a photo of 640 × 480, turned up to 40°, in perspective."""
    height, width = pixels.shape[:2]
    size = random.uniform(0.35, 0.8) * 480
    turn = np.radians(random.uniform(-40, 40))
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    frame = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    corners = (frame - [width / 2, height / 2]) * (size / max(width, height)) @ rotation.T
    corners += [320, 240] + random.uniform(-60, 60, 2) + random.uniform(-0.09, 0.09, (4, 2)) * size
    map_ = cv2.getPerspectiveTransform(frame.astype(np.float32), corners.astype(np.float32))
    scene = cv2.resize(behind, (640, 480))
    cv2.warpPerspective(pixels, map_, (640, 480), dst=scene, borderMode=cv2.BORDER_TRANSPARENT)
    return np.asarray(cv2.GaussianBlur(scene, (0, 0), random.uniform(0.3, 1.6)), np.uint8)


def shrunk(pixels: Pixels, random: np.random.Generator) -> Pixels:
    """Cropped a little, and too small to show much."""
    height, width = pixels.shape[:2]
    top, bottom, left, right = random.uniform(0, 0.15, 4)
    part = pixels[int(height * top) : height - int(height * bottom), int(width * left) : width - int(width * right)]
    factor = random.uniform(40, 100) / max(part.shape[:2])
    small = cv2.resize(part, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, (part.shape[1], part.shape[0]), interpolation=cv2.INTER_CUBIC), np.uint8)


def badly_lit(pixels: Pixels, random: np.random.Generator) -> bytes:
    """Brighter or darker, noisy, a JPEG of 45 to 90."""
    light = pixels * random.uniform(0.6, 1.3) + random.uniform(-25, 25)
    noisy = np.clip(light + random.normal(0, random.uniform(1, 6), pixels.shape), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(noisy).save(file, "JPEG", quality=int(random.uniform(45, 90)))
    return file.getvalue()


def make_goods(train: Path, lines: list[dict[str, str]], out: Path) -> None:
    """Some shots each of some goods, a folder each."""
    shots = defaultdict(list)
    for line in lines:
        shots[line["texts"][0]].append(line)
    for number, own in enumerate([own for own in shots.values() if len(own) >= SHOTS][:GOODS]):
        (out / f"{number:02d}").mkdir(parents=True)
        for shot, data in enumerate(read(train, own[:SHOTS])):
            PIL.Image.fromarray(decode(data).pixels).save(out / f"{number:02d}/{shot}.png")


def read(train: Path, lines: list[dict[str, str]]) -> list[bytes]:
    """The files that lines of `captions.jsonl` name."""
    found = []
    for line in lines:
        with zipfile.ZipFile(train / line["shard"]) as archive:
            found.append(archive.read(line["file"]))
    return found


if __name__ == "__main__":
    main()

"""What the constants of fusion were chosen on: sets made of the training photographs, not of any that is reported.

    python benchmarks/fusion.py TRAIN_FOLDER [--out out/fusion]

Writes `warps` (photographs seen at an angle before others, blurred and badly lit, and shrunk to 40 to 100 pixels;
shaped as `covers`), `groceries` and `shelves` (four shots each of 24 goods, five of 57 others, shaped as `objects`: the
same thing, another view), `pets` (five photos each of 37 breeds: no thing twice) and `stands` (the goods of `groceries`
before 32 grounds that they share in threes, each ground seen at an angle), then measures `mini`, `bow+sp` and
`mini+bow+sp` on each with `wherein bench run`. Local features should win on the first, the embedding on the others.
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

from wherein.images.image import decode

METHODS = ("mini", "bow+sp", "mini+bow+sp")
SOURCES = ("imagenet1000", "cc3m", "scenes6")
DATABASE, QUERIES = 600, 80
CLASSES = {"groceries": ("grocery", 0, 24, 4), "shelves": ("grocery", 24, 57, 5), "pets": ("pets37", 0, 37, 5)}
"""Of each set its source, which of its classes, and how many photos of each."""
GROUNDS = 32
Pixels = npt.NDArray[np.uint8]


def main() -> None:
    """Make what is missing, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("train", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/fusion"))
    arguments = parser.parse_args()
    if not arguments.out.exists():
        lines = [json.loads(line) for line in (arguments.train / "captions.jsonl").open()]
        scenes = [line for line in lines if line["source"] in SOURCES]
        make_warps(arguments.train, scenes, arguments.out / "warps")
        for name, (source, first, count, shots) in CLASSES.items():
            own = [line for line in lines if line["source"] == source]
            make_classes(arguments.train, chosen(own, shots)[first : first + count], arguments.out / name)
        make_stands(arguments.train, scenes, arguments.out)
    for name, shape in (("warps", "covers"), *((name, "objects") for name in (*CLASSES, "stands"))):
        for method in METHODS:
            folder = arguments.out / "runs" / name
            words = ["run", shape, "--data", str(arguments.out / name), "--method", method, "--json"]
            words += ["--out", str(folder / method), "--collection", str(folder / "index")]
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


def chosen(lines: list[dict[str, str]], shots: int) -> list[list[dict[str, str]]]:
    """The first photos of each class that has enough."""
    classes = defaultdict(list)
    for line in lines:
        classes[line["texts"][0]].append(line)
    return [own[:shots] for own in classes.values() if len(own) >= shots]


def make_classes(train: Path, classes: list[list[dict[str, str]]], out: Path) -> None:
    """A folder a class."""
    for number, own in enumerate(classes):
        (out / f"{number:02d}").mkdir(parents=True)
        for shot, data in enumerate(read(train, own)):
            PIL.Image.fromarray(decode(data).pixels).save(out / f"{number:02d}/{shot}.png")


def make_stands(train: Path, lines: list[dict[str, str]], out: Path) -> None:
    """The photos of `groceries`, cut round and put before grounds, so that other goods stand where one stood."""
    random = np.random.default_rng(1)
    order = random.permutation(len(lines))[:GROUNDS]
    grounds = [decode(data).pixels for data in read(train, [lines[number] for number in order])]
    for path in sorted((out / "groceries").rglob("*.png")):
        number, shot = int(path.parent.name), int(path.stem)
        ground = seen_again(grounds[(number + 8 * shot) % GROUNDS], random)
        to = out / "stands" / path.relative_to(out / "groceries")
        to.parent.mkdir(parents=True, exist_ok=True)
        lit = badly_lit(standing(decode(path).pixels, ground, random), random)
        PIL.Image.open(io.BytesIO(lit)).save(to)


def seen_again(pixels: Pixels, random: np.random.Generator) -> Pixels:
    """A little nearer, from a little aside, as a photo of 640 × 480."""
    height, width = pixels.shape[:2]
    frame = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64)
    corners = (frame - 0.5) * random.uniform(1.1, 1.4) + 0.5 + random.uniform(-0.06, 0.06, (4, 2))
    source, target = (frame * [width, height]).astype(np.float32), (corners * [640, 480]).astype(np.float32)
    map_ = cv2.getPerspectiveTransform(source, target)
    return np.asarray(cv2.warpPerspective(pixels, map_, (640, 480), borderMode=cv2.BORDER_REFLECT), np.uint8)


def standing(thing: Pixels, ground: Pixels, random: np.random.Generator) -> Pixels:
    """The disc in the middle of a picture, about three quarters of the ground's height, near the ground's middle."""
    side, least = int(random.uniform(0.6, 0.9) * 480), min(thing.shape[:2])
    top, left = (thing.shape[0] - least) // 2, (thing.shape[1] - least) // 2
    disc = cv2.resize(thing[top : top + least, left : left + least], (side, side), interpolation=cv2.INTER_AREA)
    away = np.hypot(*(np.mgrid[:side, :side] / side * 2 - 1))
    share = np.clip((1 - away) * side / 8, 0, 1)[..., None]
    x, y = (np.array([320, 240]) - side / 2 + random.uniform(-20, 20, 2)).astype(int)
    under = ground[y : y + side, x : x + side]
    ground[y : y + side, x : x + side] = share * disc + (1 - share) * under
    return ground


def read(train: Path, lines: list[dict[str, str]]) -> list[bytes]:
    """The files that lines of `captions.jsonl` name."""
    found = []
    for line in lines:
        with zipfile.ZipFile(train / line["shard"]) as archive:
            found.append(archive.read(line["file"]))
    return found


if __name__ == "__main__":
    main()

"""How fast the same thing is found again: features, bags of words, verification.

    python benchmarks/local_features.py [--images FOLDER] [--count 54000]

RootSIFT of a 480 px image and verification of one candidate are measured on the photos of a folder, or on drawn
pictures where none is given. The bag-of-words query is measured on synthetic histograms (no real collection of that
size is at hand): words follow a power law and come in bursts. A plain dense tf-idf matrix product runs beside the
inverted file, with the same histograms and the same words. Medians; `load` is what else the machine did meanwhile.
RootSIFT is timed without decoding, each image the quickest of five turns, so that what else runs hardly counts.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median

import cv2
import numpy as np
import numpy.typing as npt

from wherein.features import LocalFeatures, load_features
from wherein.features.verify import verify
from wherein.images.image import Image, decode
from wherein.images.picture import IMAGE_SUFFIXES
from wherein.kernels.bow import Bags
from wherein.kernels.codebook import Codebook

WORDS_AN_IMAGE = 700
TURNS = 5
DENSE_WORDS = 4096
SIZES = (DENSE_WORDS, 65_536, 1_000_000)
Words = npt.NDArray[np.int32]
Clock = Callable[[], float]


def main() -> None:
    """Print one line a figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, help="photos to measure features and verification on")
    parser.add_argument("--count", type=int, default=54_000, help="images in the bag-of-words index; 0: leave it out")
    arguments = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    features_and_verification(arguments.images)
    if arguments.count:
        bags_of_words(arguments.count)


def features_and_verification(folder: Path | None) -> None:
    """Milliseconds of RootSIFT at 480 px beside OpenCV's plain SIFT, and of one verified candidate."""
    images = photos(folder) if folder is not None else [drawn(seed) for seed in range(24)]
    small = [shrunk(image, 480) for image in images]
    family = load_features("rootsift")
    for spec in ("rootsift", "rootsift:upright"):
        rootsift(spec, small)
    found = [family.features(image, side=480) for image in small]
    verification("480 px query", list(pairwise(found)))
    closer = [family.features(image, side=family.query_side) for image in images]
    count = median(len(one) for one in closer)
    verification(f"800 px query ({count:.0f} features)", list(zip(closer, found[1:], strict=False)))


def verification(what: str, pairs: list[tuple[LocalFeatures, LocalFeatures]]) -> None:
    """Milliseconds of one candidate that shows something else, the quickest of five turns each."""
    turns = [[timed(lambda one=one, two=two: verify(one, two)) for one, two in pairs] for _ in range(TURNS)]
    spent = median(map(min, zip(*turns, strict=True)))
    print(f"verification of a candidate, {what}: {1e3 * spent:.1f} ms, target 8")


def rootsift(spec: str, images: list[Image]) -> None:
    """One image at a time with one thread and with one a core, and many at once; plain SIFT in the same turns."""
    family, cores = load_features(spec), len(os.sched_getaffinity(0))
    acts: dict[str, Callable[[Image], object]] = {
        spec: lambda image: family.features(image, side=480),
        "plain cv2.SIFT": lambda image: cv2.SIFT.create().detectAndCompute(grey(image), None),
    }
    turns = {
        "1 thread, processor time": (1, time.process_time),
        "1 thread": (1, time.perf_counter),
        f"{cores} threads (target 40)": (cores, time.perf_counter),
    }
    for how, (threads, clock) in turns.items():
        cv2.setNumThreads(threads)
        said = ", ".join(f"{name} {spent:.1f} ms" for name, spent in fastest(acts, images, clock).items())
        print(f"a 480 px image, {how}: {said}")
    cv2.setNumThreads(1)
    with ThreadPoolExecutor(cores) as pool:
        for name, act in acts.items():
            spent = min(timed(lambda act=act: list(pool.map(act, images))) for _ in range(TURNS)) / len(images)
            print(f"  {name}, {cores} images at once: {1e3 * spent:.1f} ms an image")
    cv2.setNumThreads(cores)
    print(f"  {median(len(family.features(image, side=480)) for image in images):.0f} features")


def fastest(acts: dict[str, Callable[[Image], object]], images: list[Image], clock: Clock) -> dict[str, float]:
    """Milliseconds of each act: the median over images of the quickest of some turns, which take turns."""
    spent = dict[str, list[list[float]]]()
    for turn in range(TURNS + 1):
        for name, act in acts.items():
            times = [timed(lambda act=act, image=image: act(image), clock) for image in images]
            if turn:  # the first warms up
                spent.setdefault(name, []).append(times)
    return {name: 1e3 * median(map(min, zip(*turns, strict=True))) for name, turns in spent.items()}


def grey(image: Image) -> npt.NDArray[np.uint8]:
    """As SIFT reads it."""
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(image.pixels), cv2.COLOR_RGB2GRAY), np.uint8)


def bags_of_words(count: int) -> None:
    """Milliseconds of a query over `count` images, by inverted file and by dense product."""
    random = np.random.default_rng(0)
    for size in SIZES:
        documents = [histogram(random, size) for _ in range(count)]
        queries = [histogram(random, size) for _ in range(20)]
        started = time.perf_counter()
        bags = Bags.build(documents, words=size)
        built = time.perf_counter() - started
        spent = median(timed(lambda query=query, bags=bags: bags.scores(query)) for query in queries)
        line = f"bag of words, {count:,} images, {size:,} words: {1e3 * spent:.1f} ms a query"
        if size == DENSE_WORDS:
            matrix = dense(bags, size)
            rows = [dense_query(query, bags) for query in queries]
            plain = median(timed(lambda row=row, matrix=matrix: matrix @ row) for row in rows)
            assert np.allclose(matrix @ rows[0], bags.scores(queries[0]), atol=1e-4)
            line += f"; dense product {1e3 * plain:.1f} ms ({matrix.nbytes / 1e9:.1f} GB)"
        print(f"{line}; built in {built:.1f} s, {len(bags.documents) * 8 / count / 1e3:.1f} kB an image; target 60")
    assignment(random)


def assignment(random: np.random.Generator) -> None:
    """Milliseconds to find the words of a query's descriptors."""
    rows = np.abs(random.normal(size=(16_384 + WORDS_AN_IMAGE, 128))).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    codebook = Codebook(rows[:16_384])
    codebook.words(rows[:1])
    spent = median(timed(lambda: codebook.words(rows[16_384:])) for _ in range(5))
    print(f"words of {WORDS_AN_IMAGE} descriptors, 16,384 words: {1e3 * spent:.1f} ms")


def histogram(random: np.random.Generator, size: int) -> Words:
    """Words of one image: drawn from a power law, each repeated as bursts do."""
    ranks = np.floor(size * random.random(WORDS_AN_IMAGE // 2) ** 1.6).astype(np.int32)
    return np.repeat(ranks, random.geometric(0.5, len(ranks)))


def dense(bags: Bags, size: int) -> npt.NDArray[np.float32]:
    """(documents, words): the same numbers as a plain matrix."""
    matrix = np.zeros((bags.count, size), np.float32)
    matrix[bags.documents, np.repeat(np.arange(size), np.diff(bags.starts))] = bags.values
    return matrix


def dense_query(words: Words, bags: Bags) -> npt.NDArray[np.float32]:
    """(words,): a query as a plain vector."""
    row = np.sqrt(np.bincount(words, minlength=len(bags.idf))) * bags.idf
    return np.asarray(row / np.linalg.norm(row), np.float32)


def photos(folder: Path) -> list[Image]:
    """Up to 24 photos of a folder, evenly chosen."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    return [decode(path) for path in paths[:: max(1, len(paths) // 24)][:24]]


def drawn(seed: int) -> Image:
    """A picture full of corners, 800 × 600."""
    random = np.random.default_rng(seed)
    pixels = np.full((600, 800, 3), 128, np.uint8)
    for _ in range(700):
        x, y = int(random.integers(0, 790)), int(random.integers(0, 590))
        width, height = (int(side) for side in random.integers(4, 60, 2))
        pixels[y : y + height, x : x + width] = random.integers(0, 256, 3)
    return Image(pixels, (800, 600))


def shrunk(image: Image, side: int) -> Image:
    """The image with its longer side at `side`."""
    width, height = image.size_wh
    scale = side / max(width, height)
    size_wh = (round(width * scale), round(height * scale))
    return Image(image.resized(size_wh), size_wh)


def timed(act: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Seconds of one act."""
    started = clock()
    act()
    return clock() - started


if __name__ == "__main__":
    main()

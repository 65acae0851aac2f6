"""Naming things that no training picture showed: photographs out of GCompris, by the names of their files.

    apt-get download gcompris-qt-data && dpkg-deb -x gcompris-qt-data_*.deb FOLDER
    python naming.py --rcc FOLDER/usr/share/gcompris-qt/rcc [--vocabulary DATA/vocabulary.json]

Tools, household things and animals, one to thirty photographs each, so a class counts as much as any other. A name is
that of the file, mended where it is no English word; landmarks, letters and drawings are left out. With the vocabulary,
classes that ImageNet names are told from those that it does not; both are chosen among all names.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import vocabulary as words
from wherein.encoders import mini
from wherein.encoders.mini import MiniEncoder
from wherein.images.image import decode

ARCHIVES = ("categorization", "erase", "explore_world_animals", "explore_farm_animals")
LEFT_OUT = re.compile(r"/(monuments|numbers|alphabets)/|buffetset|cuttingTool|sideCutter")
MENDED = {
    "tweezer": "tweezers", "screw driver": "screwdriver", "plier": "pliers", "spray": "spray bottle",
    "nail cutter": "nail clipper", "solar": "solar panels", "geothermal": "geothermal power plant",
    "bulb": "light bulb", "erasers": "eraser", "blackslate": "blackboard", "spoons": "spoon",
    "weighing machine": "weighing scale", "camels": "camel", "swans": "swan", "meerkats": "meerkat",
    "spoonbills": "spoonbill", "long nosed monkey": "proboscis monkey", "chamaeleon": "chameleon",
    "dragon": "komodo dragon",
}  # fmt: skip
WORDINGS = {"name": "{}", "a photo of a name": "a photo of a {}"}


def resources(path: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of a Qt resource archive, with its path in it."""
    data = path.read_bytes()
    version, tree, blobs, names = struct.unpack(">IIII", data[4:20])
    size = 14 if version < 2 else 22

    def walk(number: int, above: str) -> Iterator[tuple[str, bytes]]:
        at = tree + number * size
        name, flags, first, second = struct.unpack(">IHII", data[at : at + 14])
        length = struct.unpack(">H", data[names + name : names + name + 2])[0]
        here = f"{above}/{data[names + name + 6 : names + name + 6 + 2 * length].decode('utf-16-be')}" if number else ""
        if flags & 2:
            for child in range(second, second + first):
                yield from walk(child, here)
            return
        start = blobs + second + 4
        blob = data[start : start + struct.unpack(">I", data[start - 4 : start])[0]]
        yield here, zlib.decompress(blob[4:]) if flags & 1 else blob

    yield from walk(0, "")


def translations(path: Path) -> dict[str, str]:
    """English in lower case → another language, out of a Qt file of translations (`.qm`)."""
    data, at, found = path.read_bytes(), 16, {}
    sections: dict[int, bytes] = {}
    while at < len(data):
        kind, length = struct.unpack(">BI", data[at : at + 5])
        sections[kind] = data[at + 5 : at + 5 + length]
        at += 5 + length
    messages, at, fields = sections[0x69], 0, dict[int, bytes]()
    while at < len(messages):
        tag, at = messages[at], at + 1
        if tag == 1:  # the end of a message: 3 is its first translation, 6 its English
            if 3 in fields and 6 in fields:
                found.setdefault(fields[6].decode().lower(), fields[3].decode("utf-16-be"))
            fields = {}
            continue
        length = struct.unpack(">I", messages[at : at + 4])[0] % 0xFFFFFFFF
        fields.setdefault(tag, messages[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def photographs(folder: Path) -> Iterator[tuple[str, bytes]]:
    """(name, file) of every photograph."""
    for archive in ARCHIVES:
        for path, data in resources(folder / f"{archive}.rcc"):
            if path.endswith(".webp") and "/resource/" in path and not LEFT_OUT.search(path):
                stem = re.sub(r"\d+$", "", Path(path).stem).replace("_", " ")
                name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", stem).lower()
                yield MENDED.get(name, name), data


def accuracy(ranks: NDArray[np.int64], owners: NDArray[np.int64]) -> dict[str, float]:
    """Shares of pictures named right at first, and among the first five, in percent; every class counts the same."""
    numbers = np.unique(owners)
    shares = {k: [(ranks[owners == number] < k).mean() for number in numbers] for k in (1, 5)}
    return {f"top-{k}": round(100 * float(np.mean(share)), 1) for k, share in shares.items()} | {
        "classes": len(numbers)
    }


def main() -> None:
    """Print one JSON object for each wording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rcc", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path)
    parser.add_argument("--weights", type=Path, default=mini.WEIGHTS)
    args = parser.parse_args()
    mini.WEIGHTS = args.weights
    taught = words.class_numbers(words.read(args.vocabulary)) if args.vocabulary else {}
    encoder, found = MiniEncoder(), list(photographs(args.rcc))
    names = sorted({name for name, _ in found})
    owners = np.array([names.index(name) for name, _ in found])
    known = np.array([words.plain_name(name) in taught for name, _ in found])
    images = np.concatenate([encoder.images(encoder.prepare(decode(data))[None]).global_ for _, data in found])
    for title, wording in WORDINGS.items():
        scores = images @ encoder.texts([wording.format(name) for name in names]).T
        ranks = (scores > scores[np.arange(len(owners)), owners][:, None]).sum(1)
        parts = {"all": known | ~known} | ({"taught": known, "untaught": ~known} if taught else {})
        print(json.dumps({title: {part: accuracy(ranks[rows], owners[rows]) for part, rows in parts.items()}}))


if __name__ == "__main__":
    main()

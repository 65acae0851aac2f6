"""Look-alikes of sets held back elsewhere, made of training pictures that no run has seen, through the package itself.

    python proxies.py --data DATA --vocabulary DATA/vocabulary.json [--weights FOLDER] \\
        [--translations GCOMPRIS/translations]

Captions (700 photographs, the same in both editions), web captions (400), one single word for each of 300 photographs,
and 100 names that no text of the second edition's training held, each chosen among the 100. What was chosen on these
pictures (the mean of runs, hubs) was not chosen on any development set. Single words are asked misspelled too, and in
other languages as GCompris translates them (Debian's `gcompris-qt-data`; the table that `wherein` reads with is made of
other words): each as it is, and as searches read it.
"""

from __future__ import annotations

import argparse
import json
import random
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import texts as wording
import vocabulary as words
from data import Row, Split, read_rows, split
from languages import LANGUAGES
from naming import translations
from wherein.encoders import mini
from wherein.images.image import decode

Floats = NDArray[np.float32]


def held_back(data: Path, vocabulary: Path) -> tuple[list[Row], Split]:
    """All rows and the parts that training keeps for measuring, as `train.hold_back` draws them."""
    rows = sorted(read_rows(data), key=lambda row: (row["shard"], row["file"]))
    known = words.read(vocabulary)
    numbers, unseen = words.class_numbers(known), set(words.pick_unseen(known, 0))
    named = {row["file"]: words.plain_name(wording.class_name(row["texts"][0])) for row in rows
             if row["source"] == "imagenet1000"}  # fmt: skip
    files = {file for file, name in named.items() if numbers.get(name) in unseen}
    return rows, split(rows, files, seed=0, whole=True)


def embed(encoder: mini.MiniEncoder, data: Path, rows: list[Row]) -> Floats:
    """(n, d) embeddings of pictures in archives."""
    archives = {name: zipfile.ZipFile(data / name) for name in {row["shard"] for row in rows}}
    pictures = (decode(archives[row["shard"]].read(row["file"])) for row in rows)
    return np.concatenate([encoder.images(encoder.prepare(picture)[None]).global_ for picture in pictures])


def recall(texts: Floats, images: Floats, owners: list[int]) -> dict[str, float]:
    """Recall at 1 and 10, in percent."""
    scores = texts @ images.T
    ranks = (scores > scores[np.arange(len(owners)), owners][:, None]).sum(1)
    return {f"R@{k}": round(100 * float((ranks < k).mean()), 1) for k in (1, 10)}


def main() -> None:
    """Print one JSON object for each look-alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--weights", type=Path, default=mini.WEIGHTS)
    parser.add_argument("--translations", type=Path, help="GCompris's folder of .qm files")
    args = parser.parse_args()
    mini.WEIGHTS = args.weights
    encoder = mini.MiniEncoder()
    rows, parts = held_back(args.data, args.vocabulary)
    for title, numbers in (("captions", parts.captions), ("web", parts.web)):
        asked = [(text, place) for place, number in enumerate(numbers) for text in rows[number]["texts"]]
        images = embed(encoder, args.data, [rows[number] for number in numbers])
        said = [text for text, _ in asked]
        texts = np.concatenate([encoder.texts(said[at : at + 32]) for at in range(0, len(said), 32)])
        print(json.dumps({title: recall(texts, images, [place for _, place in asked])}), flush=True)
    said = [rows[number]["label"].lower() for number in parts.words]
    images = embed(encoder, args.data, [rows[number] for number in parts.words])
    slips = random.Random(0)
    typed = [wording.misspell(word, slips) if len(word) > 3 else word for word in said]
    mended = [encoder.read(word) for word in typed]
    for title, spelled in (("words", said), ("words misspelled", typed), ("words misspelled, read", mended)):
        print(json.dumps({title: recall(encoder.texts(spelled), images, list(range(len(said))))}), flush=True)
    for file in sorted(args.translations.glob("*.qm")) if args.translations else ():
        language = file.stem.removeprefix("gcompris_").partition("_")[0]
        table = translations(file) if language in LANGUAGES else {}
        owners = [place for place, word in enumerate(said) if table.get(word, word).lower() != word]
        if not owners:
            continue
        foreign = [table[said[place]].lower() for place in owners]
        read = [encoder.read(word) for word in foreign]
        asked = {"English": [said[place] for place in owners], "as it is": foreign, "read": read}
        found = {title: recall(encoder.texts(texts), images, owners) for title, texts in asked.items()}
        changed = sum(before != after for before, after in zip(foreign, read, strict=True))
        print(json.dumps({file.stem: {"words": len(owners), "read otherwise": changed, **found}}), flush=True)
    names = sorted({rows[number]["label"].lower() for number in parts.classes})
    right = np.array([names.index(rows[number]["label"].lower()) for number in parts.classes])
    images = embed(encoder, args.data, [rows[number] for number in parts.classes])
    for form in ("{}", "a photo of a {}"):
        best = (images @ encoder.texts([form.format(name) for name in names]).T).argmax(1)
        share = np.mean([float((best[right == number] == number).mean()) for number in range(len(names))])
        print(json.dumps({f"classes, {form}": round(100 * float(share), 1)}), flush=True)


if __name__ == "__main__":
    main()

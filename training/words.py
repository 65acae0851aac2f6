"""Two lists of words: those that the towers were trained on, and those that are English at all.

    python words.py --data DATA --weights ../src/wherein/encoders/weights/mini
    python words.py --wordnet /usr/share/wordnet

The first is what `wherein.encoders.words` takes as known, the second what spelling is never mended in: WordNet's single
words and the irregular forms of its lists of exceptions. Only hashes are kept, 4 bytes a word, not the texts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wherein.encoders.words import ENGLISH, trained_hashes

KINDS = ("noun", "verb", "adj", "adv")


def english(wordnet: Path) -> Iterator[str]:
    """Every word of WordNet that is one word of small letters, and its irregular forms."""
    for kind in KINDS:
        for line in (wordnet / f"index.{kind}").read_text().splitlines():
            if (word := line.split(" ", 1)[0]).isalpha():
                yield word
        for line in (wordnet / f"{kind}.exc").read_text().splitlines():
            if (form := line.split(" ", 1)[0]).isalpha():
                yield form


def main() -> None:
    """Write words.npy beside the towers, or english.npy above them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--wordnet", type=Path)
    arguments = parser.parse_args()
    if arguments.wordnet:
        path, texts = ENGLISH, english(arguments.wordnet)
    else:
        files = sorted(arguments.data.glob("captions*.jsonl"))
        path = arguments.weights / "words.npy"
        texts = (text for file in files for line in file.open() for text in json.loads(line)["texts"])
    hashes = trained_hashes(texts)
    np.save(path, hashes.astype(np.uint32))
    print(f"{len(hashes):,} words")


if __name__ == "__main__":
    main()

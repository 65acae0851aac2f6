"""The table with which `wherein.encoders.reading` reads other languages, out of Unicode's annotations of emoji.

    npm pack cldr-annotations-full && tar xf cldr-annotations-full-*.tgz
    python languages.py --annotations package/annotations --out ../src/wherein/encoders/weights/languages.tsv.gz

Every emoji has a name and key words in each language. A name means the English name of the same emoji. A key word means
the English key word that stands at nearly the same emoji: `Hund` and `dog` do, `Tier` and `animal` do. Words that stand
at one emoji alone, but are not its name, say nothing sure and are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import unicodedata
from pathlib import Path

from wherein.encoders.reading import plain_word

LANGUAGES = ("de", "es", "fr", "it", "pt", "nl", "pl", "tr", "sv", "ru", "ja", "zh", "ko")
# A key word and its translation must stand at the same emoji, but for one in two.
LEAST_OVERLAP = 0.5
SYMBOLS = re.compile(
    r"button|symbol|sign$|arrow|face|keycap|mark|circle|square|diamond|triangle|o’clock|-thirty|zodiac"
)
Names = dict[str, dict[str, list[str]]]


def read(folder: Path, language: str) -> Names:
    """Emoji → its name (`tts`) and its key words (`default`); signs and faces are left out by `english`."""
    found: Names = json.loads((folder / language / "annotations.json").read_text())["annotations"]["annotations"]
    return {sign: entry for sign, entry in found.items() if is_picture(sign)}


def is_picture(sign: str) -> bool:
    """Whether a character is drawn as a picture."""
    return len(sign.rstrip("\ufe0f")) == 1 and unicodedata.category(sign[0]) == "So"


def english(names: Names) -> Names:
    """The English names of things: no signs, no faces but those of animals, whose name is the animal's."""
    animals = {sign: entry for sign, entry in names.items() if "animal" in entry["default"]}
    things = {}
    for sign, entry in names.items():
        name = entry["tts"][0].removesuffix(" face") if sign in animals else entry["tts"][0]
        if not SYMBOLS.search(name):
            things[sign] = {"tts": [name.lower()], "default": entry["default"]}
    return things


def at(names: Names) -> dict[str, set[str]]:
    """Key word → the emoji that it stands at."""
    found: dict[str, set[str]] = {}
    for sign, entry in names.items():
        for word in entry.get("default", []):
            found.setdefault(plain_word(word), set()).add(sign)
    return found


def translate(names: Names, things: Names) -> dict[str, str]:
    """Word of a language → English."""
    meant: dict[str, str] = {}
    there, here = at({sign: entry for sign, entry in names.items() if sign in things}), at(things)
    for word, signs in there.items():
        if len(signs) < 2:
            continue
        score, best = max((len(signs & other) / len(signs | other), key) for key, other in here.items())
        if score >= LEAST_OVERLAP:
            meant[word] = best
    for sign, entry in things.items():
        if sign in names and "tts" in names[sign]:
            meant[plain_word(names[sign]["tts"][0])] = entry["tts"][0]
    return {word: said for word, said in meant.items() if word and word != said and "," not in word}


def main() -> None:
    """Write the table, one line for each word: language, word, English."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--annotations", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    things = english(read(args.annotations, "en"))
    lines = []
    for language in LANGUAGES:
        found = translate(read(args.annotations, language), things)
        lines += [f"{language}\t{word}\t{said}\n" for word, said in sorted(found.items())]
        print(f"{language}: {len(found):,} words")
    args.out.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    main()

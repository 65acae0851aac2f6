"""Queries read before they are embedded: slips of the finger mended, other languages put into English.

An encoder that learnt English alone declares `read`; one that knows other languages by itself does not, and its
queries are left as they are. Nothing is changed that might be right: a word is mended only where it is no English word
that WordNet lists, the encoder was never taught it, and a word that it was taught is one slip away or sounds the same.
"""

from __future__ import annotations

import gzip
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from wherein.encoders.words import one_slip_away

TABLE: Final = Path(__file__).parent / "weights" / "languages.tsv.gz"
"""Language, word, English: names of things in thirteen languages, made by `training/languages.py`."""
RARE: Final = "+"
"""Behind a language in the table: rare words of it, which count where no language says a text in common words."""
_SMALL_WORDS: Final = {
    "de": "ein=a eine=a einen=a einem=a einer=a der=the die=the das=the den=the dem=the und=and mit=with auf=on in=in "
    "im=in am=at unter=under neben=beside rot=red rote=red roter=red rotes=red roten=red blau=blue blaue=blue "
    "blauer=blue blaues=blue grun=green grune=green gruner=green grunes=green gelb=yellow gelbe=yellow gelber=yellow "
    "gelbes=yellow schwarz=black schwarze=black schwarzer=black schwarzes=black weiss=white weisse=white weisser=white "
    "weisses=white gross=large grosse=large grosser=large klein=small kleine=small kleiner=small zwei=two "
    "drei=three strand=beach strasse=street mann=man frau=woman kind=child kinder=children leute=people "
    "wasser=water schnee=snow",
    "es": "un=a una=a el=the la=the los=the las=the y=and con=with en=in sobre=on bajo=under de=of rojo=red roja=red "
    "azul=blue verde=green amarillo=yellow amarilla=yellow negro=black negra=black blanco=white blanca=white "
    "grande=large pequeno=small pequena=small dos=two tres=three playa=beach calle=street hombre=man mujer=woman "
    "nino=child nina=girl ninos=children gente=people agua=water nieve=snow",
    "fr": "un=a une=a le=the la=the les=the des=some du=of et=and avec=with dans=in sur=on sous=under de=of rouge=red "
    "bleu=blue bleue=blue vert=green verte=green jaune=yellow noir=black noire=black blanc=white blanche=white "
    "grand=large grande=large petit=small petite=small deux=two trois=three plage=beach rue=street homme=man "
    "femme=woman enfant=child enfants=children gens=people eau=water neige=snow",
    "it": "un=a una=a uno=a il=the lo=the la=the i=the gli=the le=the e=and con=with in=in su=on sulla=on sotto=under "
    "di=of rosso=red rossa=red blu=blue verde=green giallo=yellow gialla=yellow nero=black nera=black bianco=white "
    "bianca=white grande=large piccolo=small piccola=small due=two tre=three spiaggia=beach strada=street uomo=man "
    "donna=woman bambino=child bambini=children gente=people acqua=water neve=snow",
    "pt": "um=a uma=a o=the a=the os=the as=the e=and com=with em=in no=in na=in sobre=on sob=under de=of vermelho=red "
    "vermelha=red azul=blue verde=green amarelo=yellow amarela=yellow preto=black preta=black branco=white "
    "branca=white grande=large pequeno=small pequena=small dois=two duas=two tres=three praia=beach rua=street "
    "homem=man mulher=woman crianca=child criancas=children gente=people agua=water neve=snow",
    "nl": "een=a de=the het=the en=and met=with in=in op=on onder=under naast=beside rood=red rode=red blauw=blue "
    "blauwe=blue groen=green groene=green geel=yellow gele=yellow zwart=black zwarte=black wit=white witte=white "
    "groot=large grote=large klein=small kleine=small twee=two drie=three strand=beach straat=street man=man "
    "vrouw=woman kind=child kinderen=children mensen=people water=water sneeuw=snow",
}
"""What a simple phrase needs beside the names of things; written for this package."""
_ADJECTIVES_FOLLOW: Final = ("es", "fr", "it", "pt")
_ADJECTIVES: Final = frozenset(["red", "blue", "green", "yellow", "black", "white", "large", "small"])
_LEADING: Final = frozenset(["a", "the", "some", "of", "and", "with", "in", "on", "under", "two", "three"])
"""Words that an adjective follows in English too."""
_ENDINGS: Final = ("s", "es", "e", "n", "en", "er", "i", "x")
"""What is taken off a word that is not listed, to find it in the singular."""
_SOUNDS: Final = (("ph", "f"), ("ck", "k"), ("qu", "kw"), ("wh", "w"), ("gh", "g"), ("y", "i"), ("c", "k"), ("z", "s"))
_LONGEST_ENTRY: Final = 9
"""Words of the longest entry of the table."""
_SHORTEST: Final = 4
"""Shorter words are one slip from too many others."""
LONGEST_NAME: Final = 3
"""A text of so many words or fewer is taken for a name, as nearly all names in training are that short; not tuned."""
_ARTICLE: Final = re.compile(r"(?:an?|the)\s+", re.IGNORECASE)
_FRAME: Final = re.compile(
    rf"\s*(?:{_ARTICLE.pattern})?(?:photo|photograph|picture|image|pic)s?\s*(?:\bof\b|:)\s*(?=\w)(?!something\W*$)",
    re.IGNORECASE,
)
"""The words before what a picture shows; in `a photo of something` they are all that is said."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_UNSPACED: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")


@runtime_checkable
class Reads(Protocol):
    """An encoder that learnt one language, and reads queries before it embeds them."""

    def read(self, text: str) -> str:
        """The text in words that it was taught; the same text where there is nothing to change."""


def first_words(text: str, count: int) -> tuple[str, str]:
    """A text cut behind its first words: those, and the rest. Together they are the text."""
    found = next(islice(_WORD.finditer(text), count - 1, None), None)
    end = len(text) if found is None else found.end()
    return text[:end], text[end:]


def unframed(text: str) -> str:
    """The name alone, where a text says only that a picture shows it: `dog` for `a photo of a dog`.

    Names rank best bare (training/README.md); sentences rank the same either way, and stay as they are.
    """
    frame = _FRAME.match(text)
    shown = text[frame.end() :].rstrip(" .") if frame else text
    name = shown[article.end() :] if (article := _ARTICLE.match(shown)) else shown
    return name if frame and len(name.split()) <= LONGEST_NAME else text


def plain_word(text: str) -> str:
    """A word as the table has it: lower case, without accents."""
    apart = unicodedata.normalize("NFKD", text.replace("ı", "i").replace("I", "i").casefold())
    return unicodedata.normalize("NFC", "".join(mark for mark in apart if not _is_accent(mark)))


def _is_accent(mark: str) -> bool:
    return "\u0300" <= mark <= "\u036f"


@cache
def _tables() -> dict[str, dict[str, str]]:
    """Language → word → English, in the order in which languages are tried."""
    found: dict[str, dict[str, str]] = {}
    for line in gzip.decompress(TABLE.read_bytes()).decode().splitlines():
        language, word, english = line.split("\t")
        found.setdefault(language, {})[word] = english
    for language, pairs in _SMALL_WORDS.items():
        found[language] |= dict(pair.split("=") for pair in pairs.split())
    return {language: words | found[language.removesuffix(RARE)] for language, words in found.items()}


def in_english(text: str, *, taught: Callable[[str], bool]) -> str:
    """A text that is wholly of one known language, in English; any other text as it is.

    A word that the encoder was taught says nothing about the language, so at least one must be foreign to it.
    """
    if _UNSPACED.search(text):
        return _unspaced(text)
    words = [plain_word(word) for word in _WORD.findall(text)]
    if not words or all(taught(word) for word in words):
        return text
    for language, table in _tables().items():
        said = _spoken(words, table, adjectives_follow=language.removesuffix(RARE) in _ADJECTIVES_FOLLOW)
        if said and any(word in table and not taught(word) for word in (*words, " ".join(words))):
            return said
    return text


def _spoken(words: Sequence[str], table: dict[str, str], *, adjectives_follow: bool) -> str:
    """Words in English, longest entries first; nothing where one of them is not listed."""
    said, at = list[str](), 0
    while at < len(words):
        for end in range(min(len(words), at + _LONGEST_ENTRY), at, -1):
            found = _look_up(" ".join(words[at:end]), table)
            if found is not None:
                said.append(found)
                at = end
                break
        else:
            return ""
    for number in range(1, len(said) if adjectives_follow else 0):
        if said[number] in _ADJECTIVES and said[number - 1] not in _ADJECTIVES | _LEADING:
            said[number - 1 : number + 1] = said[number], said[number - 1]
    return " ".join(said)


def _look_up(word: str, table: dict[str, str]) -> str | None:
    if word in table:
        return table[word]
    stems = (word.removesuffix(ending) for ending in _ENDINGS if len(word) > len(ending) + 2 and word.endswith(ending))
    return next((table[stem] for stem in stems if stem in table), None)


def _unspaced(text: str) -> str:
    """Japanese or Chinese: the longest entries that follow each other; what is between them is passed over."""
    tables = _tables()
    listed = tables["zh"] | tables["ja"]
    longest = max(map(len, listed))
    said, at = list[str](), 0
    whole = plain_word(text)
    while at < len(whole):
        ends = range(min(len(whole), at + longest), at, -1)
        end = next((end for end in ends if whole[at:end] in listed), None)
        if end is None:
            at += 1
            continue
        said.append(listed[whole[at:end]])
        at = end
    return " ".join(said) or text


class Spellings:
    """Words that a misspelled one may mean, the commonest first: looked up by themselves and by their sound."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self.places: Final = places
        """word → how many are commoner"""

    @cached_property
    def by_sound(self) -> dict[str, list[str]]:
        """sound → the words that sound so, the commonest first"""
        found: dict[str, list[str]] = {}
        for word in self.places:
            found.setdefault(_sound(word), []).append(word)
        return found


def mended(
    text: str,
    *,
    words: Spellings,
    right: Callable[[str], bool],
    listed: Callable[[str], bool],
    taught: Callable[[str], bool],
) -> str:
    """A text with its misspelled words mended; `words` are those it may mean.

    A `right` word stays, be it ever so rare. Training texts hold misspelled words too, so one that is only `listed` is
    mended where a common word sounds the same.
    """

    def mend(found: re.Match[str]) -> str:
        word = found.group().lower()
        if len(word) < _SHORTEST or not word.isascii() or word in words.places or right(word):
            return found.group()
        return (_alike(word, words, taught) if listed(word) else _meant(word, words, taught)) or found.group()

    return _WORD.sub(mend, text)


def _meant(word: str, words: Spellings, taught: Callable[[str], bool]) -> str | None:
    """The taught word that a misspelled one stands for: one slip away, or of the same sound; the commonest first."""
    near = {slip for slip in one_slip_away(word) if len(slip) >= _SHORTEST and taught(slip)}
    if near:
        order = words.places
        return min(near, key=lambda other: (other[0] != word[0], order.get(other, len(order)), other))
    return _alike(word, words, taught)


def _alike(word: str, words: Spellings, taught: Callable[[str], bool]) -> str | None:
    alike = words.by_sound.get(_sound(word), ()) if len(word) > _SHORTEST else ()
    return next((other for other in alike if len(other) > _SHORTEST and taught(other)), None)


def _sound(word: str) -> str:
    """A word as it sounds, roughly: `elefant` is `elephant`, `bycicle` is `bicycle`."""
    for letters, sound in _SOUNDS:
        word = word.replace(letters, sound)
    return re.sub(r"(.)\1+", r"\1", word)

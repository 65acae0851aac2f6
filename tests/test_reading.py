"""Slips of the finger and other languages are read before they are embedded, and a note says how."""

import gzip
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import wherein
from wherein import Query
from wherein.demo import PHOTOS
from wherein.encoders import load
from wherein.encoders.mini import MAX_TOKENS, MiniEncoder
from wherein.encoders.reading import TABLE, Spellings, first_words, in_english, mended, unframed
from wherein.search.reading import read_query


@pytest.fixture(scope="module")
def mini() -> MiniEncoder:
    return MiniEncoder()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param("elefant", "elephant", id="as it sounds"),
        pytest.param("a red bycicle", "a red bicycle", id="as it sounds, in a sentence"),
        pytest.param("elehpant", "elephant", id="two letters swapped"),
        pytest.param("tractr", "tractor", id="a letter left out"),
        pytest.param("a Restuarant at night", "a restaurant at night", id="only that word changes"),
    ],
)
def test_a_misspelled_word_is_read_as_the_word_that_was_taught(mini: MiniEncoder, text: str, read: str) -> None:
    assert mini.read(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "a dog",
        "two schnauzers eat zucchini",
        "labradoodle gullfoss",
        "okapi",
        "a humped cow beside foaming beer",
        "diners with lathered faces",
        "a chive, swatted",
        "BMW",
        "pies",
        "chat",
        "something odd",
        "4x4 2019",
        "xqzvk",
    ],
)
def test_words_that_may_be_right_stay(mini: MiniEncoder, text: str) -> None:
    assert mini.read(text) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Elefant", "elephant"),
        ("ein roter Hund", "a red dog"),
        ("perro en la playa", "dog in the beach"),
        ("un chat noir", "a black cat"),
        ("una bicicletta rossa", "a red bicycle"),
        ("um cavalo branco", "a white horse"),
        ("hond op het strand", "dog on the beach"),
        ("słoń", "elephant"),
        ("köpek", "dog"),
        ("слон", "elephant"),
        ("自転車", "bicycle"),
        ("大象", "elephant"),
        ("자전거", "bicycle"),
        ("Erde", "earth"),
        ("flor", "flower"),
        ("une bouteille", "a bottle"),
        ("estrela", "star"),
        ("eine Bushaltestelle", "a bus stop"),
        ("une ruche", "a beehive"),
        ("uma ponte vermelha", "a red bridge"),
        ("latarnia morska", "lighthouse"),
        ("верблюд", "camel"),
        ("红绿灯", "traffic light"),
        ("un cacciavite rosso", "a red screwdriver"),
        ("uma furadeira", "a drill"),
        ("taç", "crown"),  # Turkish; a rare word of Portuguese too
        ("maçã", "apple"),  # Portuguese; written without accents it is a Turkish word too
    ],
)
def test_other_languages_are_read_as_english(mini: MiniEncoder, text: str, read: str) -> None:
    assert mini.read(text) == read


def test_every_language_has_thousands_of_words_and_the_table_stays_small() -> None:
    words = Counter(
        line.split("\t")[0].rstrip("+") for line in gzip.decompress(TABLE.read_bytes()).decode().splitlines()
    )
    assert len(words) == 13
    assert min(words.values()) > 3000
    assert min(words["it"], words["pt"]) > 5000
    assert TABLE.stat().st_size < 1_000_000


def test_english_is_not_read_as_a_language_that_has_nearly_the_same_word(mini: MiniEncoder) -> None:
    assert mini.read("a chimpanzee") == "a chimpanzee"


def test_only_encoders_of_one_language_read() -> None:
    asked = Query.of("elefant")
    assert read_query(asked, load("toy")) == (asked, ())
    read, notes = read_query(asked, load("mini"))
    assert (str(read), notes) == ("elephant", ("read as: elephant",))
    assert read_query(read, load("mini")) == (read, ())


def test_a_search_in_another_language_finds_what_english_finds_and_says_so(tmp_path: Path) -> None:
    with wherein.open(tmp_path, create=True) as collection:
        collection.add(*sorted(PHOTOS.glob("*.jpg"))[:12])
        english = collection.search("a red bicycle", k=12)
        foreign = collection.search("ein rotes Fahrrad", k=12, locate=True)
    assert [hit.image_id for hit in foreign] == [hit.image_id for hit in english]
    assert [hit.confidence for hit in foreign] == [hit.confidence for hit in english]
    assert foreign.notes[0] == "read as: a red bicycle"
    assert foreign.query == "ein rotes Fahrrad"
    assert not any("read as" in note for note in english.notes)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 20_000, id="one word without end"),
        pytest.param("hund " * 4_000, id="a foreign word again and again"),
        pytest.param(" ".join(f"qx{letters}zk" for letters in map("".join, permutations("abcdefg"))), id="many words"),
    ],
)
def test_no_text_is_looked_up_more_often_than_its_embedded_words_are(mini: MiniEncoder, text: str) -> None:
    lexicon = mini._lexicon
    asked = Counter[str]()

    def count(word: str) -> bool:
        asked["words"] += 1
        return False

    head, rest = first_words(text, MAX_TOKENS)
    assert head + rest == text
    in_english(head, taught=count)
    mended(head, words=Spellings(lexicon.places), right=count, listed=count, taught=count)
    # 53 slips a letter of at most 32 letters, of at most 64 words: as many as a text of any length may cost.
    assert asked["words"] <= 64 * (54 * 33 + 3)
    assert mini.read(text).endswith(rest)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a photo of an okapi", "okapi"),
        ("A photo of the dog.", "dog"),
        ("pictures of fire trucks", "fire trucks"),
        ("image: okapi", "okapi"),
        ("a picture of a man on a red horse", "a picture of a man on a red horse"),
        ("a photo of something", "a photo of something"),
        ("a photo of something odd", "something odd"),
        ("a picture frame", "a picture frame"),
        ("picture book of animals", "picture book of animals"),
        ("a drawing of a dog", "a drawing of a dog"),
        ("a photo of", "a photo of"),
        ("a dog", "a dog"),
        ("", ""),
    ],
)
def test_words_that_say_that_it_is_a_picture_are_no_part_of_a_name(text: str, shown: str) -> None:
    assert unframed(text) == shown


def test_a_photo_of_a_thing_is_embedded_as_its_name(mini: MiniEncoder) -> None:
    framed, named = mini.texts(["a photo of an okapi", "a photo of something"]), mini.texts(["okapi", "something"])
    assert np.allclose(framed[0], named[0], atol=1e-5)
    assert framed[1] @ named[1] < 0.99, "“a photo of something” says that it is a photo"

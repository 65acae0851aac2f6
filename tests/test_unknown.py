"""Words that an encoder cannot know are said, and nothing is sure or outlined where there are no others."""

import random
from pathlib import Path
from string import ascii_lowercase

import pytest

import wherein
from wherein import Part, Query
from wherein.demo import PHOTOS
from wherein.encoders import load
from wherein.encoders.mini import MiniEncoder
from wherein.search.unknown import Unknown, unknown_words


@pytest.fixture(scope="module")
def mini() -> MiniEncoder:
    return MiniEncoder()


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("", ()),
        ("a dog", ()),
        ("xqzvk", ("xqzvk",)),
        ("a red asdfgh", ("asdfgh",)),
        pytest.param("an elehpant on a motorbke, dgo", (), id="typos are near a known word"),
        pytest.param("two schnauzers eat zucchini at kiosks", (), id="rare words, and their plurals"),
        pytest.param("labradoodle gullfoss", (), id="words nobody taught it that are made of usual pieces"),
        pytest.param("café ÉCLAIR 2019 4x4 tv", (), id="accents, numbers and short words"),
        pytest.param("собака", ("собака",), id="a script it was never shown"),
    ],
)
def test_a_word_is_known_by_its_letters(mini: MiniEncoder, text: str, unknown: tuple[str, ...]) -> None:
    assert mini.unknown_words(text) == unknown


def test_most_random_letters_are_unknown(mini: MiniEncoder) -> None:
    letters = random.Random(0)
    words = ["".join(letters.choices(ascii_lowercase, k=letters.randint(5, 10))) for _ in range(200)]
    assert sum(mini.unknown_words(word) == (word,) for word in words) >= 180


def test_only_a_query_of_unknown_words_alone_asks_for_nothing() -> None:
    mini = load("mini")
    some = unknown_words(Query.of("a red asdfgh"), mini)
    assert (some.all_words, some.notes) == (False, ("I do not know these words: asdfgh.",))
    assert unknown_words(Query.of("asdfgh xqzvk"), mini).all_words
    assert unknown_words(Query.of("a photo of the xqzvk"), mini).all_words  # an article names nothing
    assert unknown_words(Query((Part(text="dog"), Part(text="xqzvk", negative=True))), mini).words == ("xqzvk",)
    assert not unknown_words(Query((Part(text="xqzvk"), Part(image=b""))), mini).all_words
    assert unknown_words(Query.of("xqzvk"), load("toy")) == Unknown()


def test_random_letters_are_outlined_nowhere_and_are_sure_of_nothing(tmp_path: Path) -> None:
    with wherein.open(tmp_path, create=True) as collection:
        collection.add(*sorted(PHOTOS.glob("*.jpg"))[:4])
        found = collection.search("xqzvk wjqpl", locate=True)
        known = collection.search("a dog", locate=True)
        later = list(collection.locate_hits("xqzvk wjqpl", found))
        alone = [wherein.locate("xqzvk wjqpl", path) for path in sorted(PHOTOS.glob("*.jpg"))]
    assert found.notes[0] == (
        "I do not know these words: xqzvk, wjqpl. Nothing else was asked, so the hits are as good as random."
    )
    assert len(found) == len(later) == 4
    assert all(hit.mask is None and hit.box is None for hit in later)
    assert all(place.mask is None and place.box is None for place in alone)
    assert all(hit.mask is None and hit.box is None for hit in found)
    assert all(hit.confidence is not None and hit.confidence < 0.05 for hit in found)
    assert any(hit.mask is not None for hit in known)
    assert known.notes == ()

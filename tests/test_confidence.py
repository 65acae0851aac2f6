"""Log odds of being right: the signs they come from, what they do not depend on, and what a search says with them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wherein
from wherein import Part, Query
from wherein.arrays import Floats, unit
from wherein.encoders import load
from wherein.search.background import Background
from wherein.search.bank import NAMES, Bank, bank_of, texts
from wherein.search.common import commonness
from wherein.search.confidence import Model, likeliest_signs, shipped
from wherein.search.others import Others, example_signs
from wherein.search.seen import Fits, Seen
from wherein.search.signs import (
    FEWEST,
    OF_NAME,
    OF_SCENE,
    OF_SHORT,
    TEXT_SIGNS,
    asked_otherwise,
    count_words,
    stands_out,
    text_signs,
)

RANDOM = np.random.default_rng(3)
NAMES_ROWS, SCENES_ROWS = (unit(RANDOM.normal(size=(300, 16)).astype(np.float32)) for _ in range(2))
BANK = Bank.of(NAMES_ROWS, SCENES_ROWS)


def shifted(rows: Floats, *, share: float = 0.8) -> Floats:
    """Rows with a component that all have, so that every cosine c becomes share + (1 − share) c."""
    constant = np.full((len(rows), 1), np.sqrt(share), np.float32)
    return np.asarray(np.hstack([np.sqrt(1.0 - share) * rows, constant]), np.float32)


def test_a_text_that_beats_its_rivals_has_better_signs_than_one_that_does_not() -> None:
    query = unit(RANDOM.normal(size=(1, 16)).astype(np.float32))[0]
    right = unit((query + 0.3 * RANDOM.normal(size=(1, 16))).astype(np.float32))
    wrong = unit(RANDOM.normal(size=(1, 16)).astype(np.float32))
    hits, fits = np.vstack([right, wrong]), Fits(0.0, 0.25)
    seen = Seen.of(hits, BANK, fits)
    by_query = [number for number, sign in enumerate(TEXT_SIGNS) if sign.startswith(("usual", "common"))]
    columns = np.delete(np.arange(len(TEXT_SIGNS)), [0, 1, *by_query])  # the others say which line a text is of
    lines = {2: OF_NAME, 5: OF_SHORT, 8: OF_SCENE}
    for words, line in lines.items():
        signs = text_signs(query, hits, seen, BANK, words=words, fits=fits)
        own = np.isin(columns, np.arange(*line.indices(len(TEXT_SIGNS))))
        assert (signs[0, columns[own]] > signs[1, columns[own]]).all()
        assert not signs[:, columns[~own]].any()  # a name leads nothing, and a scene beats no names
    between, short, scene = (text_signs(query, hits, seen, BANK, words=words, fits=fits) for words in (6, 5, 7))
    assert between == pytest.approx((short + scene) / 2.0, abs=1e-5)


def test_what_is_nearer_to_names_than_names_are_is_no_more_usual_and_what_is_far_from_all_is_unusual() -> None:
    place = TEXT_SIGNS.index("usual")
    names = unit((np.eye(16)[0] + 0.2 * RANDOM.normal(size=(300, 16))).astype(np.float32))
    bank, hits, fits = Bank.of(names, SCENES_ROWS), unit(RANDOM.normal(size=(3, 16)).astype(np.float32)), Fits(0.0, 0.2)
    seen = Seen.of(hits, bank, fits)
    near, far = unit(names.mean(axis=0)[None])[0], np.eye(16, dtype=np.float32)[5]
    usual = [text_signs(one, hits, seen, bank, words=1, fits=fits)[:, place].tolist() for one in (near, far)]
    assert usual[0] == [0.0] * 3
    assert max(usual[1]) < -3.0


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("", None),
        ("cat", "a cat"),
        ("Elephant", "an Elephant"),
        ("fire hydrant", "a fire hydrant"),
        ("the moon", "moon"),
        ("a coffee cup", "coffee cup"),
        ("a", None),
        ("two old men", None),
        ("a man in black", None),
    ],
)
def test_a_name_is_asked_with_and_without_its_article(text: str, other: str | None) -> None:
    assert asked_otherwise(text) == other


def test_a_hit_is_as_sure_of_a_name_as_either_way_to_ask_for_it_says() -> None:
    hits = unit(RANDOM.normal(size=(2, 16)).astype(np.float32))
    one, other = (unit((hit + 0.2 * RANDOM.normal(size=16))[None].astype(np.float32)) for hit in hits)
    seen, fits = Seen.of(hits, BANK, Fits(0.0, 0.25)), Fits(0.0, 0.25)
    signs = [
        likeliest_signs(asked, hits, seen, BANK, words=1, fits=fits, common=0.0, background=None)
        for asked in (one, other, np.concatenate([one, other]))
    ]
    odds = [shipped()["text"].odds(each) for each in signs]
    assert odds[0][0] > odds[1][0]
    assert odds[1][1] > odds[0][1]
    assert odds[2] == pytest.approx(np.maximum(odds[0], odds[1]))


def test_odds_above_even_are_believed_as_far_as_the_line_of_their_text_is() -> None:
    model = Model(1.0, (0.0, 2.0, 1.0), (1.0, 0.5))
    signs = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.5, 1.0, 0.0], [1.0, -1.0, 0.0]])
    assert model.odds(signs).tolist() == pytest.approx([3.0, 1.5, 2.25, -1.0])


def test_an_encoder_may_hold_names_and_sentences_apart() -> None:
    """A direction of their own for each kind of text adds a constant to cosines within a kind, and changes no sign."""
    kinds = np.eye(2, dtype=np.float32)

    def apart(rows: Floats, kind: int) -> Floats:
        return np.asarray(np.hstack([rows, np.tile(kinds[kind], (len(rows), 1))]) / np.sqrt(2.0), np.float32)

    query, hits = (unit(RANDOM.normal(size=(size, 16)).astype(np.float32)) for size in (1, 7))
    held = Bank.of(apart(NAMES_ROWS, 0), apart(SCENES_ROWS, 1))
    images = np.asarray(np.hstack([hits, np.zeros((7, 2))]), np.float32)
    for words in (2, 9):
        signs = []
        for asked, rows, bank in ((query[0], hits, BANK), (apart(query, int(words > 3))[0], images, held)):
            fits = Fits.of(rows, bank)
            signs.append(text_signs(asked, rows, Seen.of(rows, bank, fits), bank, words=words, fits=fits))
        assert np.abs(signs[0] - signs[1]).max() < 0.02


def test_the_lead_over_the_next_five_by_hand_copies_counting_once() -> None:
    query = np.eye(16, dtype=np.float32)[0]
    hits = np.stack([0.9 * query, 0.5 * query])
    ordered = np.array([0.9, 0.5, 0.45, 0.45, 0.45, 0.4, 0.35, 0.3, 0.25, 0.1], np.float32)
    fits = Fits(0.1, 0.25)
    signs = text_signs(
        query, hits, Seen.of(hits, BANK, fits), BANK, words=9, fits=fits, background=Background.of(ordered)
    )
    lead = np.array([0.9 - 2.0 / 5, 0.5 - 1.75 / 5]) / 0.25 - 0.7
    assert signs[:, TEXT_SIGNS.index("leads")].tolist() == pytest.approx(lead.tolist(), abs=1e-4)
    assert signs[:, TEXT_SIGNS.index("scores")].tolist() == pytest.approx([0.8 / 0.25, 0.4 / 0.25], abs=1e-4)


def test_scores_far_below_the_next_five_change_no_sign_of_a_text() -> None:
    query, hits = (unit(RANDOM.normal(size=(size, 16)).astype(np.float32)) for size in (1, 7))
    alone, fits = np.sort(hits @ query[0])[::-1], Fits.of(hits, BANK)
    joined = np.concatenate([alone, np.full(50, alone.min() - 0.5, np.float32)])
    best = hits[[int((hits @ query[0]).argmax())]]
    seen = Seen.of(best, BANK, fits)
    for words in (2, 5, 9):
        before, after = (
            text_signs(query[0], best, seen, BANK, words=words, fits=fits, background=Background.of(scores))
            for scores in (alone, joined)
        )
        assert before.tolist() == after.tolist()


def test_a_constant_in_every_embedding_changes_no_sign() -> None:
    query, hits = (unit(RANDOM.normal(size=(size, 16)).astype(np.float32)) for size in (1, 7))
    other = Bank.of(shifted(NAMES_ROWS), shifted(SCENES_ROWS))
    ordered = np.sort(hits @ query[0])[::-1]
    fits, lifted = Fits.of(hits, BANK), Fits.of(shifted(hits), other)
    assert lifted.spread == pytest.approx(0.2 * fits.spread, rel=1e-4)
    scores = Background.of(ordered), Background.of(np.float32(0.8) + np.float32(0.2) * ordered)
    seen, seen_lifted = Seen.of(hits, BANK, fits), Seen.of(shifted(hits), other, lifted)
    plain = text_signs(query[0], hits, seen, BANK, words=6, fits=fits, background=scores[0])
    moved = text_signs(shifted(query)[0], shifted(hits), seen_lifted, other, words=6, fits=lifted, background=scores[1])
    assert np.abs(plain - moved).max() < 2e-3
    others = unit(RANDOM.normal(size=(100, 16)).astype(np.float32))
    near = example_signs(query, hits, Others(others))
    assert np.abs(near - example_signs(shifted(query), shifted(hits), Others(shifted(others)))).max() < 2e-3


def test_the_same_thing_again_is_above_look_alikes_and_a_look_alike_is_not() -> None:
    kind = unit((0.8 * np.eye(64)[0] + 0.12 * RANDOM.normal(size=(60, 64))).astype(np.float32))
    rest = unit(RANDOM.normal(size=(200, 64)).astype(np.float32))
    again = unit((kind[:1] + 0.02 * RANDOM.normal(size=(1, 64))).astype(np.float32))
    signs = example_signs(kind[:1], np.vstack([again, kind[1:2]]), Others(np.vstack([kind[1:], rest, again])))
    odds = shipped()["example"].odds(signs)
    assert odds[0] > odds[1] + 3.0, signs


def test_hits_of_examples_that_resemble_nothing_are_in_the_order_of_their_scores() -> None:
    """Otherwise the stranger an example is, the surer it is of whatever is a little like it."""
    rest = unit((0.6 * np.eye(64)[0] + 0.1 * RANDOM.normal(size=(200, 64))).astype(np.float32))
    strange, stranger = (unit((share * np.eye(64)[0] + np.eye(64)[1])[None].astype(np.float32)) for share in (0.1, 0.0))
    others = Others(rest)
    hits = [rest[np.argsort(-(rest @ one[0]))[:5]] for one in (strange, stranger)]
    scores = np.concatenate([one @ asked[0] for one, asked in zip(hits, (strange, stranger), strict=True)])
    signs = np.concatenate(
        [example_signs(asked, one, others) for one, asked in zip(hits, (strange, stranger), strict=True)]
    )
    assert np.argsort(-signs[:, 0]).tolist() == np.argsort(-scores).tolist()


def test_where_all_images_are_the_same_no_hit_is_nearer() -> None:
    same = np.tile(unit(RANDOM.normal(size=(1, 16)).astype(np.float32)), (40, 1))
    assert np.abs(example_signs(same[:1], same[:3], Others(same))).max() < 0.01


@pytest.mark.parametrize(
    ("rare", "common"),
    [
        pytest.param("a stalactite", "a stone", id="names"),
        pytest.param("a photo of a unicycle", "a photo of a bicycle", id="framed names"),
        pytest.param("barn owl", "white bird", id="the rarest word of a name counts"),
        pytest.param("a potholer squeezes through a narrow passage", "a man walks along a narrow street", id="scenes"),
    ],
)
def test_a_text_of_rare_words_needs_more_to_be_believed(rare: str, common: str) -> None:
    mini = load("mini")
    assert commonness(rare, mini) < commonness(common, mini) <= 0.0
    query, fits = SCENES_ROWS[:1], Fits(0.0, 0.25)
    hits = unit(query + 0.3 * RANDOM.normal(size=(2, 16)).astype(np.float32))
    words, seen = count_words(rare), Seen.of(hits, BANK, fits)
    odds = [
        shipped()["text"].odds(text_signs(query[0], hits, seen, BANK, words=words, fits=fits, common=one))
        for one in (commonness(rare, mini), 0.0)
    ]
    assert (odds[0] < odds[1]).all()


def test_how_common_words_are_is_asked_of_encoders_that_know() -> None:
    assert commonness("a stalactite", load("toy")) == 0.0
    assert commonness("the", load("mini")) == 0.0  # nothing is said
    assert commonness("stalactites", load("mini")) == commonness("stalactite", load("mini"))  # neither is listed
    assert commonness("horses", load("mini")) >= commonness("horse", load("mini"))


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param([], id="no image"),
        pytest.param([0.5], id="one image"),
        pytest.param([0.5] * 40, id="constant scores"),
    ],
)
def test_nothing_stands_out_where_nothing_can(scores: list[float]) -> None:
    values = np.array(scores, np.float32)
    assert stands_out(values, Background.of(values)).tolist() == [0.0] * len(scores)


def test_the_same_deviation_says_less_among_few_images() -> None:
    few = Background.of(np.random.default_rng(4).normal(size=10).astype(np.float32))
    many = replace(few, n=100_000)
    scores = np.linspace(-10.0, 10.0, 4001, dtype=np.float32)
    among_few, among_many = stands_out(scores, few), stands_out(scores, many)
    assert (np.diff(among_few) >= 0).all()
    assert (np.sign(among_few) == np.sign(among_many)).all()
    assert (np.abs(among_few) <= np.abs(among_many)).all()
    # a t of ten degrees beyond 4.587 is as rare (5 in 10,000) as a normal deviation beyond 3.291
    assert np.interp(4.587, among_many, among_few) == pytest.approx(3.291, rel=0.04)


def test_the_shipped_bank_is_of_the_shipped_weights() -> None:
    """Other weights need another: `python training/bank.py` makes it."""
    mini = load("mini")

    def refuse(name: str, make: object) -> Floats:
        raise AssertionError(f"{name} was made anew: {make}")

    bank = bank_of(mini, refuse)
    assert bank is not None
    assert len(texts()) == sum(len(kind.rows) for kind in bank.kinds) == 2 * NAMES
    some = mini.texts(texts()[:3])
    assert ((some * bank.kinds[0].rows[:3]).sum(axis=1) > 0.999).all()


def test_an_encoder_that_takes_the_bank_for_one_text_has_none() -> None:
    kept = dict[str, Floats]()
    assert bank_of(load("toy"), lambda name, make: kept.setdefault(name, np.asarray(make(), np.float32))) is None
    assert [name for name in kept if not name.startswith("bank.toy")] == []


def test_every_method_has_a_confidence_and_examples_need_others(library: wherein.Collection, folder: Path) -> None:
    example = Query((Part(image=folder / "red.png"),))
    for method in ("whole", "patches", "static-9", "whole+qe", "whole+diffusion"):
        hits = library.search(example, method=method)
        assert all(hit.confidence is not None for hit in hits), method
    few = library.search(example, among=library.image_ids()[: FEWEST - 1])
    assert all(hit.confidence is not None for hit in few)  # filters do not change what is usual


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> wherein.Collection:
    """Thirty pictures of two colours, by the toy encoder."""
    collection = wherein.open(tmp_path_factory.mktemp("library"), create=True, encoder="toy")
    pixels = RANDOM.integers(0, 255, size=(30, 8, 8, 3), dtype=np.uint8).repeat(8, axis=1).repeat(8, axis=2)
    collection.add(*((f"{number:02}.png", one) for number, one in enumerate(pixels)))
    return collection

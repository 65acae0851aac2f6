"""Which hits are sure enough, how many images match, and that what is shown is what is cut on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import wherein
from wherein import Box, Part, Query
from wherein.cli import app
from wherein.demo import PHOTOS, examples
from wherein.errors import InputError
from wherein.options import DEFAULT_CUT, Asked, Cut
from wherein.search.confidence import Evidence, shipped
from wherein.search.decide import COUNTED_FROM, NONE_SURE, about, at_least, cut_of, further, shown, split, with_sure
from wherein.values.ranking import Expected, Hit, Ranking

MIDDLE = Box(0.2, 0.2, 0.8, 0.8)


@pytest.mark.parametrize(
    ("cut", "sure", "least"),
    [
        pytest.param(Cut(), [], DEFAULT_CUT, id="no hit"),
        pytest.param(Cut(least=0.3), [0.9, 0.1], 0.3, id="by its own confidence"),
        pytest.param(Cut(precision=0.9), [0.98, 0.95, 0.8, 0.1], 0.8, id="nine in ten are right: 2.73 of 3"),
        pytest.param(Cut(precision=0.9), [0.1, 0.98, 0.8, 0.95], 0.8, id="whatever their order"),
        pytest.param(Cut(precision=0.9), [0.5], NONE_SURE, id="none is sure enough"),
        pytest.param(Cut(false_alarms=1.0), [0.9, 0.6, 0.5, 0.4], 0.5, id="0.1 + 0.4 + 0.5 wrong"),
        pytest.param(Cut(false_alarms=0.0), [1.0, 0.99], 1.0, id="not one wrong"),
        pytest.param(Cut(false_alarms=1.0), [], NONE_SURE, id="nothing to keep"),
    ],
)
def test_a_cut_by_hand(cut: Cut, sure: list[float], least: float) -> None:
    assert cut_of(sure, cut) == pytest.approx(least)


def test_two_rules_at_once_are_refused() -> None:
    with pytest.raises(InputError, match="min_confidence and precision: give one of them"):
        Asked.of("red", {"min_confidence": 0.5, "precision": 0.9})
    assert not Asked.of("red", {}).cut.decides
    assert Asked.of("red", {"false_alarms": 1}).cut == Cut(false_alarms=1.0, decides=True)


def test_what_reads_fifty_percent_is_not_below_a_half() -> None:
    (sure,) = shown(np.array([0.4961], np.float32))
    kept, rejected = split([Hit("a.jpg", 0.1, sure), Hit("b.jpg", 0.2)], 0.5)
    assert ([hit.image_id for hit in kept], rejected, f"{100 * sure:.0f} %") == (["a.jpg", "b.jpg"], (), "50 %")


def test_a_count_by_hand() -> None:
    sure, counts = np.array([1.0, 0.5, 0.01], np.float32), np.array([1.0, 4.0, 1000.0], np.float32)
    found = about(sure, counts)
    assert found.about == pytest.approx(1.0 + 4 * 0.75 + 1000 * 0.255)
    assert 0.0 <= found.low < found.about / 2 < 2 * found.about < found.high <= 1005
    assert about(sure, counts, there=0.5).about == pytest.approx(found.about / 2)
    nothing = about(np.array([0.049, 0.04], np.float32), np.array([1.0, 1000.0], np.float32))
    assert (nothing.about, str(nothing)) == (0.0, "No image is likely to match")
    assert str(Expected(1.2, 0.4, 2.1)) == "About 1 image matches (0 to 3)"


def test_a_count_is_no_less_than_the_sure_hits_say_and_hits_count_where_nothing_else_does() -> None:
    few = Expected(0.3, 0.0, 1.0)
    assert at_least(few, [0.9, 0.8, 0.2]).about == pytest.approx(1.7)
    assert at_least(few, [0.9, 0.8, 0.2]).high >= 1.7
    assert at_least(few, [0.2, 0.1]) is few
    assert at_least(None, [0.5, 0.25]).about == pytest.approx(0.5 + 0.375)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> wherein.Collection:
    """Some photographs of the demonstration, by mini."""
    collection = wherein.open(tmp_path_factory.mktemp("photos"), create=True)
    collection.add(*sorted(PHOTOS.glob("*.jpg")), layers=["global", "cells", "patches"])
    return collection


def test_what_a_newcomer_sees_first_is_answered_with_a_sure_hit(photos: wherein.Collection) -> None:
    for example in examples(PHOTOS):
        if example.query.parts[0].text is not None:
            first = photos.search(example.query)[0]
            assert first.image_id.endswith(example.expected)
            assert (first.confidence or 0.0) >= 0.5, example


def test_a_photo_of_a_thing_is_as_sure_as_the_thing(photos: wherein.Collection) -> None:
    for framed, bare in (("a photo of a cat", "cat"), ("a picture of a horse", "horse")):
        sure = [{hit.image_id: hit.confidence for hit in photos.search(text)} for text in (framed, bare)]
        assert sure[0] == pytest.approx(sure[1], abs=0.011), framed
    assert (photos.search("a photo of a cat")[0].confidence or 0.0) >= 0.5


@pytest.mark.parametrize(
    ("method", "where"),
    [
        ("patches", None),
        ("patches", MIDDLE),
        ("static-36", None),
        ("static-36", MIDDLE),
        ("static-9+zoom", MIDDLE),
        ("whole+qe", None),
    ],
)
def test_what_no_whole_image_shows_is_not_found_in_a_place_that_happens_to_be_like_it(
    photos: wherein.Collection, method: str, where: Box | None
) -> None:
    asked = Query((Part(text="a violin", where=where),))
    found = photos.search(asked, method=method, k=24)
    assert 0.0 < max(hit.confidence or 0.0 for hit in found) < 0.5
    assert photos.search(asked, method=method, k=1)[0].confidence in {hit.confidence for hit in found}


@pytest.mark.parametrize(("method", "where"), [("patches", None), ("static-36", MIDDLE), ("whole+qe", None)])
def test_no_hit_of_a_text_is_surer_than_the_surest_whole_image_allows(
    photos: wherein.Collection, method: str, where: Box | None
) -> None:
    for text in ("a violin", "a tripod", "a rocket", "a horse at the gate"):
        asked = Asked.of(Query((Part(text=text, where=where),)), {"method": method, "k": 24})
        view, _, ranked, _ = photos._ranked(asked)
        evidence = Evidence(asked.query, asked.method, ranked, view, photos._encoder(photos.encoder))
        model, signs = shipped()[evidence.kind or ""], evidence.most_signs()
        assert model.most is not None
        assert signs is not None
        assert (evidence.odds() <= model.most.odds(signs)).all()
        whole = max(hit.confidence or 0.0 for hit in photos.search(text, k=24))
        assert np.round(1 / (1 + np.exp(-signs[:, 0])), 2) == pytest.approx(whole, abs=0.011)


def test_a_mark_moves_the_ranking_and_makes_no_hit_less_sure(photos: wherein.Collection) -> None:
    before = photos.search("a cup of coffee", k=24)
    after = photos.search(["a cup of coffee", *photos.marks(right=["horse.jpg"])], k=24)
    places = [[hit.image_id for hit in found].index("horse.jpg") for found in (after, before)]
    assert places[0] < places[1]
    assert {hit.image_id: hit.confidence for hit in after} == {hit.image_id: hit.confidence for hit in before}
    both = photos.search([wherein.Part(text="a cup of coffee"), wherein.Part(image=PHOTOS / "horse.jpg")], k=24)
    assert max(hit.confidence or 0.0 for hit in both) < 0.5, "an example beside words asks for what shows both"


@pytest.mark.parametrize("method", ["patches", "static-36", "whole+qe"])
def test_a_whole_image_that_a_filter_leaves_out_makes_no_place_surer(photos: wherein.Collection, method: str) -> None:
    others = [one for one in photos.image_ids() if one != "coffee.jpg"]
    assert photos.search("a cup of coffee", method=method)[0].image_id == "coffee.jpg"
    whole = photos.search("a cup of coffee", among=others)[0].confidence or 0.0
    inside = photos.search("a cup of coffee", method=method, among=others)[0].confidence or 0.0
    assert inside <= whole + 0.05


def test_an_example_is_looked_for_inside_whatever_whole_images_say(photos: wherein.Collection) -> None:
    face = Query((Part(image=PHOTOS / "cat.jpg", box=Box(0.2, 0.05, 0.9, 0.95)),))
    asked = Asked.of(face, {"method": "patches", "k": 24})
    view, _, ranked, _ = photos._ranked(asked)
    evidence = Evidence(face, asked.method, ranked, view, photos._encoder(photos.encoder))
    assert evidence.most_signs() is None


def test_a_decision_keeps_what_it_shows_and_rejects_the_rest_before_paging(photos: wherein.Collection) -> None:
    every = photos.search("a horse", k=24)
    assert not every.decided
    assert len(every) == len(list(PHOTOS.glob("*.jpg")))
    for options in ({"decide": True}, {"min_confidence": 0.2}, {"precision": 0.6}, {"false_alarms": 2}):
        made = photos.search("a horse", k=24, **options)
        assert made.decided
        assert all((hit.confidence or 0.0) >= made.cut for hit in made)
        assert all((hit.confidence or 0.0) < made.cut for hit in made.rejected)
        known = {hit.image_id: hit.confidence for hit in every}
        assert {hit.image_id: hit.confidence for hit in (*made, *made.rejected)} == known
    assert every.expected is not None
    assert len(photos.search("a horse", all=True)) == max(1, round(every.expected.about))
    assert replace(every, cut=0.0).weaker == ()


def test_where_no_hit_is_likely_none_is_expected(photos: wherein.Collection) -> None:
    found = photos.search("a bottle", k=24)
    assert 0.0 < max(hit.confidence or 0.0 for hit in found) < COUNTED_FROM
    assert found.expected == Expected(0.0, 0.0, 0.0)


def test_the_command_says_no_match_and_exits_with_one_where_it_must_decide(photos: wherein.Collection) -> None:
    run, asked = CliRunner(), ["search", "a tax return form", "-c", str(Path(photos.folder))]
    plain = run.invoke(app, asked)
    assert (plain.exit_code, plain.stdout) == (0, "")
    assert "no match; nearest is " in plain.stderr
    assert "weaker hits; --weaker shows them." in plain.stderr
    assert run.invoke(app, [*asked, "--decide"]).exit_code == 1
    weaker = run.invoke(app, [*asked, "--weaker"])
    assert "cosine" not in weaker.stdout
    assert "cosine" in run.invoke(app, [*asked, "--weaker", "--scores"]).stdout
    assert "sure" in weaker.stdout


def test_an_empty_and_a_one_image_collection_have_sensible_answers(tmp_path: Path) -> None:
    with wherein.open(tmp_path, create=True) as collection:
        assert collection.search("a dog", decide=True).hits == ()
        collection.add(min(PHOTOS.glob("*.jpg")), layers=["global"])
        (only,) = collection.search("a dog")
        assert only.confidence is not None
        assert collection.search("a dog").expected is not None


@pytest.mark.parametrize(
    ("k", "decide", "kept", "rejected"),
    [
        pytest.param(3, False, "0 1 4", "", id="the fifth hit is sure: it takes the third place"),
        pytest.param(3, True, "4", "0 1", id="a decision keeps it alone"),
        pytest.param(1, True, "4", "", id="one hit was wanted"),
        pytest.param(6, True, "4", "0 1 2 3 5", id="it is among those wanted anyway"),
    ],
)
def test_a_sure_hit_beyond_the_wanted_ones_is_no_missing_match(k: int, decide: bool, kept: str, rejected: str) -> None:
    every = [Hit(str(place), 1.0 - place / 10, sure) for place, sure in enumerate([0.4, 0.1, 0.2, 0.3, 0.51, 0.05])]

    def search(asked: Asked) -> Ranking:
        strong, weak = split(every[: asked.k], asked.cut.least if asked.cut.decides else None)
        known = Ranking(strong, query="red", encoder="toy", method="whole", score_kind="cosine", searched=6)
        return replace(known, rejected=weak, cut=asked.cut.least, decided=asked.cut.decides)

    asked = Asked.of("red", {"k": k, "decide": decide})
    found = search(asked)
    deeper = further(found, asked)
    found = found if deeper is None else with_sure(found, search(deeper), asked)
    assert [hit.image_id for hit in found] == kept.split()
    assert [hit.image_id for hit in found.rejected] == rejected.split()


def test_copies_of_an_image_are_as_sure_as_it_is_alone(photos: wherein.Collection, tmp_path: Path) -> None:
    for copy in range(3):
        for photo in sorted(PHOTOS.glob("*.jpg")):
            (tmp_path / f"{photo.stem}-{copy}.jpg").write_bytes(photo.read_bytes())
    with wherein.open(tmp_path, create=True) as copied:
        copied.add(tmp_path, layers=["global"])
        for words in ("a horse", "a brown horse stands in a green field"):
            alone, found = photos.search(words, k=1), copied.search(words, k=3)
            assert {hit.image_id.rsplit("-", 1)[0] for hit in found} == {alone[0].image_id.removesuffix(".jpg")}
            assert len({hit.confidence for hit in found}) == 1
            assert round(abs((found[0].confidence or 0.0) - (alone[0].confidence or 0.0)), 2) <= 0.1, words

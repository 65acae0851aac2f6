"""Ranking: scores that can be worked out by hand, sums of parts, negatives, regions."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein import Box, Part, Query
from wherein.errors import InputError, QueryError

Paint = Callable[..., Path]
Picture = Callable[..., PIL.Image.Image]
HALF, THIRD = 0.5**0.5, (1 / 3) ** 0.5


@pytest.fixture
def filled(collection: wherein.Collection, folder: Path) -> wherein.Collection:
    """red.png, blue.png, holiday/half.png (red, blue) and holiday/third.png (red, blue, green)."""
    collection.add(folder)
    return collection


def scored(hits: Sequence[wherein.Hit]) -> list[tuple[str, float]]:
    return [(hit.image_id, round(hit.score, 2)) for hit in hits]


def names(hits: Sequence[wherein.Hit]) -> list[str]:
    return [hit.image_id for hit in hits]


def test_one_text_scores_its_cosine(filled: wherein.Collection) -> None:
    ranking = filled.search("red")
    assert [hit.image_id for hit in ranking] == ["red.png", "holiday/half.png", "holiday/third.png", "blue.png"]
    assert [hit.score for hit in ranking] == pytest.approx([1.0, HALF, THIRD, 0.0], abs=2e-2)
    assert (ranking.score_kind, ranking.searched, ranking.encoder, ranking.method) == ("cosine", 4, "toy", "whole")
    assert ranking.query == "red"
    assert [hit.confidence for hit in ranking] == [None] * 4


def test_ties_are_broken_by_the_id(filled: wherein.Collection) -> None:
    assert names(filled.search("purple")) == ["blue.png", "holiday/half.png", "holiday/third.png", "red.png"]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 100])
def test_k_cuts_and_changes_nothing_else(filled: wherein.Collection, k: int) -> None:
    assert scored(filled.search("red", k=k)) == scored(filled.search("red"))[:k]


@pytest.mark.parametrize("k", [0, -1])
def test_fewer_than_one_hit_is_refused(filled: wherein.Collection, k: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        filled.search("red", k=k)


@pytest.mark.parametrize("method", ["whole", "whole~max"])
def test_every_image_finds_itself_first(filled: wherein.Collection, folder: Path, method: str) -> None:
    for image_id in filled.image_ids():
        hit = filled.search(folder / image_id, method=method)[0]
        assert hit.image_id == image_id
        assert hit.score == pytest.approx(1.0, abs=1e-3)


def test_every_jpeg_finds_itself_first_although_it_is_decoded_small(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    for number in range(12):
        cells = random.integers(0, 256, (6, 9, 3), np.uint8)
        picture = PIL.Image.fromarray(cells).resize((1500, 1000), PIL.Image.Resampling.BICUBIC)
        picture.save(tmp_path / f"{number}.jpg", quality=70)
    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        collection.add(tmp_path)
        for image_id in collection.image_ids():
            hit = collection.search(tmp_path / image_id)[0]
            assert hit.image_id == image_id
            assert hit.score == pytest.approx(1.0, abs=1e-3)


def test_every_kind_of_example_gives_the_same_answer(filled: wherein.Collection, folder: Path) -> None:
    path = folder / "holiday" / "half.png"
    opened = PIL.Image.open(path)
    examples: list[object] = [path, path.read_bytes(), opened, np.asarray(opened)]
    answers = [scored(filled.search(example)) for example in examples]  # type: ignore[arg-type]
    assert answers[0][0][0] == "holiday/half.png"
    assert all(answer == answers[0] for answer in answers)


def test_a_region_of_an_example_is_what_is_looked_for(filled: wherein.Collection, folder: Path) -> None:
    right = Part(image=folder / "holiday" / "half.png", box=Box(0.5, 0, 1, 1))
    assert scored(filled.search(right)) == scored(filled.search("blue"))


def test_texts_are_averaged_as_unit_vectors(filled: wherein.Collection) -> None:
    hits = filled.search(["red", "blue"])
    assert scored(hits) == scored(filled.search("red and blue"))
    assert names(hits)[0] == "holiday/half.png"


def test_weights_pull_the_mean(filled: wherein.Collection) -> None:
    assert names(filled.search(["red^9", "blue"]))[0] == "red.png"
    assert names(filled.search(["red", "blue^9"]))[0] == "blue.png"


def test_max_takes_the_best_example_instead_of_the_mean(filled: wherein.Collection) -> None:
    assert set(names(filled.search(["red", "blue"], method="whole~max"))[:2]) == {"red.png", "blue.png"}


def test_negatives_push_down(filled: wherein.Collection) -> None:
    query = Query((Part(text="red"), Part(text="blue", negative=True)))
    ranking = filled.search(query)
    assert names(ranking)[0] == "red.png"
    assert names(ranking)[-1] == "blue.png"
    assert ranking.score_kind == "standardised"


def test_text_and_image_are_summed_as_standardised_scores(filled: wherein.Collection, folder: Path) -> None:
    ranking = filled.search(["red", folder / "blue.png"])
    assert ranking.score_kind == "standardised"
    red = np.array([hit.score for hit in sorted(filled.search("red"), key=lambda hit: hit.image_id)])
    blue = np.array([hit.score for hit in sorted(filled.search(folder / "blue.png"), key=lambda hit: hit.image_id)])
    expected = (red - red.mean()) / red.std() + (blue - blue.mean()) / blue.std()
    found = [hit.score for hit in sorted(ranking, key=lambda hit: hit.image_id)]
    assert found == pytest.approx(expected.tolist(), abs=1e-3)


def test_a_part_that_tells_nothing_apart_counts_nothing(filled: wherein.Collection, picture: Picture) -> None:
    assert names(filled.search(["red", picture("purple")])) == names(filled.search("red"))


def test_patches_find_small_things_and_say_where(tmp_path: Path, picture: Picture) -> None:
    pixels = np.array(picture("white", size_wh=(64, 64)))
    pixels[16:32, 48:64] = (255, 0, 0)
    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        collection.add(("speck", pixels), ("half", picture("red", "blue")), ("none", picture("green")))
        hits = collection.search("red", method="patches", k=2)
    # Both show red somewhere, so the whole image decides between them.
    assert scored(hits) == [("half", 3.36), ("speck", 0.24)]
    assert hits.score_kind == "standardised"
    assert hits[1].box == Box(0.75, 0.25, 1.0, 0.5)


def test_the_tile_of_a_panorama_that_matched_is_in_the_hit(tmp_path: Path, picture: Picture) -> None:
    wide = picture("red", "green", "blue", size_wh=(900, 300))
    with wherein.open(tmp_path, create=True, encoder="toy") as collection:
        collection.add(("wide", wide), ("plain", picture("green")))
        hits = collection.search("green")
        assert scored(hits) == [("plain", 1.0), ("wide", 1.0)]
        assert hits[0].box is None
        assert hits[1].box is not None
        assert hits[1].box.xyxy == pytest.approx((1 / 3, 0, 2 / 3, 1), abs=1e-5)
        (patch,) = collection.search("blue", method="patches", k=1)
        assert patch.box is not None
        assert patch.box.x1 >= 2 / 3 - 1e-5


def test_an_encoder_without_text_says_to_search_with_an_image(
    filled: wherein.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherein.encoders.toy.ToyEncoder.embeds_text", False)
    with pytest.raises(QueryError, match="give an example image"):
        filled.search("red")


def test_a_ranking_is_a_sequence_of_hits(filled: wherein.Collection) -> None:
    ranking = filled.search("red")
    iterated: Iterator[wherein.Hit] = iter(ranking)
    assert next(iterated) == ranking[0]
    assert len(ranking[1:3]) == 2
    assert ranking[-1].image_id == "blue.png"


@pytest.mark.parametrize(("method", "nearer"), [("toy", "blue.png"), ("toy+whole~gaussian", "red.png")])
def test_gaussian_pooling_lets_the_middle_of_an_example_count_most(
    filled: wherein.Collection, method: str, nearer: str
) -> None:
    example = PIL.Image.new("RGB", (64, 64), "blue")
    example.paste("red", (16, 16, 48, 48))
    ranked = [name for name in names(filled.search(example, method=method)) if name in ("blue.png", "red.png")]
    assert ranked[0] == nearer

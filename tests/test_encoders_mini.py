"""The embedded encoder: what the demonstration promises, and hubs that are levelled without disturbing the rest."""

from __future__ import annotations

import numpy as np
import pytest

import wherein
from wherein.arrays import Floats, unit
from wherein.demo import PHOTOS, examples
from wherein.encoders import load
from wherein.encoders.hubs import CAPTIONS, MOST_GAINED, NAMES, STRENGTH, Hubs, kinds_of
from wherein.encoders.mini import WEIGHTS
from wherein.images.image import decode


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> wherein.Collection:
    collection = wherein.open(tmp_path_factory.mktemp("demo"), create=True, encoder="mini")
    collection.add(PHOTOS)
    return collection


@pytest.mark.parametrize("example", examples(PHOTOS), ids=lambda example: f"{example.caption}: {example.expected}")
def test_the_demonstration_finds_what_it_promises(photos: wherein.Collection, example: object) -> None:
    query, expected = example.query, example.expected  # type: ignore[attr-defined]
    assert photos.search(query)[0].image_id == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("cat", "cat.jpg"), ("a horse", "horse.jpg"), ("an astronaut in an orange suit", "astronaut.jpg")],
)
def test_a_bare_noun_works_as_well_as_a_sentence(photos: wherein.Collection, text: str, expected: str) -> None:
    assert photos.search(text)[0].image_id == expected


@pytest.fixture
def hubs() -> Hubs:
    """Texts live in the first four of seven dimensions; the banks are one and two of them."""
    axes = np.eye(7, dtype=np.float32)
    return Hubs(banks=(axes[:2], axes[2:3]), u=axes[4:6], v=axes[6], mean=np.zeros(2, np.float32))


def some(rng: np.random.Generator, count: int) -> Floats:
    rows = np.zeros((count, 7), np.float32)
    rows[:, :4] = rng.standard_normal((count, 4))
    return unit(rows)


@pytest.mark.parametrize("kind", [CAPTIONS, NAMES])
def test_levelled_scores_are_the_plain_ones_less_the_head_start_among_texts_of_their_kind(
    hubs: Hubs, kind: int
) -> None:
    rng = np.random.default_rng(0)
    images, texts = 0.1 * some(rng, 5) + 0.98 * np.eye(7, dtype=np.float32)[3], some(rng, 7)
    images = unit(images)
    levelled = hubs.level_texts(texts, [kind] * 7) @ hubs.level_images(images).T
    plain = texts @ images.T - STRENGTH * np.maximum(hubs.head_starts(images)[:, kind], -MOST_GAINED)
    assert np.allclose(levelled, 0.98 / np.sqrt(2) * plain, atol=1e-5)


def test_a_name_is_short_and_a_sentence_is_not() -> None:
    assert kinds_of(["okapi", "a red fire truck", "fire hydrant", "a dog"]) == [NAMES, CAPTIONS, NAMES, NAMES]
    assert kinds_of(["a photo of an okapi", "a photo of an okapi in the rain"]) == [NAMES, CAPTIONS]


def test_levelled_vectors_keep_unit_norm(hubs: Hubs) -> None:
    rng = np.random.default_rng(1)
    for rows in (hubs.level_images(some(rng, 50)), hubs.level_texts(some(rng, 50), [CAPTIONS, NAMES] * 25)):
        assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_the_shipped_directions_are_used_by_no_text_and_no_patch() -> None:
    encoder = load("mini")
    stored = Hubs.read(WEIGHTS / "hubs.npz")
    photo = encoder.prepare(decode(PHOTOS / "cat.jpg"))
    patches = encoder.images(photo[None]).patches
    assert patches is not None
    used = np.concatenate([stored.u, stored.v[None]])
    assert np.abs(patches @ used.T).max() < 1e-5
    assert 0.99 < np.linalg.norm(patches, axis=-1).max() < 1.001
    texts = encoder.texts(["a dog on the beach", "okapi", "two people in a red boat", "xyzzy"])
    half = 1 / np.sqrt(2)
    sentence, name = [half, 0.0, 0.0], [0.0, half, 0.0]
    assert np.allclose(texts @ used.T, [sentence, name, sentence, name], atol=1e-3)


def test_a_text_is_the_same_alone_and_among_longer_ones() -> None:
    encoder = load("mini")
    texts = ["okapi", "a dog on the beach", "two people in a red boat on a lake below snowy mountains at sunset"]
    alone = np.concatenate([encoder.texts([text]) for text in texts])
    assert (alone * encoder.texts(texts)).sum(axis=1) == pytest.approx(1.0, abs=1e-5)

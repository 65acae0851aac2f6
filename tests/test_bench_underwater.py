"""Known items with a sloppy box: every method and level shares its draws."""

import json
from pathlib import Path

import PIL.Image
import pytest

from wherein import Box
from wherein.bench.registry import load_task
from wherein.bench.task import Variant
from wherein.errors import SpecError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    lines = []
    for number in range(3):
        PIL.Image.new("RGB", (8, 8)).save(tmp_path / "images" / f"{number}.png")
        boxes = [{"label": "fish", "box": [0.25, 0.25, 0.5, 0.5]}, {"label": "fish", "box": [0.0, 0.0, 0.1, 0.1]}]
        lines.append(json.dumps({"image": f"images/{number}.png", "boxes": boxes}))
    (tmp_path / "boxes.jsonl").write_text("\n".join(lines))
    return tmp_path


def places(data: Path, **options: object) -> list[Box | None]:
    task = load_task("underwater", data, Variant(**options))  # type: ignore[arg-type]
    return [question.query.parts[0].where for question in task.questions()]


def test_without_perturbation_the_place_is_the_largest_box(data: Path) -> None:
    assert places(data) == [Box(0.25, 0.25, 0.5, 0.5)] * 3
    assert places(data, perturb=(0.0, 0.0), draw=4) == places(data)


def test_a_draw_is_the_same_every_time_and_another_one_differs(data: Path) -> None:
    once, again = (places(data, perturb=(0.1, 0.1), draw=0) for _ in range(2))
    assert once == again != places(data, perturb=(0.1, 0.1), draw=1)
    assert len(set(map(str, once))) == 3


def test_boxes_stay_in_the_frame(data: Path) -> None:
    for draw in range(20):
        for box in places(data, perturb=(0.5, 0.5), draw=draw):
            assert box is not None
            assert 0.0 <= box.x1 < box.x2 <= 1.0


def test_an_option_it_does_not_have_is_refused(data: Path) -> None:
    with pytest.raises(SpecError, match="--perturb"):
        places(data, split="val")

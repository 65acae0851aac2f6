"""What people call images: ids, paths of files and films."""

from collections.abc import Callable
from pathlib import Path

import pytest

import wherein
from wherein.errors import ImageNotFound

Paint = Callable[..., Path]


@pytest.fixture
def filled(
    collection: wherein.Collection, folder: Path, film: Callable[..., Path], tmp_path: Path
) -> wherein.Collection:
    """The four pictures, and a film in a root of its own."""
    (tmp_path / "films").mkdir()
    film(tmp_path / "films" / "clip.mp4", ["yellow", "green"])
    collection.add(folder, tmp_path / "films")
    return collection


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("red.png", ["red.png"], id="an id"),
        pytest.param("pictures/holiday/../red.png", ["red.png"], id="a path from here"),
        pytest.param("films/clip.mp4#t=2", ["films/clip.mp4#t=2"], id="a keyframe"),
        pytest.param("films/clip.mp4", ["films/clip.mp4#t=0", "films/clip.mp4#t=2"], id="a film"),
    ],
)
def test_a_name_means_its_images(
    filled: wherein.Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, expected: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert filled.resolve(name) == expected
    monkeypatch.chdir("/")
    assert filled.resolve(tmp_path / name if "pictures" in name else name) == expected


@pytest.mark.parametrize("name", ["", "nothing.png", "~nobody/x.png", "films"])
def test_a_name_that_means_none_is_told(filled: wherein.Collection, name: str) -> None:
    with pytest.raises(ImageNotFound, match="no image of that id or path"):
        filled.resolve(name)

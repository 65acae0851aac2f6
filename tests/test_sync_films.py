"""Keeping up with folders: films, one image a keyframe."""

from collections.abc import Callable
from pathlib import Path

import wherein
from wherein.indexing.sync import AddReport

Film = Callable[..., Path]
Did = Callable[[AddReport], dict[str, int]]
Forbid = Callable[[], None]


def test_a_film_is_one_image_a_keyframe(collection: wherein.Collection, folder: Path, film: Film, did: Did) -> None:
    film(folder / "clip.mp4", ["yellow", "green"])
    assert did(collection.add(folder)) == {"added": 6}
    hit = collection.search("green")[0]
    assert (hit.image_id, hit.seconds, hit.path) == ("clip.mp4#t=2", 2.0, folder / "clip.mp4")
    assert did(collection.add(folder)) == {"unchanged": 5}


def test_a_renamed_film_takes_its_keyframes_along(
    collection: wherein.Collection, folder: Path, film: Film, did: Did, encoding_is_forbidden: Forbid
) -> None:
    film(folder / "clip.mp4", ["yellow", "green"])
    collection.add(folder)
    collection.tag("mine", ["clip.mp4#t=2"])
    encoding_is_forbidden()
    (folder / "clip.mp4").rename(folder / "film.mp4")
    assert did(collection.add(folder)) == {"renamed": 2, "unchanged": 4}
    assert collection.image_ids(tags=["mine"]) == ["film.mp4#t=2"]


def test_a_changed_film_forgets_the_keyframes_it_lost(
    collection: wherein.Collection, folder: Path, film: Film, did: Did
) -> None:
    film(folder / "clip.mp4", ["yellow", "green", "white"])
    collection.add(folder)
    film(folder / "clip.mp4", ["green"])
    assert did(collection.add(folder)) == {"changed": 1, "unchanged": 4}
    assert [name for name in collection.image_ids() if "clip" in name] == ["clip.mp4#t=0"]
    assert collection.search("green")[0].image_id == "clip.mp4#t=0"


def test_a_film_torn_in_the_middle_is_skipped_whole(
    collection: wherein.Collection, folder: Path, film: Film, did: Did, folder_ids: list[str]
) -> None:
    path = film(folder / "clip.avi", ["yellow", "green"])
    path.write_bytes(path.read_bytes()[:300])
    assert did(collection.add(folder)) == {"added": 4, "skipped": 1}
    assert collection.image_ids() == folder_ids

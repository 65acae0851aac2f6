"""Keeping up with folders: films, one image a keyframe."""

from collections.abc import Callable
from pathlib import Path

import wherein
from wherein.values.records import AddReport

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


def times(collection: wherein.Collection) -> list[float]:
    return sorted(float(name.partition("#t=")[2]) for name in collection.image_ids() if "#t=" in name)


def test_how_often_is_remembered_and_another_choice_reads_films_again(
    collection: wherein.Collection, folder: Path, film: Film, did: Did
) -> None:
    film(folder / "clip.mp4", ["yellow"] * 5, keys=1000)
    film(folder / "again.mp4", ["yellow"] * 5, keys=1000)  # of the same bytes
    collection.add(folder, every="4s")
    assert times(collection) == sorted([0.0, 4.0, 8.0] * 2)
    collection.tag("mine", ["clip.mp4#t=8"])
    assert did(collection.add(folder)) == {"unchanged": 6}
    collection.add(folder, every=2)
    assert times(collection) == sorted([0.0, 2.0, 4.0, 6.0, 8.0] * 2)
    assert collection.image_ids(tags=["mine"]) == ["clip.mp4#t=8"]
    assert did(collection.add()) == {"unchanged": 6}
    collection.add(every=8)
    assert times(collection) == sorted([0.0, 8.0] * 2)
    assert len(collection.search("yellow", k=99, frames=True)) == 8


def test_every_door_takes_how_often(
    collection: wherein.Collection, folder: Path, film: Film, serve: Callable[..., str]
) -> None:
    from typer.testing import CliRunner

    from wherein.cli import app

    film(folder / "clip.mp4", ["yellow"] * 5, keys=1000)
    assert CliRunner().invoke(app, ["index", str(folder), "--every", "3s"]).exit_code == 0
    assert times(collection) == [0.0, 3.0, 6.0, 9.0]
    wherein.connect(serve(folder)).add(folder, every="4s")
    assert times(collection) == [0.0, 4.0, 8.0]
    refused = CliRunner().invoke(app, ["index", str(folder), "--every", "soon"])
    assert isinstance(refused.exception, wherein.InputError) or refused.exit_code == 2
    assert times(collection) == [0.0, 4.0, 8.0]


def test_a_clip_is_one_hit_in_every_door(
    collection: wherein.Collection, folder: Path, film: Film, serve: Callable[..., str]
) -> None:
    import json

    from typer.testing import CliRunner

    from wherein.cli import app

    film(folder / "clip.mp4", ["green", "yellow", "green", "white", "green"])
    film(folder / "other.mp4", ["white"])
    collection.add(folder)
    remote = wherein.connect(serve(folder))
    for door in (collection, remote):
        hits = door.search("green", k=2)
        assert [hit.image_id.partition("#")[0] for hit in hits] == ["clip.mp4", "holiday/third.png"]
        assert {hits[0].image_id, *hits[0].others} == {"clip.mp4#t=0", "clip.mp4#t=4", "clip.mp4#t=8"}
        assert hits[1].others == ()
        apart = door.search("green", k=3, frames=True)
        assert {hit.image_id for hit in apart} == {"clip.mp4#t=0", "clip.mp4#t=4", "clip.mp4#t=8"}
        assert len(door.search("green", k=99)) == 6  # four pictures and two clips
        inside = door.search("green", among=["clip.mp4#t=2", "clip.mp4#t=6", "red.png"])
        assert len(inside) == 2
    said = CliRunner().invoke(app, ["search", "green", "-k", "2", "-c", str(folder)]).stdout
    assert "(+2 of this clip)" in " ".join(said.split())
    words = ["search", "green", "-k", "2", "-c", str(folder), "--json"]
    found = json.loads(CliRunner().invoke(app, words).stdout)["hits"]
    assert len(found[0]["others"]) == 2
    found = json.loads(CliRunner().invoke(app, [*words, "--frames"]).stdout)["hits"]
    assert [hit["others"] for hit in found] == [[], []]

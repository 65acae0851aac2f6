"""A collection on disk and one behind HTTP: the same calls, the same answers, the same errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein import Judgement, Query
from wherein.errors import ImageNotFound, InputError, QueryError, SpecError
from wherein.values.records import Progress

Either = wherein.Collection | wherein.RemoteCollection
Paint = Callable[..., Path]


@pytest.fixture(params=["local", "remote"])
def either(
    request: pytest.FixtureRequest,
    collection: wherein.Collection,
    folder: Path,
    paint: Paint,
    serve: Callable[..., str],
) -> Either:
    """Thirty pictures: red.png, blue.png, two of a holiday, and 26 of green and white."""
    for number in range(26):
        paint(folder / "many" / f"{number:02}.png", *(["green"] * (number + 1)), *(["white"] * (27 - number)))
    collection.add(folder)
    return collection if request.param == "local" else wherein.connect(serve(folder))


def ids(ranking: wherein.Ranking) -> list[str]:
    return [hit.image_id for hit in ranking]


def test_searching(either: Either) -> None:
    assert len(either) == 30
    assert either.encoder == "toy"
    found = either.search("red", k=2)
    assert ids(found) == ["red.png", "holiday/half.png"]
    assert (found.searched, found.method, found.score_kind) == (30, "whole", "cosine")
    assert ids(either.search("red", folder="holiday", k=1)) == ["holiday/half.png"]
    assert ids(either.search("red", among=["blue.png"])) == ["blue.png"]
    assert len(either.search("red", min_side=65)) == 0


def test_outlines_come_with_locate(either: Either) -> None:
    hit = either.search("red", among=["holiday/half.png"], locate=True)[0]
    assert hit.mask is not None
    left, right = np.array_split(hit.mask, 2, axis=1)
    assert left.mean() > 0.9
    assert right.mean() < 0.1


def test_tags(either: Either) -> None:
    either.tag("warm", ["red.png"])
    assert either.image_ids(tags=["warm"]) == ["red.png"]
    assert either.details("red.png").tags == ("warm",)
    assert either.info().tags == {"warm": 1}
    either.untag("warm", ["red.png"])
    assert either.image_ids(tags=["warm"]) == []


def test_images_are_added_forgotten_and_their_space_freed(either: Either, folder: Path, paint: Paint) -> None:
    seen = list[Progress]()
    paint(folder / "new" / "purple.png", "purple")
    (folder / "new" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    report = either.add(folder / "new", on_progress=seen.append)
    assert (report.added, [Path(skip.path).name for skip in report.skipped]) == (1, ["broken.png"])
    assert seen[-1].done == seen[-1].total == 2
    assert ids(either.search("purple", k=1)) == ["new/purple.png"]
    assert either.remove("new/purple.png") == 1
    assert "new/purple.png" not in either.image_ids()
    assert either.info().tombstones == 1
    assert either.compact() > 0
    assert either.info().tombstones == 0
    (folder / "red.png").unlink()
    assert either.add().removed == 1


def test_what_it_holds_and_whether_it_is_intact(either: Either, folder: Path) -> None:
    info = either.info()
    shown = Path() if isinstance(either, wherein.RemoteCollection) else folder.parent  # a server tells names only
    assert (info.folder, info.images, info.encoder) == (shown / "pictures" / ".wherein", 30, "toy")
    assert {layer.kind for layer in info.layers} >= {"global", "patches"}
    assert info.bytes_per_image > 0
    assert either.check().broken == ()
    shard = next((folder / ".wherein" / "shards").rglob("*.npy"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    report = either.check(repair=False)
    assert (report.broken, report.images_to_read_again) == ((shown / shard.relative_to(folder.parent),), 0)


def test_confidence_follows_what_is_judged(either: Either) -> None:
    assert either.search("green", k=1)[0].confidence is None
    unsure = either.search("green", k=3, min_confidence=0.5)
    assert (len(unsure), "have no confidence here" in unsure.notes[-1]) == (3, True)
    right = frozenset(f"many/{number:02}.png" for number in range(15, 26))
    (made,) = either.calibrate([Judgement(Query.of("green"), right)])
    assert (made.right, made.wrong, made.curve) == (11, 9, None)
    (made,) = either.calibrate([Judgement(Query.of("blue"), frozenset({"blue.png"}))])
    assert (made.right, made.wrong) == (12, 28)
    assert made.curve is not None
    found = either.search("green", k=30, min_confidence=0.5)
    assert right <= set(ids(found))
    assert len(found.rejected) > 0
    every = either.search("green", k=30)
    assert ids(every) == [*ids(found), *(hit.image_id for hit in found.rejected)]
    sure = [hit.confidence or 0.0 for hit in every]
    assert sure == sorted(sure, reverse=True)
    assert len(either.search("red", among=["blue.png"], min_confidence=0.9)) == 0
    assert either.uncalibrate(made.step) == "20 judgements taken back."
    assert either.search("green", k=1)[0].confidence is None
    assert either.uncalibrate(reset=True).startswith("20 judgements forgotten")
    with pytest.raises(InputError, match="nothing is judged"):
        either.uncalibrate()


def test_examples_are_calibrated_apart_from_texts(either: Either, folder: Path) -> None:
    (made,) = either.calibrate([Judgement(Query.of(folder / "red.png"), frozenset({"red.png"}))])
    assert made.source.endswith("image")
    (made,) = either.calibrate([Judgement(Query.of(PIL.Image.new("RGB", (9, 9), "red")), frozenset({"red.png"}))])
    assert (made.right, made.wrong) == (2, 38)


ERRORS: list[tuple[Callable[[Any], object], type[Exception]]] = [
    (lambda either: either.details("none.png"), ImageNotFound),
    (lambda either: either.remove("none.png"), ImageNotFound),
    (lambda either: either.search("red", method="nothing"), SpecError),
    (lambda either: either.search([wherein.Part(text="a", negative=True)]), QueryError),
    (lambda either: either.search("red", k=0), InputError),
    (lambda either: either.search("red", min_confidence=1.5), InputError),
    (lambda either: either.calibrate([Judgement(Query.of("red"), frozenset({"none"}), frozenset())]), ImageNotFound),
    (lambda either: either.add("/nowhere/at/all"), InputError),
]


@pytest.mark.parametrize(("act", "error"), ERRORS)
def test_errors(either: Either, act: Callable[[Any], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        act(either)


def test_hits_are_located_afterwards_as_in_the_search(either: Either) -> None:
    searched = either.search("red", k=8, locate=True)
    assert any(hit.mask is not None for hit in searched)
    plain = either.search("red", k=8)
    after = list(either.locate_hits("red", plain))
    assert [(hit.image_id, hit.box, hit.confidence) for hit in after] == [
        (hit.image_id, hit.box, hit.confidence) for hit in searched
    ]
    for one, two in zip(after, searched, strict=True):
        assert (one.mask is None) == (two.mask is None)
        assert one.mask is None or two.mask is None or (one.mask == two.mask).all()


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_a_ranking_says_that_nothing_is_indexed(remote: bool, folder: Path, serve: Callable[..., str]) -> None:
    with wherein.open(folder, create=True, encoder="toy") as empty:
        asked = wherein.connect(serve(folder)) if remote else empty
        found = asked.search("red")
        assert (len(found), found.nothing_indexed, found.label) == (0, True, "red")


def test_points_that_are_seen_again(either: Either, folder: Path, cover: Callable[..., Any]) -> None:
    PIL.Image.fromarray(cover(1)).save(folder / "cover.png")
    PIL.Image.fromarray(cover(2)).save(folder / "other.png")
    either.add(folder)
    example = PIL.Image.fromarray(cover(1)[40:280, 30:210])
    found = either.matches(example, "cover.png")
    assert found.inliers > 20
    x1, y1, x2, y2 = found.lines[0]
    assert (x2, y2) == pytest.approx(((30 + x1 * 180) / 240, (40 + y1 * 240) / 320), abs=0.02)
    assert either.matches(example, "other.png").inliers < 8
    with pytest.raises(InputError):
        either.matches(example, "no such image.png")

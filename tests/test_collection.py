"""The facade: opening, filters, tags, removal, checking, compaction, information."""

import os
import shutil
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

import wherein
from wherein.errors import CollectionCorrupt, CollectionNotFound, InputError
from wherein.images.image import decode
from wherein.locations import nearest
from wherein.store.seals import Seal

Paint = Callable[..., Path]
Picture = Callable[..., PIL.Image.Image]


@pytest.fixture
def filled(collection: wherein.Collection, folder: Path) -> wherein.Collection:
    """red.png, blue.png, holiday/half.png (red, blue) and holiday/third.png (red, blue, green)."""
    collection.add(folder)
    return collection


def names(hits: wherein.Ranking) -> list[str]:
    return [hit.image_id for hit in hits]


# --- opening -------------------------------------------------------------------------------------------


def test_a_folder_without_a_collection_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(CollectionNotFound, match="wherein index"):
        wherein.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_it_opens_by_its_folder_and_by_the_folder_that_holds_it(filled: wherein.Collection, folder: Path) -> None:
    for path in (folder, folder / ".wherein", str(folder)):
        with wherein.open(path) as again:
            assert again.image_ids() == filled.image_ids()


def test_a_collection_may_lie_elsewhere(tmp_path: Path, folder: Path) -> None:
    with wherein.open(tmp_path / "elsewhere", create=True, encoder="toy") as collection:
        collection.add(folder)
        assert collection.search("red")[0].path == folder / "red.png"
    assert not (folder / ".wherein").exists()


def test_the_nearest_collection_is_found_from_below(filled: wherein.Collection, folder: Path, tmp_path: Path) -> None:
    assert nearest(folder / "holiday") == folder / ".wherein"
    assert nearest(folder) == folder / ".wherein"
    with pytest.raises(CollectionNotFound, match="name another collection"):
        nearest(tmp_path / "elsewhere")


def test_it_says_what_it_is(filled: wherein.Collection) -> None:
    assert len(filled) == 4
    assert filled.encoder == "toy"
    assert "4 images, encoder toy" in repr(filled)


# --- filters, tags, removal ----------------------------------------------------------------------------


def test_filters_apply_before_ranking_so_that_k_come_back(filled: wherein.Collection) -> None:
    ranking = filled.search("blue", k=2, folder="holiday")
    assert names(ranking) == ["holiday/half.png", "holiday/third.png"]
    assert ranking.searched == 2
    assert names(filled.search("blue", folder="nowhere")) == []


def test_dates_are_those_of_exif_or_of_the_file(collection: wherein.Collection, folder: Path, picture: Picture) -> None:
    for name, day in (("red.png", date(2020, 5, 1)), ("blue.png", date(2022, 5, 1))):
        noon = datetime.combine(day, time(12)).timestamp()
        os.utime(folder / name, (noon, noon))
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2019:01:02 03:04:05"
    picture("white").save(folder / "old.jpg", exif=exif)
    shutil.rmtree(folder / "holiday")
    collection.add(folder)
    assert collection.image_ids(before="2020-01-01") == ["old.jpg"]
    assert collection.image_ids(after="2020-05-01", before=date(2020, 5, 2)) == ["red.png"]
    assert names(collection.search("red", after=date(2022, 1, 1))) == ["blue.png"]
    with pytest.raises(InputError, match="is not a date"):
        collection.search("red", after="yesterday")


def test_tags_are_put_on_and_taken_off(filled: wherein.Collection) -> None:
    filled.tag("mine", ["red.png", "blue.png"])
    filled.tag("best", ["blue.png"])
    filled.tag("mine", ["red.png"])  # twice is once
    assert filled.info().tags == {"best": 1, "mine": 2}
    assert names(filled.search("red", tags=["mine"])) == ["red.png", "blue.png"]
    assert names(filled.search("red", tags=["mine", "best"])) == ["blue.png"]
    filled.untag("mine", ["red.png"])
    assert filled.image_ids(tags=["mine"]) == ["blue.png"]


def test_a_single_tag_or_image_may_be_given_as_it_is(filled: wherein.Collection) -> None:
    filled.tag("mine", "red.png")
    assert filled.image_ids(tags="mine") == ["red.png"]
    assert names(filled.search("blue", tags="mine")) == ["red.png"]
    assert names(filled.search("red", among="blue.png")) == ["blue.png"]


@pytest.mark.parametrize("wrong", [{"tag": ["mine"]}, {"top_k": 3}, {"min_confidance": 0.99}])
def test_an_option_that_does_not_exist_is_answered_with_those_that_do(
    filled: wherein.Collection, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=rf"{next(iter(wrong))}: no such option; known: after, all, among, .*tags"):
        filled.search("red", **wrong)
    with pytest.raises(
        InputError, match=rf"{next(iter(wrong))}: no such option; known: after, before, folder, min_side"
    ):
        filled.image_ids(**wrong)


@pytest.mark.parametrize("folder_", ["holiday", "holiday/", "./holiday/", "holiday/*", "red/../holiday"])
def test_a_folder_may_be_written_in_many_ways(filled: wherein.Collection, folder: Path, folder_: str) -> None:
    expected = ["holiday/half.png", "holiday/third.png"]
    assert filled.image_ids(folder=folder_) == expected
    assert filled.image_ids(folder=str(folder / folder_)) == expected
    assert filled.image_ids(folder=str(folder)) == filled.image_ids(folder=".") == filled.image_ids()


def test_a_tag_needs_a_name_and_an_image(filled: wherein.Collection) -> None:
    wrong: Any = ["red.png"]
    for tag in (" ", wrong):
        with pytest.raises(InputError, match=r"tag = .*: give its name as a text, and the image_ids after it"):
            filled.tag(tag, ["red.png"])
        with pytest.raises(InputError, match=r"tag = .*: give its name"):
            filled.untag(tag, ["red.png"])
    with pytest.raises(InputError, match=r"nothing\.png: no image of that id"):
        filled.tag("mine", ["red.png", "nothing.png"])
    assert filled.info().tags == {}


def test_removed_images_are_not_found_and_their_files_stay(filled: wherein.Collection, folder: Path) -> None:
    assert filled.remove("red.png", "holiday/half.png") == 2
    assert filled.image_ids() == ["blue.png", "holiday/third.png"]
    assert names(filled.search("red")) == ["holiday/third.png", "blue.png"]
    assert (folder / "red.png").is_file()
    with pytest.raises(InputError, match="no image of that id"):
        filled.remove("red.png")


def test_a_thumb_is_a_small_jpeg_of_the_image(filled: wherein.Collection) -> None:
    thumb = filled.thumb("red.png")
    assert thumb is not None
    assert decode(thumb).pixels[0, 0].tolist() == pytest.approx([255, 0, 0], abs=8)


# --- checking and compacting ---------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 64
    path.write_bytes(data)


def flip_a_row(path: Path) -> None:
    flip(path, (Seal.read(path) or pytest.fail("no seal")).data_bytes - 1)


def shard_of(collection: wherein.Collection, kind: str) -> Path:
    (path,) = (collection.folder / "shards").glob(f"{kind}*/*.npy")
    return path


def test_a_whole_collection_has_nothing_to_mend(filled: wherein.Collection) -> None:
    report = filled.check()
    assert (report.shards, report.broken, report.images_to_read_again) == (4, (), 0)


@pytest.mark.parametrize("kind", ["global", "patches", "thumbs"])
@pytest.mark.parametrize(
    ("harm", "again"),
    [
        pytest.param(lambda path: path.unlink(), 4, id="deleted"),
        pytest.param(lambda path: flip_a_row(path), 1, id="flipped in a row"),
        pytest.param(lambda path: flip(path, 20), 0, id="flipped in its head"),
        pytest.param(lambda path: flip(path, -1), 0, id="flipped in its seal"),
    ],
)
def test_a_broken_shard_is_named_and_the_next_add_restores_it(
    filled: wherein.Collection, kind: str, harm: Callable[[Path], None], again: int
) -> None:
    before = [(hit.image_id, hit.score, hit.box) for hit in filled.search("red", method="patches")]
    filled.tag("mine", ["red.png"])
    path = shard_of(filled, kind)
    harm(path)
    assert filled.check(repair=False).broken == (path,)
    assert filled.check(repair=False).broken == (path,)
    report = filled.check()
    assert (report.broken, report.images_to_read_again, report.lost) == ((path,), again, ())
    assert filled.check().broken == ()
    assert filled.add().changed == again
    assert [(hit.image_id, hit.score, hit.box) for hit in filled.search("red", method="patches")] == before
    assert filled.image_ids(tags=["mine"]) == ["red.png"]
    assert filled.thumb("red.png") is not None


def test_one_broken_keyframe_brings_the_whole_film_back(
    collection: wherein.Collection, folder: Path, film: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(folder / "holiday")
    film(folder / "clip.mp4", ["yellow", "green", "white"])
    monkeypatch.setattr("wherein.indexing.sync._COMMIT_FILES", 1)
    collection.add(folder)
    before = collection.image_ids()
    shards = sorted((collection.folder / "shards").glob("global*/*.npy"))
    assert len(shards) == 5
    shards[-1].unlink()
    assert len(collection.check().broken) == 1
    collection.add()
    assert collection.image_ids() == before
    assert len(collection.search("red", k=100, frames=True)) == len(before)


def test_a_search_over_a_deleted_shard_says_to_check(filled: wherein.Collection, folder: Path) -> None:
    shard_of(filled, "global").unlink()
    with wherein.open(folder) as again, pytest.raises(CollectionCorrupt, match="wherein check"):
        again.search("red")


def test_a_truncated_catalogue_says_the_way_out(filled: wherein.Collection, folder: Path) -> None:
    filled.close()
    path = folder / ".wherein" / "catalogue.sqlite"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(CollectionCorrupt, match=r"wherein check.* mends it"), wherein.open(folder) as again:
        again.search("red")


def test_compaction_frees_space_and_changes_no_answer(filled: wherein.Collection, folder: Path, paint: Paint) -> None:
    paint(folder / "red.png", "pink")
    (folder / "blue.png").unlink()
    filled.add()
    filled.tag("mine", ["red.png"])
    before = [[(hit.image_id, hit.score) for hit in filled.search(text)] for text in ("red", "pink")]
    assert filled.info().tombstones == 1
    assert filled.compact() > 0
    assert [[(hit.image_id, hit.score) for hit in filled.search(text)] for text in ("red", "pink")] == before
    assert filled.info().tombstones == 0
    assert filled.image_ids(tags=["mine"]) == ["red.png"]
    assert filled.check().broken == ()
    assert filled.add().unchanged == 3


def test_an_open_collection_sees_what_another_one_compacted(filled: wherein.Collection, folder: Path) -> None:
    before = names(filled.search("red", method="patches"))
    with wherein.open(folder) as other:
        other.remove("blue.png")
        other.compact()
    assert names(filled.search("red", method="patches")) == [name for name in before if name != "blue.png"]


# --- information ---------------------------------------------------------------------------------------


def test_an_empty_collection_describes_itself(collection: wherein.Collection) -> None:
    info = collection.info()
    assert (info.images, info.tombstones, info.skipped, info.tags, info.layers) == (0, 0, 0, {}, ())
    assert collection.image_ids() == []
    assert collection.check().shards == 0
    assert collection.compact() == 0


def test_a_collection_describes_what_it_holds(filled: wherein.Collection, folder: Path) -> None:
    (folder / "bad.jpg").write_bytes(b"no image")
    filled.add()
    info = filled.info()
    assert (info.images, info.skipped, info.encoder) == (4, 1, "toy")
    assert info.roots == {"": folder}
    kinds = ("global", "patches", "cells", "thumbs")
    assert [(layer.kind, layer.images) for layer in info.layers] == [(kind, 4) for kind in kinds]
    assert info.bytes > 0

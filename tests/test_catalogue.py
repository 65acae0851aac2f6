"""The catalogue on its own: what it keeps, what a filter lets through, how it fails."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wherein.errors import CollectionCorrupt, CollectionError
from wherein.store.catalogue import Catalogue
from wherein.store.shards import Written
from wherein.values.records import FileRecord, Filter, ImageRecord
from wherein.values.region import Box


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    opened = Catalogue(tmp_path / "catalogue.sqlite")
    yield opened
    opened.close()


def put(catalogue: Catalogue, path: str, *, hash_: bytes = b"h", taken: float = 0.0, shard: int | None = None) -> int:
    """One finished file with one image and, where a shard is named, one row."""
    with catalogue.transaction():
        file = catalogue.put_file(FileRecord("", path, 1, 1, hash_), whole=True)
        image = catalogue.put_image(file, ImageRecord(path, (4, 3), taken))
        if shard is not None:
            catalogue.put_shard(shard, "global", Written(1, 10, 0))
            catalogue.put_rows(shard, [(0, image, None)], newest=0)
    return image


def test_an_empty_catalogue_answers_everything_with_nothing(catalogue: Catalogue) -> None:
    assert catalogue.files("") == {}
    assert catalogue.files_with_hash(b"") == []
    assert catalogue.files_with_layers(["global"]) == set()
    assert catalogue.files_with_layers([]) == set()
    assert catalogue.live_images() == []
    assert catalogue.live_rows("global").fetchall() == []
    assert catalogue.shards() == []
    assert catalogue.counts() == (0, 0, 0)
    assert catalogue.tags() == {}
    assert catalogue.skipped("") == {}
    assert catalogue.image_at("a") is None
    assert catalogue.next_shard() == 1
    assert catalogue.newest_image() == 0


def test_what_is_put_in_comes_back(catalogue: Catalogue) -> None:
    image = put(catalogue, "a.png", taken=12.5)
    record, file = catalogue.describe(image)
    assert record == ImageRecord("a.png", (4, 3), 12.5)
    assert file == FileRecord("", "a.png", 1, 1, b"h")
    assert catalogue.image_at("a.png") == image


def test_a_transaction_is_all_or_nothing(catalogue: Catalogue) -> None:
    def interrupted() -> None:
        with catalogue.transaction():
            catalogue.put_file(FileRecord("", "a.png", 1, 1, b"h"), whole=True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert catalogue.files("") == {}
    put(catalogue, "b.png")
    assert list(catalogue.files("")) == ["b.png"]


IDS = ("a.png", "holiday/b.png", "holiday/rome/c.png", "holidays.png", "ünï/d.png")


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        pytest.param(Filter(), IDS, id="no filter lets all through"),
        pytest.param(Filter(folder="nowhere"), (), id="an unknown folder lets nothing through"),
        pytest.param(Filter(folder="holiday"), IDS[1:3], id="a folder means all below it"),
        pytest.param(Filter(folder="holiday/"), IDS[1:3], id="a slash at the end changes nothing"),
        pytest.param(Filter(folder="holiday/*"), IDS[1:3], id="a star means the same"),
        pytest.param(Filter(folder="*/rome"), IDS[2:3], id="a star in front"),
        pytest.param(Filter(folder="ünï"), IDS[4:], id="any letters"),
        pytest.param(Filter(after=2), IDS[2:], id="after a time, inclusive"),
        pytest.param(Filter(before=2), IDS[:2], id="before a time, exclusive"),
        pytest.param(Filter(after=1, before=2), IDS[1:2], id="between two times"),
        pytest.param(Filter(tags=("x",)), ("a.png", "holidays.png"), id="one tag"),
        pytest.param(Filter(tags=("x", "y")), ("a.png",), id="both tags"),
        pytest.param(Filter(tags=("z",)), (), id="an unknown tag"),
        pytest.param(Filter(folder="holiday*", tags=("x",)), ("holidays.png",), id="a folder and a tag"),
    ],
)
def test_a_filter_lets_through(catalogue: Catalogue, filter_: Filter, expected: tuple[str, ...]) -> None:
    keys = {name: put(catalogue, name, taken=number) for number, name in enumerate(IDS)}
    with catalogue.transaction():
        catalogue.put_tags([keys["a.png"], keys["holidays.png"]], "x")
        catalogue.put_tags([keys["a.png"]], "y")
    assert tuple(image_id for _, image_id in catalogue.live_images(filter_)) == expected
    assert filter_.empty == (filter_ == Filter())


def test_changed_content_becomes_a_tombstone_and_hands_its_tags_on(catalogue: Catalogue) -> None:
    old = put(catalogue, "a.png", hash_=b"old")
    with catalogue.transaction():
        catalogue.put_tags([old], "x")
    new = put(catalogue, "a.png", hash_=b"new")
    assert new != old
    assert catalogue.counts() == (1, 1, 0)
    with catalogue.transaction():
        catalogue.drop_replaced()
    assert catalogue.counts() == (1, 0, 0)
    assert catalogue.tags(new) == {"x": 1}


def test_one_id_names_one_living_image(catalogue: Catalogue) -> None:
    put(catalogue, "a.png", hash_=b"1")
    with catalogue.transaction():
        other = catalogue.put_file(FileRecord("elsewhere", "x", 1, 1, b"2"), whole=True)
        image = catalogue.put_image(other, ImageRecord("a.png", (1, 1), 0.0))
    assert catalogue.image_at("a.png") == image
    assert catalogue.counts() == (1, 1, 0)


def test_an_unfinished_file_is_not_known_by_its_content(catalogue: Catalogue) -> None:
    with catalogue.transaction():
        catalogue.put_file(FileRecord("", "film.mp4", 1, 1, b"h"), whole=False)
    assert catalogue.files_with_hash(b"h") == []
    with catalogue.transaction():
        catalogue.put_file(FileRecord("", "film.mp4", 1, 1, b"h"), whole=True)
    assert [record.path for _, record, _ in catalogue.files_with_hash(b"h")] == ["film.mp4"]


def test_new_rows_replace_what_the_layer_had_of_an_image(catalogue: Catalogue) -> None:
    image = put(catalogue, "a.png", shard=1)
    tile = Box(0, 0, 0.5, 1)
    with catalogue.transaction():
        catalogue.put_shard(2, "global", Written(2, 10, 0))
        catalogue.put_rows(2, [(0, image, None), (1, image, tile)], newest=catalogue.newest_image())
    assert catalogue.live_rows("global").fetchall() == [(image, 2, 0, None), (image, 2, 1, str(tile))]


def test_a_shard_number_is_never_given_twice(catalogue: Catalogue) -> None:
    put(catalogue, "a.png", shard=7)
    with catalogue.transaction():
        catalogue.drop_rows([(7, 0)])
        catalogue.drop_empty_shards("global")
    assert catalogue.shards() == []
    assert catalogue.next_shard() == 8


def test_skipped_files_are_remembered_per_root_and_forgotten(catalogue: Catalogue) -> None:
    with catalogue.transaction():
        catalogue.put_skipped(FileRecord("", "a.jpg", 5, 6), conditions="m", reason="is empty")
        catalogue.put_skipped(FileRecord("other", "a.jpg", 7, 8), conditions="m", reason="is torn")
    assert catalogue.skipped("") == {"a.jpg": (5, 6, "m", "is empty")}
    with catalogue.transaction():
        catalogue.drop_skipped([("", "a.jpg")])
    assert catalogue.skipped("") == {}
    assert catalogue.counts() == (0, 0, 1)


def test_the_version_changes_when_somebody_else_commits(tmp_path: Path, catalogue: Catalogue) -> None:
    other = Catalogue(tmp_path / "catalogue.sqlite")
    before = catalogue.version()
    assert catalogue.version() == before
    put(other, "a.png")
    assert catalogue.version() != before
    other.close()


def test_a_reader_in_another_thread_sees_what_is_committed(catalogue: Catalogue) -> None:
    put(catalogue, "a.png", hash_=b"a")
    reader = catalogue.reader()
    seen = list[int]()
    with catalogue.transaction():
        catalogue.put_file(FileRecord("", "b.png", 1, 1, b"b"), whole=True)
        thread = threading.Thread(target=lambda: seen.extend(len(reader.files_with_hash(h)) for h in (b"a", b"b")))
        thread.start()
        thread.join()
    assert seen == [1, 0]
    assert len(reader.files_with_hash(b"b")) == 1
    reader.close()


def test_two_processes_may_create_it_at_once(tmp_path: Path) -> None:
    failures = list[BaseException]()

    def create() -> None:
        try:
            Catalogue(tmp_path / "new.sqlite").close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("keep", [100, 4096, 8192, 3 * 4096])
def test_a_truncated_catalogue_says_so_and_the_way_out(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "catalogue.sqlite"
    full = Catalogue(path)
    for number in range(50):
        put(full, f"{number}.png", hash_=bytes([number]), shard=number + 1)
    full.close()
    whole = path.read_bytes()
    assert len(whole) > keep
    path.write_bytes(whole[:keep])
    with pytest.raises(CollectionCorrupt, match="wherein check -c"):
        _use_everything(path)


def _use_everything(path: Path) -> None:
    catalogue = Catalogue(path)
    try:
        catalogue.files("")
        catalogue.shards()
        catalogue.live_rows("global").fetchall()
        catalogue.counts()
        catalogue.tags()
        catalogue.files_with_hash(b"h")
    finally:
        catalogue.close()


def test_rubbish_is_not_a_catalogue(tmp_path: Path) -> None:
    (tmp_path / "catalogue.sqlite").write_bytes(b"not a database at all" * 300)
    with pytest.raises(CollectionCorrupt, match="not a readable catalogue"):
        Catalogue(tmp_path / "catalogue.sqlite")


def test_a_folder_that_is_not_there_is_not_called_corrupt(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="Check that the folder exists") as caught:
        Catalogue(tmp_path / "gone" / "catalogue.sqlite")
    assert not isinstance(caught.value, CollectionCorrupt)


def test_a_mistake_of_ours_is_not_dressed_up(catalogue: Catalogue) -> None:
    put(catalogue, "a.png", shard=1)
    with pytest.raises(sqlite3.IntegrityError), catalogue.transaction():
        catalogue.put_shard(1, "global", Written(1, 1, 1))

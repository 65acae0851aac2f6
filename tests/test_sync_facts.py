"""Keeping up with folders: no fact of one file, however odd, ends a batch."""

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import PIL.Image
import pytest

import wherein
from wherein.encoders.toy import ToyEncoder
from wherein.errors import InputError
from wherein.images.image import Image, Pixels
from wherein.images.walk import storable_time
from wherein.values.records import AddReport

Paint = Callable[..., Path]
Did = Callable[[AddReport], dict[str, int]]
YEAR_2300 = int(datetime(2300, 1, 1, tzinfo=UTC).timestamp()) * 10**9


@pytest.mark.parametrize(
    "mtime_ns",
    [
        pytest.param(YEAR_2300, id="the year 2300, beyond 64 bits of nanoseconds"),
        pytest.param(-(10**9), id="before 1970"),
        pytest.param(-1, id="the mark of a file that is not read to its end"),
    ],
)
def test_a_files_date_ends_nothing_and_is_remembered(
    collection: wherein.Collection, folder: Path, did: Did, mtime_ns: int
) -> None:
    os.utime(folder / "red.png", ns=(mtime_ns, mtime_ns))
    assert (folder / "red.png").stat().st_mtime_ns == mtime_ns, "the file system keeps no such date"
    assert did(collection.add(folder)) == {"added": 4}
    assert collection.search("red")[0].image_id == "red.png"
    assert collection.details("red.png").taken == pytest.approx(storable_time(mtime_ns) / 1e9)
    assert did(collection.add(folder)) == {"unchanged": 4}


@pytest.fixture
def east_of_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time that is eight hours ahead."""
    monkeypatch.setenv("TZ", "UTC-8")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("east_of_greenwich")
@pytest.mark.parametrize("said", ["9999:12:31 23:59:59", "0000:00:00 00:00:00", "\x00\x00", "24:61"])
def test_a_date_that_no_clock_shows_is_replaced_by_the_files_own(
    collection: wherein.Collection, folder: Path, did: Did, said: str
) -> None:
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = said
    PIL.Image.new("RGB", (64, 48), "yellow").save(folder / "odd.jpg", exif=exif)
    os.utime(folder / "odd.jpg", ns=(10**18, 10**18))
    assert did(collection.add(folder)) == {"added": 5}
    assert collection.details("odd.jpg").taken == 1e9


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"icc_profile": b"no profile"}, id="an ICC profile that is none"),
        pytest.param({"exif": b"Exif\x00\x00MM\x00*\xff\xff\xff\xff"}, id="EXIF that points nowhere"),
        pytest.param({"dpi": (0, 0)}, id="no dots an inch"),
        pytest.param({"comment": b"\xff\xfe\x00 \xed\xa0\x80"}, id="a comment that is no text"),
    ],
)
@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")  # which Pillow says, and goes on
def test_what_a_file_says_of_itself_ends_nothing(
    collection: wherein.Collection, folder: Path, paint: Paint, did: Did, options: dict[str, object]
) -> None:
    paint(folder / "odd.jpg", "yellow", **options)
    assert did(collection.add(folder)) == {"added": 5}
    assert collection.search("yellow")[0].image_id == "odd.jpg"


def test_what_goes_wrong_with_one_image_is_told_and_the_rest_goes_on(
    collection: wherein.Collection, folder: Path, did: Did, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ToyEncoder.prepare

    def picky(self: ToyEncoder, image: Image) -> Pixels:
        if image.pixels[0, 0].tolist() == [0, 0, 255]:  # blue.png
            raise RuntimeError("no blue \udce9")
        return whole(self, image)

    monkeypatch.setattr(ToyEncoder, "prepare", picky)
    report = collection.add(folder)
    assert did(report) == {"added": 3, "skipped": 1}
    assert report.skipped[0].reason == r"cannot be described (RuntimeError: no blue \udce9)."
    monkeypatch.undo()
    assert did(collection.add(folder, max_pixels=10**6)) == {"added": 1, "unchanged": 3}


def test_a_layer_that_cannot_be_made_of_one_image_is_told_and_made_the_next_time(
    collection: wherein.Collection, folder: Path, did: Did, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = PIL.Image.Image.save

    def picky(self: PIL.Image.Image, target: object, *rest: object, **options: object) -> None:
        if self.getpixel((0, 0)) == (0, 0, 255):  # the thumb of blue.png
            raise RuntimeError("no blue \udce9")
        whole(self, target, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(PIL.Image.Image, "save", picky)
    report = collection.add(folder)
    assert did(report) == {"added": 4, "skipped": 1}
    reason = r"its layer thumbs could not be made (RuntimeError: no blue \udce9); the others were"
    assert report.skipped[0].reason == reason
    assert collection.thumb("blue.png") is None
    monkeypatch.undo()
    assert did(collection.add(folder)) == {"completed": 1, "unchanged": 3}
    assert collection.thumb("blue.png") is not None


def test_an_id_that_cannot_be_stored_is_refused_before_anything_is_added(
    collection: wherein.Collection, folder: Path
) -> None:
    with pytest.raises(InputError, match=r"caf\\udce9.* is not valid Unicode"):
        collection.add(folder, ("caf\udce9", PIL.Image.new("RGB", (64, 48))))
    assert len(collection) == 0

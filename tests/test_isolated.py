"""A file that kills its decoder, never ends or unfolds to gigabytes costs that file alone."""

import io
import os
import signal
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.bench.pickles import read_pickle
from wherein.errors import DataError, OversizedImage, UnreadableImage
from wherein.images import isolated
from wherein.images import picture as picture_module
from wherein.images.image import decode
from wherein.images.video import frame_at

Paint = Callable[..., Path]


def png(picture: PIL.Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def claimed_png(width: int, height: int) -> bytes:
    """A PNG of one colour, in a few kilobytes, that unfolds to width × height pixels."""
    packer = zlib.compressobj(9)
    row = b"\0" + bytes(3 * width)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_an_image_comes_back_as_it_is_decoded_here(picture: Callable[..., PIL.Image.Image]) -> None:
    data = png(picture("red", "blue"))
    here, there = decode(data, name="a"), isolated.decode(data, name="a")
    assert np.array_equal(here.pixels, there.pixels)
    assert (here.full_wh, here.taken) == (there.full_wh, there.taken)


def test_the_side_that_is_enough_is_asked_for(encoded: Callable[..., bytes]) -> None:
    data, asked = encoded(PIL.Image.new("RGB", (800, 600)), "JPEG"), list[tuple[int, int]]()

    def enough(size_wh: tuple[int, int]) -> int:
        asked.append(size_wh)
        return 100

    image = isolated.decode(data, at_least=enough, name="a")
    assert (asked, image.size_wh, image.full_wh) == ([(800, 600)], (200, 150), (800, 600))


def test_what_is_no_image_is_told_as_ever() -> None:
    with pytest.raises(UnreadableImage, match=r"a\.png: is not an image in a format"):
        isolated.decode(b"nothing", name="a.png")


def killed(number: int) -> Callable[[tuple[int, int]], int]:
    """Asked for the side that is enough, it does to the decoder what a broken file might."""

    def harm(_: tuple[int, int]) -> int:
        decoder = isolated._POOL.last
        assert decoder is not None
        os.kill(decoder.pid, number)
        return 10

    return harm


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_decoder_that_dies_costs_its_file_alone(number: int, encoded: Callable[..., bytes]) -> None:
    data = encoded(PIL.Image.new("RGB", (800, 600)), "JPEG")
    with pytest.raises(UnreadableImage, match=f"a.jpg: its decoder failed .*{signal.Signals(number).name}"):
        isolated.decode(data, at_least=killed(number), name="a.jpg")
    assert isolated.decode(data, name="a.jpg").full_wh == (800, 600)


def test_where_the_process_that_starts_decoders_was_killed_another_is_started(encoded: Callable[..., bytes]) -> None:
    data = encoded(PIL.Image.new("RGB", (80, 60)), "JPEG")
    before = isolated._POOL.prepare()
    os.kill(before._process.pid, signal.SIGKILL)
    before._process.wait()
    with isolated._POOL.decoder("first"), isolated._POOL.decoder("second"):  # more than there are idle
        assert isolated.decode(data, name="a.jpg").full_wh == (80, 60)
    assert isolated._POOL.prepare() is not before
    isolated._POOL.close()
    assert isolated.decode(data, name="a.jpg").full_wh == (80, 60)


def test_a_decoder_that_holds_much_memory_serves_no_second_file() -> None:
    with isolated._POOL.decoder("large.png") as decoder:
        decoder.large = True
    assert not decoder.alive


def test_a_decoder_that_never_ends_is_ended(encoded: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "PATIENCE", 0.5)
    with pytest.raises(UnreadableImage, match=r"longer than 0\.5 s"):
        isolated.decode(encoded(PIL.Image.new("RGB", (80, 60)), "JPEG"), at_least=killed(signal.SIGSTOP), name="a.jpg")


def test_a_file_that_kills_its_decoder_is_left_out_with_one_line_and_not_tried_again(
    collection: wherein.Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tried = isolated.decode, list[str]()

    def deadly(data: bytes, **options: object) -> object:
        if str(options["name"]).endswith("red.png"):
            tried.append(str(options["name"]))
            with isolated._POOL.decoder(str(options["name"])) as decoder:
                os.kill(decoder.pid, signal.SIGABRT)
                decoder.told(10.0)
        return real(data, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(isolated, "decode", deadly)
    report = collection.add(folder)
    assert (report.added, [skip.reason for skip in report.skipped]) == (
        3,
        ["its decoder failed (it ended with SIGABRT), so it is left out. Re-save or re-copy the file."],
    )
    assert collection.add().unchanged == 3
    assert len(tried) == 1


def test_a_small_file_of_many_pixels_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(OversizedImage, match="over the limit"):
        isolated.decode(claimed_png(20_000, 15_000)[:3000], name="bomb.png")


def test_the_largest_image_within_the_limit_fits_the_memory_of_its_decoder() -> None:
    image = isolated.decode(claimed_png(16_000, 11_000), name="large.png")
    assert image.full_wh == (16_000, 11_000)
    assert image.pixels.size < 3 << 26


def test_videos_obey_the_limit_of_pixels(
    collection: wherein.Collection, folder: Path, film: Callable[..., Path]
) -> None:
    film(folder / "clip.mp4", ["yellow", "green"])
    report = collection.add(folder, max_pixels=100)
    assert [Path(skip.path).name for skip in report.skipped if "over the limit of 100" in skip.reason] != []
    assert "clip.mp4" in {Path(skip.path).name for skip in report.skipped}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x80\x04\x8e" + struct.pack("<Q", 8 << 30) + b".", id="a string of 8 GB that is not there"),
        pytest.param(b"\x80\x04\x96" + struct.pack("<Q", 8 << 30) + b".", id="an array of 8 GB that is not there"),
        pytest.param(b"\x80\x02Nr" + struct.pack("<I", 1 << 30) + b".", id="a memory of a billion places"),
    ],
)
def test_a_pickle_that_announces_gigabytes_takes_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pkl").write_bytes(data)
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"a\.pkl"):
        read_pickle(tmp_path / "a.pkl")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # kilobytes: less than a gigabyte


# --- huge scans ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I;16"])
def test_a_huge_image_is_made_smaller_strip_by_strip_as_it_would_be_at_once(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(1)
    picture = PIL.Image.fromarray(draw.integers(0, 255, (61, 90, 3), np.uint8))
    if mode == "I;16":
        picture = PIL.Image.fromarray(draw.integers(0, 65535, (61, 90), np.uint16))
    elif mode != "RGB":
        picture = picture.convert(mode)
    whole = PIL.Image.fromarray(decode(picture).pixels).reduce(2)
    monkeypatch.setattr(picture_module, "_HUGE", 61 * 90 // 3)
    monkeypatch.setattr(picture_module, "_STRIP", 90 * 8)
    made = decode(picture)
    assert made.full_wh == (90, 61)
    assert made.pixels.tolist() == np.asarray(whole).tolist()


def test_a_large_scan_in_black_and_white_is_indexed() -> None:
    """240 million pixels, which would be a gigabyte as RGB before they are made smaller."""
    buffer = io.BytesIO()
    PIL.Image.new("1", (20_000, 12_000)).save(buffer, "PNG")
    image = isolated.decode(buffer.getvalue(), name="scan.png")
    assert (image.full_wh, image.size_wh) == ((20_000, 12_000), (10_000, 6_000))


def test_an_image_that_memory_does_not_hold_says_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(picture_module, "_from_bytes", full)
    with pytest.raises(OversizedImage, match=r"scan\.tif: .* Re-save it compressed"):
        decode(b"II*\0", name="scan.tif")


# --- what is sent to search with -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["", "whole+locate", "bow", "theoretical"])
def test_examples_and_files_are_decoded_in_other_processes_while_searching(
    collection: wherein.Collection,
    folder: Path,
    cover: Callable[..., np.ndarray],
    method: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    PIL.Image.fromarray(cover(3)).save(folder / "cover.png")
    collection.add(folder, layers=["global", "patches", "cells", "local"])
    here, seen = picture_module._from_bytes, list[str]()

    def watched(data: bytes, where: str, **more: object) -> object:
        seen.append(where)
        return here(data, where, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(picture_module, "_from_bytes", watched)
    where = wherein.Box(0.0, 0.0, 0.5, 0.5) if method == "theoretical" else None
    query = wherein.Query((wherein.Part(image=(folder / "cover.png").read_bytes(), where=where),))
    assert collection.search(query, method=method)[0].image_id == "cover.png"
    assert seen == []


def test_a_frame_is_decoded_in_another_process_from_a_lent_file(film: Callable[..., Path], tmp_path: Path) -> None:
    with film(tmp_path / "film.mp4", ["red", "blue"]).open("rb") as file:
        lent = isolated.frame_at(file, 3.0)
        file.seek(0)
        assert lent.pixels.tolist() == frame_at(file, 3.0).pixels.tolist()
    (tmp_path / "none.mp4").write_bytes(b"no film at all")
    with (tmp_path / "none.mp4").open("rb") as file, pytest.raises(UnreadableImage, match="the video"):
        isolated.frame_at(file, 1.0)

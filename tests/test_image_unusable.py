"""Files that cannot be decoded: each says which it is, why, and the way out."""

import io
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from wherein.errors import OversizedImage, UnreadableImage
from wherein.images.image import decode
from wherein.images.picture import looks_like_image

Picture = Callable[..., PIL.Image.Image]
Encode = Callable[..., bytes]


def png_bomb(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def unreadable(picture: Picture, encoded: Encode) -> dict[str, bytes]:
    jpeg = encoded(picture("red", "blue", size_wh=(640, 480)), "JPEG")
    png = encoded(PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)), "PNG")
    return {
        "empty.jpg": b"",
        "text.jpg": b"this is no image",
        "zeros.jpg": bytes(1000),
        "head-only.jpg": jpeg[:20],
        "truncated.jpg": jpeg[: len(jpeg) // 2],
        "truncated.png": png[: len(png) // 2],
        "corrupt.png": png[:100] + bytes(200) + png[300:],
        "text.nef": b"this is no raw photo" * 10,
        "tiff-that-is-no-raw.dng": b"II*\0\x08\0\0\0" + bytes(40),
        "broken.heic": b"\0\0\0\x18ftypheic\0\0\0\0" + bytes(100),
        "broken.webp": b"RIFF\x10\0\0\0WEBPVP8 " + bytes(10),
        "broken.gif": b"GIF89a" + bytes(3),
    }


def test_bad_files_say_which_and_why(tmp_path: Path, picture: Picture, encoded: Encode) -> None:
    for name, data in unreadable(picture, encoded).items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(UnreadableImage) as caught:
            decode(path)
        message = str(caught.value)
        assert message.startswith(f"{path}: "), name
        assert message.endswith("."), message
        assert "\n" not in message, name
        assert "b'" not in message, name


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda path: None, "No such file", id="a missing file"),
        pytest.param(lambda path: path.mkdir(), "Is a directory", id="a folder"),
        pytest.param(lambda path: path.symlink_to(path.name), "symbolic links", id="a link to itself"),
        pytest.param(lambda path: path.symlink_to("nowhere"), "No such file", id="a dangling link"),
    ],
)
def test_what_is_no_readable_file_says_why(tmp_path: Path, make: Callable[[Path], None], reason: str) -> None:
    make(tmp_path / "x.jpg")
    with pytest.raises(UnreadableImage, match=reason):
        decode(tmp_path / "x.jpg")


def test_a_path_that_no_file_can_have_is_unreadable() -> None:
    with pytest.raises(UnreadableImage, match="null"):
        decode("a\0b")


def test_a_bomb_says_which_limit_to_raise() -> None:
    with pytest.raises(OversizedImage, match=r"60000×60000 .* max_pixels 3600000000"):
        decode(png_bomb(60_000, 60_000), name="bomb.png")


def test_raising_the_limit_lets_a_giant_in(picture: Picture, encoded: Encode) -> None:
    data = encoded(picture("red", "blue", size_wh=(300, 200)), "PNG")
    with pytest.raises(OversizedImage, match="max_pixels 60000"):
        decode(data, max_pixels=59_999)
    assert decode(data, max_pixels=60_000).size_wh == (300, 200)


def test_a_giant_jpeg_within_the_limit_at_reduced_scale_is_decoded(picture: Picture, encoded: Encode) -> None:
    data = encoded(picture("red", "blue", size_wh=(1600, 800)), "JPEG")
    image = decode(data, at_least=lambda _: 100, max_pixels=200 * 100)
    assert (image.size_wh, image.full_wh) == ((200, 100), (1600, 800))


def test_a_progressive_giant_counts_in_full_because_scale_does_not_save_its_memory(
    picture: Picture, encoded: Encode
) -> None:
    data = encoded(picture("red", "blue", size_wh=(1600, 800)), "JPEG", progressive=True)
    with pytest.raises(OversizedImage, match="1600×800"):
        decode(data, at_least=lambda _: 100, max_pixels=200 * 100)


def test_a_picture_opened_lazily_obeys_the_limit_and_tells_its_damage(
    tmp_path: Path, picture: Picture, encoded: Encode
) -> None:
    data = encoded(PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)), "PNG")
    with pytest.raises(OversizedImage, match="max_pixels 4096"):
        decode(PIL.Image.open(io.BytesIO(data)), max_pixels=100)
    with pytest.raises(UnreadableImage, match="memory: cannot be decoded"):
        decode(PIL.Image.open(io.BytesIO(data[:2000])), name="memory")


def test_a_missing_extra_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0" + bytes(100))
    (tmp_path / "b.nef").write_bytes(b"II*\0\x08\0\0\0" + bytes(40))
    program = """
import sys
sys.modules["pillow_heif"] = sys.modules["rawpy"] = None  # as import finds them where they are not installed
from wherein.errors import MissingExtra
from wherein.images.image import decode
for path in sys.argv[1:]:
    try:
        decode(path)
    except MissingExtra as error:
        sys.stdout.write(f"{error}\\n")
"""
    names = [os.fspath(tmp_path / name) for name in ("a.heic", "b.nef")]
    told = subprocess.run([sys.executable, "-c", program, *names], capture_output=True, text=True, check=True).stdout
    assert told.count("pip install 'wherein[formats]'") == 2


@pytest.mark.parametrize("head", [b"", b"x", b"%PDF-1.7", b"%!PS-Adobe", b"\0" * 32, b"\0\0\0 ftypisom\0\0\2\0"])
def test_other_files_do_not_look_like_images(head: bytes) -> None:
    assert not looks_like_image(head)

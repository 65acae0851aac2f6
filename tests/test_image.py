"""Decoding: every format upright and in the right colours, from files and from memory."""

import io
import struct
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from wherein.errors import OversizedImage, UnreadableImage
from wherein.images.image import Image, decode
from wherein.images.picture import looks_like_image
from wherein.values.region import Box

Picture = Callable[..., PIL.Image.Image]
Encode = Callable[..., bytes]
RED, WHITE, BLUE = (255, 0, 0), (255, 255, 255), (0, 0, 255)


def near(pixel: object, colour: tuple[int, int, int], tolerance: int = 12) -> bool:
    return bool(np.abs(np.asarray(pixel, int) - colour).max() <= tolerance)


def is_red_then_blue(image: Image) -> bool:
    height, width = image.pixels.shape[:2]
    return near(image.pixels[height // 2, width // 8], RED) and near(image.pixels[height // 2, -width // 8], BLUE)


# --- formats -------------------------------------------------------------------------------------------

FORMATS = [
    pytest.param("JPEG", {"quality": 95, "subsampling": 0}, id="jpeg"),
    pytest.param("JPEG", {"quality": 95, "progressive": True}, id="progressive jpeg"),
    pytest.param("PNG", {}, id="png"),
    pytest.param("WEBP", {"lossless": True}, id="lossless webp"),
    pytest.param("WEBP", {"quality": 95}, id="lossy webp"),
    pytest.param("GIF", {}, id="gif"),
    pytest.param("TIFF", {}, id="plain tiff"),
    pytest.param("TIFF", {"compression": "tiff_lzw"}, id="compressed tiff"),
    pytest.param("BMP", {}, id="bmp"),
    pytest.param("AVIF", {"quality": 95}, id="avif"),
]


@pytest.mark.parametrize(("format_", "options"), FORMATS)
def test_every_format_decodes_to_its_colours(
    picture: Picture, format_: str, options: dict[str, object], encoded: Encode
) -> None:
    data = encoded(picture("red", "blue"), format_, **options)
    assert looks_like_image(data[:32])
    image = decode(data)
    assert image.pixels.shape == (48, 64, 3)
    assert image.pixels.dtype == np.uint8
    assert is_red_then_blue(image)


def test_heic_decodes_to_its_colours(picture: Picture) -> None:
    import pillow_heif

    buffer = io.BytesIO()
    pillow_heif.from_pillow(picture("red", "blue")).save(buffer, quality=95)
    assert looks_like_image(buffer.getvalue()[:32])
    assert is_red_then_blue(decode(buffer.getvalue()))


def test_heic_turned_by_its_camera_decodes_upright(picture: Picture) -> None:
    import pillow_heif

    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    turned = picture("red", "blue").transpose(PIL.Image.Transpose.ROTATE_90)
    buffer = io.BytesIO()
    pillow_heif.from_pillow(turned).save(buffer, quality=95, exif=exif.tobytes())
    image = decode(buffer.getvalue())
    assert image.size_wh == image.full_wh == (64, 48)
    assert is_red_then_blue(image)


def avif_that_calls_itself_mif1(data: bytes) -> bytes:
    assert data[4:12] == b"ftypavif"
    brands = data[16 : int.from_bytes(data[:4], "big")]
    assert b"avif" in brands
    return data[:8] + b"mif1" + data[12:]


def test_an_avif_that_calls_itself_mif1_is_still_avif(picture: Picture, encoded: Encode) -> None:
    data = encoded(picture("red", "blue"), "AVIF", quality=95)
    assert is_red_then_blue(decode(avif_that_calls_itself_mif1(data)))


def grey_16(values: list[int], order: str) -> PIL.Image.Image:
    kind = np.dtype(f"{order}u2")
    flat = np.repeat(np.array(values, kind)[None], 4, axis=0)
    mode = "I;16" if order == "<" else "I;16B"
    return PIL.Image.frombytes(mode, (len(values), 4), flat.tobytes())


MODES = [
    pytest.param("P", "PNG", {}, id="a palette"),
    pytest.param("RGBA", "PNG", {}, id="an opaque alpha channel"),
    pytest.param("CMYK", "JPEG", {"quality": 95}, id="a CMYK jpeg"),
    pytest.param("CMYK", "TIFF", {}, id="a CMYK tiff"),
    pytest.param("YCbCr", "JPEG", {"quality": 95}, id="a YCbCr jpeg"),
]


@pytest.mark.parametrize(("mode", "format_", "options"), MODES)
def test_every_mode_decodes_to_its_colours(
    picture: Picture, encoded: Encode, mode: str, format_: str, options: dict[str, object]
) -> None:
    assert is_red_then_blue(decode(encoded(picture("red", "blue").convert(mode), format_, **options)))


@pytest.mark.parametrize(
    ("stored", "format_", "greys"),
    [
        pytest.param(PIL.Image.new("1", (2, 4), 1), "PNG", [255, 255], id="one bit white"),
        pytest.param(PIL.Image.new("L", (2, 4), 77), "PNG", [77, 77], id="eight bit grey"),
        pytest.param(PIL.Image.new("LA", (2, 4), (0, 0)), "PNG", [255, 255], id="see-through is white"),
        pytest.param(PIL.Image.new("LA", (2, 4), (0, 255)), "PNG", [0, 0], id="opaque stays"),
        pytest.param(grey_16([0, 65535], "<"), "PNG", [0, 255], id="sixteen bit png"),
        pytest.param(grey_16([0, 25700], "<"), "PNG", [0, 100], id="dark sixteen bits stay dark"),
        pytest.param(grey_16([0, 25700], "<"), "TIFF", [0, 100], id="sixteen bit tiff"),
        pytest.param(grey_16([0, 25700], ">"), "TIFF", [0, 100], id="big-endian sixteen bit tiff"),
        pytest.param(
            PIL.Image.fromarray(np.tile(np.array([0.0, 2.0], np.float32), (4, 1))),
            "TIFF",
            [0, 255],
            id="floats stretch",
        ),
        pytest.param(
            PIL.Image.fromarray(np.tile(np.array([np.nan, 2.0], np.float32), (4, 1))),
            "TIFF",
            [0, 255],
            id="nan is black",
        ),
    ],
)
def test_grey_of_every_depth_keeps_its_brightness(
    encoded: Encode, stored: PIL.Image.Image, format_: str, greys: list[int]
) -> None:
    assert decode(encoded(stored, format_)).pixels[0, :, 0].tolist() == greys


def test_transparency_shows_white_paper(encoded: Encode) -> None:
    see_through = PIL.Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    assert near(decode(encoded(see_through, "PNG")).pixels[0, 0], WHITE, 0)


@pytest.mark.parametrize("format_", ["GIF", "TIFF", "WEBP", "PNG"])
def test_the_first_of_several_frames_is_taken(picture: Picture, format_: str, encoded: Encode) -> None:
    frames = {"save_all": True, "append_images": [picture("green"), picture("white")]}
    image = decode(encoded(picture("red"), format_, **frames))
    assert near(image.pixels[5, 5], RED, 4)


def raw_photo(size_wh: tuple[int, int], *, red: int) -> bytes:
    """A minimal DNG: one uncompressed 16-bit plane of red, green, green and blue sensor cells."""
    width, height = size_wh
    plane = np.zeros((height, width), "<u2")
    plane[::2, ::2] = red
    to_xyz = (3.2406, -1.5372, -0.4986, -0.9689, 1.8758, 0.0415, 0.0557, -0.2040, 1.0570)
    byte, ascii_, short, long, rational, signed = 1, 2, 3, 4, 5, 10
    tags: list[tuple[int, int, int, bytes]] = [
        (256, long, 1, struct.pack("<I", width)),
        (257, long, 1, struct.pack("<I", height)),
        (258, short, 1, struct.pack("<H", 16)),
        (259, short, 1, struct.pack("<H", 1)),  # uncompressed
        (262, short, 1, struct.pack("<H", 32803)),  # colour filter array
        (271, ascii_, 5, b"Test\0"),
        (272, ascii_, 5, b"Test\0"),
        (273, long, 1, b"data"),  # where the plane begins, filled in below
        (277, short, 1, struct.pack("<H", 1)),
        (278, long, 1, struct.pack("<I", height)),
        (279, long, 1, struct.pack("<I", plane.nbytes)),
        (33421, short, 2, struct.pack("<HH", 2, 2)),
        (33422, byte, 4, bytes([0, 1, 1, 2])),
        (50706, byte, 4, bytes([1, 4, 0, 0])),  # the version of DNG
        (50708, ascii_, 5, b"Test\0"),
        (50717, long, 1, struct.pack("<I", 65535)),
        (50721, signed, 9, b"".join(struct.pack("<ii", round(value * 10_000), 10_000) for value in to_xyz)),
        (50728, rational, 3, struct.pack("<6I", *[1] * 6)),
        (50778, short, 1, struct.pack("<H", 21)),  # daylight
    ]
    beside = 8 + 2 + 12 * len(tags) + 4
    total = beside + sum(len(value) + len(value) % 2 for *_, value in tags if len(value) > 4)
    table, values = b"", b""
    for tag, kind, count, value in tags:
        short_value = struct.pack("<I", total) if value == b"data" else value
        if len(short_value) > 4:
            table += struct.pack("<HHII", tag, kind, count, beside + len(values))
            values += value + bytes(len(value) % 2)
        else:
            table += struct.pack("<HHI", tag, kind, count) + short_value.ljust(4, b"\0")
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + table + bytes(4) + values + plane.tobytes()


def test_a_raw_photo_decodes_to_its_colour_and_obeys_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x.dng").write_bytes(raw_photo((64, 48), red=60_000))
    image = decode(tmp_path / "x.dng")
    assert image.full_wh == (64, 48)
    assert near(image.pixels[10, 10], RED)
    with pytest.raises(OversizedImage, match="max_pixels 3072"):
        decode(tmp_path / "x.dng", max_pixels=3000)


def test_the_suffix_does_not_matter(tmp_path: Path, picture: Picture, encoded: Encode) -> None:
    data = encoded(picture("red", "blue"), "PNG")
    for name in ("really-a-png.jpg", "no-suffix-at-all", "really-a-png.nef", "really-a-png.heic"):
        (tmp_path / name).write_bytes(data)
        assert is_red_then_blue(decode(tmp_path / name))


# --- orientation, time, detail -------------------------------------------------------------------------

UNDO = {
    1: None,
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_90,  # a camera held so that the picture must be turned 270° to stand
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_270,
}


def quarters() -> PIL.Image.Image:
    """No two quarters alike, and wider than high: every turn and mirror shows."""
    pixels = np.zeros((32, 64, 3), np.uint8)
    pixels[:16, :32], pixels[:16, 32:], pixels[16:, :32] = RED, WHITE, BLUE
    return PIL.Image.fromarray(pixels)


@pytest.mark.parametrize("orientation", UNDO)
@pytest.mark.parametrize("format_", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_every_exif_orientation_decodes_upright(orientation: int, format_: str, encoded: Encode) -> None:
    undo = UNDO[orientation]
    stored = quarters() if undo is None else quarters().transpose(undo)
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    image = decode(encoded(stored, format_, quality=95, exif=exif), at_least=lambda _: 8)
    assert image.full_wh == (64, 32)
    height, width = image.pixels.shape[:2]
    assert width == 2 * height
    corners = [image.pixels[height // 4, width // 4], image.pixels[height // 4, -width // 4]]
    corners += [image.pixels[-height // 4, width // 4], image.pixels[-height // 4, -width // 4]]
    for pixel, colour in zip(corners, (RED, WHITE, BLUE, (0, 0, 0)), strict=True):
        assert near(pixel, colour, 20)


@pytest.mark.parametrize(
    ("stamp", "taken"),
    [
        pytest.param("", None, id="no time"),
        pytest.param("2024:02:29 13:14:15", datetime(2024, 2, 29, 13, 14, 15), id="a time"),
        pytest.param("2024:02:29 13:14:15\x00", datetime(2024, 2, 29, 13, 14, 15), id="a padded time"),
        pytest.param("0000:00:00 00:00:00", None, id="a camera without a clock"),
        pytest.param("0001:01:01 00:00:00", None, id="year one is no time stamp"),
        pytest.param("yesterday", None, id="words are not a time"),
    ],
)
def test_when_it_was_taken(picture: Picture, stamp: str, taken: datetime | None, encoded: Encode) -> None:
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = stamp
    assert decode(encoded(picture("red"), "JPEG", exif=exif)).taken == taken


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_broken_exif_does_not_cost_the_picture(picture: Picture, encoded: Encode) -> None:
    data = encoded(picture("red", "blue"), "JPEG", quality=95, subsampling=0)
    rubbish = b"Exif\0\0MM\0*" + b"\xff" * 20
    marker = b"\xff\xe1" + struct.pack(">H", len(rubbish) + 2) + rubbish
    assert is_red_then_blue(decode(data[:2] + marker + data[2:]))


@pytest.mark.parametrize(
    ("side", "expected"),
    [
        pytest.param(1, (80, 60), id="an eighth is the least"),
        pytest.param(60, (80, 60), id="exactly enough"),
        pytest.param(61, (160, 120), id="one more takes the next scale"),
        pytest.param(300, (640, 480), id="nearly all takes all"),
        pytest.param(9999, (640, 480), id="never enlarged"),
    ],
)
def test_a_large_jpeg_is_decoded_no_larger_than_needed(
    picture: Picture, side: int, expected: tuple[int, int], encoded: Encode
) -> None:
    image = decode(encoded(picture("red", "blue", size_wh=(640, 480)), "JPEG"), at_least=lambda _: side)
    assert image.size_wh == expected
    assert image.full_wh == (640, 480)


def test_a_crop_keeps_both_sizes(picture: Picture, encoded: Encode) -> None:
    image = decode(encoded(picture("red", "blue", size_wh=(640, 480)), "JPEG"), at_least=lambda _: 60)
    right = image.crop(Box(0.5, 0, 1, 1))
    assert (right.size_wh, right.full_wh) == ((40, 60), (320, 480))
    assert near(right.pixels[30, 20], BLUE)


@pytest.mark.parametrize("size_wh", [(1, 1), (1, 3000), (3000, 1), (65, 63)])
def test_any_shape_can_be_squashed(picture: Picture, size_wh: tuple[int, int]) -> None:
    image = decode(picture("red", size_wh=size_wh))
    squashed = image.resized((16, 16))
    assert squashed.shape == (16, 16, 3)
    assert near(squashed[8, 8], RED, 0)


@pytest.mark.parametrize("size_wh", [(64, 16), (64, 64), (40, 64), (24, 16)])
def test_stripes_too_fine_to_show_become_their_mean(size_wh: tuple[int, int]) -> None:
    stripes = np.zeros((size_wh[1], size_wh[0], 3), np.uint8)
    stripes[:, ::2] = 200
    squashed = Image(stripes, size_wh).resized((8, 8))
    assert abs(squashed.mean() - 100) < 8
    assert squashed.std() < 12


def test_resizing_is_near_a_slower_filter_of_the_same_shape() -> None:
    noise = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (43, 57, 3), np.uint8))
    photo = noise.resize((576, 432), PIL.Image.Resampling.BICUBIC)
    slow = np.asarray(photo.resize((256, 256), PIL.Image.Resampling.BILINEAR), np.int16)
    assert np.abs(decode(photo).resized((256, 256)) - slow).mean() < 1.0


# --- from memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [(), (0, 5), (5,), (5, 5, 2), (5, 5, 5), (2, 5, 5, 3), (5, 0, 3)],
)
def test_an_array_that_is_no_image_says_what_to_give(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnreadableImage, match="give"):
        decode(np.zeros(shape, np.uint8))
    with pytest.raises(UnreadableImage, match="float64"):
        decode(np.zeros((4, 4, 3)))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 1), (4, 6, 3), (4, 6, 4)])
def test_grey_colour_and_alpha_arrays_decode(shape: tuple[int, ...]) -> None:
    image = decode(np.full(shape, 255, np.uint8))
    assert image.size_wh == (6, 4)
    assert near(image.pixels[0, 0], WHITE, 0)


def test_an_array_that_is_a_view_decodes(picture: Picture) -> None:
    flipped = np.asarray(picture("blue", "red"))[:, ::-1]
    assert is_red_then_blue(decode(flipped))


def test_a_picture_in_memory_is_not_changed(picture: Picture) -> None:
    mine = picture("red", "blue").convert("P")
    assert is_red_then_blue(decode(mine))
    assert mine.mode == "P"

"""The bytes of a file → an upright RGB picture of Pillow, within stated limits.

Nothing here loads numpy before it is needed, so that decoders, which only do this, start soon.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import PIL.Image

from wherein.errors import ImageError, InputError, MissingExtra, OversizedImage, UnreadableImage
from wherein.values.region import tiles

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Detail = Callable[[tuple[int, int]], int]
"""The shorter side that is enough, given an image's width and height."""
MAX_PIXELS: Final = 1 << 28
"""Pixels of one image, unless said otherwise: 268 million, which take Pillow a gigabyte at its four bytes each."""
_HUGE: Final = 1 << 26
"""Pixels from which a decoded image is made smaller before anything else: its copies would take gigabytes."""
_STRIP: Final = 1 << 22
"""Pixels of a huge image that are made smaller at a time: some ten megabytes, whatever they become in between."""
MAX_BYTES: Final = 1 << 30
"""The largest file that is read: four bytes for each of MAX_PIXELS."""

# Only formats that decode without running anything else; PIL's own list also holds PostScript.
_PILLOW_PLUGINS: Final = {
    "JPEG": "Jpeg",
    "PNG": "Png",
    "WEBP": "WebP",
    "GIF": "Gif",
    "TIFF": "Tiff",
    "BMP": "Bmp",
    "AVIF": "Avif",
}
"""Where Pillow reads a format: the beginning of its module's name."""
HEIF_BRANDS: Final = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")
RAW_SUFFIXES: Final = frozenset({".dng", ".nef", ".cr2", ".cr3", ".arw", ".raf", ".orf", ".rw2", ".pef"})
_PLAIN_SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff"})
_MORE_SUFFIXES: Final = frozenset({".bmp", ".dib", ".avif", ".avifs", ".heic", ".heif", ".hif"})
IMAGE_SUFFIXES: Final = RAW_SUFFIXES | _PLAIN_SUFFIXES | _MORE_SUFFIXES
_EXIF_ORIENTATION: Final = 0x0112
"""The EXIF tag of how a camera was held."""
_EXIF_IFD: Final = 0x8769
"""The EXIF tag of where further tags lie."""
_EXIF_TAKEN: Final = (0x9003, 0x9004)
"""The EXIF tags of when a picture was taken, then when it was digitised."""
_FIRST_YEAR: Final = 1826  # cameras without a clock write year 1, which is no time stamp anywhere
_UPRIGHT: Final = {
    2: PIL.Image.Transpose.FLIP_LEFT_RIGHT,
    3: PIL.Image.Transpose.ROTATE_180,
    4: PIL.Image.Transpose.FLIP_TOP_BOTTOM,
    5: PIL.Image.Transpose.TRANSPOSE,
    6: PIL.Image.Transpose.ROTATE_270,
    7: PIL.Image.Transpose.TRANSVERSE,
    8: PIL.Image.Transpose.ROTATE_90,
}
"""How a picture is turned upright, by its EXIF orientation; 1 is upright."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An upright RGB picture, which may be smaller than the file's `full_wh`, and when it was taken."""

    rgb: PIL.Image.Image
    full_wh: tuple[int, int]
    taken: datetime | None = None


@dataclass(frozen=True, slots=True)
class Enough:
    """The Detail of an encoder: each tile of an image, cut for inputs of `tile` pixels, has `side` at its shorter."""

    side: int
    tile: int

    def __call__(self, size_wh: tuple[int, int]) -> int:
        """The shorter side that is enough for an image of this size."""
        boxes = tiles(size_wh, input_side=self.tile)
        needed = [self.side / ((box.x2 - box.x1) * size_wh[0]) for box in boxes[:1]]
        needed += [self.side / ((box.y2 - box.y1) * size_wh[1]) for box in boxes[:1]]
        return max(self.side, math.ceil(max(needed, default=0.0) * min(size_wh)))


def picture_of(data: bytes, where: str, *, at_least: Detail | None = None, max_pixels: int = MAX_PIXELS) -> Picture:
    """Decode the bytes of a file that is called `where`; as `wherein.decode` does."""
    with failures_told(where):
        return _from_bytes(data, where, at_least=at_least, max_pixels=max_pixels)


@contextmanager
def failures_told(where: str) -> Iterator[None]:
    """Turn whatever a decoder raises into an error that says what is wrong with the image `where`."""
    try:
        yield
    except InputError:
        raise
    except MemoryError:
        raise OversizedImage(
            f"{where}: its file and its pixels together take more memory than there is for one image. "
            "Re-save it compressed (LZW, ZIP or JPEG) or smaller."
        ) from None
    except Exception as error:  # decoders raise nearly anything on broken files
        raise UnreadableImage(f"{where}: cannot be decoded ({_reason(error)}). Re-save or re-copy the file.") from error


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of an image file, or an UnreadableImage that says why not."""
    try:
        check_bytes(os.fspath(path), Path(path).stat().st_size)
        data = Path(path).read_bytes()
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        reason = getattr(error, "strerror", None) or error
        raise UnreadableImage(
            f"{os.fspath(path)}: cannot be read ({reason}). Check the path and who may read it."
        ) from error
    if not data:
        raise UnreadableImage(f"{os.fspath(path)}: is empty (zero bytes). Copy it again from its source.")
    return data


def check_bytes(name: str, size: int) -> None:
    """Refuse a file of more bytes than the limit, before it is read."""
    if size > MAX_BYTES:
        raise OversizedImage(
            f"{name}: {size:,} bytes are over the limit of {MAX_BYTES:,}. Re-save it compressed, or in parts."
        )


def may_pass(error: ImageError) -> bool:
    """Whether an image may be readable later, as it is: its file could not be opened, or memory was short."""
    cause = error.__cause__ or error.__context__
    # A decoder's own OSError, of a truncated file, has no number.
    return isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno is not None)


def looks_like_image(head: bytes) -> bool:
    """Whether the first 32 bytes of a file are those of a format we decode, whatever the file is called."""
    return _pillow_format(head) is not None or _is_heif(head)


def _from_bytes(data: bytes, where: str, *, at_least: Detail | None, max_pixels: int) -> Picture:
    head = data[:32]
    if _is_heif(head):
        return _from_heif(data, where, max_pixels)
    format_ = _pillow_format(head)
    # Most RAW files begin as TIFF does; a PNG that is called .nef is still a PNG.
    if Path(where).suffix.lower() in RAW_SUFFIXES and format_ in (None, "TIFF"):
        return _from_raw(data, where, max_pixels)
    if format_ is None:
        raise UnreadableImage(f"{where}: is not an image in a format wherein reads ({_known()}).")
    picture = _pillow_factory(format_)(io.BytesIO(data))
    full_wh = picture.size
    if format_ == "JPEG" and at_least is not None:
        # A progressive JPEG needs memory for all its coefficients at any scale, so all its pixels count.
        if picture.info.get("progressive"):
            check_pixels(full_wh, where, max_pixels)
        side = at_least(full_wh)
        picture.draft("RGB", (side, side))
    check_pixels(picture.size, where, max_pixels)
    return upright(picture, full_wh)


def upright(picture: PIL.Image.Image, full_wh: tuple[int, int]) -> Picture:
    """A picture turned as its camera was held, as RGB."""
    picture.load()  # first, because a TIFF turns itself upright as it loads, and then says so
    turn, taken = _exif(picture)
    rgb = _bounded(picture)
    if turn is not None:
        turned = rgb.transpose(turn)
        full_wh = full_wh if turned.size == rgb.size else (full_wh[1], full_wh[0])
        rgb = turned
    return Picture(rgb, full_wh, taken)


def _bounded(picture: PIL.Image.Image) -> PIL.Image.Image:
    """A picture as RGB; a huge one made smaller by a whole factor, strip by strip, so that no other copy is needed."""
    pixels = picture.size[0] * picture.size[1]
    if pixels <= _HUGE or picture.mode in ("I", "F"):  # whose values mean something only beside all the others
        return _to_rgb(picture)
    factor = math.ceil(math.sqrt(pixels / _HUGE))
    width, height = picture.size
    small = PIL.Image.new("RGB", (math.ceil(width / factor), math.ceil(height / factor)))
    rows = factor * max(1, _STRIP // (width * factor))
    for top in range(0, height, rows):
        strip = picture.crop((0, top, width, min(top + rows, height)))
        small.paste(_to_rgb(strip).reduce(factor), (0, top // factor))
    return small


def _to_rgb(picture: PIL.Image.Image) -> PIL.Image.Image:
    if picture.mode == "RGB":
        return picture
    if picture.mode.startswith("I") or picture.mode == "F":
        return PIL.Image.fromarray(_to_eight_bits(picture)).convert("RGB")
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        paper = PIL.Image.new("RGBA", layer.size, "white")
        return PIL.Image.alpha_composite(paper, layer).convert("RGB")
    return picture.convert("RGB")


def _to_eight_bits(picture: PIL.Image.Image) -> npt.NDArray[np.uint8]:
    """Grey values of 16 or 32 bits to 8: full scale where it is known, else the range that occurs."""
    import numpy as np

    values = np.asarray(picture)
    grey = np.nan_to_num(values.astype(np.float32))
    if values.dtype in (np.dtype("<u2"), np.dtype(">u2")) or (
        values.dtype == np.int32 and 255 < grey.max(initial=0) <= 65535
    ):
        return np.asarray(np.clip(grey / 257.0, 0, 255), np.uint8)
    low, high = float(grey.min(initial=0)), float(grey.max(initial=0))
    return np.asarray((grey - low) * (255.0 / max(high - low, 1e-12)), np.uint8)


def _from_heif(data: bytes, where: str, max_pixels: int) -> Picture:
    try:
        import pillow_heif
    except ImportError:
        raise MissingExtra(f"{where}: HEIC needs an extra: pip install 'wherein[formats]'.") from None
    picture = pillow_heif.open_heif(io.BytesIO(data))
    check_pixels(picture.size, where, max_pixels)
    return upright(picture.to_pillow(), picture.size)


def _from_raw(data: bytes, where: str, max_pixels: int) -> Picture:
    try:
        import rawpy
    except ImportError:
        raise MissingExtra(f"{where}: RAW needs an extra: pip install 'wherein[formats]'.") from None
    with rawpy.imread(io.BytesIO(data)) as raw:
        full_wh = (int(raw.sizes.width), int(raw.sizes.height))
        check_pixels(full_wh, where, max_pixels)
        pixels = raw.postprocess(half_size=True, use_camera_wb=True)
    if (pixels.shape[1] > pixels.shape[0]) != (full_wh[0] > full_wh[1]):
        full_wh = (full_wh[1], full_wh[0])
    return Picture(PIL.Image.fromarray(pixels), full_wh)


@cache
def load_formats() -> None:
    """Load what reads our formats, and nothing of the forty others that Pillow knows."""
    for name in _PILLOW_PLUGINS.values():
        with suppress(ImportError):  # a Pillow that was built without it
            import_module(f"PIL.{name}ImagePlugin")


def _pillow_format(head: bytes) -> str | None:
    load_formats()
    for format_ in _PILLOW_PLUGINS:
        accept = PIL.Image.OPEN[format_][1] if format_ in PIL.Image.OPEN else None
        if accept is not None and accept(head) is True:
            return format_
    return None


def _pillow_factory(format_: str) -> Callable[[io.BytesIO], PIL.Image.Image]:
    # Not PIL.Image.open: its pixel limit is one global for the whole process, ours belongs to the call.
    factory = PIL.Image.OPEN[format_][0]
    return lambda file: factory(file, "")


def _is_heif(head: bytes) -> bool:
    # An AVIF file may call itself mif1 first; then it names avif among its compatible brands.
    return head[4:8] == b"ftyp" and head[8:12] in HEIF_BRANDS and b"avif" not in head[16:]


def check_pixels(size_wh: tuple[int, int], where: str, max_pixels: int) -> None:
    """Refuse more pixels than the limit, before they are decoded."""
    width, height = size_wh
    if width * height > max_pixels:
        raise OversizedImage(
            f"{where}: {width}×{height} is {width * height:,} pixels, over the limit of {max_pixels:,}. "
            f"If you trust the file, raise it: max_pixels {width * height}."
        )


def _exif(picture: PIL.Image.Image) -> tuple[PIL.Image.Transpose | None, datetime | None]:
    """How to turn the picture upright, and when it was taken; neither where its EXIF cannot be read."""
    try:
        exif = picture.getexif()
        turn = _UPRIGHT.get(exif.get(_EXIF_ORIENTATION, 1))
        details = exif.get_ifd(_EXIF_IFD)
    except Exception:  # as with pixels, broken EXIF raises nearly anything; the picture is still there
        return None, None
    return turn, next(filter(None, (_moment(details.get(tag)) for tag in _EXIF_TAKEN)), None)


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.strptime(str(value)[:19], "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return None
    return moment if moment.year >= _FIRST_YEAR else None


def _known() -> str:
    return "JPEG, PNG, WebP, GIF, TIFF, BMP, AVIF; HEIC and RAW with the extra wherein[formats]"


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(error)  # LibRaw speaks in bytes
    return " ".join(text.split()).rstrip(".") or type(error).__name__

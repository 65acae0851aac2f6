"""A seeded corpus of malformed images and videos: every format that is read, harmed in every way that is common."""

import io
import random
import struct
from collections.abc import Iterator

import numpy as np
import PIL.Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF")


def whole(seed: int = 0) -> dict[str, bytes]:
    """One sound file of each format, and a clip."""
    draw = np.random.default_rng(seed)
    pixels = np.kron(draw.integers(0, 255, (6, 8, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
    picture, files = PIL.Image.fromarray(pixels), dict[str, bytes]()
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    for format_ in FORMATS:
        buffer = io.BytesIO()
        picture.save(buffer, format_, **({"exif": exif} if format_ in ("JPEG", "PNG", "WEBP") else {}))
        files[format_] = buffer.getvalue()
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", progressive=True)
    return files | {"progressive": buffer.getvalue(), "film": film(pixels)}


def film(pixels: np.ndarray) -> bytes:
    """A clip of a few frames."""
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = pixels.shape[1], pixels.shape[0], "yuv420p"
        for shift in range(6):
            frame = av.VideoFrame.from_ndarray(np.roll(pixels, shift * 8, axis=1), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return buffer.getvalue()


def harmed(data: bytes, draw: random.Random) -> bytes:
    """A file as a bad disk, a bad copy or a stranger would leave it."""
    out = bytearray(data)
    way = draw.randrange(7)
    if way == 0:  # flipped bits
        for _ in range(draw.randrange(1, 30)):
            out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    elif way == 1:  # cut short
        del out[draw.randrange(len(out)) :]
    elif way == 2:  # a number that means something, made extreme
        at = draw.randrange(max(1, len(out) - 4))
        out[at : at + 4] = draw.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0"])
    elif way == 3:  # a piece twice
        a, b = sorted(draw.randrange(len(out)) for _ in range(2))
        out[b:b] = out[a:b]
    elif way == 4:  # a piece gone
        a, b = sorted(draw.randrange(len(out)) for _ in range(2))
        del out[a : min(b, a + 200)]
    elif way == 5:  # larger than it is, in the head
        at = draw.randrange(min(64, max(1, len(out) - 4)))
        out[at : at + 4] = struct.pack(">I", draw.randrange(1 << 32))
    else:  # rubbish behind a good beginning
        at = draw.randrange(len(out))
        out[at:] = draw.randbytes(min(4096, len(out) - at))
    return bytes(out)


def malformed(count: int, *, seed: int) -> Iterator[tuple[str, bytes]]:
    """(format, bytes) of so many files."""
    draw, sound = random.Random(seed), whole(seed)
    for _ in range(count):
        format_ = draw.choice(list(sound))
        yield format_, harmed(sound[format_], draw)

"""Keyframes of real little films, made here."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from wherein.errors import InputError, UnreadableImage
from wherein.images import video
from wherein.images.video import is_video, keyframe_id, keyframes, seconds_of

Picture = Callable[..., PIL.Image.Image]
Film = Callable[..., Path]


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        pytest.param("", False, id="no name"),
        pytest.param("a.jpg", False, id="a photo"),
        pytest.param("a.mp4", True, id="a film"),
        pytest.param("A.MOV", True, id="a film in capitals"),
    ],
)
def test_a_film_is_known_by_its_name(name: str, answer: bool) -> None:
    assert is_video(name) is answer


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        pytest.param(0.0, "clip.mp4#t=0", id="the beginning"),
        pytest.param(12.48, "clip.mp4#t=12.48", id="no trailing zeros"),
        pytest.param(100.0, "clip.mp4#t=100", id="zeros before the point stay"),
        pytest.param(12345.678, "clip.mp4#t=12345.678", id="hours keep their milliseconds"),
    ],
)
def test_a_keyframe_is_named_by_its_time(seconds: float, written: str) -> None:
    assert keyframe_id("clip.mp4", seconds) == written


def colours(path: Path) -> list[tuple[float, list[int]]]:
    return [
        (frame.seconds, np.rint(frame.image.pixels.mean(axis=(0, 1)) / 255).astype(int).tolist())
        for frame in keyframes(path)
    ]


def test_one_image_per_keyframe_with_its_time(tmp_path: Path, film: Film) -> None:
    path = film(tmp_path / "clip.mp4", ["red", "blue", "white"])
    assert colours(path) == [(0.0, [1, 0, 0]), (2.0, [0, 0, 1]), (4.0, [1, 1, 1])]


def test_a_film_of_keyframes_only_is_thinned_to_one_a_second(tmp_path: Path, film: Film) -> None:
    path = film(tmp_path / "clip.avi", ["red", "blue"], codec="mjpeg")
    assert [seconds for seconds, _ in colours(path)] == [0.0, 1.0, 2.0, 3.0]


CODECS = [
    pytest.param("clip.mp4", "mpeg4", id="MPEG-4"),
    pytest.param("clip.mp4", "libx264", id="H.264"),
    pytest.param("clip.webm", "libvpx-vp9", id="VP9"),
    pytest.param("clip.mkv", "ffv1", id="FFV1"),
]


@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_twelve_scenes_behind_one_keyframe_are_twelve_images(tmp_path: Path, film: Film, name: str, codec: str) -> None:
    scenes = ["red", "blue", "white", "black"] * 3
    path = film(tmp_path / name, scenes, codec=codec, keys=1000)
    answers = {"red": [1, 0, 0], "blue": [0, 0, 1], "white": [1, 1, 1], "black": [0, 0, 0]}
    assert colours(path) == [(2.0 * number, answers[scene]) for number, scene in enumerate(scenes)]


@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_a_still_scene_is_its_keyframes_and_one_image_every_few_seconds(
    tmp_path: Path, film: Film, name: str, codec: str
) -> None:
    path = film(tmp_path / name, ["red"] * 8, codec=codec, keys=70)  # 16 s: keyframes at 0, 7 and 14
    assert [frame.seconds for frame in keyframes(path)] == [0.0, 5.0, 7.0, 12.0, 14.0]
    assert [frame.seconds for frame in keyframes(path, every=60)] == [0.0, 7.0, 14.0]
    assert [frame.seconds for frame in keyframes(path, every=4)] == [0.0, 4.0, 7.0, 11.0, 14.0]


@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_a_film_whose_every_frame_is_a_keyframe_is_thinned_whatever_made_it(
    tmp_path: Path, film: Film, name: str, codec: str
) -> None:
    path = film(tmp_path / name, ["red", "blue"], codec=codec, keys=1)
    assert [seconds for seconds, _ in colours(path)] == [0.0, 1.0, 2.0, 3.0]


def test_a_clip_has_no_more_images_than_the_most(tmp_path: Path, film: Film, monkeypatch: pytest.MonkeyPatch) -> None:
    path = film(tmp_path / "clip.mp4", ["red", "blue"] * 5, keys=5)
    assert len(list(keyframes(path))) == 40  # half a second apart, over 20 seconds
    monkeypatch.setattr(video, "MOST_FRAMES", 10)
    seconds = [frame.seconds for frame in keyframes(path, every=0.1)]
    assert len(seconds) <= 10
    assert seconds[-1] >= 16.0  # spread over the whole clip


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(5, 5.0), ("5s", 5.0), ("500ms", 0.5), (" 1.5 m", 90.0), ("2min", 120.0), ("1h", 3600.0), (".25", 0.25)],
)
def test_times_are_read_as_people_write_them(written: str | float, seconds: float) -> None:
    assert seconds_of(written) == seconds


@pytest.mark.parametrize("written", ["", 0, -1, "0s", "soon", "5 days", float("nan"), True])
def test_what_is_no_time_is_refused(written: str | float) -> None:
    with pytest.raises(InputError, match="give a time above zero"):
        seconds_of(written)


def test_turning_a_film_clockwise_moves_its_left_to_the_top(tmp_path: Path, film: Film) -> None:
    path = film(tmp_path / "clip.mp4", [("red", "blue")], size_wh=(64, 32))
    data = path.read_bytes()
    at = data.index(b"tkhd") + 4 + 40
    one, minus = (1 << 16).to_bytes(4, "big"), (-(1 << 16)).to_bytes(4, "big", signed=True)
    clockwise = bytes(4) + one + bytes(4) + minus + bytes(8)  # x' = -y, y' = x: what a phone held upright writes
    path.write_bytes(data[:at] + clockwise + data[at + len(clockwise) :])
    (first,) = keyframes(path)
    assert first.image.size_wh == (32, 64)
    top, bottom = first.image.pixels[8, 16], first.image.pixels[-8, 16]
    assert int(top.argmax()) == 0
    assert int(bottom.argmax()) == 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "cannot be decoded", id="an empty file"),
        pytest.param(b"this is no film", "cannot be decoded", id="a text"),
        pytest.param(b"\0\0\0\x20ftypisom" + bytes(100), "cannot be decoded", id="a head without a body"),
    ],
)
def test_a_bad_film_says_why(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(data)
    with pytest.raises(UnreadableImage, match=reason):
        list(keyframes(path))


def test_sound_alone_is_no_film(tmp_path: Path) -> None:
    import av

    path = tmp_path / "song.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        silence.sample_rate = 8000
        container.mux([*stream.encode(silence), *stream.encode(None)])
    with pytest.raises(UnreadableImage, match="no video stream"):
        list(keyframes(path))

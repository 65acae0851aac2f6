"""What many tests need: files in the toy encoder's colours, so that answers can be worked out by hand; runs on them."""

import io
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import settings

import wherein
from wherein.bench.evaluation import Evaluation
from wherein.encoders.toy import COLOURS, ToyEncoder
from wherein.values.records import AddReport

settings.register_profile("wherein", deadline=None)  # how long one example takes says nothing on a busy machine
settings.load_profile("wherein")

Paint = Callable[..., Path]
Lines = Callable[..., None]


def striped(*colours: str, size_wh: tuple[int, int] = (64, 48)) -> PIL.Image.Image:
    """Equal upright stripes of the named colours, left to right."""
    width, height = size_wh
    column = np.array([COLOURS[colours[x * len(colours) // width]] for x in range(width)], np.uint8)
    return PIL.Image.fromarray(np.broadcast_to(column, (height, width, 3)).copy())


@pytest.fixture
def picture() -> Callable[..., PIL.Image.Image]:
    """`picture("red", "blue")` is half red, half blue."""
    return striped


@pytest.fixture
def paint() -> Paint:
    """`paint(path, "red", "blue")` writes such a picture, and its folder; the format follows the suffix."""

    def save(path: Path, *colours: str, size_wh: tuple[int, int] = (64, 48), **options: object) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        striped(*colours, size_wh=size_wh).save(path, **options)  # type: ignore[arg-type]
        return path

    return save


@pytest.fixture
def paint_square(paint: Paint) -> Paint:
    """`paint` at 64 × 64 pixels, the size at which the toy encoder looks at a picture."""
    return partial(paint, size_wh=(64, 64))


@pytest.fixture
def encoded() -> Callable[..., bytes]:
    """`encoded(picture, "JPEG", quality=95)` is the picture as a file of that format."""

    def save(picture: PIL.Image.Image, format_: str, **options: Any) -> bytes:
        buffer = io.BytesIO()
        picture.save(buffer, format_, **options)
        return buffer.getvalue()

    return save


@pytest.fixture
def folder(tmp_path: Path, paint: Paint) -> Path:
    """Four pictures that no two share a colour share in."""
    root = tmp_path / "pictures"
    paint(root / "red.png", "red")
    paint(root / "blue.png", "blue")
    paint(root / "holiday" / "half.png", "red", "blue")
    paint(root / "holiday" / "third.png", "red", "blue", "green")
    return root


@pytest.fixture
def folder_ids() -> list[str]:
    """What the pictures of `folder` are called in its collection."""
    return ["blue.png", "holiday/half.png", "holiday/third.png", "red.png"]


@pytest.fixture
def collection(folder: Path) -> Iterator[wherein.Collection]:
    """An empty toy collection inside `folder`."""
    with wherein.open(folder, create=True, encoder="toy") as opened:
        yield opened


@pytest.fixture
def did() -> Callable[[AddReport], dict[str, int]]:
    """`did(report)` is what is not zero in it, without the time it took."""

    def tell(report: AddReport) -> dict[str, int]:
        names = ("added", "changed", "completed", "renamed", "duplicates", "removed", "unchanged")
        counts = {name: getattr(report, name) for name in names} | {"skipped": len(report.skipped)}
        return {name: count for name, count in counts.items() if count}

    return tell


@pytest.fixture
def encoding_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """After `encoding_is_forbidden()` a test fails when anything is encoded again."""

    def fail(self: ToyEncoder, batch: object) -> None:
        pytest.fail("something was encoded again")

    return lambda: monkeypatch.setattr(ToyEncoder, "images", fail)


@pytest.fixture
def film() -> Callable[..., Path]:
    """`film(path, ["red", "blue"])` is a film of 10 frames a second that shows each picture for two seconds.

    Each picture begins with a keyframe, and is the only one unless the codec makes every frame one; with `keys`, every
    so many frames are.
    """

    def make(
        path: Path,
        scenes: list[str | tuple[str, ...]],
        *,
        codec: str = "mpeg4",
        size_wh: tuple[int, int] = (64, 48),
        keys: int = 20,
    ) -> Path:
        import av
        from av.video.stream import VideoStream

        with av.open(str(path), "w") as container:
            never = "0" if codec == "libx264" else "1000000000"  # keyframes where scenes change
            stream = container.add_stream(codec, rate=10, options={"g": str(keys), "sc_threshold": never})
            assert isinstance(stream, VideoStream)
            stream.width, stream.height = size_wh
            stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            for scene in scenes:
                picture = striped(*([scene] if isinstance(scene, str) else scene), size_wh=size_wh)
                for _ in range(20):
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")))
            container.mux(stream.encode(None))
        return path

    return make


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """`serve(folder, …, settings=…, bounds=…)` serves collections for real, on a free port; returns the address."""
    import threading
    import time
    from contextlib import ExitStack

    import uvicorn

    from wherein.server.app import create_app
    from wherein.server.connections import Bounds, config
    from wherein.server.settings import Settings

    with ExitStack() as stopping:

        def start(*folders: Path, settings: Settings | None = None, bounds: Bounds | None = None) -> str:
            app = create_app(folders, settings)
            server = uvicorn.Server(config(app, bounds=bounds, port=0, timeout_graceful_shutdown=1))
            thread = threading.Thread(target=server.run)
            thread.start()

            def stop() -> None:
                server.should_exit = True
                thread.join(timeout=20)

            stopping.callback(stop)
            deadline = time.monotonic() + 20
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.01)
            return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

        yield start


@pytest.fixture
def served(collection: wherein.Collection, folder: Path, serve: Callable[..., str]) -> str:
    """The address of a server with the four pictures, as the collection `pictures`."""
    collection.add(folder)
    return serve(folder)


@pytest.fixture
def cover() -> Callable[..., np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]:
    """`cover(7)` is a picture full of corners that no other seed shares, uint8 (h, w, 3)."""

    def draw(seed: int, *, size_wh: tuple[int, int] = (240, 320)) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        random = np.random.default_rng(seed)
        width, height = size_wh
        picture = np.full((height, width, 3), random.integers(0, 256, 3), np.uint8)
        for _ in range(90):
            x, y = int(random.integers(0, width - 8)), int(random.integers(0, height - 8))
            w, h = (int(side) for side in random.integers(6, 48, 2))
            picture[y : y + h, x : x + w] = random.integers(0, 256, 3)
        return picture

    return draw


@pytest.fixture(scope="session")
def outside() -> Callable[[Sequence[bool], int, Sequence[Any]], dict[Any, float]]:
    """`outside(hits, missed, measures)` is what ir_measures says of one ranking; missed items are relevant too."""
    import ir_measures

    def calculate(hits: Sequence[bool], missed: int, measures: Sequence[Any]) -> dict[Any, float]:
        run = [ir_measures.ScoredDoc("q", f"d{n}", float(len(hits) - n)) for n in range(len(hits))]
        qrels = [ir_measures.Qrel("q", f"d{n}", int(hit)) for n, hit in enumerate(hits)]
        qrels += [ir_measures.Qrel("q", f"missed{n}", 1) for n in range(missed)]
        return dict(ir_measures.calc_aggregate(measures, qrels, run))

    return calculate


@pytest.fixture
def lines() -> Lines:
    """`lines(path, record, …)` writes an ndjson file, and its folder."""

    def write(path: Path, *records: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")

    return write


@pytest.fixture
def colours() -> tuple[str, ...]:
    """The colours of the benchmark folders below, one to a photo, a cover or a frame."""
    return ("red", "green", "blue", "yellow", "purple", "orange")


@pytest.fixture
def captions_data(tmp_path: Path, colours: tuple[str, ...], paint_square: Paint, lines: Lines) -> Path:
    """One photo per colour, captioned with its colour, and one caption that is wrong."""
    root = tmp_path / "captions"
    for colour in colours:
        paint_square(root / f"images/{colour}.png", colour)
    records = [{"image": f"images/{c}.png", "captions": [f"a {c} wall", f"all {c}"]} for c in colours]
    records[0]["captions"] = ["a red wall", "a blue wall"]
    lines(root / "captions.jsonl", *records)
    return root


@pytest.fixture
def covers_data(tmp_path: Path, colours: tuple[str, ...], paint_square: Paint, lines: Lines) -> Path:
    """Each query is the cover of its colour with a white edge."""
    root = tmp_path / "covers"
    for colour in colours:
        paint_square(root / f"database/{colour}.png", colour, "white")
        paint_square(root / f"queries/{colour}.png", colour, colour, colour, "white")
    lines(
        root / "qrels.jsonl",
        *({"query": f"queries/{c}.png", "relevant": [f"database/{c}.png"]} for c in colours),
    )
    return root


@pytest.fixture
def searchad_data(tmp_path: Path, paint_square: Paint) -> Path:
    """Three labels whose images are colours; the train split feeds random support sets."""
    root = tmp_path / "searchad"
    labels = {"Animal-Real-Cow": "red", "Object-Ball": "blue", "Sign-Train-Sign": "green"}
    for split in ("train", "val"):
        document: dict[str, Any] = {}
        for label, colour in labels.items():
            for n in range(6):
                name = f"kitti/{split}/{colour}-{n}.png"
                paint_square(root / name, colour, *(["white"] * (n % 2)))
                side = 8 * (n + 1)
                document[name] = [{"label": label, "bbox": [0, 0, side, side]}]
        (root / f"searchad_annotations_{split}.json").write_text(json.dumps(document))
    for label, colour in labels.items():
        vision = {
            f"kitti/train/{colour}-{n}.png": [{"bbox": {"min_x": 0, "min_y": 0, "max_x": 32, "max_y": 64}}]
            for n in range(2)
        }
        language = {"keywords": [colour, f"{colour} thing"], "descriptions": [f"a {colour} thing on a grey road"]}
        path = root / f"default_queries/{label}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"supportsets": {"vision": vision, "language": language}}))
    mapping = {str(n): f"kitti/val/red-{n}.png" for n in range(6)}
    (root / "searchad_test_mapping_id_to_imagepath.json").write_text(json.dumps(mapping))
    return root


@pytest.fixture
def subregion_data(tmp_path: Path, colours: tuple[str, ...], paint: Paint) -> Path:
    """Six frames of one colour each on the left; an annotation describes a colour."""
    root = tmp_path / "subregion"
    for n, colour in enumerate(colours):
        paint(root / f"frames/video{n // 3}/{n}.png", colour, "white", size_wh=(68, 38))
    for folder, frames in (("skippable", (0, 1, 2, 3)), ("non_skippable", (4, 5))):
        records = [
            {
                "id": frame,
                "frameIdx": frame,
                "desc_short": colours[frame],
                "desc_long": f"something {colours[frame]} in the water",
                "rect": [340, 380, 10, 5],
            }
            for frame in frames
        ]
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "anna.json").write_text(json.dumps(records))
    return root


@pytest.fixture
def go() -> Callable[..., Evaluation]:
    """`go("covers", data, out, method="toy")` runs a benchmark; further words are its options."""
    from wherein.bench.run import Plan, run
    from wherein.bench.task import Variant

    def start(benchmark: str, data: Path, out: Path, *, method: str = "toy", **options: Any) -> Evaluation:
        return run(Plan(benchmark=benchmark, data=data, method=method, out=out, options=Variant(**options)))

    return start


@pytest.fixture
def figures() -> Callable[[Evaluation], dict[str, Any]]:
    """`figures(evaluation)` are its scores without what differs from machine to machine."""
    machine = ("timing", "bytes_per_image")
    return lambda evaluation: {name: value for name, value in evaluation.scores.items() if name not in machine}


class Faulty:
    """A real S3 server, and what is done to requests before they reach it."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.reset()

    def reset(self) -> None:
        """Do nothing to requests."""
        self.failing, self.failed, self.stalling, self.about = 0, 0, 0, ""
        self.released = threading.Event()
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.asked = list[tuple[str, str, str]]()

    def __call__(self, environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environment["REQUEST_METHOD"], environment["PATH_INFO"]
        self.asked.append((method, path, environment.get("HTTP_RANGE", "")))
        self.before(method, path)
        concerned = method in ("GET", "PUT") and self.about in path
        if concerned and self.stalling > 0:
            self.stalling -= 1
            self.released.wait(30)
        if concerned and self.failing > 0:
            self.failing -= 1
            self.failed += 1
            start("500 Internal Server Error", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = self._app(environment, start)
        return answer


@pytest.fixture(scope="session")
def s3() -> Iterator[tuple[str, Faulty]]:
    """The address of a real S3 server on this machine, and its faults."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    faulty = Faulty(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, faulty, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", faulty
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bucket(s3: tuple[str, Faulty], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Faulty]]:
    """An address in an empty bucket, and the server's faults; credentials and caches are in the environment."""
    import fsspec

    from wherein import remote

    for name, value in {
        "AWS_ENDPOINT_URL": s3[0],
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "hush-hush",
        "AWS_DEFAULT_REGION": "us-east-1",
        "WHEREIN_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "PAUSE_SECONDS", 0.01)
    remote.folder_at.cache_clear()
    fsspec.filesystem("s3").clear_instance_cache()
    files = fsspec.filesystem("s3")
    name = f"bucket-{secrets.token_hex(4)}"
    files.mkdir(name)
    s3[1].reset()
    yield f"s3://{name}/photos", s3[1]
    s3[1].released.set()
    s3[1].reset()

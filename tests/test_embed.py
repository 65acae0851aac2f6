"""The batching loop: every task has its outcome, in any number of workers, and every failure reaches the caller."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from wherein.arrays import Floats, unit
from wherein.encoders import Encoded
from wherein.encoders.toy import ToyEncoder
from wherein.images.image import Pixels, decode
from wherein.images.thumbnail import thumbnail
from wherein.indexing.stages import BATCH, IndexTask, Known, Outcome, Prepared, Read, Skipped, Stages
from wherein.indexing.threads import Threads
from wherein.layers import detail, layers_of
from wherein.layers.dense import Dense
from wherein.layers.patches import PatchRows
from wherein.store.manifest import THUMBS
from wherein.store.piece import Piece
from wherein.values.records import FileRecord
from wherein.values.region import Box

Picture = Callable[..., PIL.Image.Image]
KINDS = ("global", "patches", "thumbs")


def task(source: Path) -> IndexTask:
    return IndexTask(FileRecord("", source.name, 1, 2_000_000_000), source.name, source)


def embed(
    tasks: Sequence[IndexTask],
    *,
    encoder: ToyEncoder | None = None,
    workers: int = 2,
    known: Callable[[FileRecord], bool] = lambda _: False,
    kinds: Sequence[str] = KINDS,
) -> list[Outcome]:
    return list(Threads(workers=workers).run(Stages(encoder or ToyEncoder(), kinds), tasks, known=known))


def pieces(outcomes: Sequence[Outcome]) -> dict[str, Piece]:
    return {outcome.image.image_id: outcome for outcome in outcomes if isinstance(outcome, Piece)}


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_no_tasks_have_no_outcomes(workers: int) -> None:
    assert embed([], workers=workers) == []


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH + 3])
def test_every_task_has_one_outcome(picture: Picture, workers: int, count: int) -> None:
    tasks = [IndexTask(FileRecord("", str(n), 0, 0), str(n), picture("red")) for n in range(count)]
    assert sorted(pieces(embed(tasks, workers=workers)), key=int) == [str(n) for n in range(count)]


def test_a_piece_holds_what_the_encoder_says(tmp_path: Path, paint: Callable[..., Path]) -> None:
    (piece,) = pieces(embed([task(paint(tmp_path / "a.png", "red", "blue"))])).values()
    colours, patches = (rows.values for rows in piece.rows.values())
    expected = np.zeros(11)
    expected[[3, 5]] = 0.5**0.5
    np.testing.assert_allclose(colours[0].astype(float), expected, atol=1e-3)
    assert patches.shape == (1, 4, 4, 11)
    assert patches[0, 0, 0, 3] == patches[0, 0, 3, 5] == 127
    assert [rows.boxes for rows in piece.rows.values()] == [(None,), (None,)]
    assert piece.image.size_wh == (64, 48)
    assert piece.image.taken == 2.0
    assert piece.last
    assert decode(piece.blobs[THUMBS]).size_wh == (64, 48)


def test_layers_that_were_not_asked_for_are_not_made(picture: Picture) -> None:
    (piece,) = pieces(embed([IndexTask(FileRecord("", "a", 0, 0), "a", picture("red"))], kinds=("global",))).values()
    assert [name.partition(".")[0] for name in piece.rows] == ["global"]
    assert piece.blobs == {}


def test_a_panorama_has_a_row_for_the_whole_and_one_a_tile(picture: Picture) -> None:
    wide = picture("red", "green", "blue", size_wh=(600, 200))
    (piece,) = pieces(embed([IndexTask(FileRecord("", "a", 0, 0), "a", wide)])).values()
    (colours, _) = piece.rows.values()
    assert colours.boxes == (None, Box(0, 0, 1 / 3, 1), Box(1 / 3, 0, 2 / 3, 1), Box(2 / 3, 0, 1, 1))
    assert colours.values.argmax(axis=1)[1:].tolist() == [3, 4, 5]


def test_a_bad_file_is_skipped_with_its_reason_and_the_rest_goes_on(tmp_path: Path, paint: Callable[..., Path]) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"this is no image")
    tasks = [task(tmp_path / "bad.jpg"), task(paint(tmp_path / "a.png", "red")), task(tmp_path / "gone.jpg")]
    outcomes = embed(tasks)
    assert list(pieces(outcomes)) == ["a.png"]
    reasons = {outcome.file.path: outcome.reason for outcome in outcomes if isinstance(outcome, Skipped)}
    assert reasons["bad.jpg"].startswith("is not an image in a format wherein reads")
    assert reasons["gone.jpg"].startswith("cannot be read (No such file or directory)")


def test_known_content_is_not_encoded(tmp_path: Path, paint: Callable[..., Path]) -> None:
    path = paint(tmp_path / "a.png", "red")
    hashes = list[bytes]()

    def known(file: FileRecord) -> bool:
        hashes.append(file.hash)
        return True

    (outcome,) = embed([task(path)], known=known)
    assert isinstance(outcome, Known)
    assert [outcome.file.hash] == hashes
    (other,) = embed([task(path)], known=lambda file: file.hash == hashes[0])
    assert isinstance(other, Known)


def test_arrays_of_equal_bytes_and_other_shape_are_other_images() -> None:
    hashes = set[bytes]()
    for shape in ((2, 8, 3), (8, 2, 3), (4, 4, 3)):
        (piece,) = pieces(embed([IndexTask(FileRecord("", "a", 0, 0), "a", np.zeros(shape, np.uint8))])).values()
        hashes.add(piece.file.hash)
    assert len(hashes) == 3


def test_a_film_keeps_its_order_and_only_its_last_keyframe_ends_it(tmp_path: Path, film: Callable[..., Path]) -> None:
    path = film(tmp_path / "clip.mp4", ["red", "blue", "green"])
    outcomes = [outcome for outcome in embed([task(path)]) if isinstance(outcome, Piece)]
    assert [piece.image.image_id for piece in outcomes] == ["clip.mp4#t=0", "clip.mp4#t=2", "clip.mp4#t=4"]
    assert [piece.image.seconds for piece in outcomes] == [0.0, 2.0, 4.0]
    assert [piece.last for piece in outcomes] == [False, False, True]
    assert len({piece.file.hash for piece in outcomes}) == 1


# --- failures ------------------------------------------------------------------------------------------


class Failing(ToyEncoder):
    """Fails on its second batch."""

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def images(self, batch: Pixels) -> Encoded:
        """Embed, once."""
        self._calls += 1
        if self._calls > 1:
            raise FloatingPointError("the encoder broke")
        return super().images(batch)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_what_breaks_in_the_encoder_reaches_the_caller(picture: Picture, workers: int) -> None:
    tasks = [IndexTask(FileRecord("", str(n), 0, 0), str(n), picture("red")) for n in range(20 * BATCH)]
    with pytest.raises(FloatingPointError, match="the encoder broke"):
        embed(tasks, encoder=Failing(), workers=workers)
    assert not embedding_threads()


@pytest.mark.parametrize("workers", [1, 3])
def test_what_breaks_in_the_source_of_tasks_reaches_the_caller(picture: Picture, workers: int) -> None:
    def tasks() -> Iterator[IndexTask]:
        yield IndexTask(FileRecord("", "a", 0, 0), "a", picture("red"))
        raise LookupError("no more tasks")

    with pytest.raises(LookupError, match="no more tasks"):
        list(Threads(workers=workers).run(Stages(ToyEncoder(), KINDS), tasks(), known=lambda _: False))
    assert not embedding_threads()


@pytest.mark.parametrize("workers", [1, 3])
def test_a_caller_that_stops_early_leaves_no_thread_behind(picture: Picture, workers: int) -> None:
    taken = list[str]()

    def tasks() -> Iterator[IndexTask]:
        for number in range(100_000):
            taken.append(str(number))
            yield IndexTask(FileRecord("", str(number), 0, 0), str(number), picture("red"))

    run = Threads(workers=workers).run(Stages(ToyEncoder(), KINDS), tasks(), known=lambda _: False)
    next(run)
    run.close()
    assert not embedding_threads()
    assert len(taken) < 1000  # no more was read ahead than the queue between the workers and the caller holds


def embedding_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("wherein-embed")]


# --- small parts ---------------------------------------------------------------------------------------


def test_the_detail_is_the_encoders_input_and_more_for_tiles() -> None:
    enough = detail(ToyEncoder())
    assert enough((10, 10)) == 64  # asked of the decoder, which never enlarges
    assert enough((4000, 3000)) == 64
    assert enough((900, 300)) == 64  # three tiles of 300 × 300 at 64
    assert enough((16384, 8192)) == 128  # tiles of 4096 × 4096 at 64


@pytest.mark.parametrize(
    ("size_wh", "expected"),
    [((1, 1), (1, 1)), ((256, 100), (256, 100)), ((1024, 512), (256, 128)), ((30_000, 10), (256, 1))],
)
def test_a_thumb_is_small_and_keeps_its_shape(
    picture: Picture, size_wh: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert decode(thumbnail(decode(picture("red", size_wh=size_wh)))).size_wh == expected


def test_a_layer_states_what_it_holds() -> None:
    whole, patches = layers_of(ToyEncoder("8"), ("global", "patches", "dense"))
    assert (whole.kind, whole.shape, whole.dtype, whole.row_bytes) == ("global", (11,), "float16", 22)
    assert (patches.kind, patches.shape, patches.dtype, patches.row_bytes) == ("patches", (8, 8, 11), "int8", 704)
    assert whole.spec == "toy:8"
    assert os.sep not in whole.name
    assert whole.name != layers_of(ToyEncoder(), ("global",))[0].name


def test_patches_are_stored_as_int8_and_in_the_encoders_basis() -> None:
    class Compact(ToyEncoder):
        """Keeps the first two of eleven colours."""

        patch_basis: Floats | None = np.eye(11, 2, dtype=np.float32)

    vectors = unit(np.arange(22, dtype=np.float32).reshape(1, 1, 2, 11))
    (layer,) = layers_of(Compact(), ("patches",))
    assert layer.shape == (4, 4, 2)
    rows = PatchRows("patches").rows(Encoded(vectors[0, 0], vectors), (None,), Compact())
    np.testing.assert_array_equal(rows.values, np.rint(vectors[..., :2] * 127).astype(np.int8))


def test_an_encoder_that_breaks_its_promise_is_named() -> None:
    with pytest.raises(TypeError, match="toy promised dense"):
        Dense("dense").rows(Encoded(np.zeros((1, 11), np.float32)), (None,), ToyEncoder())


def test_stages_sent_to_another_process_make_the_same_rows(
    tmp_path: Path, paint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))  # where the other process finds this file
    stages = Stages(ToyEncoder("8"), ("global", "patches", "thumbs", "local"))
    asked = task(paint(tmp_path / "a.png", "red", "blue"))
    here = stages.encode(list(stages.prepare(stages.read(asked))))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        read = pool.submit(stages.read, asked).result()
        prepared = pool.submit(prepare_all, stages, read).result()
        there = pool.submit(stages.encode, prepared).result()
    (one,), (other,) = (pieces(outcomes).values() for outcomes in (here, there))
    assert (one.file, one.image, one.blobs) == (other.file, other.image, other.blobs)
    assert one.rows.keys() == other.rows.keys()
    for name in one.rows:
        np.testing.assert_array_equal(one.rows[name].values, other.rows[name].values)


def prepare_all(stages: Stages, read: Read) -> list[Prepared]:
    """What another process is asked to do."""
    return list(stages.prepare(read))

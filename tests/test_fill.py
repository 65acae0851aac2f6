"""Layers added later: only what is missing is made, and files of equal content share it."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import wherein
from wherein.store.shards import read_blob
from wherein.values.records import AddReport

Paint = Callable[..., Path]
Did = Callable[[AddReport], dict[str, int]]
Forbid = Callable[[], None]


def shards(collection: wherein.Collection) -> dict[str, bytes]:
    """Every shard by its path, with its bytes."""
    base = collection.folder / "shards"
    return {path.relative_to(base).as_posix(): path.read_bytes() for path in base.rglob("*.npy")}


def rows(collection: wherein.Collection) -> dict[tuple[str, str], list[bytes]]:
    """Of every layer and image, the bytes of its rows; a slow machine may have cut them into other shards."""
    store, found = collection._store, dict[tuple[str, str], list[bytes]]()
    names = dict(store.catalogue.live_images())
    for layer in store.manifest.layers:
        counts = {shard: written.rows for shard, _, written in store.catalogue.shards(layer)}
        for key, shard, row in (line[:3] for line in store.catalogue.live_rows(layer).fetchall()):
            array = store.array(layer, shard)
            one = array[row].tobytes() if array.ndim > 1 else bytes(read_blob(array, rows=counts[shard], row=row))
            found.setdefault((layer, names[key]), []).append(one)
    return found


def test_adding_a_layer_writes_that_layer_alone(collection: wherein.Collection, folder: Path, did: Did) -> None:
    collection.add(folder, layers=("global", "patches", "thumbs"))
    before = shards(collection)
    assert did(collection.add(layers=("cells",))) == {"completed": 4}
    after = shards(collection)
    assert before.items() <= after.items(), "nothing that was there is written again"
    assert {name.partition(".")[0] for name in after.keys() - before.keys()} == {"cells"}
    assert {layer.images for layer in collection.info().layers} == {4}
    assert did(collection.add()) == {"unchanged": 4}


@pytest.mark.parametrize("layer", ["local", "thumbs"])
def test_a_layer_without_the_encoder_is_made_without_it(
    collection: wherein.Collection, folder: Path, did: Did, encoding_is_forbidden: Forbid, layer: str
) -> None:
    collection.add(folder, layers=("global",))
    encoding_is_forbidden()
    assert did(collection.add(layers=(layer,))) == {"completed": 4}


def test_the_same_rows_are_made_now_or_later(collection: wherein.Collection, folder: Path, tmp_path: Path) -> None:
    kinds = ("patches", "cells", "proposals", "pyramid", "static-5", "local", "thumbs")
    shutil.copytree(folder, tmp_path / "again", ignore=shutil.ignore_patterns(".wherein"))
    collection.add(folder, layers=("global", *kinds), workers=1)
    with wherein.open(tmp_path / "again", create=True, encoder="toy") as other:
        other.add(tmp_path / "again", layers=("global",), workers=1)
        for kind in kinds:
            other.add(layers=(kind,), workers=1)
        assert rows(other) == rows(collection)
        assert {kind.partition(".")[0] for kind, _ in rows(other)} >= set(kinds)


def test_a_film_gets_a_layer_for_each_of_its_frames(
    collection: wherein.Collection, folder: Path, film: Callable[..., Path], did: Did
) -> None:
    film(folder / "clip.mp4", ["red", "blue", "green"])
    collection.add(folder, layers=("global",))
    assert did(collection.add(layers=("patches",))) == {"completed": 7}
    assert collection.search("red", method="patches", k=20).searched == 7


@pytest.mark.parametrize("layer", ["local", "thumbs"])
def test_a_film_gets_a_layer_that_needs_no_encoder(
    collection: wherein.Collection, folder: Path, film: Callable[..., Path], did: Did, layer: str
) -> None:
    film(folder / "clip.mp4", ["red", "blue", "green"])
    collection.add(folder, layers=("global",))
    assert did(collection.add(layers=(layer,))) == {"completed": 7}
    assert next(one.images for one in collection.info().layers if one.kind == layer) == 7


def test_a_file_that_cannot_be_read_now_keeps_the_layers_it_has(
    collection: wherein.Collection, folder: Path, did: Did
) -> None:
    collection.add(folder, layers=("global", "thumbs"))
    status = (folder / "red.png").stat()
    (folder / "red.png").write_bytes(b"x" * status.st_size)
    os.utime(folder / "red.png", ns=(status.st_atime_ns, status.st_mtime_ns))  # its content alone tells
    report = collection.add(layers=("patches",))
    assert did(report) == {"completed": 3, "skipped": 1}
    assert "has changed since it was looked at" in report.skipped[0].reason
    assert collection.search("red")[0].image_id == "red.png"
    assert len(collection.search("red", method="patches")) == 3


def test_a_file_that_moved_takes_its_tags_to_the_new_layer(
    collection: wherein.Collection, folder: Path, did: Did
) -> None:
    collection.add(folder, layers=("global",))
    collection.tag("mine", ["red.png"])
    (folder / "red.png").rename(folder / "crimson.png")
    assert did(collection.add(layers=("patches",))) == {"renamed": 1, "completed": 4}
    assert collection.image_ids(tags=["mine"]) == ["crimson.png"]


def test_one_of_several_equal_files_is_read_for_all(
    collection: wherein.Collection, folder: Path, did: Did, encoding_is_forbidden: Forbid
) -> None:
    for name in ("a.png", "z.png"):
        shutil.copyfile(folder / "red.png", folder / name)
    collection.add(folder, layers=("global", "thumbs"))
    collection.add(folder / "z.png", layers=("patches",))
    encoding_is_forbidden()
    assert did(collection.add(folder / "a.png", folder / "red.png")) == {"completed": 2}


# --- what earlier versions left behind -------------------------------------------------------------------


def double(collection: wherein.Collection, image_id: str) -> None:
    """Give an image the rows of its equal twice over, as earlier versions did when a layer was added."""
    with sqlite3.connect(collection.folder / "catalogue.sqlite") as db:
        (key,) = db.execute("SELECT id FROM images WHERE image_id = ?", (image_id,)).fetchone()
        shards = db.execute("SELECT DISTINCT shard FROM rows WHERE image = ?", (key,)).fetchall()
        for (shard,) in shards:
            layer, rows, size, crc = db.execute(
                "SELECT layer, rows, bytes, crc FROM shards WHERE id = ?", (shard,)
            ).fetchone()
            new = db.execute(
                "INSERT INTO shards(layer, rows, bytes, crc) VALUES (?,?,?,?)", (layer, rows, size, crc)
            ).lastrowid
            base = collection.folder / "shards" / layer
            shutil.copyfile(base / f"{shard:06d}.npy", base / f"{new:06d}.npy")
            db.execute(
                "INSERT INTO rows(shard, row, image, box) SELECT ?, row, image, box FROM rows "
                "WHERE shard = ? AND image = ?",
                (new, shard, key),
            )
    db.close()


def scores(collection: wherein.Collection, part: wherein.Part, method: str) -> dict[str, float]:
    """What every image scores."""
    return {hit.image_id: hit.score for hit in collection.search([part], method=method)}


@pytest.mark.parametrize("mend", ["add", "compact", "check"])
def test_rows_that_are_there_twice_are_noticed_and_mended(
    collection: wherein.Collection, folder: Path, paint: Paint, mend: str
) -> None:
    paint(folder / "wide.png", "red", "blue", "green", size_wh=(600, 200))
    shutil.copyfile(folder / "wide.png", folder / "copy.png")
    collection.add(folder, layers=("global", "patches", "cells", "proposals", "static-5"))
    methods = ("whole", "patches", "static-5", "proposals", "static-5~crop")
    where = wherein.Part(text="red", where=wherein.Box(0, 0, 0.3, 1))
    before = {method: scores(collection, where, method) for method in methods}
    double(collection, "copy.png")
    assert collection.check(repair=False).doubled == 1
    getattr(collection, mend)()
    assert collection.check(repair=False).doubled == 0
    for method in methods:
        # The two are the same picture: which of them comes first is decided by the last bit of a sum.
        assert scores(collection, where, method) == pytest.approx(before[method], abs=1e-6), method

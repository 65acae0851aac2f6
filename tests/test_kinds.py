"""Which layers a collection keeps: it remembers its own, more join them, and what they lack is told."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

import wherein
from wherein.errors import InputError
from wherein.indexing.layer_choice import kinds_to_keep
from wherein.layers import DEFAULT_KINDS
from wherein.store.manifest import Layer, Manifest

Paint = Callable[..., Path]
SMALL = Manifest(
    encoder="toy",
    layers={
        "global.toy.old": Layer("global.toy.old", "global", "toy", "old"),
        "thumbs": Layer("thumbs", "thumbs"),
        "local.rootsift.1": Layer("local.rootsift.1", "local", "rootsift", "1"),
    },
)


def kept(collection: wherein.Collection) -> dict[str, int]:
    return {layer.kind: layer.images for layer in collection.info().layers}


@pytest.mark.parametrize(
    ("manifest", "encoder", "asked", "expected"),
    [
        pytest.param(Manifest(), "toy", None, DEFAULT_KINDS, id="a new collection keeps the usual ones"),
        pytest.param(Manifest(), "toy", ("global",), ("global",), id="or those that are asked for, alone"),
        pytest.param(Manifest(), "toy", "local", ("global", "local"), id="and always global"),
        pytest.param(SMALL, "toy", None, ("global", "thumbs", "local"), id="a known one what it has"),
        pytest.param(SMALL, "toy", "cells", ("global", "thumbs", "local", "cells"), id="and what is added"),
        pytest.param(SMALL, "mini", None, ("global", "thumbs", "local"), id="a new encoder what the old one has"),
        pytest.param(SMALL, "mini", ("global", "dense"), ("global", "dense", "thumbs", "local"), id="or is asked for"),
    ],
)
def test_what_is_kept(manifest: Manifest, encoder: str, asked: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert set(kinds_to_keep(manifest, encoder=encoder, asked=asked)) == set(expected)


def test_a_new_image_joins_every_layer_the_collection_keeps(
    collection: wherein.Collection, folder: Path, paint: Paint
) -> None:
    collection.add(folder, layers=("global", "thumbs", "local"))
    paint(folder / "new.png", "yellow")
    collection.add(folder)
    assert kept(collection) == {"global": 5, "thumbs": 5, "local": 5}
    collection.add(folder, layers=("cells",))
    assert kept(collection) == {"global": 5, "thumbs": 5, "local": 5, "cells": 5}


def test_a_layer_that_lacks_images_is_told(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder, layers=("global", "thumbs"))
    assert collection.search("red").notes == ()
    collection.add(folder / "holiday", layers=("patches",))
    assert collection.search("red", method="patches").notes == (
        "patches of toy covers 2 of 4 images: run `wherein index` to complete it.",
    )
    collection.add()
    assert collection.search("red", method="patches").notes == ()


def test_local_features_that_lack_images_are_told(
    collection: wherein.Collection, folder: Path, cover: Callable[..., Any]
) -> None:
    shutil.rmtree(folder / "holiday")
    for number in range(2):
        PIL.Image.fromarray(cover(number)).save(folder / f"cover{number}.png")
    collection.add(folder, layers=("global", "thumbs"))
    collection.add(folder / "cover0.png", layers=("local",))
    said = "local covers 1 of 4 images: run `wherein index` to complete it."
    assert said in collection.search(folder / "cover0.png", method="bow").notes
    collection.add()
    assert said not in collection.search(folder / "cover0.png", method="bow").notes


def test_another_encoder_that_lacks_images_names_itself(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    collection.add(folder / "holiday", encoder="toy:8")
    (note,) = collection.search("red", method="toy:8").notes
    assert note == "global of toy:8 covers 2 of 4 images: run `wherein index --encoder toy:8` to complete it."


@pytest.mark.parametrize("layers", [("",), ("patchs",), ("global", "nothing")])
def test_layers_that_cannot_be_are_refused_with_those_that_can(
    collection: wherein.Collection, folder: Path, layers: tuple[str, ...]
) -> None:
    with pytest.raises(InputError, match="global"):
        collection.add(folder, layers=layers)


def test_a_method_whose_layer_is_missing_says_how_to_add_it(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder, layers=("global",))
    with pytest.raises(InputError, match="wherein index --encoder toy --layers"):
        collection.search("red", method="patches")
    assert collection.add(folder, layers=("global", "patches")).completed == 4
    assert len(collection.search("red", method="patches")) == 4

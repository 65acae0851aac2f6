"""Many clients at once: no error of the server, and neither memory nor descriptors grow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import PIL.Image
from figures import note, size
from load import ASKED, run

import wherein

GROWTH = 200 << 20
"""Bytes that the server may hold more at the end than early on: what it keeps of answers is bounded, not nothing."""


def test_a_server_bears_many_clients(collection: wherein.Collection, folder: Path, cover: Callable[..., Any]) -> None:
    PIL.Image.fromarray(cover(0)).save(folder / "cover.png")
    collection.add(folder, layers=["global", "patches", "cells", "local"])
    collection.close()
    found = run(folder, clients=size(8, 100), seconds=size(6, 600))
    note("load", **found)
    assert found["errors"] == 0, found
    assert set(found["kinds"]) == set(ASKED)
    assert found["bytes_late"] - found["bytes_early"] < GROWTH
    assert found["descriptors_late"] <= found["descriptors_early"] + 16

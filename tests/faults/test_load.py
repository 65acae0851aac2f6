"""Many clients at once: no error of the server, and neither memory nor descriptors grow."""

from pathlib import Path

from figures import note, size
from load import run

import wherein

GROWTH = 200 << 20
"""Bytes that the server may hold more at the end than early on: what it keeps of answers is bounded, not nothing."""


def test_a_server_bears_many_clients(collection: wherein.Collection, folder: Path) -> None:
    collection.add(folder)
    collection.close()
    found = run(folder, clients=size(8, 100), seconds=size(6, 600))
    note("load", **found)
    assert found["errors"] == 0, found
    assert found["requests"] > 0
    assert found["bytes_late"] - found["bytes_early"] < GROWTH
    assert found["descriptors_late"] <= found["descriptors_early"] + 16

"""A flipped bit in any file of a collection that has everything: it is found, and costs at most what it was in."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from figures import note, size

import wherein
from wherein.files import write_durably
from wherein.sums import digest_name

METHODS = ("", "static-9", "toy+dba", "bow", "vlad+qe")
"""Each keeps something else under derived/."""
MARKS = (("red.png", "blue.png", "memory/0"), ("memory/1",))


@pytest.fixture
def home(collection: wherein.Collection, folder: Path, cover: Callable[..., Any]) -> Path:
    """A collection of files and of images from memory, with all that people and searches leave in it."""
    for number in range(3):
        PIL.Image.fromarray(cover(number)).save(folder / f"cover{number}.png")
    collection.add(folder, layers=["global", "patches", "cells", "local"], index="compressed:2")
    for number in range(3):
        collection.add((f"memory/{number}", np.full((48, 64, 3), number * 60, np.uint8)))
    collection.tag("mine", ["red.png", "memory/1"])
    collection.remove("holiday/third.png")
    collection.tag("theirs", ["blue.png", "memory/0"])
    collection.train("taught")
    collection.calibrate([wherein.Judgement(wherein.Query.of("red"), frozenset({"red.png"}), frozenset({"blue.png"}))])
    for method in METHODS:
        collection.search(folder / "cover1.png", method=method)
    upload = (folder / "cover2.png").read_bytes()  # as the server keeps what was sent to search with
    write_durably(collection.folder / "derived" / "examples" / digest_name(upload), upload)
    collection.close()
    return collection.folder


def answers(collection: wherein.Collection, folder: Path) -> dict[str, list[str]]:
    found = {
        method: [hit.image_id for hit in collection.search(folder / "cover1.png", method=method, k=50)]
        for method in METHODS
    }
    return found | {"label": [hit.image_id for hit in collection.search("label:mine", method="toy:taught", k=50)]}


def test_every_flipped_bit_of_every_file_is_found_and_costs_at_most_what_it_was_in(home: Path, folder: Path) -> None:
    with wherein.open(home) as opened:
        before = answers(opened, folder)
    spare, draw, tries, unfound = home.with_name("spare"), random.Random(19), 0, list[tuple[str, int]]()
    shutil.copytree(home, spare)
    files = sorted(path for path in spare.rglob("*") if path.is_file() and path.stat().st_size)
    assert {path.relative_to(spare).parts[0] for path in files} >= {"shards", "derived", "kept", "copies"}
    for path in files if size(0, 1) else draw.sample(files, 6):
        for _ in range(size(1, 6)):
            harmed, at = home / path.relative_to(spare), draw.randrange(path.stat().st_size)
            data = bytearray(harmed.read_bytes())
            data[at] ^= 1 << draw.randrange(8)
            harmed.write_bytes(data)
            found = wherein.mend(home)
            with wherein.open(home) as opened:
                report = opened.check()
                opened.add()
                if not found and not report.broken:
                    unfound.append((path.relative_to(spare).as_posix(), at))
                for method, ids in answers(opened, folder).items():
                    assert set(before[method]) - set(ids) <= set(report.lost), (path, at, method)
                assert opened.image_ids(tags=["mine"]) == ["memory/1", "red.png"], (path, at)
                assert opened.ignored() == ["holiday/third.png"], (path, at)
                assert opened.check().broken == (), (path, at)
            tries += 1
            shutil.rmtree(home)
            shutil.copytree(spare, home)
    assert unfound == []
    note("flipped bits", tries=tries, unfound=0, lost=0)

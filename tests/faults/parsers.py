"""Everything that reads what a stranger wrote, by name: texts of people, and files of others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wherein.bench.pickles import read_npy, read_pickle
from wherein.images.video import seconds_of
from wherein.store.manifest import Manifest
from wherein.store.seals import Seal
from wherein.sums import is_as_it_says
from wherein.values.method import Method
from wherein.values.query import parse_image, parse_negative, parse_text
from wherein.values.records import stamp
from wherein.values.region import Box, Grid, place

PARSERS: dict[str, Callable[[str], Any]] = {
    "box": Box.parse,
    "grid": Grid.parse,
    "place": place,
    "method": Method.parse,
    "text": parse_text,
    "image": parse_image,
    "negative": parse_negative,
    "date": lambda text: stamp(text),
    "seconds": seconds_of,
}
FILES: dict[str, Callable[[Path], Any]] = {
    "manifest": Manifest.read,
    "pickle": read_pickle,
    "npy": read_npy,
    "seal": Seal.read,
    "sums": lambda path: is_as_it_says(path.rename(path.with_suffix(".json"))),
}

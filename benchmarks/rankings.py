"""Whether another version of wherein ranks the same images alike: both search one collection, which the other wrote.

    python benchmarks/rankings.py FOLDER --against SRC [--methods mini patches …] [--texts "a dog" …] [--examples 4]

FOLDER holds images, SRC is the `src` folder of the other version (`git worktree add`). The other version runs with this
version's weights of `mini`, so that what differs is code; both must be able to read them (versions before texts were
levelled by kind can not: compare those from a worktree of `f270ca9`, the last that shares their files). It indexes
FOLDER; each version then searches a copy of that collection for every image, by examples (images of the folder, evenly
spread), by texts and by texts at a place. Scores are compared image by image: where all lie within 1e-5 (of the score,
where it is above 1) the rankings are the same up to ties. Else it is told how many of the first ten images are the
same, and the greatest difference.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import wherein
from wherein.encoders.mini import FILES
from wherein.images.image import IMAGE_SUFFIXES

TOLERANCE = 1e-5
"""What two scores may differ by and still be the same: the design's own limit for versions that must agree."""
METHODS = (
    "mini",
    "patches",
    "static-9",
    "static-36",
    "mini+qe",
    "mini+diffusion",
    "mini+dba",
    "bow",
    "vlad",
    "mini+sp",
)
TEXTS = ("a dog", "a person in the water", "a blue car on a street", "a drawing of an animal")
EACH = """
import json, sys, wherein
place, asked = sys.argv[1], json.loads(sys.argv[2])
with wherein.open(place, create="folder" in asked, encoder="mini") as collection:
    if "folder" in asked:
        collection.add(asked["folder"], layers=asked["layers"])
        print("{}")
        sys.exit()
    box = wherein.Box(0.0, 0.0, 0.6, 0.6)
    queries = {f"example {path}": wherein.Part(image=path) for path in asked["examples"]}
    queries |= {f"text {text}": wherein.Part(text=text) for text in asked["texts"]}
    queries |= {f"place {text}": wherein.Part(text=text, where=box) for text in asked["texts"]}
    found = {}
    for method in asked["methods"]:
        for name, part in queries.items():
            try:
                hits = collection.search(wherein.Query((part,)), method=method, k=100_000)
                found[f"{method}|{name}"] = {hit.image_id: hit.score for hit in hits}
            except wherein.WhereinError as error:
                found[f"{method}|{name}"] = f"{type(error).__name__}"
    print(json.dumps(found))
"""
"""What each version runs; both understand it."""


def main() -> None:
    """Print one line for each method and kind of query."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--texts", nargs="+", default=TEXTS)
    parser.add_argument("--examples", type=int, default=4, help="how many, at least one")
    parser.add_argument("--layers", nargs="+", default=("global", "patches", "cells", "dense", "thumbs", "local"))
    given = parser.parse_args()
    walked = [
        Path(home) / name for home, _, names in os.walk(given.folder.absolute(), followlinks=True) for name in names
    ]
    images = sorted(path for path in walked if path.suffix.lower() in IMAGE_SUFFIXES)
    step = max(1, len(images) // given.examples)
    examples = [str(path) for path in images[::step][: given.examples]]
    here = Path(wherein.__file__).parents[1]
    with tempfile.TemporaryDirectory() as temporary:
        other = with_weights(given.against.resolve(), here, Path(temporary) / "src")
        written = Path(temporary) / "written"
        run(other, written, {"folder": str(given.folder.absolute()), "layers": list(given.layers)})
        asked = {"methods": list(given.methods), "texts": list(given.texts), "examples": examples}
        answers = []
        for number, source in enumerate((here, other)):
            place = Path(temporary) / f"copy-{number}"
            shutil.copytree(written, place)
            answers.append(run(source, place, asked))
    print(f"{given.folder.name}: {len(images)} images, scores of every image by this version and by the other")
    for method in given.methods:
        for kind in ("example", "text", "place"):
            pairs = [
                (own, answers[1][name]) for name, own in answers[0].items() if name.startswith(f"{method}|{kind} ")
            ]
            print(f"  {method}, {kind}: {compared(pairs)}")


def with_weights(source: Path, here: Path, place: Path) -> Path:
    """A copy of the other version's code with this version's weights."""
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        weights = Path("wherein/encoders/weights/mini") / name
        shutil.copy(here / weights, place / weights)
    return place


def run(source: Path, place: Path, asked: dict[str, object]) -> dict[str, dict[str, float] | str]:
    """What one version answers, in a process of its own."""
    words = [sys.executable, "-c", EACH, str(place), json.dumps(asked)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    ended = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, dict[str, float] | str] = json.loads(ended.stdout)
    return answer


def compared(pairs: Sequence[tuple[dict[str, float] | str, dict[str, float] | str]]) -> str:
    """In words: how many rankings are the same, and how far the others are apart."""
    same, refused, apart, first = 0, 0, 0.0, 10
    for ours, theirs in pairs:
        if isinstance(ours, str) or isinstance(theirs, str):
            refused += ours == theirs
            continue
        if ours.keys() != theirs.keys():
            return f"other images are found: {len(ours)} against {len(theirs)}"
        gaps = [abs(ours[name] - theirs[name]) / max(1.0, abs(theirs[name])) for name in ours]
        same += max(gaps, default=0.0) <= TOLERANCE
        apart = max(apart, *gaps, 0.0)
        tops = [set(sorted(found, key=lambda name: (-found[name], name))[:10]) for found in (ours, theirs)]
        first = min(first, len(tops[0] & tops[1]) + 10 - min(10, len(ours)))
    asked = len(pairs) - refused
    told = f"{same} of {asked} the same" if asked else "refused by both"
    return told if same == asked else f"{told}; scores up to {apart:.2g} apart, at least {first} of the first ten alike"


if __name__ == "__main__":
    main()

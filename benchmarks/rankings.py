"""Whether another version of wherein ranks the same images alike: both search one collection, which the other wrote.

    python benchmarks/rankings.py FOLDER… --against SRC [--methods whole patches …] [--texts "a dog" …] [--examples 4]

Each FOLDER holds images, SRC is the `src` folder of the other version (`git archive COMMIT src | tar x`). Both versions
use the towers of this version's `mini` as an encoder `onnx:FOLDER`, which every version reads alike, so that what
differs is code and not weights. The other version indexes each FOLDER; each version then searches a copy of that
collection for every image, by examples (images of the folder, evenly spread), by texts and by texts at a place. Scores
are compared image by image: where all lie within 1e-5 (of the score, where it is above 1) the rankings are the same up
to ties. Else it is told how many of the first ten images are the same, and the greatest difference.
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

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import wherein
from wherein.encoders.mini import MAX_TOKENS, WEIGHTS
from wherein.images.picture import IMAGE_SUFFIXES

TOLERANCE = 1e-5
"""What two scores may differ by and still be the same: the design's own limit for versions that must agree."""
METHODS = (
    "whole",
    "patches",
    "patches~alone",
    "static-9",
    "static-9~alone",
    "static-36",
    "static-36~best",
    "whole+qe",
    "whole+diffusion",
    "whole+dba",
)
TEXTS = ("a drawing of an animal", "a painting of a house", "a sketch of a person walking", "a poster with a car")
"""All ask for something drawn: how much drawings lose where photographs are meant has changed on purpose."""
EACH = """
import json, sys, wherein
place, asked = sys.argv[1], json.loads(sys.argv[2])
with wherein.open(place, create="folder" in asked, encoder=asked["encoder"]) as collection:
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
    """Print one line for each folder, method and kind of query."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--texts", nargs="+", default=TEXTS)
    parser.add_argument("--examples", type=int, default=4, help="how many, at least one")
    parser.add_argument("--layers", nargs="+", default=("global", "patches", "cells"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        encoder = f"onnx:{as_onnx_folder(Path(temporary) / 'towers')}"
        for number, folder in enumerate(given.folders):
            compare_in(folder.absolute(), Path(temporary) / str(number), encoder, given)


def compare_in(folder: Path, place: Path, encoder: str, given: argparse.Namespace) -> None:
    """Print how both versions rank the images of one folder."""
    walked = [Path(home) / name for home, _, names in os.walk(folder, followlinks=True) for name in names]
    images = sorted(path for path in walked if path.suffix.lower() in IMAGE_SUFFIXES)
    step = max(1, len(images) // given.examples)
    examples = [str(path) for path in images[::step][: given.examples]]
    sources = Path(wherein.__file__).parents[1], given.against.resolve()
    written = place / "written"
    run(sources[1], written, {"encoder": encoder, "folder": str(folder), "layers": list(given.layers)})
    asked = {"encoder": encoder, "methods": list(given.methods), "texts": list(given.texts), "examples": examples}
    answers = []
    for number, source in enumerate(sources):
        copy = place / f"copy-{number}"
        shutil.copytree(written, copy)
        answers.append(run(source, copy, asked))
    print(f"{folder.name}: {len(images)} images, scores of every image by this version and by the other", flush=True)
    for method in given.methods:
        for kind in ("example", "text", "place"):
            pairs = [
                (own, answers[1][name]) for name, own in answers[0].items() if name.startswith(f"{method}|{kind} ")
            ]
            print(f"  {method}, {kind}: {compared(pairs)}", flush=True)


def as_onnx_folder(place: Path) -> Path:
    """The towers of `mini` as a folder of an `onnx:` encoder: pixels come as floats, and hubs are not levelled."""
    place.mkdir()
    tower = onnx.load(WEIGHTS / "image.onnx")
    values = tower.graph.input.pop(0)
    tower.graph.input.append(helper.make_tensor_value_info("floats", TensorProto.FLOAT, ["n", 3, 256, 256]))
    tower.graph.initializer.append(numpy_helper.from_array(np.float32(255), "full"))
    nodes = [
        helper.make_node("Mul", ["floats", "full"], ["scaled"]),
        helper.make_node("Round", ["scaled"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["bytes"], to=TensorProto.UINT8),
        helper.make_node("Transpose", ["bytes"], [values.name], perm=[0, 2, 3, 1]),
    ]
    for node in reversed(nodes):
        tower.graph.node.insert(0, node)
    onnx.save(tower, place / "image.onnx")
    for name in ("text.onnx", "tokenizer.json"):
        shutil.copy(WEIGHTS / name, place / name)
    said = {"size": 256, "mean": [0, 0, 0], "std": [1, 1, 1], "context": MAX_TOKENS}
    said |= {"image_output": "global", "patch_output": "patches"}
    (place / "encoder.json").write_text(json.dumps(said))
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

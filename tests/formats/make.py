"""Writes a small collection and the answers it gives, with the version of wherein that is installed.

    python tests/formats/make.py 0.1

Run once for every released format, with that release; what it wrote is kept beside it and must open ever after.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

import wherein
from wherein import Box, Part

COLOURS = {
    "red": (255, 0, 0),
    "green": (0, 160, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 230, 0),
    "white": (255, 255, 255),
}
LAYERS = ("global", "patches", "cells", "thumbs", "local", "proposals", "pyramid", "static-9")
METHODS = (
    "", "toy", "whole~max", "append-short", "append-long", "patches", "patches~alone", "static-5", "static-9",
    "static-9~any", "static-9~best", "static-9~crop", "static-36", "static-9~alone", "static-9@0.1", "proposals",
    "proposals~alone", "pyramid", "toy~gaussian", "toy+qe", "toy+dba", "toy+dba~average+qe~average", "toy+diffusion",
    "toy+segrank", "bow", "vlad", "asmk", "bow+sp", "vlad+qe", "vlad+dba", "bow+sp+propagate", "bow+proposals",
    "asmk+static-9", "toy+bow", "toy+bow+sp", "toy+sp", "toy+bow+sp+propagate", "bow+sp~affine", "toy+locate",
    "static-9+locate~similar",
)  # fmt: skip


def pictures() -> Iterator[tuple[str, PIL.Image.Image]]:
    """Forty pictures: two coloured stripes under the same kind of seeded blobs, which give local features."""
    names = list(COLOURS)
    for number in range(40):
        rng = np.random.default_rng(number)
        left, right = names[number % 5], names[(number * 3 + 1) % 5]
        pixels = np.zeros((180, 240, 3), np.float32)
        pixels[:, :120], pixels[:, 120:] = COLOURS[left], COLOURS[right]
        # Every fourth picture shows the texture of the one before it, so that local features have something to find.
        texture = np.random.default_rng(1000 + number - (number % 4 == 3)).integers(0, 256, (30, 40), dtype=np.uint8)
        big = PIL.Image.fromarray(texture).resize((240, 180), PIL.Image.Resampling.BICUBIC)
        seen = pixels * (0.5 + 0.5 * np.asarray(big, np.float32)[..., None] / 255) + rng.normal(0, 2, pixels.shape)
        yield f"{number:02d}-{left}-{right}.png", PIL.Image.fromarray(seen.clip(0, 255).astype(np.uint8))


def queries() -> dict[str, list[dict[str, Any]]]:
    """What is asked: texts, places, negatives, an example, a region of one, and an example with a text."""
    place = [0.0, 0.0, 0.5, 0.6]
    return {
        "text": [{"text": "red"}],
        "two texts": [{"text": "red"}, {"text": "a green tree", "weight": 0.5}],
        "placed": [{"text": "blue", "where": place}],
        "avoiding": [{"text": "yellow"}, {"text": "blue", "negative": True}],
        "example": [{"image": 3}],
        "region": [{"image": 11, "box": [0.1, 0.1, 0.6, 0.9]}],
        "mixed": [{"image": 3}, {"text": "red", "where": place}],
        "two examples": [{"image": 19}, {"image": 15, "negative": True}],
    }


def parts_of(written: list[dict[str, Any]], images: list[PIL.Image.Image]) -> list[Part]:
    """The parts of a query as `queries` spells them."""
    said = []
    for one in written:
        own = dict(one)
        for name in ("where", "box"):
            if name in own:
                own[name] = Box(*own[name])
        if "image" in own:
            own["image"] = np.asarray(images[own["image"]])
        said.append(Part(**own))
    return said


def answers(collection: wherein.Collection, images: list[PIL.Image.Image]) -> dict[str, Any]:
    """Of every method and query the hits, or the error's kind where it is refused."""
    found = dict[str, Any]()
    for method in METHODS:
        for name, written in queries().items():
            try:
                ranking = collection.search(parts_of(written, images), method=method, k=12)
            except wherein.WhereinError as error:
                found[f"{method} | {name}"] = type(error).__name__
                continue
            found[f"{method} | {name}"] = {
                "kind": ranking.score_kind,
                "hits": [
                    [hit.image_id, hit.score, hit.confidence, None if hit.box is None else str(hit.box), hit.inliers]
                    for hit in ranking
                ],
            }
    return found


def main(version: str) -> None:
    """Write `VERSION/collection` and `VERSION/answers.json`."""
    home = Path(__file__).parent / version
    shutil.rmtree(home, ignore_errors=True)
    named = list(pictures())
    with wherein.open(home / "images", create=True, encoder="toy") as collection:
        collection.add(*named, layers=list(LAYERS))
        collection.remove(named[-1][0])
        collection.tag("kept", [named[0][0]])
        told = answers(collection, [picture for _, picture in named])
    (home / "images" / ".wherein").rename(home / "collection")
    (home / "images").rmdir()
    (home / "collection" / "write.lock").unlink(missing_ok=True)
    shutil.rmtree(home / "collection" / "derived", ignore_errors=True)
    (home / "answers.json").write_text(json.dumps(told, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])

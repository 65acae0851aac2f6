"""How much should the whole image count beside its best proposal? Names of boxed things, asked among their photographs.

    python benchmarks/proposals.py TRAIN_FOLDER [--photos 500] [--out out/proposals]

TRAIN_FOLDER holds `regions.jsonl` and the archives that it names. Each name that three photographs or more bear is
asked as "a NAME"; an image is right where a box bears the name. Printed for every share: mAP, the mAP of photographs
whose box is below a twentieth of the image, on how many names it wins and loses against the whole image alone, and
half the 95 % interval of the mean difference.
"""

from __future__ import annotations

import argparse
import json
import random
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import wherein
from wherein.search.words import proposals

SHARES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
SMALL = 0.05
EQUAL = 0.005
"""Average precisions that differ less are called equal."""
Areas = dict[str, dict[str, float]]
"""name → image → the area of its largest box of that name"""


def main() -> None:
    """Unpack, index, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--photos", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("out/proposals"))
    asked = parser.parse_args()
    areas = unpacked(asked.data, asked.out / "photos", count=asked.photos)
    with wherein.open(asked.out / "collection", create=True, encoder="mini") as collection:
        collection.add(asked.out / "photos", layers=("global", "patches", "proposals"))
    base = precisions(asked.out / "collection", areas, "whole")
    tell("whole", base, base)
    tell("patches", precisions(asked.out / "collection", areas, "patches"), base)
    for share in SHARES:
        proposals.WHOLE_SHARE = share  # type: ignore[misc]
        tell(f"proposals, {share:g}", precisions(asked.out / "collection", areas, "proposals"), base)


def unpacked(data: Path, folder: Path, *, count: int) -> Areas:
    """Write some boxed photographs to a folder; returns what is in them."""
    lines = [json.loads(line) for line in (data / "regions.jsonl").read_text("utf-8").splitlines()]
    random.Random(0).shuffle(lines)
    folder.mkdir(parents=True, exist_ok=True)
    areas: Areas = defaultdict(dict)
    for line in lines[:count]:
        with zipfile.ZipFile(data / line["shard"]) as archive:
            (folder / line["file"]).write_bytes(archive.read(line["file"]))
        for one in line["boxes"]:
            x1, y1, x2, y2 = one["box"]
            own = areas[one["text"]]
            own[line["file"]] = max(own.get(line["file"], 0.0), (x2 - x1) * (y2 - y1))
    return {name: own for name, own in areas.items() if len(own) > 2}


def precisions(folder: Path, areas: Areas, method: str) -> dict[str, tuple[float, float | None]]:
    """Of each name, the average precision of all its photographs, and of those with small boxes where two have one."""
    found = dict[str, tuple[float, float | None]]()
    with wherein.open(folder) as collection:
        for name, own in areas.items():
            ranked = [hit.image_id for hit in collection.search(f"a {name}", method=method, k=len(collection))]
            small = {image for image, area in own.items() if area < SMALL}
            rest = [image for image in ranked if image not in own or image in small]
            found[name] = (precision(ranked, set(own)), precision(rest, small) if len(small) > 1 else None)
    return found


def precision(ranked: Sequence[str], right: set[str]) -> float:
    """Average precision: the mean, over right images, of the share of right ones up to each."""
    places = [place for place, image in enumerate(ranked, 1) if image in right]
    return sum(number / place for number, place in enumerate(places, 1)) / len(right)


def tell(name: str, found: dict[str, tuple[float, float | None]], base: dict[str, tuple[float, float | None]]) -> None:
    """Print a row."""
    gains = np.array([found[one][0] - base[one][0] for one in found])
    small = [value for _, value in found.values() if value is not None]
    half = 1.96 * gains.std() / len(gains) ** 0.5
    mean = np.mean([value for value, _ in found.values()])
    print(
        f"{name:<16} mAP {mean:.3f}  small {np.mean(small):.3f}  wins {(gains > EQUAL).sum():>3}  "
        f"losses {(gains < -EQUAL).sum():>3}  of {len(gains)}  {gains.mean():+.3f} ± {half:.3f}"
    )


if __name__ == "__main__":
    main()

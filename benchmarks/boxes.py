"""What do boxes teach a label? The same examples with and without their boxes: docs/results/learning.md.

    python benchmarks/boxes.py EVAL_FOLDER [--out out/boxes] [--seeds 5]

The aquarium photographs are halved by chance; 2, 4 and 8 photographs of each label teach `wherein train`, and each
label is searched in patches among the other half: the mean average precision, and how often the best patch of a
photograph that shows the label lies in one of its boxes.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import wherein
from learning import interval
from wherein.search.head import average_precision

COUNTS = (2, 4, 8)


def main() -> None:
    """Index, train, search, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("eval", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/boxes"))
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    folder = asked.out / "underwater"
    if not folder.exists():
        shutil.copytree(asked.eval / "underwater" / "images", folder)
    lines = [json.loads(line) for line in (asked.eval / "underwater" / "boxes.jsonl").open()]
    boxes = {Path(line["image"]).name: line["boxes"] for line in lines}
    print("| examples | mAP without boxes | with | points right without boxes | with |")
    print("|---:|---:|---:|---:|---:|")
    with wherein.open(folder, create=True, encoder="mini") as collection:
        collection.add(folder, layers=("global", "patches"))
        for count in COUNTS:
            found = [
                [searched(collection, boxes, count, seed, boxed=boxed) for seed in range(asked.seeds)]
                for boxed in (False, True)
            ]
            cells = [
                f"{np.mean(own):.1f} ± {interval(own):.1f}"
                for figure in (0, 1)
                for own in ([one[figure] for one in each] for each in found)
            ]
            print(f"| {count} | {' | '.join(cells)} |", flush=True)


def searched(
    collection: wherein.Collection, boxes: dict[str, list[dict[str, Any]]], count: int, seed: int, *, boxed: bool
) -> tuple[float, float]:
    """The mean average precision of the labels, and the share of right photographs that are pointed at, in percent."""
    chance = np.random.default_rng(seed)
    names = chance.permutation(sorted(boxes)).tolist()
    pool, tested = names[::2], names[1::2]
    labels = sorted({box["label"] for name in names for box in boxes[name]})
    shows = {name: {box["label"] for box in boxes[name]} for name in names}
    having = [label for label in labels if sum(label in shows[name] for name in pool) >= count]
    taken = sorted({name for label in having for name in [one for one in pool if label in shows[one]][:count]})
    collection.train("boxed", document(boxes, taken, having, boxed=boxed))
    precisions, pointed = list[float](), list[bool]()
    for label in having:
        hits = list(collection.search(f"label:{label}", method="mini:boxed+patches", k=len(collection)))
        hits = [hit for hit in hits if hit.image_id in set(tested)]
        right = np.array([label in shows[hit.image_id] for hit in hits])
        precisions.append(100 * average_precision(-np.arange(len(hits), dtype=np.float32), right))
        pointed += [inside(hit, boxes[hit.image_id], label) for hit in hits if label in shows[hit.image_id]]
    return float(np.mean(precisions)), 100 * float(np.mean(pointed))


def document(
    boxes: dict[str, list[dict[str, Any]]], names: list[str], labels: list[str], *, boxed: bool
) -> dict[str, Any]:
    """Some photographs as a COCO document of a thousand pixels a side."""
    annotations = [
        {"image_id": number, "category_id": labels.index(box["label"]), "bbox": corner(box["box"]) if boxed else None}
        for number, name in enumerate(names)
        for box in boxes[name]
        if box["label"] in labels
    ]
    return {
        "images": [{"id": n, "file_name": name, "width": 1000, "height": 1000} for n, name in enumerate(names)],
        "categories": [{"id": n, "name": label} for n, label in enumerate(labels)],
        "annotations": annotations,
    }


def corner(box: list[float]) -> list[float]:
    """xyxy in [0, 1] as COCO's corner and sides, in pixels."""
    x1, y1, x2, y2 = (1000 * side for side in box)
    return [x1, y1, x2 - x1, y2 - y1]


def inside(hit: wherein.Hit, boxes: list[dict[str, Any]], label: str) -> bool:
    """Whether the middle of a hit's box lies in a box of the label."""
    if hit.box is None:
        return False
    x, y = (hit.box.x1 + hit.box.x2) / 2, (hit.box.y1 + hit.box.y2) / 2
    own = (box["box"] for box in boxes if box["label"] == label)
    return any(x1 <= x <= x2 and y1 <= y <= y2 for x1, y1, x2, y2 in own)


if __name__ == "__main__":
    main()

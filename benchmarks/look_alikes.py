"""Look-alikes of the papers' benchmarks in their exact formats, made of the development sets, for docs/papers.md.

    python benchmarks/look_alikes.py --data DATA --out look-alikes

DATA holds `eval/` and `train/` of the development data. The images of `searchad` come from the training data (they
alone have boxes with names), so its figures say that the commands work, not how good an encoder is.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.Image

NAMES = {
    "cat": "Animal-Real-Cat", "cow": "Animal-Real-Cow", "dog": "Animal-Real-Dog", "horse": "Animal-Real-Horse",
    "sheep": "Animal-Real-Sheep", "elephant": "Animal-Statue-Elephant", "sports ball": "Object-Ball",
    "fire hydrant": "Object-Hydrant", "suitcase": "Object-Suitcase-Trolley", "skateboard": "Rideable-Skateboard",
    "skis": "Rideable-Ski", "train": "Vehicle-Special-Train",
}  # fmt: skip
SOURCES = ("kitti", "cityscapes", "mapillary_vistas", "nuscenes")


def searchad(data: Path, out: Path) -> None:
    """Boxed photographs: a third to train, two thirds to validate; support sets from the training third."""
    splits: dict[str, dict[str, Any]] = {"train": {}, "val": {}}
    sides: dict[str, tuple[int, int]] = {}
    lines = [json.loads(line) for line in (data / "train" / "regions.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        split = "train" if number % 3 == 0 else "val"
        name = f"{SOURCES[number % len(SOURCES)]}/{split}/{Path(line['file']).stem}.jpg"
        with zipfile.ZipFile(data / "train" / line["shard"]) as archive:
            picture = PIL.Image.open(io.BytesIO(archive.read(line["file"]))).convert("RGB")
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        picture.save(out / name, quality=90)
        sides[name] = (width, height) = picture.size
        entries = []
        for box in line["boxes"]:
            x1, y1, x2, y2 = box["box"]
            pixels = [round(x1 * width), round(y1 * height), round(x2 * width), round(y2 * height)]
            entries.append({"label": NAMES.get(box["text"], f"Other-{box['text']}"), "bbox": pixels})
        splits[split][name] = entries
    for split, document in splits.items():
        (out / f"searchad_annotations_{split}.json").write_text(json.dumps(document))
    (out / "searchad_test_mapping_id_to_imagepath.json").write_text("{}")
    for word, label in NAMES.items():
        examples = [
            (name, entry["bbox"])
            for name, found in splits["train"].items()
            for entry in found
            if entry["label"] == label
        ]
        largest = sorted(examples, key=lambda one: -(one[1][2] - one[1][0]) * (one[1][3] - one[1][1]))[:5]
        sides_of = ("min_x", "min_y", "max_x", "max_y")
        vision = {name: [{"bbox": dict(zip(sides_of, box, strict=True))}] for name, box in largest}
        words = {
            "keywords": [word, f"a {word}"],
            "descriptions": [f"There is a {word} in the scene.", f"A {word} near the road."],
        }
        path = out / "default_queries" / f"{label}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"supportsets": {"language": words, "vision": vision}}))


def forb(data: Path, out: Path) -> None:
    """Covers as one object; a photo is easy, medium or hard by the phone that took it."""
    source = data / "eval" / "covers"
    names = sorted(path.name for path in (source / "database").iterdir())
    shutil.copytree(source / "database", out / "images" / "bookcovers" / "database")
    shutil.copytree(source / "queries", out / "images" / "bookcovers" / "queries")
    listed = [f"bookcovers/database/{name}" for name in names]
    lines = []
    phones: dict[str, str] = {}
    for number, line in enumerate((source / "qrels.jsonl").read_text().splitlines()):
        record = json.loads(line)
        phone = Path(record["query"]).stem.split("_")[0]
        difficulty = phones.setdefault(phone, ("easy", "medium", "hard")[len(phones) % 3])
        found = [names.index(Path(one).name) + 1 for one in record["relevant"]]
        lines.append(
            {
                "query_id": number + 1,
                "query_image": f"bookcovers/{record['query']}",
                "query_url": "",
                "groundtruth_ids": found,
                "groundtruth_images": [listed[one - 1] for one in found],
                "groundtruth_urls": [],
                "difficulty": difficulty,
            }
        )
    folder = out / "metadata"
    folder.mkdir(parents=True)
    (folder / "bookcovers_gt.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "all_database_images.txt").write_text("\n".join(listed) + "\n")


def subregion(data: Path, out: Path) -> None:
    """Aquarium photographs: the largest box of each label of each photo is described by its name."""
    source = data / "eval" / "underwater"
    records: dict[str, list[dict[str, Any]]] = {"skippable": [], "non_skippable": []}
    lines = sorted(
        (json.loads(line) for line in (source / "boxes.jsonl").read_text().splitlines()), key=lambda one: one["image"]
    )
    for number, line in enumerate(lines):
        place = out / "frames" / f"video{number // 20:02}" / Path(line["image"]).name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / line["image"], place)
        best: dict[str, list[float]] = {}
        for box in line["boxes"]:
            x1, y1, x2, y2 = box["box"]
            old = best.get(box["label"], [0.0] * 4)
            if (x2 - x1) * (y2 - y1) > (old[2] - old[0]) * (old[3] - old[1]):
                best[box["label"]] = box["box"]
        for label, (x1, y1, x2, y2) in best.items():
            folder = "skippable" if number % 3 else "non_skippable"
            rect = [round(x1 * 682), round(y1 * 384), round(x2 * 682), round(y2 * 384)]
            records[folder].append(
                {
                    "id": len(records[folder]),
                    "frameIdx": number,
                    "desc_short": label,
                    "desc_long": f"a {label} swimming in clear water",
                    "rect": rect,
                }
            )
    for folder, found in records.items():
        (out / folder).mkdir(parents=True)
        (out / folder / "lookalike.json").write_text(json.dumps(found))


def proxford(data: Path, out: Path) -> None:
    """Video sequences: the first frame with its mask is the query, the other frames are the database."""
    source = data / "eval" / "masks"
    images, queries, truth, pairs = [], [], [], {}
    (out / "jpg").mkdir(parents=True)
    for sequence in sorted(path.name for path in (source / "images").iterdir()):
        frames = sorted((source / "images" / sequence).iterdir())
        rows: dict[str, list[int]] = {"easy": [], "hard": [], "junk": []}
        for place, frame in enumerate(frames):
            name = f"{sequence}_{frame.stem}"
            PIL.Image.open(frame).convert("RGB").save(out / "jpg" / f"{name}.jpg", quality=92)
            mask = np.asarray(PIL.Image.open(source / "masks" / sequence / f"{frame.stem}.png").convert("L")) > 0
            _label(mask, out / "labels" / f"{name}.json")
            if place == 0:
                queries.append(name)
                ys, xs = np.nonzero(mask)
                box = [float(xs.min()), float(ys.min()), float(xs.max() + 1), float(ys.max() + 1)]
                continue
            row = len(images)
            images.append(name)
            grade = "junk" if not mask.any() else "easy" if place <= len(frames) // 2 else "hard"
            rows[grade].append(row)
            if mask.any():
                pairs[f"{len(queries) - 1}_{row}"] = f"labels/{name}.json"
        truth.append({**rows, "bbx": box})
    (out / "query_masks").mkdir()
    for number, name in enumerate(queries):
        shutil.move(out / "labels" / f"{name}.json", out / "query_masks" / f"{number}.json")
    document = {"imlist": images, "qimlist": queries, "gnd": truth}
    (out / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(document))
    np.save(out / "oxford_pair2labelpath.npy", np.array(pairs, dtype=object), allow_pickle=True)


def _label(mask: np.ndarray[Any, np.dtype[np.bool_]], path: Path) -> None:
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    shapes = [
        {"label": "object", "shape_type": "polygon", "points": one[:, 0].tolist()} for one in outlines if len(one) > 2
    ]
    if shapes:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"shapes": shapes, "imageHeight": mask.shape[0], "imageWidth": mask.shape[1]}))


def roxford5k(data: Path, out: Path) -> None:
    """Facades as revisited Oxford: every right photo is easy."""
    source = data / "eval" / "facades"
    images = sorted(path.stem for path in (source / "database").iterdir())
    (out / "jpg").mkdir(parents=True)
    for folder in ("database", "queries"):
        for path in (source / folder).iterdir():
            PIL.Image.open(path).convert("RGB").save(out / "jpg" / f"{path.stem}.jpg", quality=92)
    records = [json.loads(line) for line in (source / "qrels.jsonl").read_text().splitlines()]
    truth = [
        {"easy": [images.index(Path(one).stem) for one in record["relevant"]], "hard": [], "junk": []}
        for record in records
    ]
    document = {"imlist": images, "qimlist": [Path(record["query"]).stem for record in records], "gnd": truth}
    (out / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(document))


MAKERS = {make.__name__: make for make in (searchad, forb, subregion, proxford, roxford5k)}


def main() -> None:
    """Make every look-alike that is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    for name, make in MAKERS.items():
        if not (asked.out / name).exists():
            make(asked.data, asked.out / name)
            print(f"made {asked.out / name}")


if __name__ == "__main__":
    main()

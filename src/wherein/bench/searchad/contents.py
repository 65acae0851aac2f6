"""What is in SearchAD: its rarest labels, how rare beside other sets, object sizes, labels per source."""

from collections import Counter
from pathlib import Path
from typing import Any, Final

from wherein.bench.charts import Chart, bars, boxes, decline
from wherein.bench.contents import DataStatistics
from wherein.bench.searchad import dataset as searchad
from wherein.bench.tables import Table
from wherein.errors import DataError

FIGURE_3: Final = "the paper: CODA's classes are about ten times rarer than BDD100K's, SearchAD's often ten times more"
"""What the text says of Figure 3, whose curves are in its picture only."""
RAREST: Final = 30
"""Labels in the chart of the rarest, as many as the paper's Figure 2 shows."""

PAPER_SETS: Final = {
    "RoadAnomaly21": (110, 1), "SOS": (8994, 13), "Vistas-NP": (20000, 4), "Lost and Found": (2239, 42),
    "RoadObstacle21": (442, 1), "BDD-Anomaly": (8000, 3), "CODA": (1500, 34), "CODA 2022": (9768, 43),
    "OpenAD": (17256, 206), "SearchAD, all splits": (423798, 90),
}  # fmt: skip
"""Images and classes of other sets of rare things: the paper's Table 1."""

PAPER_SOURCES: Final = {
    "lostandfound": (2239, 18, 2098), "wd_both02 + wd_publicv2p0": (5068, 80, 5032), "acdc": (8012, 60, 7471),
    "IDD_Segmentation": (10003, 52, 12192), "kitti": (14999, 47, 9840), "cityscapes": (24998, 75, 31037),
    "mapillary_vistas": (25000, 86, 35093), "ECP": (47335, 76, 33081), "nuscenes": (80314, 56, 166152),
    "bdd100k_images_100k": (100000, 80, 83102), "mapillary_sign": (105830, 90, 128167),
}  # fmt: skip
"""Frames (of all splits), labels and boxes (of train and validation) by source: the paper's Table 2."""


def contents(root: Path) -> DataStatistics:
    """The figures and tables of the paper's Sections 2 and 3 for the splits on disk."""
    splits = [split for split in searchad.SPLITS if (root / f"searchad_annotations_{split}.json").is_file()]
    if not splits:
        raise DataError(f"{root} has no searchad_annotations_train.json and no searchad_annotations_val.json")
    counted = _Counted()
    for split in splits:
        counted.add(searchad.read_annotations(root, split))
    relevant = {label: float(counted.relevant[label]) for label in searchad.LABELS}
    there = sorted(((count, label) for label, count in relevant.items() if count))
    rarest = {label: count for count, label in there[:RAREST]}
    rare = {label: count / max(counted.images, 1) for label, count in relevant.items()}
    charts = (
        Chart("rarest", f"The {RAREST} rarest labels: images that show one", bars(
            rarest, label="images per label", groups=searchad.CATEGORIES)),
        Chart("frequencies", f"Share of images per label, most frequent first ({FIGURE_3})", decline(
            {f"SearchAD, {' and '.join(splits)}": list(rare.values())}, label="share of images per label",
            unit="labels, most frequent first")),
        Chart("sizes", "Size of boxes by category: half of them in the box, eight tenths between the whiskers", boxes(
            counted.areas, label="areas of boxes by category", unit="area of a box in px²")),
    )  # fmt: skip
    tables = (_labels(counted, rare), _sizes(counted), _sources(counted), _sets(counted))
    absent = [split for split in searchad.SPLITS if split not in splits]
    notes = [f"the {split} split is not on disk and not counted" for split in absent]
    if len(there) < len(searchad.LABELS):
        notes.append(f"{len(searchad.LABELS) - len(there)} of {len(searchad.LABELS)} labels occur in no image")
    return DataStatistics("searchad", tables, charts, tuple(notes))


class _Counted:
    """Counts over the splits that were added."""

    def __init__(self) -> None:
        self.images = 0
        self.relevant: Counter[str] = Counter()
        self.boxes: Counter[str] = Counter()
        self.areas: dict[str, list[float]] = {name: [] for name in searchad.CATEGORIES}
        self.frames: Counter[str] = Counter()
        self.by_source: dict[str, Counter[str]] = {}

    def add(self, annotations: dict[str, list[tuple[str, tuple[float, ...]]]]) -> None:
        """Count the images and boxes of one split; labels outside the 90 are left out."""
        for path, entries in annotations.items():
            source = path.split("/", 1)[0]
            self.images += 1
            self.frames[source] += 1
            large = set()
            for label, (x1, y1, x2, y2) in entries:
                if label not in searchad.LABELS:
                    continue
                area = abs((x2 - x1) * (y2 - y1))
                self.boxes[label] += 1
                self.areas[searchad.category_of(label)].append(area)
                self.by_source.setdefault(source, Counter())[label] += 1
                if area >= searchad.MIN_AREA:
                    large.add(label)
            self.relevant.update(large)


def _labels(counted: _Counted, rare: dict[str, float]) -> Table:
    rows = tuple(
        (
            label,
            {"images n": float(counted.relevant[label]), "boxes n": float(counted.boxes[label]), "share": rare[label]},
        )
        for label in sorted(rare, key=lambda label: (rare[label], label))
    )
    return Table("labels, rarest first (share of images in percent)", ("images n", "boxes n", "share"), rows)


def _sizes(counted: _Counted) -> Table:
    import numpy as np

    columns = tuple(f"{part} px" for part in ("p10", "p25", "median", "p75", "p90"))
    rows = tuple(
        (name, dict(zip(columns, np.percentile(areas, (10, 25, 50, 75, 90)).tolist(), strict=True)))
        for name, areas in counted.areas.items()
        if areas
    )
    return Table("area of boxes in px² by category (the paper's Figure 4)", columns, rows)


def _sources(counted: _Counted) -> Table:
    columns = ("images n", "labels n", "boxes n", "paper: images n", "paper: labels n", "paper: boxes n")
    rows = []
    for name, (frames, labels, objects) in PAPER_SOURCES.items():
        parts = name.split(" + ")
        found: Counter[str] = sum((counted.by_source.get(part, Counter()) for part in parts), Counter())
        here = {
            "images n": sum(counted.frames[part] for part in parts),
            "labels n": len(found),
            "boxes n": found.total(),
        }
        said = {"paper: images n": frames, "paper: labels n": labels, "paper: boxes n": objects}
        rows.append((name, {key: float(value) for key, value in (here | said).items()}))
    return Table("labels per source (the paper's Table 2; its images include the test split)", columns, tuple(rows))


def _sets(counted: _Counted) -> Table:
    here: dict[str, Any] = {"here": (counted.images, sum(count > 0 for count in counted.boxes.values()))}
    rows = tuple(
        (name, {"images n": float(images), "classes n": float(classes)})
        for name, (images, classes) in (here | PAPER_SETS).items()
    )
    return Table("beside other sets of rare things (the paper's Table 1)", ("images n", "classes n"), rows)

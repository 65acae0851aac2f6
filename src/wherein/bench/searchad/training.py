"""SearchAD's fine-tuning experiment: learn from the train split, search the validation split, source by source.

The train split is a collection of its own, beside the one that is searched; what is learnt there is taken over. Sources
that are left out of training say whether what was learnt holds where it was never seen.
"""

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import PIL.Image

import wherein
from wherein import Method
from wherein.bench import metrics
from wherein.bench.searchad import dataset as searchad
from wherein.bench.staging import Stage
from wherein.bench.task import Answers, Trained
from wherein.errors import DataError, SpecError

KINDS: Final = ("head", "adapter", "full")
NAME: Final = "searchad"
"""The name under which it is trained, so that a method names it: `mini:searchad`."""
Annotations = Mapping[str, Sequence[tuple[str, tuple[float, ...]]]]


def source_of(image: str) -> str:
    """The dataset that an image comes from: the first folder of its path."""
    return image.partition("/")[0]


def taught_images(annotations: Annotations, unseen: Sequence[str]) -> dict[str, Any]:
    """The images to learn from: all but those of sources that are to stay unseen."""
    known = sorted({source_of(image) for image in annotations})
    for source in unseen:
        if source not in known:
            raise SpecError(f"--unseen {source}: no image of the train split is from there; it has {', '.join(known)}")
    found = {image: entries for image, entries in annotations.items() if source_of(image) not in unseen}
    if not found:
        raise DataError("nothing is left to learn from: every source of the train split is to stay unseen")
    return found


def taught_labels(annotations: Annotations) -> tuple[str, ...]:
    """The labels of the 90 that some images to learn from show, and others do not."""
    shown = dict[str, int]()
    for entries in annotations.values():
        for label in {label for label, box in entries if _area(box) >= searchad.MIN_AREA}:
            shown[label] = shown.get(label, 0) + 1
    return tuple(label for label in searchad.LABELS if 0 < shown.get(label, 0) < len(annotations))


def coco(root: Path, annotations: Annotations, support: Sequence[searchad.SupportSet]) -> dict[str, Any]:
    """The train split as a COCO document; a label's support set are its texts, boxes below 50 px² say nothing."""
    texts = {one.label: [*one.keywords, *one.descriptions] for one in support}
    categories = {label: number for number, label in enumerate(taught_labels(annotations))}
    images, boxes = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, (image, entries) in enumerate(annotations.items()):
        with PIL.Image.open(root / image) as picture:
            width, height = picture.size
        images.append({"id": number, "file_name": image, "width": width, "height": height})
        for label, (x1, y1, x2, y2) in entries:
            if label in categories:
                large = _area((x1, y1, x2, y2)) >= searchad.MIN_AREA
                box = [x1, y1, x2 - x1, y2 - y1] if large else [0, 0, 0, 0]
                boxes.append({"id": len(boxes), "image_id": number, "category_id": categories[label], "bbox": box})
    named = [{"id": number, "name": label, "texts": texts.get(label, [])} for label, number in categories.items()]
    return {"images": images, "categories": named, "annotations": boxes}


def train(
    kind: str,
    root: Path,
    home: Path,
    *,
    method: str,
    unseen: Sequence[str],
    seed: int,
    watch: Callable[[str, int, int], None],
) -> Trained:
    """Learn from the train split in a collection below `home`, unless that is done already; how to search with it."""
    parsed = Method.parse(method)
    annotations = taught_images(searchad.read_annotations(root, "train"), unseen)
    stage = Stage({image: root / image for image in annotations}, home / "images")
    stage.check()
    with wherein.open(home / "collection", create=True, encoder=parsed.encoder) as collection:
        watch("indexing what is learnt from", 0, len(annotations))
        collection.add(
            stage.make(),
            layers=["global"],
            follow_links=True,
            on_progress=lambda p: watch("indexing what is learnt from", p.done, p.total),
        )
        if NAME not in [card.name for card in collection.trained()]:
            document = coco(root, annotations, searchad.load_queries(root))
            tell = lambda p: watch("learning", p.done, p.total)  # noqa: E731
            collection.train(NAME, document, kind=kind, seed=seed, on_progress=tell)
        card = collection.trained_card(NAME)
        if card.kind != kind:
            raise DataError(f"{home} holds a {card.kind}, not a {kind}; choose another --out, or delete the folder")
        archive = collection.export_trained(NAME)
    if kind == "full":
        model = f"{card.encoder.partition(':')[0]}:{_unpacked(archive, home)}"
        return Trained(_with_encoder(parsed, model), model, None, card.notes)
    return Trained(_with_encoder(parsed, card.spec), card.encoder, archive, card.notes)


def _unpacked(archive: bytes, home: Path) -> Path:
    """The folder of a fine-tuned model, out of what was exported."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        opened.extractall(home / "exported")
    return home / "exported" / "model"


def _with_encoder(method: Method, encoder: str) -> str:
    """The method by another encoder."""
    return replace(method, encoder=encoder).canonical


def by_source(truth: searchad.SearchAD, answers: Answers, *, unseen: Sequence[str]) -> dict[str, dict[str, Any]]:
    """MAP over the labels that a source shows, among its own images; and whether it was learnt from."""
    position = answers.position()
    numbers = np.array([position[image] for image in truth.images], dtype=np.int64)
    sources = np.array([source_of(image) for image in truth.images])
    found = {}
    for source in sorted(set(sources.tolist())):
        own = sources == source
        others = set(numbers[~own].tolist())
        each = {}
        for label, kept in answers.kept.items():
            rows = truth.positives.get(label, np.zeros(0, np.int64))
            relevant = numbers[rows[own[rows]]].tolist()
            if not relevant:
                continue
            junk = [*others, *numbers[truth.ignored[label]].tolist()]
            places = metrics.positions_of(kept["ranking"], relevant=relevant, junk=junk)
            each[label] = metrics.average_precision(places, relevant=len(relevant))
        if each:
            seen = 0.0 if source in unseen else 1.0
            found[source] = {"MAP": float(np.mean(list(each.values()))), "labels": float(len(each)), "seen": seen}
    return found


def _area(box: Sequence[float]) -> float:
    x1, y1, x2, y2 = box
    return (x2 - x1) * (y2 - y1)

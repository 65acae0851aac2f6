"""What does fine-tuning mini give, and what does it cost? docs/results/fine-tuning.md.

    python benchmarks/fine_tuning.py EVAL_FOLDER [--set road] [--set underwater] [--seeds 5]

Odd roads and aquarium photographs are halved by chance. Everything of one half teaches: an adapter, a head, and `mini`
itself as `wherein train --kind full` trains it (boxes of the aquarium too); the other half is ranked for each label by
its name, and by heads on both models. Captions of other photographs say what was forgotten. It needs torch, and a GPU
where there is one; images are embedded by the towers that were trained, so figures are those of searches to 0.1.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wherein.arrays import unit
from wherein.encoders import load
from wherein.images.image import decode
from wherein.search.bank import bank_of
from wherein.search.head import Usual, average_precision, learn_head
from wherein.training.adapter import learn_move
from wherein.training.examples import Examples
from wherein.training.full import fine_tune
from wherein.training.towers import Towers, towers_of
from wherein.training.tuning import shown_of
from wherein.values.region import Box

ROAD = ("something unusual on the road", "a plain road")
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""The 97.5 % points of Student's t, by the number of seeds."""
COLUMNS = ("zero-shot", "adapter", "full", "head", "full + head", "captions before", "after", "least", "seconds")


@dataclass(frozen=True)
class Photographs:
    """The images of a set, what each shows, and where."""

    name: str
    paths: tuple[Path, ...]
    pixels: np.ndarray
    labels: tuple[str, ...]
    shows: np.ndarray
    asked: tuple[int, ...]
    boxes: dict[tuple[int, int], tuple[Box, ...]]


def main() -> None:
    """Train, measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("eval", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", action="append", choices=SETS, dest="sets")
    asked = parser.parse_args()
    described = captions(asked.eval)
    print(f"| set | {' | '.join(COLUMNS)} |\n|---|{'---:|' * len(COLUMNS)}")
    for name in asked.sets or SETS:
        one = SETS[name](asked.eval)
        with tempfile.TemporaryDirectory() as folder:
            found = [figures(one, described, seed, Path(folder) / str(seed)) for seed in range(asked.seeds)]
        print(f"| {name} | {' | '.join(cells(found))} |", flush=True)


def prepared(paths: Sequence[Path]) -> np.ndarray:
    """Images as the encoder reads them."""
    encoder = load("mini")
    return np.stack([encoder.prepare(decode(path)) for path in paths])


def road(evaluation: Path) -> Photographs:
    """Odd and plain roads; the odd ones are asked for."""
    paths = tuple(sorted((evaluation / "road" / "images").iterdir()))
    odd = np.array([path.name.startswith("odd") for path in paths])
    return Photographs("road", paths, prepared(paths), ROAD, np.stack([odd, ~odd], axis=1), (0,), {})


def underwater(evaluation: Path) -> Photographs:
    """Seven kinds of animals, several in a photograph, with boxes."""
    lines = [json.loads(line) for line in (evaluation / "underwater" / "boxes.jsonl").open()]
    paths = tuple(evaluation / "underwater" / "images" / Path(line["image"]).name for line in lines)
    labels = tuple(sorted({box["label"] for line in lines for box in line["boxes"]}))
    boxes = dict[tuple[int, int], tuple[Box, ...]]()
    for row, line in enumerate(lines):
        for box in line["boxes"]:
            key = (row, labels.index(box["label"]))
            boxes[key] = (*boxes.get(key, ()), Box(*box["box"]))
    shows = np.array([[(row, label) in boxes for label in range(len(labels))] for row in range(len(lines))])
    return Photographs("underwater", paths, prepared(paths), labels, shows, tuple(range(len(labels))), boxes)


def captions(evaluation: Path) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Photographs as the encoder reads them, captions, and which photograph each is of."""
    lines = [json.loads(line) for line in (evaluation / "captions" / "captions.jsonl").open()]
    pixels = prepared([evaluation / "captions" / "images" / Path(line["image"]).name for line in lines])
    said = [(text, row) for row, line in enumerate(lines) for text in line["captions"]]
    return pixels, [text for text, _ in said], np.array([row for _, row in said])


def figures(
    one: Photographs, described: tuple[np.ndarray, list[str], np.ndarray], seed: int, folder: Path
) -> dict[str, float]:
    """What one half teaches, measured on the other."""
    order = np.random.default_rng(seed).permutation(len(one.shows))
    order = order[np.argsort(one.shows.argmax(axis=1)[order], kind="stable")]
    taught, tested = np.sort(order[::2]), np.sort(order[1::2])
    marks = np.where(one.shows[taught], 1, -1).astype(np.int8)

    def precision(by: np.ndarray, rows: np.ndarray) -> float:
        scores = by @ rows[tested].T
        each = [average_precision(scores[label], one.shows[tested, label]) for label in one.asked]
        return 100 * float(np.mean(each))

    def head(rows: np.ndarray, texts: np.ndarray) -> np.ndarray:
        learnt, _ = learn_head(rows[taught], marks, Usual.of(rows[tested]), labels=list(one.labels), texts=texts)
        return learnt.vectors

    before = towers_of(load("mini"))
    rows, texts = searched(before, one.pixels, one.labels)
    bank = bank_of(load("mini"), lambda _, make: make())
    move = learn_move(texts, rows[taught], marks.T, np.concatenate([kind.rows for kind in bank.kinds]), seed=0)
    tuned, seconds = fine_tuned(one, taught, marks, seed, folder)
    new_rows, new_texts = searched(tuned, one.pixels, one.labels)
    return {
        "zero-shot": precision(texts, rows),
        "adapter": precision(unit(texts + texts @ move.matrix), rows),
        "full": precision(new_texts, new_rows),
        "head": precision(head(rows, texts), rows),
        "full + head": precision(head(new_rows, new_texts), new_rows),
        "captions before": recall(before, described),
        "after": recall(tuned, described),
        "seconds": seconds,
    }


def fine_tuned(
    one: Photographs, taught: np.ndarray, marks: np.ndarray, seed: int, folder: Path
) -> tuple[Towers, float]:
    """The model as `wherein train --kind full` trains it, read back from its files, and the seconds that it took."""
    place = {int(row): number for number, row in enumerate(taught)}
    boxes = {(place[row], label): own for (row, label), own in one.boxes.items() if row in place}
    examples = Examples(one.labels, tuple(str(one.paths[row]) for row in taught), marks, boxes)
    encoder = load("mini")
    shown = shown_of(examples, encoder, Path)
    every = shown.images(range(len(shown.owners)))
    read: Callable[[Sequence[int]], np.ndarray] = lambda numbers: every[list(numbers)]  # noqa: E731
    clock = time.perf_counter()
    model, _ = fine_tune(encoder, replace(shown, images=read), folder, seed=seed)
    seconds = time.perf_counter() - clock
    return towers_of(load(f"mini:{model}")), seconds


def searched(towers: Towers, pixels: np.ndarray, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of images and texts, as a search compares them."""
    images = [towers.images(pixels[at : at + 32]).detach().cpu().numpy() for at in range(0, len(pixels), 32)]
    said = [towers.texts(texts[at : at + 64]).detach().cpu().numpy() for at in range(0, len(texts), 64)]
    return towers.searched(np.concatenate(images), np.concatenate(said), texts)


def recall(towers: Towers, described: tuple[np.ndarray, list[str], np.ndarray]) -> float:
    """R@1 of captions in percent."""
    pixels, texts, targets = described
    images, said = searched(towers, pixels, texts)
    return 100 * float(np.mean((said @ images.T).argmax(axis=1) == targets))


def cells(found: list[dict[str, float]]) -> list[str]:
    """One row of the table."""

    def cell(name: str) -> str:
        values = [one[name] for one in found]
        if name in ("captions before", "seconds"):
            return f"{np.mean(values):.1f}"
        return (
            f"{np.mean(values):.1f} ± {STUDENT[len(values)] * float(np.std(values, ddof=1)) / len(values) ** 0.5:.1f}"
        )

    least = f"{min(one['after'] for one in found):.1f}"
    return [least if name == "least" else cell(name) for name in COLUMNS]


SETS = {"road": road, "underwater": underwater}

if __name__ == "__main__":
    main()

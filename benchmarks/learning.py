"""What do a few examples teach? Heads against zero-shot, averaging and feedback: docs/results/learning.md.

    python benchmarks/learning.py TRAIN_FOLDER EVAL_FOLDER [--out out/learning] [--page PAGE.md] [--tune]
    python benchmarks/learning.py TRAIN_FOLDER EVAL_FOLDER --adapters      (their table alone, without `named`)
    python benchmarks/learning.py --speed [--images 100000]

Each set is halved by chance, five times. From one half 1, 2, 4, 8 and 16 examples of each label are taken, as far as it
reaches; the other half is ranked for each label. What a text counts in `wherein.search.head` was chosen with every set
in sight (`--tune` prints clothes, scenes and food, which are not reported), its other constants on underwater, with a
look at road and objects. Groceries, pets, waste and sea animals are `named`; the encoder was trained on these
photographs with their names, so its zero-shot figure there is not one of unseen images.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import wherein
from made_up import image_id, make_collection
from wherein.arrays import unit
from wherein.encoders import load
from wherein.search.bank import bank_of
from wherein.search.fewshot import RIGHT_LEAST, learn_feedback
from wherein.search.head import Usual, average_precision, learn_head
from wherein.training.adapter import learn_move

TUNED = ("clothing", "scenes6", "indianfood20")
NAMED = ("grocery", "pets37", "trashnet", "seaanimals")
COUNTS, SEEDS = (1, 2, 4, 8, 16), 5
PER_LABEL = 40
LABELS_MOST = 15
"""Labels of a source of named photographs, at most, by chance: all 140 take ten times as long."""
STUDENT = 2.776
"""The 97.5 % point of Student's t with four degrees of freedom: five seeds."""
WRONG = 0.05
ROAD = {"odd": "something unusual on the road", "plain": "a plain road"}
METHODS = ("zero-shot", "average", "average + text", "Rocchio", "few-shot", "head", "head, 5 % wrong")
COLOURS = ("#888888", "#c9a227", "#2a9d8f", "#8d6bb8", "#4a7fd4", "#d1495b", "#e8a0a8")


@dataclass(frozen=True)
class Labelled:
    """The embeddings of a set, what each image shows, and the embeddings of the labels' names."""

    name: str
    rows: np.ndarray
    shows: np.ndarray
    texts: np.ndarray
    asked: tuple[int, ...]


def main() -> None:
    """Index the sets where they are not, learn, rank, and write the page and its curve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("train", type=Path, nargs="?")
    parser.add_argument("eval", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("out/learning"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/learning.md"))
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--adapters", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--images", type=int, default=100_000)
    arguments = parser.parse_args()
    if arguments.speed:
        print(speed(arguments.out / f"made-up-{arguments.images}", arguments.images))
        return
    if arguments.train is None or arguments.eval is None:
        parser.error("name the folders of the training and the evaluation data")
    sources = TUNED if arguments.tune else () if arguments.adapters else NAMED
    stage(arguments.train, arguments.eval, arguments.out, sources=sources)
    if arguments.tune:
        for source in TUNED:
            print(*table(figures(named(arguments.out, (source,)))), sep="\n")
        return
    if arguments.adapters:
        sets = [road(arguments.out), underwater(arguments.eval, arguments.out), objects(arguments.out)]
        print(*adapters(sets, captions(arguments.eval, arguments.out)), sep="\n")
        return
    sets = [
        road(arguments.out),
        underwater(arguments.eval, arguments.out),
        objects(arguments.out),
        named(arguments.out, NAMED),
    ]
    found = {one.name: figures(one) for one in sets}
    moved = adapters(sets, captions(arguments.eval, arguments.out))
    arguments.page.write_text("\n".join([page(found), *moved, ""]), "utf-8")
    arguments.page.with_suffix(".svg").write_text(curves(found), "utf-8")
    print(arguments.page.read_text("utf-8"))


def stage(train: Path, evaluation: Path, out: Path, *, sources: tuple[str, ...]) -> None:
    """Copy the images and index them, where that is not done; the named photographs of these sources."""
    folders = {"road": "road/images", "underwater": "underwater/images", "objects": "objects"}
    for name, source in (*folders.items(), ("captions", "captions/images")):
        if not (out / name).exists():
            shutil.copytree(evaluation / source, out / name)
    labelled = by_label(train, sources)
    unpack(train, labelled, out / "named")
    known = {f"{label[0]}-{row['file']}": label for label, rows in labelled.items() for row in rows}
    (out / "names.json").write_text(json.dumps(known), "utf-8")
    for name in ("road", "underwater", "objects", *(("named",) if sources else ()), "captions"):
        with wherein.open(out / name, create=True, encoder="mini") as collection:
            collection.add(out / name, layers=("global",))


def unpack(train: Path, labelled: dict[tuple[str, str], list[dict[str, str]]], folder: Path) -> None:
    """Copy photographs out of the archives, where that is not done."""
    wanted = dict[str, dict[str, Path]]()
    for label, rows in labelled.items():
        for row in rows:
            wanted.setdefault(row["shard"], {})[row["file"]] = folder / f"{label[0]}-{row['file']}"
    folder.mkdir(parents=True, exist_ok=True)
    for shard, files in wanted.items():
        with zipfile.ZipFile(train / shard) as archive:
            for file, target in files.items():
                if not target.exists():
                    target.write_bytes(archive.read(file))


def by_label(train: Path, sources: tuple[str, ...], *, least: int = 8) -> dict[tuple[str, str], list[dict[str, str]]]:
    """(source, label) → at most PER_LABEL of its photographs, of at most LABELS_MOST labels that have `least`."""
    entries = [json.loads(line) for name in ("captions.jsonl", "captions-more.jsonl") for line in (train / name).open()]
    found = dict[tuple[str, str], list[dict[str, str]]]()
    for row in entries:
        if row["source"] in sources:
            found.setdefault((row["source"], row.get("label") or row["texts"][0]), []).append(row)
    chance, chosen = random.Random(0), list[tuple[str, str]]()
    for source in sources:
        own = sorted(label for label, rows in found.items() if label[0] == source and len(rows) >= least)
        chosen += sorted(chance.sample(own, min(LABELS_MOST, len(own))))
    return {label: chance.sample(found[label], min(PER_LABEL, len(found[label]))) for label in chosen}


def embedded(folder: Path) -> tuple[list[str], np.ndarray]:
    """The ids and embeddings of a set."""
    with wherein.open(folder) as collection:
        return collection.embeddings()


def road(out: Path) -> Labelled:
    """Odd and plain roads; the odd ones are asked for."""
    ids, rows = embedded(out / "road")
    odd = np.array([image_id.startswith("odd") for image_id in ids])
    return Labelled("road", rows, np.stack([odd, ~odd], axis=1), load("mini").texts(list(ROAD.values())), (0,))


def underwater(evaluation: Path, out: Path) -> Labelled:
    """Seven kinds of animals, several in a photo."""
    ids, rows = embedded(out / "underwater")
    lines = [json.loads(line) for line in (evaluation / "underwater" / "boxes.jsonl").open()]
    boxed = {Path(line["image"]).name: {box["label"] for box in line["boxes"]} for line in lines}
    labels = sorted(set().union(*boxed.values()))
    shows = np.array([[label in boxed.get(image_id, ()) for label in labels] for image_id in ids])
    return Labelled("underwater", rows, shows, load("mini").texts(labels), tuple(range(len(labels))))


def objects(out: Path) -> Labelled:
    """Fifteen things, a folder each."""
    ids, rows = embedded(out / "objects")
    labels = sorted({image_id.partition("/")[0] for image_id in ids})
    shows = np.array([[image_id.startswith(f"{label}/") for label in labels] for image_id in ids])
    texts = load("mini").texts([label.replace("_", " ").rstrip("0123456789") for label in labels])
    return Labelled("objects", rows, shows, texts, tuple(range(len(labels))))


def named(out: Path, sources: tuple[str, ...]) -> Labelled:
    """The named photographs of some sources as one collection."""
    names = json.loads((out / "names.json").read_text("utf-8"))
    ids, rows = embedded(out / "named")
    kept = [number for number, image_id in enumerate(ids) if image_id in names and names[image_id][0] in sources]
    labels = sorted({tuple(names[ids[number]]) for number in kept})
    shows = np.array([[tuple(names[ids[number]]) == label for label in labels] for number in kept])
    said = [label.removeprefix("a photo of ").removeprefix("a ") for _, label in labels]
    name = "named" if sources == NAMED else sources[0]
    return Labelled(name, rows[kept], shows, load("mini").texts(said), tuple(range(len(labels))))


def figures(one: Labelled) -> dict[int, dict[str, list[float]]]:
    """Examples → method → the mean average precision of each seed."""
    found = dict[int, dict[str, list[float]]]()
    for count, halves in draws(one):
        taken, tested, asked, chance = halves
        for method in METHODS:
            values = scores(one, method, taken, chance)
            each = [100 * average_precision(values(label)[tested], one.shows[tested, label]) for label in asked]
            found.setdefault(count, {}).setdefault(method, []).append(float(np.mean(each)))
    print(one.name, {count: {name: round(np.mean(v), 1) for name, v in by.items()} for count, by in found.items()})
    return found


Halves = tuple[dict[int, np.ndarray], np.ndarray, list[int], np.random.Generator]


def draws(one: Labelled) -> Iterator[tuple[int, Halves]]:
    """(examples, (the examples of each label, the tested images, the labels asked for, chance)), seed by seed."""
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(one.rows))
        order = order[np.argsort(one.shows.argmax(axis=1)[order], kind="stable")]
        pool, tested = order[::2], order[1::2]
        for count in COUNTS:
            chance = np.random.default_rng(1000 * seed + count)
            having = [label for label in range(one.shows.shape[1]) if one.shows[pool, label].sum() >= count]
            asked = [label for label in having if label in one.asked and one.shows[tested, label].any()]
            if 2 * len(asked) >= len(one.asked):
                taken = {label: chance.permutation(pool[one.shows[pool, label]])[:count] for label in having}
                yield count, (taken, tested, asked, chance)


def scores(
    one: Labelled,
    method: str,
    taken: dict[int, np.ndarray],
    chance: np.random.Generator,
) -> Callable[[int], np.ndarray]:
    """The score of every image for a label."""
    rows, texts = one.rows, one.texts
    mean = {label: unit(rows[images].sum(axis=0)) for label, images in taken.items()}
    every = np.unique(np.concatenate(list(taken.values())))
    usual = Usual.of(rows[np.setdiff1d(np.arange(len(rows)), every)])

    def apart(values: np.ndarray) -> np.ndarray:
        return (values - values.mean()) / values.std()

    if method == "zero-shot":
        return lambda label: rows @ texts[label]
    if method == "average":
        return lambda label: rows @ mean[label]
    if method == "average + text":
        return lambda label: apart(rows @ texts[label]) + apart(rows @ mean[label])
    if method in ("Rocchio", "few-shot"):
        wrong = {label: every[~one.shows[every, label]][: len(taken[label])] for label in taken}
        if method == "Rocchio" or min(map(len, taken.values())) < RIGHT_LEAST:
            return lambda label: (
                apart(rows @ texts[label])
                + 0.75 * apart(rows @ mean[label])
                - 0.25 * np.maximum(apart(rows @ unit(rows[wrong[label]].sum(axis=0))), 0)
            )
        return lambda label: rows @ learn_feedback(rows[taken[label]], rows[wrong[label]], usual, text=texts[label])
    labels = sorted(taken)
    marks = np.where(one.shows[every][:, labels], 1, -1).astype(np.int8)
    if method != "head":
        for row in chance.permutation(len(every))[: round(WRONG * len(every))]:
            marks[row] = marks[row][chance.permutation(len(labels))]
    head, _ = learn_head(rows[every], marks, usual, labels=list(map(str, labels)), texts=texts[labels])
    return lambda label: rows @ head.vectors[labels.index(label)]


def captions(evaluation: Path, out: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The embeddings of photographs and of their captions, and which photograph each caption is of."""
    ids, rows = embedded(out / "captions")
    number = {image_id: row for row, image_id in enumerate(ids)}
    lines = [json.loads(line) for line in (evaluation / "captions" / "captions.jsonl").open()]
    pairs = [(text, number[Path(line["image"]).name]) for line in lines for text in line["captions"]]
    model = load("mini")
    texts = [model.texts([text for text, _ in pairs[at : at + 64]]) for at in range(0, len(pairs), 64)]
    return rows, np.concatenate(texts), np.array([target for _, target in pairs])


def recall(rows: np.ndarray, texts: np.ndarray, targets: np.ndarray) -> float:
    """R@1 in percent."""
    return 100 * float(np.mean((texts @ rows.T).argmax(axis=1) == targets))


def adapters(sets: list[Labelled], described: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Iterator[str]:
    """Lines of a table: what adapters make of names and examples on the held-out half, and what captions lose."""
    bank = bank_of(load("mini"), lambda _, make: make())
    known = np.concatenate([kind.rows for kind in bank.kinds])
    rows, texts, targets = described
    plain = recall(rows, texts, targets)
    yield ADAPTERS
    yield "| set | examples | names before | names after | captions R@1 before | after | abstained |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for one in sets:
        found = dict[int, list[tuple[float, float, float, bool]]]()
        for count, (taken, tested, asked, _) in draws(one):
            if count < 2:
                continue
            labels, every = sorted(taken), np.unique(np.concatenate(list(taken.values())))
            marks = np.where(one.shows[every][:, labels].T, 1, -1).astype(np.int8)
            move = learn_move(one.texts[labels], one.rows[every], marks, known, seed=0)
            asked_with = [one.texts, unit(one.texts + one.texts @ move.matrix)]
            before, after = (
                float(
                    np.mean(
                        [
                            100 * average_precision(one.rows[tested] @ by[label], one.shows[tested, label])
                            for label in asked
                        ]
                    )
                )
                for by in asked_with
            )
            through = plain if move.abstains else recall(rows, unit(texts + texts @ move.matrix), targets)
            found.setdefault(count, []).append((before, after, through, move.abstains))
        for count, each in found.items():
            before, after, through, abstained = (np.array(values, np.float64) for values in zip(*each, strict=True))
            yield (
                f"| {one.name} | {count} | {before.mean():.1f} | {after.mean():.1f} ± {interval(list(after)):.1f} "
                f"| {plain:.1f} | {through.mean():.1f} (least {through.min():.1f}) "
                f"| {int(abstained.sum())} of {len(each)} |"
            )


def speed(folder: Path, images: int) -> str:
    """Seconds that a search with six marks takes, and the learning in it, on made-up embeddings."""
    if not folder.exists():
        make_collection(folder, images=images, encoder="mini")
    with wherein.open(folder) as collection:
        ids = [image_id(number) for number in range(10)]
        marks = collection.marks(right=ids[:5], wrong=ids[5:10])
        others = collection.embeddings()[1][:2048]
        usual = Usual.of(others)

        def timed(act: Callable[[], object]) -> tuple[float, float]:
            act()
            spent = []
            for _ in range(9):
                clock, worked = time.perf_counter(), time.process_time()
                act()
                spent.append((time.perf_counter() - clock, time.process_time() - worked))
            return tuple(1000 * float(np.median(column)) for column in zip(*spent, strict=True))

        query = ["a red car", *marks]
        found = {
            "learning alone": timed(lambda: learn_feedback(others[:5], others[5:10], usual, text=others[10])),
            "the whole search": timed(lambda: collection.search(query, k=20)),
            "the same without marks": timed(lambda: collection.search("a red car", k=20)),
        }
        notes = collection.search(query, k=20).notes
    lines = [
        f"{name}: {clock:.0f} ms on the clock, {work:.0f} ms of processor time" for name, (clock, work) in found.items()
    ]
    return "\n".join([f"{images:,} images, five right and five wrong marks, median of nine", *lines, *notes])


def interval(values: list[float]) -> float:
    """Half the 95 % interval of the mean."""
    return STUDENT * float(np.std(values, ddof=1)) / np.sqrt(len(values))


def table(found: dict[int, dict[str, list[float]]]) -> Iterator[str]:
    """Lines of a table: examples, each method with its interval, and what the head gains over the best baseline."""
    yield f"| examples | {' | '.join(METHODS)} | gain over the best of the first three |"
    yield "|---:|" + "---:|" * (len(METHODS) + 1)
    for count, by in found.items():
        cells = [f"{np.mean(by[name]):.1f} ± {interval(by[name]):.1f}" for name in METHODS]
        best = max(METHODS[:3], key=lambda name: float(np.mean(by[name])))
        gain = [mine - theirs for mine, theirs in zip(by["head"], by[best], strict=True)]
        yield f"| {count} | {' | '.join(cells)} | {np.mean(gain):+.1f} ± {interval(gain):.1f} ({best}) |"


def page(found: dict[str, dict[int, dict[str, list[float]]]]) -> str:
    """The page of results."""
    lines = [HEAD]
    for name, by in found.items():
        lines += [f"## {name}", "", *table(by), ""]
    at_least_two = [(name, count, by[count]) for name, by in found.items() for count in by if count >= 2]
    won = [np.mean(by["head"]) > max(np.mean(by[method]) for method in METHODS[:3]) for _, _, by in at_least_two]
    lost = [np.mean(by["head"]) - np.mean(by["head, 5 % wrong"]) for _, _, by in at_least_two]
    few = [np.mean(by["few-shot"]) - np.mean(by["Rocchio"]) for _, count, by in at_least_two if count >= 4]
    lines += [
        f"With two examples or more the head is above zero-shot, averaging and averaging with the text in {sum(won)} "
        f"of {len(won)} rows. Five wrong labels in a hundred cost it {np.mean(lost):.1f} points on average and "
        f"{max(lost):.1f} at most.",
        f"From four ✓ and four ✗ on, learning on the fly is {np.mean(few):.1f} points above Rocchio's feedback on "
        f"average, {min(few):+.1f} at least.",
        "",
    ]
    return "\n".join(lines)


ADAPTERS = """## Adapters

`wherein train --kind adapter`: the mean average precision by the names of labels on the held-out half, before and
after, and R@1 of the captions of other photographs when they are asked through it (by cosine). Its constants were
chosen on these sets and captions.
"""
HEAD = """# What a few examples teach

Made by `python benchmarks/learning.py TRAIN_FOLDER EVAL_FOLDER`. Mean average precision in percent over the labels of a
set, on the half that was held out, with the 95 % interval over five halvings. *Zero-shot* asks with the label's name,
*average* with the mean of the examples, *average + text* with both as a search does, *Rocchio* with both and as many ✗
as ✓, *few-shot* learns from these on the fly (with fewer than three ✓ it moves the query as Rocchio does), *head* is
`wherein train`. What the text counts was chosen with every set in sight, so expect somewhat less elsewhere; the other
constants on `underwater`, with a look at `road` and `objects`. `named` are 15 labels each of groceries, pets, waste and
sea animals of the training data. `mini` was trained on the `named` photographs with
their names, so its zero-shot figure there is not one of unseen images. On sets that nothing was chosen with:
[learning-fresh.md](learning-fresh.md).

![average precision over examples](learning.svg)
"""


def curves(found: dict[str, dict[int, dict[str, list[float]]]]) -> str:
    """One small chart for each set: average precision over the number of examples."""
    wide, high = 300, 220
    size = f'width="{wide * len(found)}" height="{high + 60}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">']
    parts.append(f'<rect {size} fill="white"/>')
    for number, (name, by) in enumerate(found.items()):
        left = wide * number + 36
        lowest = min(np.mean(v) for own in by.values() for v in own.values()) - 3

        def y(value: float, lowest: float = lowest) -> float:
            return 20 + (high - 40) * (100 - value) / (100 - lowest)

        def x(count: int, left: int = left) -> float:
            return left + (wide - 60) * COUNTS.index(count) / (len(COUNTS) - 1)

        parts.append(f'<text x="{left}" y="14" font-weight="bold">{name}</text>')
        for mark in np.linspace(np.ceil(lowest / 10) * 10, 100, 4):
            parts.append(
                f'<line x1="{left}" x2="{left + wide - 60}" y1="{y(mark):.1f}" y2="{y(mark):.1f}" stroke="#ddd"/>'
            )
            parts.append(f'<text x="{left - 4}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:.0f}</text>')
        for count in by:
            parts.append(f'<text x="{x(count):.1f}" y="{high - 4}" text-anchor="middle">{count}</text>')
        for method, colour in zip(METHODS, COLOURS, strict=True):
            line = " ".join(f"{x(count):.1f},{y(float(np.mean(own[method]))):.1f}" for count, own in by.items())
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for number, (method, colour) in enumerate(zip(METHODS, COLOURS, strict=True)):
        at = 20 + 150 * number
        parts.append(f'<rect x="{at}" y="{high + 24}" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{at + 20}" y="{high + 30}">{method}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()

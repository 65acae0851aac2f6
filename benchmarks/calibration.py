"""The shipped curves of confidence (`src/wherein/search/curves.json`), and how far they can be trusted.

    python benchmarks/calibration.py EVAL_FOLDER [--out out/calibration] [--page docs/results/confidence.md]

Every set is indexed, every second thing that is asked for is removed, and all queries are asked: half of them have no
answer. The first 20 hits of each are judged through `Collection.calibrate`. A row of the table is fitted on the other
sets only; the shipped curve is fitted on all of them, each counting the same.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import wherein
from wherein import Part, Query
from wherein.bench.local.dataset import files_of, images_under, load_boxed, load_captions, load_examples, load_objects
from wherein.bench.staging import stage
from wherein.search.calibrate import expected_error, fit, reliability
from wherein.values.judgement import Curve, Judgement

METHODS = {
    "mini": ("captions", "nouns", "underwater", "no-facades", "no-underwater", "covers", "facades", "objects"),
    "bow+sp": ("covers", "facades", "objects"),
    "mini+bow+sp": ("covers", "facades", "objects"),
}
NOUNS = """baby bathroom beach bed bench bike bird boat bridge building bus cake camera car cat chair clock cow dog
elephant fence field fish flower food football fountain giraffe girl guitar hat helmet horse house kitchen
lake man microphone motorcycle mountain ocean park pizza plane plate pool river road rock sheep skateboard
snow soccer street surfboard table tennis tower train tree truck umbrella zebra
"""
ABSENT = """baby bathroom bed cake camera cat cow dog elephant football giraffe guitar helmet horse kitchen microphone
motorcycle pizza plate sheep skateboard soccer surfboard table tennis train umbrella zebra
"""
"""What no photo of a facade or an aquarium shows."""
UNLIKELY = 0.05
"""What the page folds away."""
EVERY = {"covers": 4}
"""Every how many queries are asked, where they are many and slow."""
WITHOUT = ("captions", "covers", "facades", "objects")
"""Sets in which every second thing that is asked for is removed."""
Asked = tuple[Query, frozenset[str], frozenset[str]]
"""A query, what answers it, and what is not judged: the query itself, and what nobody can say."""
HEAD = """# Confidence

Made by `python benchmarks/calibration.py EVAL_FOLDER`. Half of the queries have no answer in the searched images. Each
row's curve was fitted on the *other* rows of its table only. `hits` are judged hits among the first 20; `error` is the
expected calibration error over tenths; `kept` is the share of right hits at 5 % or more, `rejected` that of wrong ones
below. Labels are strict: of `captions` only the one photo counts, of `nouns` only photos whose captions name it. `no-`
sets are asked for 28 things that none of their photos shows.
"""


def main() -> None:
    """Judge what is missing, fit, write the curves and the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/calibration"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/confidence.md"))
    parser.add_argument("--curves", type=Path, default=Path("src/wherein/search/curves.json"))
    arguments = parser.parse_args()
    pairs = dict[str, dict[str, np.ndarray]]()
    for method, sets in METHODS.items():
        for name in sets:
            source, judged = judge(name, method, arguments.data, arguments.out)
            pairs.setdefault(source, {})[name] = judged
    curves = {source: fitted(list(sets.values())) for source, sets in pairs.items()}
    shown = {source: {"offset": curve.offset, "slope": curve.slope} for source, curve in sorted(curves.items())}
    arguments.curves.write_text(json.dumps(shown, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sections = [HEAD, *(section(source, sets, curves[source]) for source, sets in pairs.items())]
    arguments.page.write_text("\n".join(sections), "utf-8")


def judge(name: str, method: str, data: Path, out: Path) -> tuple[str, np.ndarray]:
    """What the hits of one set come from, and their (hits, 2) measures and whether they are right."""
    files, asked = questions(name, data)
    with wherein.open(out / name / method, create=True, encoder="mini") as collection:
        judged = collection.folder / "kept" / "judged.json"
        if not judged.exists():
            layers = ("global", "local") if "bow" in method else ("global",)
            collection.add(stage(files, out / name / "images"), layers=layers, follow_links=True)
            collection.remove(*(removed(asked) if name in WITHOUT else ()))
            collection.calibrate(judgements(asked, frozenset(collection.image_ids()), name), method=method)
        ((source, hits),) = json.loads(judged.read_text("utf-8"))["judged"].items()
    return source, np.array(list(hits.values()))


def removed(asked: Sequence[Asked]) -> list[str]:
    """The images of every second thing: what answers a query, and the query itself where it is searched too."""
    things = {min(answers | own): answers | own for _, answers, own in asked if answers}
    return sorted({image_id for key in sorted(things)[::2] for image_id in things[key]})


def judgements(asked: Sequence[Asked], there: frozenset[str], name: str) -> Iterator[Judgement]:
    """What is right and wrong for each query."""
    for query, answers, unknown in asked[:: EVERY.get(name, 1)]:
        yield Judgement(query, answers & there, there - answers - unknown)


def questions(name: str, data: Path) -> tuple[dict[str, Path], list[Asked]]:
    """The images of a set, and its queries."""
    if name in ("captions", "nouns"):
        captions = load_captions(data / "captions")
        files = files_of(captions.root, images_under(captions.root))
        return files, list(nouns(captions.captions) if name == "nouns" else one_each(captions.captions))
    if name.startswith("no-"):
        files, _ = questions(name.removeprefix("no-"), data)
        return files, [(text(f"a {noun}"), frozenset(), frozenset()) for noun in ABSENT.split()]
    if name == "underwater":
        boxed = load_boxed(data / name)
        answers = dict[str, set[str]]()
        for image_id, boxes in boxed.boxes.items():
            for label in boxes:
                answers.setdefault(label, set()).add(image_id)
        return files_of(boxed.root, boxed.boxes), [
            (text(label), frozenset(own), frozenset[str]()) for label, own in answers.items()
        ]
    examples = load_objects(data / name) if name == "objects" else load_examples(data / name, benchmark=name)
    photos = [(Query((Part(image=one.path),)), one) for one in examples.queries]
    asked = [(query, frozenset(one.relevant), frozenset({one.own} - {None})) for query, one in photos]
    return files_of(examples.root, examples.image_ids), asked


def one_each(captions: Sequence[tuple[str, str]]) -> Iterator[Asked]:
    """The first caption of every photo."""
    for image_id, words in dict(reversed(captions)).items():
        yield text(words), frozenset({image_id}), frozenset()


def nouns(captions: Sequence[tuple[str, str]]) -> Iterator[Asked]:
    """A noun is right where two captions or more name it."""
    said = dict[str, list[set[str]]]()
    for image_id, words in captions:
        said.setdefault(image_id, []).append(set(re.findall("[a-z]+", words.lower())))
    for noun in NOUNS.split():
        either = {noun, f"{noun}s"}
        named = {image_id: sum(not own.isdisjoint(either) for own in texts) for image_id, texts in said.items()}
        right = frozenset(image_id for image_id, count in named.items() if count >= 2)
        yield text(f"a {noun}"), right, frozenset(image_id for image_id, count in named.items() if count == 1)


def text(words: str) -> Query:
    """A text, taken literally."""
    return Query((Part(text=words),))


def fitted(sets: Sequence[np.ndarray]) -> Curve:
    """The curve of several sets, each counting the same."""
    joined = np.concatenate(sets)
    worth = np.concatenate([np.full(len(one), 1000.0 / len(one)) for one in sets])
    return fit(joined[:, 0], joined[:, 1] > 0, worth=worth)


def section(source: str, sets: dict[str, np.ndarray], curve: Curve) -> str:
    """A table: each set under the curve of the others, and in tenths all of them together."""
    lines = [f"\n## {source}\n", f"Shipped: offset {curve.offset:.3f}, slope {curve.slope:.3f}.\n"]
    lines += [
        "| set | hits | right | mean confidence | error | kept | rejected |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    said, right = [], []
    for name, pairs in sets.items():
        confidence = fitted([other for key, other in sets.items() if key != name]).confidence(pairs[:, 0])
        true = pairs[:, 1] > 0
        said.append(confidence)
        right.append(true)
        table = reliability(confidence, true)
        figures = [true.mean(), confidence.mean(), expected_error(table)]
        figures += [
            (confidence[true] >= UNLIKELY).mean() if true.any() else np.nan,
            (confidence[~true] < UNLIKELY).mean(),
        ]
        cells = ("–" if np.isnan(value) else f"{100 * value:.1f}" for value in figures)
        lines.append(f"| {name} | {len(pairs):,} | {' | '.join(cells)} |")
    lines += ["\n| confidence | hits | mean | right |", "|---|---:|---:|---:|"]
    for low, count, mean, share in reliability(np.concatenate(said), np.concatenate(right)):
        lines.append(f"| {100 * low:.0f}–{100 * low + 10:.0f} % | {count:,} | {100 * mean:.1f} | {100 * share:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

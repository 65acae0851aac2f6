"""Do bare words find photographs in a mixed library, and words of style the drawings? docs/results/drawn.md.

    python benchmarks/drawn.py TRAIN_FOLDER EVAL_FOLDER [--out out/drawn] [--page docs/results/drawn.md]

Two libraries are indexed. `names`, on which RAMP and STRENGTH of `wherein.search.style` were chosen: the training
data's clip art, photographs of the same names and other photographs; each name is asked for. `mix`, for reporting: the
captioned photographs, the covers and the objects of the development sets; nouns that captions name are asked for.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import wherein
from confidence_sets import Sets
from wherein import Collection, Part, Query

NAMED = ("wordphotos_szepi", "spellquest", "normimages", "boss", "fruitveg36", "seaanimals", "dogbreeds")
OTHERS = ("flickr8k", "coco_human", "cc3m", "pets37")
OTHER_COUNT = 900
METHODS = ("whole~any-style", "whole")
STYLED = ("a cartoon of a {}", "{} clip art", "a drawing of a {}")
FIRST = 4
HEAD = """# Drawings among photographs

Made by `python benchmarks/drawn.py TRAIN_FOLDER EVAL_FOLDER`. `whole` reads plain words as photographs,
`whole~any-style` does not. *Drawn first* is the share of queries whose first hit is drawn, *drawn among 4* that of the
first four hits; *AP* is the average precision of the photographs that are asked for. On `names` the two constants were
chosen (images of the training data); `mix` was only
reported: its drawings are covers of films and a few pictures of a cartoon figure.
"""


def main() -> None:
    """Index both libraries where they are not, ask, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("train", type=Path)
    parser.add_argument("eval", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/drawn"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/drawn.md"))
    arguments = parser.parse_args()
    rows = read_names(arguments.train, arguments.out / "names")
    files = {
        path.relative_to(arguments.eval).as_posix(): path
        for folder in ("captions/images", "covers/database", "objects")
        for path in sorted((arguments.eval / folder).rglob("*.*"))
    }
    for image_id, path in files.items():
        copy = arguments.out / "mix" / image_id
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists():
            shutil.copyfile(path, copy)
    asked = [
        (str(ask.query), frozenset(one.replace("captions/", "captions/images/", 1) for one in ask.right))
        for ask in Sets(arguments.eval).noun_asks()
        if ask.right
    ]
    lines = [HEAD, "| library | method | queries | drawn first | drawn among 4 | AP |", "|---|---|---:|---:|---:|---:|"]
    with indexed(arguments.out / "names") as collection:
        lines += table(
            "names", collection, names_asked(rows), lambda image_id: image_id.startswith(("clip", "carlogos"))
        )
        lines += ["", *styled(collection, rows), ""]
    with indexed(arguments.out / "mix") as collection:
        drawn = list(
            table("mix", collection, asked, lambda image_id: image_id.startswith(("covers/", "objects/red_cartoon")))
        )
    lines[3 + len(METHODS) : 3 + len(METHODS)] = drawn
    arguments.page.write_text("\n".join(lines).rstrip() + "\n", "utf-8")
    print(arguments.page.read_text("utf-8"))


def read_names(train: Path, folder: Path) -> list[tuple[str, str]]:
    """(image_id, name) of the clip art, of photographs of the same names, and of others, written to a folder."""
    entries = [json.loads(line) for name in ("captions.jsonl", "captions-more.jsonl") for line in (train / name).open()]
    clip = [row for row in entries if row["source"] == "clipart"]
    names = {row["label"] for row in clip}
    same = [row for row in entries if row.get("label") in names and row["source"] in NAMED]
    others = random.Random(0).sample([row for row in entries if row["source"] in OTHERS], OTHER_COUNT)
    logos = [row for row in entries if row["source"] == "carlogos"]
    written = []
    for row in [*clip, *same, *logos, *others]:
        image_id = f"{row['source']}-{row['file']}"
        written.append((image_id, row.get("label", "")))
        if not (folder / image_id).exists():
            folder.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(train / row["shard"]) as archive:
                (folder / image_id).write_bytes(archive.read(row["file"]))
    return written


def indexed(folder: Path) -> Collection:
    """The collection of a folder, up to date."""
    collection = wherein.open(folder, create=True, encoder="mini")
    collection.add(folder, layers=("global",))
    return collection


def names_asked(rows: Sequence[tuple[str, str]]) -> list[tuple[str, frozenset[str]]]:
    """Each name of clip art that a photograph has too, and those photographs."""
    drawn = {name for image_id, name in rows if image_id.startswith("clipart")}
    photos = {name: frozenset(i for i, own in rows if own == name and not i.startswith("clipart")) for name in drawn}
    return sorted((name, found) for name, found in photos.items() if found)


def table(
    name: str,
    collection: Collection,
    asked: Sequence[tuple[str, frozenset[str]]],
    is_drawn: Callable[[str], bool],
) -> Iterator[str]:
    """A line for each method."""
    for method in METHODS:
        first, four, precision = [], [], []
        for text, right in asked:
            hits = [hit.image_id for hit in ask(collection, text, method)]
            drawn = [is_drawn(image_id) for image_id in hits[:FIRST]]
            first.append(drawn[0])
            four.append(np.mean(drawn))
            ranks = np.flatnonzero([image_id in right for image_id in hits]) + 1
            precision.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
        figures = (f"{100 * np.mean(values):.1f}" for values in (first, four, precision))
        yield f"| {name} | `{method}` | {len(asked)} | {' | '.join(figures)} |"


def styled(collection: Collection, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """How often words of style put a drawing first, and the mean reciprocal rank of the clip art of that name."""
    yield "| words of style, `whole` on `names` | drawn first | MRR of that clip art |"
    yield "|---|---:|---:|"
    clip = {name: image_id for image_id, name in rows if image_id.startswith("clipart")}
    for words in ("{}", *STYLED):
        first, reciprocal = [], []
        for name, own in sorted(clip.items()):
            hits = [hit.image_id for hit in ask(collection, words.format(name), "whole")]
            first.append(hits[0].startswith(("clip", "carlogos")))
            reciprocal.append(1.0 / (1 + hits.index(own)))
        yield f"| {words.format('NAME')} | {100 * np.mean(first):.1f} | {100 * np.mean(reciprocal):.1f} |"


def ask(collection: Collection, text: str, method: str) -> wherein.Ranking:
    """Every image, best first."""
    return collection.search(Query((Part(text=text),)), method=method, k=len(collection))


if __name__ == "__main__":
    main()

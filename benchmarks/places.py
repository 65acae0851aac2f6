"""A place in every one of 100,000 images: how long a search takes that looks inside them, beside one that does not.

    python benchmarks/places.py [--images 100000] [--folder DIR] [--against OTHER/src] [--page FILE.md] [--missed 40]

The collection holds made-up embeddings in the layers that `mini` keeps; with --folder it is made there, if it is not
there yet, and stays. Each version of wherein searches it in a process of its own; with --against the two take turns,
query by query, and the version asked first changes each time; a third process is this version without confidence. A
figure is the median of nine searches from Python after the first, which reads from disk and is shown beside it.

With --missed nothing is timed: so many texts are searched for at each place, and the hits compared with those of a
search that scores exactly what may lie six usual errors below its estimate, thousands of images instead of hundreds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

PLACES = {"none": None, "a ninth": (0.1, 0.1, 0.4, 0.4), "the left half": (0.0, 0.0, 0.5, 1.0)}
METHODS = ("whole", "static-9", "static-36", "patches")
ODD_PLACES = ((0.3, 0.35, 0.62, 0.6), (0.4, 0.4, 0.52, 0.55), (0.0, 0.7, 1.0, 1.0))
"""Places whose edges lie across cells and patches, where estimates err most."""
CAREFUL = 6.0
"""How many usual errors below its score an estimate may lie in a search that is not to miss anything."""
ROUNDS = 9
HITS = 20


def main() -> None:
    """Print one line a method and place."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--against", type=Path, help="The src of another version, which searches the same collection.")
    parser.add_argument("--page", type=Path, help="Where the table is written as well.")
    parser.add_argument("--missed", type=int, help="How many texts are searched for twice; nothing is timed.")
    parser.add_argument("--answer", choices=("sure", "unsure"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.answer:
        answer(asked.folder, unsure=asked.answer == "unsure")
        return
    with tempfile.TemporaryDirectory() as home:
        folder = asked.folder or Path(home) / "images"
        if not folder.exists():
            from made_up import make_collection

            folder.mkdir(parents=True)
            kinds = ("global", "patches", "cells")
            make_collection(folder, images=asked.images, encoder=asked.encoder, kinds=kinds)
        if asked.missed:
            missed(folder, asked.methods.split(","), asked.missed)
            return
        head = [HEAD.format(images=asked.images)] if asked.against else []
        lines = [*head, *compared(asked, folder)]
    if asked.page:
        asked.page.write_text("\n".join(lines) + "\n", "utf-8")


HEAD = """# Places in {images:,} images

`python benchmarks/places.py --against OTHER/src --page docs/results/places.md`: both versions on one collection of
made-up embeddings (layers of `mini`), taking turns query by query in processes of their own, with as many threads as
they choose. Milliseconds on the clock (of the processor) of one search by text for 20 hits from Python, confidence and
counts included, the median of nine after the first. Before is d68ec77, the commit before this work, whose confidence
was one curve over scores; “without confidence” is this version without any. Factors are of the clock (of the
processor).
"""


def compared(asked: argparse.Namespace, folder: Path) -> list[str]:
    """The rows of the table, each printed when it is known."""
    versions = [Version(folder, None)]
    if asked.against:
        versions = [Version(folder, asked.against), *versions, Version(folder, None, kind="unsure")]
    heads = ("method, place", "before", "now", "×", "without confidence", "×", "first s")
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    rows = rows if asked.against else ["| method, place | ms | first s |", "|---|---|---|"]
    print("\n".join(rows))
    for method in asked.methods.split(","):
        for name, where in PLACES.items():
            if method == "whole" and where is not None:
                continue
            found = [list(turns) for turns in zip(*asked_in_turns(versions, method, where), strict=True)]
            rows.append(row(f"`{method}`, {name}", found))
            print(rows[-1], flush=True)
    for version in versions:
        version.end()
    return rows


def asked_in_turns(versions: list[Version], method: str, where: tuple[float, ...] | None) -> list[list[Any]]:
    """The answers of each version to each query; they are asked one at a time, now this one first, now that."""
    answers = []
    for number in range(ROUNDS + 1):
        question = {"method": method, "where": where, "text": f"thing number {number}"}
        order = range(len(versions)) if number % 2 else reversed(range(len(versions)))
        found = {one: versions[one].ask(question) for one in order}
        answers.append([found[one] for one in range(len(versions))])
    return answers


def row(name: str, found: list[list[Any]]) -> str:
    """A line of the table, from the answers of each version."""
    clock = [1000 * median(one["clock"] for one in own[1:]) for own in found]
    spent = [1000 * median(one["processor"] for one in own[1:]) for own in found]
    times = [f"{wall:,.0f} ({busy:,.0f})" for wall, busy in zip(clock, spent, strict=True)]
    first = ", ".join(f"{own[0]['clock']:.2f}" for own in found)
    if len(found) == 1:
        return f"| {name} | {times[0]} | {first} |"
    factors = [f"{clock[0] / wall:.1f} ({spent[0] / busy:.1f})" for wall, busy in zip(clock, spent, strict=True)]
    return f"| {name} | {times[0]} | {times[1]} | {factors[1]} | {times[2]} | {factors[2]} | {first} |"


class Version:
    """A version of wherein in a process of its own that searches one collection."""

    def __init__(self, folder: Path, source: Path | None, *, kind: str = "sure") -> None:
        command = [sys.executable, __file__, "--answer", kind, "--folder", str(folder)]
        path = {} if source is None else {"PYTHONPATH": str(source.resolve())}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **path}
        )

    def ask(self, question: dict[str, Any]) -> Any:
        """What it answers, and how long that took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Ask nothing more."""
        self._process.communicate()


def answer(folder: Path, *, unsure: bool) -> None:
    """Answer questions, a line each, until there are no more; `unsure`: without confidence and counts."""
    import wherein

    if unsure:
        import wherein.collection

        wherein.collection.measure = lambda *_, **__: None  # type: ignore[assignment]

    claim_weights(folder)
    with wherein.open(folder) as collection:
        for line in sys.stdin:
            question = json.loads(line)
            box = None if question["where"] is None else wherein.Box(*question["where"])
            part = wherein.Part(text=question["text"], where=box)
            started, before = time.perf_counter(), time.process_time()
            list(collection.search(part, k=HITS, method=question["method"]))
            clock, processor = time.perf_counter() - started, time.process_time() - before
            print(json.dumps({"clock": clock, "processor": processor}), flush=True)


def claim_weights(folder: Path) -> None:
    """Have `mini` take a collection for its own: rows are made up, so it does not matter by whose weights they are."""
    from wherein.encoders.mini import MiniEncoder

    layers = json.loads((folder / ".wherein" / "manifest.json").read_text("utf-8"))["layers"]
    MiniEncoder.digest = next(own["digest"] for own in layers.values() if own["spec"] == "mini")


def missed(folder: Path, methods: list[str], texts: int) -> None:
    """Print how many hits a careful search finds that a usual one misses."""
    import wherein
    from wherein.search import candidates

    claim_weights(folder)
    usual, boxes = candidates.SURE, [*PLACES.values(), *ODD_PLACES]
    print("| method | hits | missed |\n|---|---|---|")
    with wherein.open(folder) as collection:
        for method in methods:
            found = dict[float, list[set[str]]]()
            for sure in (CAREFUL, usual):
                candidates.SURE = sure
                asked = [(number, box) for box in boxes for number in range(texts)]
                parts = (
                    wherein.Part(text=f"thing number {number}", where=None if box is None else wherein.Box(*box))
                    for number, box in asked
                )
                found[sure] = [
                    {hit.image_id for hit in collection.search(part, k=HITS, method=method)} for part in parts
                ]
            lost = sum(len(real - own) for real, own in zip(found[CAREFUL], found[usual], strict=True))
            print(f"| `{method}` | {sum(map(len, found[CAREFUL])):,} | {lost} |", flush=True)


if __name__ == "__main__":
    main()

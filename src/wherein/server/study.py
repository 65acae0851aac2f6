"""The user study of the paper on pixel retrieval: do outlines help people see which candidates show the query?

Each question has one query and twelve candidates: three that show it, nine taken from other questions. Half of the
questions of every participant come with outlines; which half is counterbalanced over four groups.
"""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np

from wherein.bench.statistics import Test, paired_t, wilcoxon
from wherein.server.problems import Problem

QUESTIONS: Final = 16
"""Questions of a study at most, as many as in the paper; a multiple of four, because blocks are quarters. A person
needs eight minutes at half a minute each."""
TRUE: Final = 3
"""Right pictures of a question: a quarter of CANDIDATES, so that guessing finds few."""
CANDIDATES: Final = 12
"""Pictures of a question in all: three rows of four fit a screen, twice as many do not."""
# Blocks of a quarter of the questions each: with outlines (o) or without. Every block is seen both ways equally often.
GROUPS: Final = ("oo--", "--oo", "o-o-", "-o-o")

Item = dict[str, Any]


def questions_of(selections: dict[str, list[Item]]) -> list[dict[str, Any]]:
    """A question per selection of four images or more: the first is the query, the others show it too, outlined."""
    large = [(name, items) for name, items in sorted(selections.items()) if len(items) > TRUE]
    bare = [name for name, items in large if not all(_outlined(item) for item in items[1:])]
    usable = [(name, items) for name, items in large if name not in bare]
    count = min(QUESTIONS, len(usable) - len(usable) % 4)
    if count < 4:
        named = ", ".join(bare[:4]) + (" …" if len(bare) > 4 else "")
        missing = (
            f" Selections with images that have no outline: {named}; keep hits that were outlined." if bare else ""
        )
        raise Problem(
            422,
            f"a study needs 4, 8, 12 or 16 selections of at least {TRUE + 1} images each, the first one the query and "
            f"the others outlined; there are {len(usable)}. Keep more in the view Curate.{missing}",
        )
    return [{"name": name, "query": items[0], "true": items[1:]} for name, items in usable[:count]]


def _outlined(item: Item) -> bool:
    """Whether a kept image says where in it the thing is: half of the questions show that."""
    return item.get("mask") is not None or item.get("box") is not None


def sheet(study: dict[str, Any], participant: str, group: int) -> list[dict[str, Any]]:
    """The questions as one participant sees them, candidates shuffled."""
    questions = study["questions"]
    chance = random.Random(f"{participant}")
    pages = []
    for number, question in enumerate(questions):
        own = {item["image_id"] for item in (question["query"], *question["true"])}
        others = {
            item["image_id"]: item
            for other in questions
            if other is not question
            for item in other["true"]
            if item["image_id"] not in own
        }
        if len(others) < CANDIDATES - TRUE:
            raise Problem(422, f"question {question['name']!r}: the other questions share too many of its images.")
        true = chance.sample(question["true"], TRUE)
        shown = true + chance.sample([others[key] for key in sorted(others)], CANDIDATES - TRUE)
        chance.shuffle(shown)
        outlines = GROUPS[group][number * 4 // len(questions)] == "o"
        pages.append(
            {
                "number": number,
                "query": question["query"],
                "outlines": outlines,
                "true": sorted(item["image_id"] for item in true),
                "candidates": shown if outlines else [{"image_id": item["image_id"]} for item in shown],
            }
        )
    return pages


def results(study: dict[str, Any]) -> dict[str, Any]:
    """Times with and without outlines, per participant who finished, and whether the difference is chance."""
    finished = [one for one in study["participants"].values() if one.get("helpful") is not None]
    sides = {True: list[float](), False: list[float]()}
    right = {True: list[float](), False: list[float]()}
    pairs = list[tuple[float, float]]()
    for one in finished:
        answers = one["answers"].values()
        for outlines in (True, False):
            sides[outlines] += [answer["seconds"] for answer in answers if answer["outlines"] is outlines]
            right[outlines] += [answer["right"] / TRUE for answer in answers if answer["outlines"] is outlines]
        with_, without = (
            [answer["seconds"] for answer in answers if answer["outlines"] is outlines] for outlines in (True, False)
        )
        pairs.append((float(np.mean(with_)), float(np.mean(without))))
    helpful = [one["helpful"] for one in finished]
    first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return {
        "participants": len(finished),
        "begun": len(study["participants"]),
        "questions": len(study["questions"]),
        "with_outlines": _spread(sides[True]),
        "without_outlines": _spread(sides[False]),
        "right_with": _mean(right[True]),
        "right_without": _mean(right[False]),
        "helpful": _spread(helpful),
        "pairs": [list(pair) for pair in pairs],
        "tests": [_test(test) for test in (paired_t(first, second), wilcoxon(first, second))] if pairs else [],
    }


def _spread(values: list[float]) -> dict[str, float | None]:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": _mean(values), "deviation": deviation}


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _test(test: Test) -> dict[str, Any]:
    return {"name": test.name, "statistic": test.statistic, "p": test.p, "n": test.n}

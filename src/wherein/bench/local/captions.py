"""`captions`: each caption is a query for its own photo."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from wherein import Hit, Part, Query
from wherein.bench import metrics
from wherein.bench.evaluation import DETAIL_LIMIT, Evaluation, Line, QueryScore
from wherein.bench.local.dataset import Captions, files_of, images_under, load_captions
from wherein.bench.task import (
    DISTRACTORS,
    Answers,
    BenchOption,
    Question,
    Task,
    Variant,
    numbered_captions,
    ranked_detail,
)

RECALLS = (1, 5, 10)
"""The depths of recall that are usual for captions."""


@dataclass(frozen=True)
class CaptionsTask(Task):
    """Text→image search: one relevant photo per caption."""

    benchmark: str
    dataset: Captions

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (DISTRACTORS,)

    @classmethod
    def load(cls, benchmark: str, data: Path, _options: Variant) -> "CaptionsTask":
        """Read the set by its shape."""
        return cls(benchmark=benchmark, dataset=load_captions(data))

    def images(self) -> dict[str, Path]:
        """The files that are searched, by image_id."""
        return files_of(self.dataset.root, images_under(self.dataset.root))

    @cached_property
    def targets(self) -> dict[str, tuple[str, str]]:
        """(image_id, caption) of every question, which is named by its image and its number there."""
        return numbered_captions(self.dataset.captions)

    def questions(self) -> Sequence[Question]:
        """One question per caption."""
        return [
            Question(question_id=name, query=Query(parts=(Part(text=text),)))
            for name, (_, text) in self.targets.items()
        ]

    def keep(self, question: Question, hits: Sequence[Hit], position: Mapping[str, int]) -> dict[str, Any]:
        """The first places and the rank of the caption's photo."""
        target = question.question_id.rpartition("#")[0]
        return kept_target(hits, position, target=target)

    def evaluate(self, answers: Answers) -> Evaluation:
        """`{"text": {"R@1", "R@5", "R@10", "MedR"}}`."""
        return score_captions(self.benchmark, self.targets, answers)


def kept_target(hits: Sequence[Hit], position: Mapping[str, int], *, target: str) -> dict[str, Any]:
    """The first places, and the 1-based rank and the score of one image; no score and last if it was not found."""
    found = next((n for n, hit in enumerate(hits) if hit.image_id == target), None)
    return {
        "rank": len(position) if found is None else found + 1,
        "score": None if found is None else float(hits[found].score),
        "ranking": [position[hit.image_id] for hit in hits[:DETAIL_LIMIT]],
        "scores": [float(hit.score) for hit in hits[:DETAIL_LIMIT]],
    }


def score_captions(benchmark: str, targets: Mapping[str, tuple[str, str]], answers: Answers) -> Evaluation:
    """Recall at 1, 5 and 10 and the median rank of the target."""
    kept = {name: answers.kept[name] for name in targets}
    ranks = np.array([one["rank"] for one in kept.values()], dtype=np.float64)
    found = np.array([one["score"] is not None for one in kept.values()])
    known = metrics.known_item(ranks, found=found, ks=RECALLS)
    figures = {f"R@{k}": known[f"R@{k}"] for k in RECALLS} | {"MedR": float(np.median(ranks))}
    return Evaluation(
        benchmark=benchmark,
        protocol="known item",
        scores={"text": figures},
        queries=tuple(
            QueryScore(
                query_id=name,
                group="",
                metrics={"reciprocal": found[n] / rank, "rank": float(rank)}
                | {f"R@{k}": float(found[n] and rank <= k) for k in RECALLS},
                detail={"text": text, **ranked_detail(answers, kept[name], relevant=[image_id])},
            )
            for n, ((name, (image_id, text)), rank) in enumerate(zip(targets.items(), ranks, strict=True))
        ),
        curves=(recall_curve(np.where(found, ranks, np.inf), most=len(answers.image_ids)),),
        warnings=(),
    )


def recall_curve(ranks: metrics.Floats, *, most: int, name: str = "targets found") -> Line:
    """The share of targets found within the first k places, against k."""
    ks = sorted({min(most, round(most ** (step / 60))) for step in range(61)})
    return Line(name, "places looked at", "recall", [float(k) for k in ks], [float(np.mean(ranks <= k)) for k in ks])

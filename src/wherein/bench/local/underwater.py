"""`underwater`: known-item search. A label and the box where it is are a query for the one photo meant."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from wherein import Box, Hit, Part, Query
from wherein.bench import metrics
from wherein.bench.boxes import perturbed
from wherein.bench.evaluation import Evaluation, QueryScore
from wherein.bench.local.captions import kept_target, recall_curve
from wherein.bench.local.dataset import Boxed, files_of, images_under, load_boxed
from wherein.bench.located import hit_point, no_region_warning
from wherein.bench.task import DISTRACTORS, PERTURB, Answers, BenchOption, Question, Task, Variant, ranked_detail

RECALLS = (1, 10)
"""The first two depths of the sub-region study's recall."""


@dataclass(frozen=True)
class UnderwaterTask(Task):
    """One question per label and photo: the label's name, and its largest box there as the place."""

    benchmark: str
    dataset: Boxed
    options: Variant = field(default_factory=Variant)

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (
            PERTURB,
            DISTRACTORS,
        )

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "UnderwaterTask":
        """Read the set by its shape."""
        return cls(benchmark=benchmark, dataset=load_boxed(data), options=options)

    def images(self) -> dict[str, Path]:
        """The files that are searched, by image_id."""
        return files_of(self.dataset.root, images_under(self.dataset.root))

    @cached_property
    def targets(self) -> dict[str, tuple[str, str]]:
        """(image_id, label) of every question."""
        return {
            f"{image_id}#{label}": (image_id, label)
            for image_id, by_label in self.dataset.boxes.items()
            for label in by_label
        }

    def questions(self) -> Sequence[Question]:
        """One question per label and photo."""
        made = []
        for name, (image_id, label) in self.targets.items():
            where = max(self.dataset.boxes[image_id][label], key=lambda box: (box.area, box.xyxy))
            if self.options.perturb is not None:
                seed = [self.options.draw or 0, zlib.crc32(name.encode("utf-8"))]
                where = perturbed(where, spread=self.options.perturb, rng=np.random.default_rng(seed))
            made.append(Question(question_id=name, query=Query(parts=(Part(text=label, where=where),))))
        return made

    def keep(self, question: Question, hits: Sequence[Hit], position: Mapping[str, int]) -> dict[str, Any]:
        """The target's rank, and whether its hit points into a box of the label."""
        image_id, label = self.targets[question.question_id]
        hit = next((hit for hit in hits if hit.image_id == image_id), None)
        point = hit_point(hit) if hit else None
        inside = point is not None and any(_holds(box, point) for box in self.dataset.boxes[image_id][label])
        return kept_target(hits, position, target=image_id) | {"pointed": point is not None, "inside": inside}

    def evaluate(self, answers: Answers) -> Evaluation:
        """`{"R@1", "R@10", "MNR", "pointing"}`, macro over labels."""
        return score_known_items(self.benchmark, self.targets, answers)


def _holds(box: Box, point: tuple[float, float]) -> bool:
    x, y = point
    return box.x1 <= x <= box.x2 and box.y1 <= y <= box.y2


def score_known_items(benchmark: str, targets: Mapping[str, tuple[str, str]], answers: Answers) -> Evaluation:
    """Known-item figures of every label, and their mean over labels."""
    labels = sorted({label for _, label in targets.values()})
    kept = {name: answers.kept[name] for name in targets}
    by_label: dict[str, dict[str, float]] = {}
    for label in labels:
        own = [kept[name] for name, (_, one) in targets.items() if one == label]
        found = [one["score"] is not None for one in own]
        figures = metrics.known_item([one["rank"] for one in own], found=found, ks=RECALLS)
        by_label[label] = figures | {"pointing": float(np.mean([one["inside"] for one in own]))}
    macro = {
        name: float(np.mean([by_label[label][name] for label in labels])) for name in ("R@1", "R@10", "MNR", "pointing")
    }
    ranks = np.array([one["rank"] if one["score"] is not None else np.inf for one in kept.values()])
    return Evaluation(
        benchmark=benchmark,
        protocol="known item, macro over labels",
        scores=macro,
        queries=tuple(
            QueryScore(
                query_id=name,
                group=label,
                metrics={
                    "reciprocal": 1 / kept[name]["rank"] if kept[name]["score"] is not None else 0.0,
                    "rank": float(kept[name]["rank"]),
                    "pointing": float(kept[name]["inside"]),
                },
                detail={"text": label, **ranked_detail(answers, kept[name], relevant=[image_id])},
            )
            for name, (image_id, label) in targets.items()
        ),
        curves=(recall_curve(ranks, most=len(answers.image_ids)),),
        warnings=no_region_warning(any(one["pointed"] for one in kept.values()), "pointing is 0"),
    )

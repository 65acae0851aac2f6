"""`road`: find the road photos with something odd, and point at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein import Hit, Part, Query
from wherein.bench import metrics
from wherein.bench.evaluation import Evaluation, Line, QueryScore
from wherein.bench.local.dataset import Road, files_of, load_road, read_mask
from wherein.bench.located import hit_point, no_region_warning
from wherein.bench.task import DISTRACTORS, Answers, BenchOption, Kind, Question, Task, Variant, kept_ranking

# The language support set of the one label this set has; --prompt replaces it.
PROMPTS: Final = (
    "something unusual on the road",
    "an animal on the road",
    "an obstacle on the road",
    "debris on the road",
)
LABEL: Final = "odd"


@dataclass(frozen=True)
class RoadTask(Task):
    """One question, a support set of texts; the odd photos are relevant."""

    benchmark: str
    dataset: Road
    prompts: tuple[str, ...] = PROMPTS

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (
            BenchOption("prompt", "a text instead of the default ones", Kind.TEXTS),
            DISTRACTORS,
        )

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "RoadTask":
        """Read the set by its shape."""
        return cls(benchmark=benchmark, dataset=load_road(data), prompts=options.prompt or PROMPTS)

    def images(self) -> dict[str, Path]:
        """The files that are searched, by image_id."""
        return files_of(self.dataset.root, self.dataset.image_ids)

    def questions(self) -> Sequence[Question]:
        """The one question of this benchmark: what does not belong on a road."""
        return [Question(question_id=LABEL, query=Query(parts=tuple(Part(text=text) for text in self.prompts)))]

    def keep(self, _question: Question, hits: Sequence[Hit], position: Mapping[str, int]) -> dict[str, Any]:
        """The whole ranking, and for every odd photo whether its hit points at what is odd."""
        inside: dict[str, bool | None] = {}
        for hit in hits:
            if hit.image_id in self.dataset.odd:
                point = hit_point(hit)
                mask = read_mask(self.dataset.odd[hit.image_id])
                inside[hit.image_id] = None if point is None else _holds(mask, point)
        return kept_ranking(hits, position) | {"inside": inside}

    def evaluate(self, answers: Answers) -> Evaluation:
        """Score the answers: `{"mAP", "pointing"}`."""
        return score_road(self.benchmark, tuple(self.dataset.odd), answers)


def _holds(mask: Any, point: tuple[float, float]) -> bool:
    height, width = mask.shape
    x, y = min(int(point[0] * width), width - 1), min(int(point[1] * height), height - 1)
    return bool(mask[y, x])


def score_road(benchmark: str, odd: Sequence[str], answers: Answers) -> Evaluation:
    """Step AP of the odd photos, and the share of them whose hit points into the mask."""
    position, kept = answers.position(), answers.kept[LABEL]
    relevant = [position[image_id] for image_id in odd]
    found = metrics.positions_of(kept["ranking"], relevant=relevant)
    curve = metrics.interpolated_precision(found, relevant=len(relevant))
    places = {number: place + 1 for place, number in enumerate(kept["ranking"])}
    scores = {
        "mAP": metrics.average_precision(found, relevant=len(relevant)),
        "pointing": float(np.mean([bool(kept["inside"].get(image_id)) for image_id in odd])),
    }
    return Evaluation(
        benchmark=benchmark,
        protocol="step AP",
        scores=scores,
        queries=tuple(
            QueryScore(
                query_id=image_id,
                group=LABEL,
                metrics={
                    "rank": float(places.get(position[image_id], len(answers.image_ids))),
                    "pointing": float(bool(kept["inside"].get(image_id))),
                },
                detail={"image": image_id},
            )
            for image_id in odd
        ),
        curves=(Line(LABEL, "recall", "precision", metrics.RECALL_POINTS.tolist(), curve.tolist()),),
        warnings=no_region_warning(any(v is not None for v in kept["inside"].values()), "pointing is 0"),
    )

"""`covers`, `facades`, `objects`: find the other photos of the thing in the query photo, or say there is none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from wherein import Hit, Part, Query
from wherein.bench import metrics
from wherein.bench.evaluation import Evaluation, Line, QueryScore
from wherein.bench.local.dataset import QueryImage, QueryImages, files_of, load_examples, load_objects
from wherein.bench.task import (
    DISTRACTORS,
    PROTOCOL,
    Answers,
    BenchOption,
    Question,
    Task,
    Variant,
    kept_ranking,
    ranked_detail,
)

TOP = 5  # the k of mAP@5 and t-mAP@5


@dataclass(frozen=True)
class ExamplesTask(Task):
    """Query photos against a database; a query's own image, where it is in there, is left out."""

    benchmark: str
    dataset: QueryImages
    protocol: str = "official"

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (
            DISTRACTORS,
            PROTOCOL,
        )

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "ExamplesTask":
        """Read the set by its shape."""
        dataset = load_objects(data) if benchmark == "objects" else load_examples(data, benchmark=benchmark)
        return cls(benchmark=benchmark, dataset=dataset, protocol=options.protocol or "official")

    def images(self) -> dict[str, Path]:
        """The files that are searched, by image_id."""
        return files_of(self.dataset.root, self.dataset.image_ids)

    def query_files(self) -> dict[str, Path]:
        """The photos that are asked with, by their ids."""
        return {example.name: example.path for example in self.dataset.queries}

    def questions(self) -> Sequence[Question]:
        """One question per query photo."""
        return [
            Question(question_id=example.name, query=Query(parts=(Part(image=example.path),)))
            for example in self.dataset.queries
        ]

    def keep(self, question: Question, hits: Sequence[Hit], position: Mapping[str, int]) -> dict[str, Any]:
        """The whole ranking, without the query's own image."""
        own = self._own[question.question_id]
        return kept_ranking([hit for hit in hits if hit.image_id != own], position)

    @cached_property
    def _own(self) -> dict[str, str | None]:
        return {example.name: example.own for example in self.dataset.queries}

    def evaluate(self, answers: Answers) -> Evaluation:
        """Step AP over the whole ranking, FORB's AP@5 and its thresholds over all queries' distractors."""
        return score_examples(self.benchmark, self.dataset.queries, answers, protocol=self.protocol)


def score_examples(
    benchmark: str, queries: Sequence[QueryImage], answers: Answers, *, protocol: str = "official"
) -> Evaluation:
    """`{"top1", "mAP", "mAP@5", "t-mAP@5"}` of full rankings; `protocol` is FORB's, of the last two."""
    position = answers.position()
    kept = [answers.kept[query.name] for query in queries]
    truth = [[position[image_id] for image_id in query.relevant] for query in queries]
    lists = metrics.candidate_lists([one["ranking"] for one in kept], [one["scores"] for one in kept], truth=truth)
    places = [metrics.positions_of(one["ranking"], relevant=own) for one, own in zip(kept, truth, strict=True)]
    ap = np.array([metrics.average_precision(p, relevant=len(own)) for p, own in zip(places, truth, strict=True)])
    top1 = np.array([float(len(p) > 0 and p[0] == 0) for p in places])
    ap5 = metrics.truncated_ap(lists, ks=(TOP,), divisor=protocol)[0]
    best = [_best_distractor(one, own) for one, own in zip(kept, truth, strict=True)]
    thresholds = metrics.protocol_thresholds(best, protocol=protocol)
    levels = metrics.thresholded_ap(lists, ks=(TOP,), thresholds=thresholds, divisor=protocol)[:, 0]
    asked = np.array([bool(own) for own in truth])
    t_ap5 = levels.mean(axis=0)
    scores = {
        "top1": _mean(top1[asked]),
        "mAP": _mean(ap[asked]),
        "mAP@5": _mean(ap5[~np.isnan(ap5)]),
        "t-mAP@5": _mean(t_ap5[~np.isnan(t_ap5)]),
    }
    return Evaluation(
        benchmark=benchmark,
        protocol="step AP" if protocol == "official" else "step AP, t-mAP as in the paper",
        scores=scores,
        queries=tuple(
            QueryScore(
                query_id=query.name,
                group=_group(query),
                metrics={
                    "AP": float(ap[n]),
                    "top1": float(top1[n]),
                    "AP@5": float(ap5[n]),
                    "t-AP@5": float(t_ap5[n]),
                },
                detail={"query": query.name, **ranked_detail(answers, kept[n], relevant=query.relevant)},
            )
            for n, query in enumerate(queries)
        ),
        curves=_curves(places, truth, levels),
        warnings=_warnings(asked, protocol=protocol),
    )


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _group(query: QueryImage) -> str:
    """The folder of a leave-one-out query; queries of one folder have no groups."""
    return query.own.split("/", 1)[0] if query.own else ""


def _best_distractor(kept: Mapping[str, Any], truth: Sequence[int]) -> float:
    """The highest score of an image that is not relevant; −1 where there is none."""
    known = set(truth)
    pairs = zip(kept["ranking"], kept["scores"], strict=True)
    return max((score for number, score in pairs if number not in known), default=-1.0)


def _curves(places: Sequence[metrics.Ints], truth: Sequence[Sequence[int]], levels: metrics.Floats) -> tuple[Line, ...]:
    lines = [
        metrics.interpolated_precision(place, relevant=len(own))
        for place, own in zip(places, truth, strict=True)
        if own
    ]
    mean = np.mean(lines, axis=0) if lines else np.zeros(len(metrics.RECALL_POINTS))
    return (
        Line("mean over queries", "recall", "precision", metrics.RECALL_POINTS.tolist(), mean.tolist()),
        Line(
            "kept above the threshold of each rate",
            "false positive rate",
            "mAP@5",
            metrics.rejection_rates().tolist(),
            np.nanmean(levels, axis=1).tolist(),
        ),
    )


def _warnings(asked: Any, *, protocol: str) -> tuple[str, ...]:
    without = int(np.count_nonzero(~asked))
    if not without:
        return ()
    if protocol == "paper":
        return (f"{without} queries have no relevant image: they are not scored, and their hits set thresholds",)
    return (
        f"{without} queries have no relevant image: they leave top1 and mAP, and count in mAP@5 and t-mAP@5 "
        "as found only where nothing is returned",
    )

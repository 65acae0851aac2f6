"""`classes`: zero-shot recognition. Each class name is a text query; an image's class is the best-scoring text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wherein import Hit, Part, Query
from wherein.bench import metrics
from wherein.bench.evaluation import DETAIL_LIMIT, Evaluation, Line, QueryScore
from wherein.bench.local.dataset import Classes, files_of, load_classes
from wherein.bench.task import Answers, BenchOption, Kind, Question, Task, Variant, kept_ranking
from wherein.errors import SpecError

PROMPT = "a photo of a {}"


@dataclass(frozen=True)
class ClassesTask(Task):
    """Class names as texts against all images."""

    benchmark: str
    dataset: Classes
    prompts: tuple[str, ...] = (PROMPT,)

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (BenchOption("prompt", f"a text instead of {PROMPT!r}", Kind.TEXTS),)

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "ClassesTask":
        """Read the set by its shape."""
        prompts = options.prompt or (PROMPT,)
        for prompt in prompts:
            if "{}" not in prompt:
                raise SpecError(f"--prompt {prompt!r} has no {{}} where the class name goes, as in {PROMPT!r}")
        return cls(benchmark=benchmark, dataset=load_classes(data), prompts=prompts)

    def images(self) -> dict[str, Path]:
        """The files that are searched, by image_id."""
        return files_of(self.dataset.root, self.dataset.class_of)

    def questions(self) -> Sequence[Question]:
        """One question per class, its name put into every prompt."""
        names = sorted(set(self.dataset.class_of.values()))
        return [Question(question_id=name, query=_query(name, self.prompts)) for name in names]

    def keep(self, _question: Question, hits: Sequence[Hit], position: Mapping[str, int]) -> dict[str, Any]:
        """The whole ranking with its scores."""
        return kept_ranking(hits, position)

    def evaluate(self, answers: Answers) -> Evaluation:
        """Score the answers: `{"top1", "top5", "mAP"}`."""
        return score_classes(self.benchmark, self.dataset.class_of, answers)


def _query(name: str, prompts: Sequence[str]) -> Query:
    words = name.replace("_", " ").replace("-", " ").strip()
    return Query(parts=tuple(Part(text=prompt.format(words)) for prompt in prompts))


def score_classes(benchmark: str, class_of: Mapping[str, str], answers: Answers) -> Evaluation:
    """top1 and top5 over images, mAP over classes; classes that tie keep the order of their names."""
    position, names = answers.position(), sorted(set(class_of.values()))
    matrix = np.full((len(names), len(answers.image_ids)), -np.inf)
    for row, name in enumerate(names):
        matrix[row, answers.kept[name]["ranking"]] = answers.kept[name]["scores"]
    columns = np.array([position[image_id] for image_id in class_of])
    own = np.array([names.index(name) for name in class_of.values()])
    order = np.argsort(-matrix[:, columns], axis=0, kind="stable")
    places = np.argmax(order == own, axis=0)
    ap, lines = {}, []
    for name in names:
        relevant = [position[image_id] for image_id, label in class_of.items() if label == name]
        found = metrics.positions_of(answers.kept[name]["ranking"], relevant=relevant)
        ap[name] = metrics.average_precision(found, relevant=len(relevant))
        lines.append(metrics.interpolated_precision(found, relevant=len(relevant)))
    scores = {
        "top1": float(np.mean(places < 1)),
        "top5": float(np.mean(places < 5)),
        "mAP": float(np.mean(list(ap.values()))),
    }
    curve = np.mean(lines, axis=0)
    return Evaluation(
        benchmark=benchmark,
        protocol="zero-shot from the name",
        scores=scores,
        queries=tuple(
            QueryScore(
                query_id=image_id,
                group=label,
                metrics={"top1": float(places[n] < 1), "top5": float(places[n] < 5), "rank": float(places[n] + 1)},
                detail={"relevant": [label], "ranking": [names[c] for c in order[:DETAIL_LIMIT, n]]},
            )
            for n, (image_id, label) in enumerate(class_of.items())
        ),
        curves=(Line("mean over classes", "recall", "precision", metrics.RECALL_POINTS.tolist(), curve.tolist()),),
        warnings=(),
    )

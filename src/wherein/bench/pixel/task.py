"""Pixel retrieval on Oxford and Paris: which images, and which of their pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein import Hit
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.located import hit_polygon, located
from wherein.bench.pixel import dataset as pixel
from wherein.bench.revisited.task import files_of_list, query_of, write_ranks
from wherein.bench.task import DEFAULTS, Answers, Options, Question, Search, Task
from wherein.errors import SpecError

DATABASE: Final = "database"
PAIRS: Final = "pairs"


@dataclass(frozen=True)
class PixelTask(Task):
    """`database`: rank and locate. `pairs`: only locate in the images that are known to be relevant."""

    benchmark: str
    root: Path
    dataset: pixel.PixelRetrieval
    kind: str = DATABASE
    protocol: str = "official"

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Options) -> "PixelTask":
        """Read the truth and the pairs."""
        options.require_only("task", "distractors", "protocol", benchmark=benchmark)
        kind = options.task or DEFAULTS["task"]
        if kind not in (DATABASE, PAIRS):
            raise SpecError(f"--task {kind} is none of {DATABASE}, {PAIRS}")
        dataset = pixel.load(data, name=benchmark)
        return cls(benchmark, data, dataset, kind=kind, protocol=options.protocol or "official")

    @cached_property
    def _files(self) -> dict[str, Path]:
        return files_of_list(self.root, self.dataset.truth)

    @property
    def searches_all(self) -> bool:
        """The pairs task only looks at the images of its pairs."""
        return self.kind == DATABASE

    def images(self) -> dict[str, Path]:
        """The image list; for the pairs task, those of it that are in a pair."""
        if self.searches_all:
            return self._files
        paired = {image for _, image in self.dataset.labels}
        return {name: path for number, (name, path) in enumerate(self._files.items()) if number in paired}

    def questions(self) -> Sequence[Question]:
        """One question per query, cropped to its box."""
        truth = self.dataset.truth
        return [
            Question(question_id=str(number), query=query_of(self.root, truth, query))
            for number, query in enumerate(truth.queries)
        ]

    def ask(self, question: Question, search: Search, position: Mapping[str, int]) -> dict[str, Any]:
        """The whole ranking of the database task, and the outline in every image of a pair, whatever its rank."""
        names = list(self._files)
        row_of = {names[image]: image for query, image in self.dataset.labels if query == int(question.question_id)}
        hits: Sequence[Hit] = search(question.query) if self.kind == DATABASE else ()
        found = located(search, question.query, hits, list(row_of), timed=self.kind == PAIRS)
        outlines = {row_of[name]: hit_polygon(hit) for name, hit in found.items()}
        return {
            "ranking": [position[hit.image_id] for hit in hits],
            "outlines": {str(row): points for row, points in sorted(outlines.items())},
        }

    def evaluate(self, answers: Answers) -> Evaluation:
        """Write polygons and ranks in the official formats and score them."""
        answers.out.mkdir(parents=True, exist_ok=True)
        matches = {
            f"qimlist_{number}_imlist_{image}": np.array(points, dtype=np.float64).reshape(-1, 2)
            for number in range(len(self.dataset.truth.queries))
            for image, points in answers.kept[str(number)]["outlines"].items()
        }
        path = answers.out / f"{self.benchmark}_matches.npy"
        np.save(path, np.array(matches, dtype=object), allow_pickle=True)
        ranks = None
        if self.kind == DATABASE:
            truth = self.dataset.truth
            ranks = write_ranks(answers.out / f"{truth.name}_ranks.npy", self.root, truth, answers)
        return evaluate(self.benchmark, data=self.root, predictions=path, ranks=ranks, protocol=self.protocol)

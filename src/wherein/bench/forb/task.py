"""FORB: every query against the whole database and against the distractors alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from wherein import Part, Query
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.forb import dataset as forb
from wherein.bench.task import Answers, Options, Question, Search, Task
from wherein.errors import DataError

DEPTH: Final = 10  # candidates per query in the result files, as the official ones have
TAG: Final = "forb-distractor"
PLACES: Final = (".", "images", "data", "database", "queries")


@dataclass(frozen=True)
class ForbTask(Task):
    """The queries of every object that is on disk."""

    benchmark: str
    dataset: forb.Forb
    protocol: str = "official"

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Options) -> "ForbTask":
        """Read the metadata."""
        options.require_only("protocol", benchmark=benchmark)
        dataset = forb.load(data)
        if not dataset.database:
            raise DataError(
                f"{data} lists no database images; metadata/all_database_images.txt is needed, object after object"
            )
        forb.require_truth_within(dataset.queries, dataset.sizes)
        return cls(benchmark=benchmark, dataset=dataset, protocol=options.protocol or "official")

    def _file(self, name: str) -> Path:
        found = (self.dataset.root / place / name for place in PLACES)
        return next((path for path in found if path.is_file()), self.dataset.root / name)

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {name: self._file(name) for name in self.dataset.database}

    def images(self) -> dict[str, Path]:
        """The database, in its global order."""
        return self._files

    def query_files(self) -> dict[str, Path]:
        """The query photos."""
        return {query.image: self._file(query.image) for query in self.dataset.queries}

    def distractors(self) -> list[str]:
        """The database without every image that is relevant to some query."""
        relevant = {
            self.dataset.database[number - 1 + self.dataset.offsets[query.object]]
            for query in self.dataset.queries
            for number in query.truth
        }
        return [name for name in self.dataset.database if name not in relevant]

    def tags(self) -> Mapping[str, Sequence[str]]:
        """The distractors, to be searched alone."""
        return {TAG: self.distractors()}

    def questions(self) -> Sequence[Question]:
        """One question per query image."""
        return [
            Question(
                question_id=f"{query.object}/{query.query_id}",
                query=Query(parts=(Part(image=self._file(query.image)),)),
            )
            for query in self.dataset.queries
        ]

    def ask(self, question: Question, search: Search, position: Mapping[str, int]) -> dict[str, Any]:
        """Two searches: everything, and the distractors alone."""
        kept: dict[str, Any] = {}
        for name, tags in (("all", ()), ("oods", (TAG,))):
            hits = search(question.query, k=DEPTH, tags=tags, timed=not tags)
            kept[name] = {
                "ranking": [position[hit.image_id] for hit in hits],
                "scores": [float(hit.score) for hit in hits],
            }
        return kept

    def evaluate(self, answers: Answers) -> Evaluation:
        """Write the two result files of each object and score them as the official evaluator does."""
        answers.out.mkdir(parents=True, exist_ok=True)
        numbers = {name: number for number, name in enumerate(self.dataset.database)}
        beyond = len(numbers)  # added distractors count behind the database
        for name in self.dataset.objects:
            queries = [query for query in self.dataset.queries if query.object == name]
            for against in ("all", "oods"):
                with (answers.out / f"{name}_{against}.ndjson").open("w", encoding="utf-8") as file:
                    for query in queries:
                        kept = answers.kept[f"{name}/{query.query_id}"][against]
                        ids = [numbers.get(answers.image_ids[row], beyond) for row in kept["ranking"]]
                        line = {"query_id": query.query_id, "candidate_db_ids": ids, "global_scores": kept["scores"]}
                        file.write(json.dumps(line) + "\n")
        return evaluate("forb", data=self.dataset.root, predictions=answers.out, protocol=self.protocol)

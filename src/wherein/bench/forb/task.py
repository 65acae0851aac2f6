"""FORB: every query against the whole database and against the distractors alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from wherein import Part, Query
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.forb import dataset as forb
from wherein.bench.local.dataset import images_under
from wherein.bench.task import PROTOCOL, Answers, BenchOption, Kind, Question, Search, Task, Variant, kept_ranking
from wherein.errors import DataError

STRANGER: Final = "out-of-domain/"
"""How questions about images of other domains are called."""

DEPTH: Final = 10  # candidates per query in the result files, as the official ones have
TAG: Final = "forb-distractor"
PLACES: Final = (".", "images", "data", "database", "queries")
OUT_OF_DOMAIN: Final = BenchOption(
    "out_of_domain", "a folder of photos for which nothing should be found: thresholds from them", Kind.FOLDER
)


@dataclass(frozen=True)
class ForbTask(Task):
    """The queries of every object that is on disk."""

    benchmark: str
    dataset: forb.Forb
    protocol: str = "official"
    strangers: Mapping[str, Path] = field(default_factory=dict)
    """Images of other domains by their names, for which nothing should be found."""

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (
            PROTOCOL,
            OUT_OF_DOMAIN,
        )

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "ForbTask":
        """Read the queries and the database from the metadata files."""
        dataset = forb.load(data)
        if not dataset.database:
            raise DataError(
                f"{data} lists no database images; metadata/all_database_images.txt is needed, object after object"
            )
        forb.require_truth_within(dataset.queries, dataset.sizes)
        strangers = {} if options.out_of_domain is None else _strangers(Path(options.out_of_domain))
        return cls(benchmark, dataset, protocol=options.protocol or "official", strangers=strangers)

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
        """The photos that are asked with, by their ids."""
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
        """One question per query image, and one per image of another domain."""
        asked = [
            Question(
                question_id=f"{query.object}/{query.query_id}",
                query=Query(parts=(Part(image=self._file(query.image)),)),
            )
            for query in self.dataset.queries
        ]
        return [
            *asked,
            *(Question(f"{STRANGER}{name}", Query(parts=(Part(image=path),))) for name, path in self.strangers.items()),
        ]

    def ask(self, question: Question, search: Search, position: Mapping[str, int]) -> dict[str, Any]:
        """Two searches: everything, and the distractors alone; without the method's steps too, where it has some."""
        kept: dict[str, Any] = {}
        method = search.method
        first = replace(
            method, written="", steps=(), chosen=frozenset(one for one in method.chosen if one[0] not in method.steps)
        )
        against = (("all", ()), ("oods", (TAG,)))
        for name, tags in against[:1] if question.question_id.startswith(STRANGER) else against:
            hits = search(question.query, k=DEPTH, tags=tags, timed=not tags)
            kept[name] = kept_ranking(hits, position)
            if any(hit.inliers is not None for hit in hits):
                kept[name]["inliers"] = [hit.inliers or 0 for hit in hits]
            if method.steps:
                before = search(question.query, k=DEPTH, tags=tags, method=first, timed=False)
                kept[name]["before"] = kept_ranking(before, position)
        return kept

    def evaluate(self, answers: Answers) -> Evaluation:
        """Write the two result files of each object and score them as the official evaluator does."""
        answers.out.mkdir(parents=True, exist_ok=True)
        numbers = {name: number for number, name in enumerate(self.dataset.database)}
        # Images that are not of the database count behind it.
        listed = [numbers.get(image_id, len(numbers)) for image_id in answers.image_ids]
        for name in self.dataset.objects:
            queries = [query for query in self.dataset.queries if query.object == name]
            for against in ("all", "oods"):
                with (answers.out / f"{name}_{against}.ndjson").open("w", encoding="utf-8") as file:
                    for query in queries:
                        kept = answers.kept[f"{name}/{query.query_id}"][against]
                        file.write(json.dumps({"query_id": query.query_id, **_line(kept, listed)}) + "\n")
        if self.strangers:
            with (answers.out / forb.OUT_OF_DOMAIN).open("w", encoding="utf-8") as file:
                for name in self.strangers:
                    kept = answers.kept[f"{STRANGER}{name}"]["all"]
                    file.write(json.dumps({"query_image": name, **_line(kept, listed)}) + "\n")
        return evaluate("forb", data=self.dataset.root, predictions=answers.out, protocol=self.protocol)


def _strangers(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise DataError(f"--out-of-domain {folder} is not a folder of images")
    return {name: folder / name for name in images_under(folder)}


def _line(kept: Mapping[str, Any], listed: Sequence[int]) -> dict[str, Any]:
    """One answer under the official keys; what stood there before re-ranking, and inliers, where there are any."""
    line = {"candidate_db_ids": [listed[row] for row in kept["ranking"]], "global_scores": kept["scores"]}
    if "before" in kept:
        line["candidate_db_ids_before_reranking"] = [listed[row] for row in kept["before"]["ranking"]]
        line["global_scores_before_reranking"] = kept["before"]["scores"]
    if "inliers" in kept:
        line["num_inlier"] = kept["inliers"]
    return line

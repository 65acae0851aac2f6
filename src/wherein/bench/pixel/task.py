"""Pixel retrieval on Oxford and Paris: which images, and which of their pixels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import PIL.Image

from wherein import Hit, Query
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.located import hit_polygon, located
from wherein.bench.pixel import dataset as pixel
from wherein.bench.pixel.pictures import pair_pictures
from wherein.bench.revisited.task import files_of_list, query_of, query_photos, write_ranks
from wherein.bench.task import DISTRACTORS, PROTOCOL, Answers, BenchOption, Question, Search, Task, Variant
from wherein.errors import DataError

DATABASE: Final = "database"
PAIRS: Final = "pairs"
BOX: Final = "box"
MASK: Final = "mask"
TASK: Final = BenchOption("task", "what is asked", choices=(DATABASE, PAIRS), default=DATABASE)
QUERY: Final = BenchOption("query", "what each query is asked with", choices=(BOX, MASK), default=BOX)


@dataclass(frozen=True)
class PixelTask(Task):
    """`database`: rank and locate. `pairs`: only locate in the images that are known to be relevant."""

    benchmark: str
    root: Path
    dataset: pixel.PixelRetrieval
    kind: str = DATABASE
    asked: str = "box"
    protocol: str = "official"

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (
            TASK,
            QUERY,
            DISTRACTORS,
            PROTOCOL,
        )

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "PixelTask":
        """Read the truth and the pairs."""
        kind, asked = options.task or DATABASE, options.query or BOX
        dataset = pixel.load(data, name=benchmark)
        absent = [number for number in range(len(dataset.truth.queries)) if number not in dataset.query_masks]
        if asked == MASK and absent:
            raise DataError(
                f"{len(absent)} of {len(dataset.truth.queries)} queries of {data} have no mask, first {absent[0]}; "
                f"put a labelme file or a PNG at {pixel.QUERY_MASKS[0]}/{absent[0]}.json, or use --query {BOX}"
            )
        return cls(benchmark, data, dataset, kind=kind, asked=asked, protocol=options.protocol or "official")

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

    def query_files(self) -> dict[str, Path]:
        """The query photos, by the names of the list."""
        return query_photos(self.root, self.dataset.truth)

    def questions(self) -> Sequence[Question]:
        """One question per query: its image with its box, or with its mask."""
        truth = self.dataset.truth
        boxed = [query_of(self.root, truth, query) for query in truth.queries]
        queries = boxed if self.asked == BOX else [self._masked(number, one) for number, one in enumerate(boxed)]
        return [Question(question_id=str(number), query=query) for number, query in enumerate(queries)]

    def _masked(self, number: int, query: Query) -> Query:
        """The query with the mask of what it shows in place of its box."""
        (part,) = query.parts
        with PIL.Image.open(str(part.image)) as picture:
            size_wh = picture.size
        mask = pixel.read_query_mask(self.dataset.query_masks[number], size_wh=size_wh)
        return Query(parts=(replace(part, box=None, mask=mask),))

    def pictures(self, evaluation: Evaluation, answers: Answers) -> dict[str, str]:
        """Pairs with what is true, what was found and both."""
        outlines = {
            (number, int(image)): points
            for number in range(len(self.dataset.truth.queries))
            for image, points in answers.kept[str(number)]["outlines"].items()
        }
        return pair_pictures(evaluation.queries, self.dataset.labels, outlines, list(self._files.values()))

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

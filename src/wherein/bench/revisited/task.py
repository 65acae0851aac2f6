"""Revisited Oxford and Paris: the query image cropped to its box against the image list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein import Hit, Part, Query
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.located import pixel_box
from wherein.bench.revisited import dataset as revisited
from wherein.bench.task import DISTRACTORS, PROTOCOL, Answers, BenchOption, Question, Task, Variant
from wherein.errors import DataError

SUFFIXES: Final = ("", ".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True)
class RevisitedTask(Task):
    """70 queries; a ranks array of the whole image list."""

    benchmark: str
    root: Path
    dataset: revisited.Revisited
    protocol: str = "official"

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (
            DISTRACTORS,
            PROTOCOL,
        )

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "RevisitedTask":
        """Read the queries and which images are right for each."""
        dataset = revisited.load(data, name=benchmark)
        return cls(benchmark=benchmark, root=data, dataset=dataset, protocol=options.protocol or "official")

    def images(self) -> dict[str, Path]:
        """The files of the image list, by image_id."""
        return files_of_list(self.root, self.dataset)

    def query_files(self) -> dict[str, Path]:
        """The query photos, by the names of the list."""
        return query_photos(self.root, self.dataset)

    def questions(self) -> Sequence[Question]:
        """One question per query, cropped to its box."""
        return [
            Question(question_id=str(number), query=query_of(self.root, self.dataset, query))
            for number, query in enumerate(self.dataset.queries)
        ]

    def keep(self, _question: Question, hits: Sequence[Hit], position: Mapping[str, int], /) -> dict[str, Any]:
        """What is kept of an answer: the whole ranking, as places in the image list."""
        return {"ranking": [position[hit.image_id] for hit in hits]}

    def evaluate(self, answers: Answers) -> Evaluation:
        """Write the ranks array and score it under easy, medium and hard."""
        path = write_ranks(answers.out / f"{self.dataset.name}_ranks.npy", self.root, self.dataset, answers)
        return evaluate(self.benchmark, data=self.root, predictions=path, protocol=self.protocol)


def query_photos(root: Path, dataset: revisited.Revisited) -> dict[str, Path]:
    """The file of every query and of every listed image, by the names the truth gives them."""
    names = [*(query.image for query in dataset.queries), *dataset.images]
    return {name: image_file(root, dataset.name, name) for name in names}


def query_of(root: Path, dataset: revisited.Revisited, query: revisited.RevisitedQuery) -> Query:
    """The query image, with its box where it has one."""
    path = image_file(root, dataset.name, query.image)
    box = None if query.xyxy is None else pixel_box(path, query.xyxy)
    return Query(parts=(Part(image=path, box=box),))


def image_file(root: Path, name: str, image: str) -> Path:
    """Where an image of the list lies: `jpg/` beside the truth or where the official code keeps it."""
    truth = revisited.truth_path(root, name).parent
    folders = [root / "jpg", truth / "jpg", root / name / "jpg", root / "images", root]
    for folder in folders:
        for suffix in SUFFIXES:
            if (folder / f"{image}{suffix}").is_file():
                return folder / f"{image}{suffix}"
    raise DataError(f"the image {image} of {name} is not in {folders[0]}; unpack the images there")


def files_of_list(root: Path, dataset: revisited.Revisited) -> dict[str, Path]:
    """image_id → file in the order of the list; an image_id is the listed name with the suffix of its file."""
    files = [(image, image_file(root, dataset.name, image)) for image in dataset.images]
    return {image if path.name == Path(image).name else f"{image}{path.suffix}": path for image, path in files}


def write_ranks(path: Path, root: Path, dataset: revisited.Revisited, answers: Answers) -> Path:
    """Ranks as the official code has them: (database × query), rows of the image list; distractors come after it."""
    row_of = {name: row for row, name in enumerate(files_of_list(root, dataset))}
    for image_id in answers.image_ids:
        row_of.setdefault(image_id, len(row_of))
    columns = []
    for number in range(len(dataset.queries)):
        ranked = [row_of[answers.image_ids[place]] for place in answers.kept[str(number)]["ranking"]]
        known = set(ranked)  # an image that could not be indexed is ranked last
        columns.append(ranked + [row for row in range(len(row_of)) if row not in known])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.array(columns, dtype=np.int64).T)
    return path

"""What `bench run` drives: a task has questions, says what to keep of each answer, and scores what was kept."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from wherein import Hit, Method, Query, Ranking
from wherein.bench.evaluation import DETAIL_LIMIT, Evaluation
from wherein.errors import SpecError


@dataclass(frozen=True)
class Question:
    """One query of a benchmark."""

    question_id: str
    query: Query


class Search(Protocol):
    """The engine as a task sees it: the run's method unless another is named, every image unless k is."""

    @property
    def method(self) -> Method:
        """The method of the run."""
        ...

    def __call__(
        self,
        query: Query,
        *,
        k: int | None = None,
        method: Method | None = None,
        tags: Sequence[str] = (),
        among: Sequence[str] | None = None,
        timed: bool = True,
    ) -> Ranking:
        """Hits, best first; only images with all the `tags`, and of those `among`, where given.

        The time is counted unless the search serves the protocol and not the user.
        """
        ...


DEFAULTS: Final = {"split": "val", "modality": "language", "texts": "all", "task": "database"}
"""What None means, where an option has a word for it."""


@dataclass(frozen=True)
class Options:
    """The papers' protocol variants; None is the benchmark's own protocol."""

    split: str | None = None
    modality: str | None = None
    texts: str | None = None
    draw: int | None = None
    seed: int | None = None
    prompt: tuple[str, ...] | None = None
    perturb: tuple[float, float] | None = None
    target_only: bool | None = None
    distractors: str | None = None
    task: str | None = None
    language: str | None = None
    query: str | None = None
    out_of_domain: str | None = None
    longest_side: int | None = None
    protocol: str | None = None
    size_thirds: bool | None = None
    confusion: bool | None = None
    box_statistics: bool | None = None

    def given(self) -> dict[str, Any]:
        """The options that were asked for."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def asking(self) -> dict[str, Any]:
        """The options that change an answer; the others only add figures."""
        return {name: value for name, value in self.given().items() if name not in SCORING_OPTIONS}

    def require_only(self, *known: str, benchmark: str) -> None:
        """Refuse an option that the benchmark does not have."""
        for name in self.given():
            if name not in (*known, "longest_side"):
                has = ", ".join(_flag(one) for one in (*known, "longest_side"))
                raise SpecError(f"{benchmark} has no option {_flag(name)}; it has {has}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


SCORING_OPTIONS = ("protocol", "size_thirds", "confusion", "box_statistics")


@dataclass(frozen=True)
class Answers:
    """What was kept of every question's answer; rankings count positions in `image_ids`.

    Prediction files in official formats are written under `out`.
    """

    image_ids: tuple[str, ...]
    kept: Mapping[str, Mapping[str, Any]]
    out: Path = Path()

    def position(self) -> dict[str, int]:
        """The number of each image_id."""
        return {image_id: number for number, image_id in enumerate(self.image_ids)}


class Task(ABC):
    """A benchmark with its data, ready to be run."""

    benchmark: str

    @property
    def searches_all(self) -> bool:
        """Whether every image of the collection may be found; else the task names those it looks at."""
        return True

    @abstractmethod
    def images(self) -> Mapping[str, Path]:
        """What is searched: image_id → file."""

    @abstractmethod
    def questions(self) -> Sequence[Question]:
        """Every question, in a fixed order."""

    @abstractmethod
    def evaluate(self, answers: Answers) -> Evaluation:
        """Score the answers."""

    def keep(self, question: Question, hits: Sequence[Hit], position: Mapping[str, int], /) -> dict[str, Any]:
        """What scoring needs of one answer, as JSON."""
        raise NotImplementedError(f"{self.benchmark}: {question.question_id}, {len(hits)} of {len(position)}")

    def query_files(self) -> Mapping[str, Path]:
        """The files of query images that are not searched themselves, by the name the details give them."""
        return {}

    def pictures(self, _evaluation: Evaluation, _answers: Answers, /) -> dict[str, str]:
        """Pictures that the details of queries name (under `picture`), as data URIs; none unless a task draws some."""
        return {}

    def tags(self) -> Mapping[str, Sequence[str]]:
        """Tags that a search of this task filters by, with the image_ids that get them."""
        return {}

    def ask(self, question: Question, search: Search, position: Mapping[str, int]) -> dict[str, Any]:
        """Ask the engine and keep what scoring needs; one search over all images unless a task says otherwise."""
        return self.keep(question, search(question.query), position)


def kept_ranking(hits: Sequence[Hit], position: Mapping[str, int]) -> dict[str, Any]:
    """A ranking as numbers, with its scores."""
    return {
        "ranking": [position[hit.image_id] for hit in hits],
        "scores": [float(hit.score) for hit in hits],
    }


def ranked_detail(answers: Answers, kept: Mapping[str, Any], *, relevant: Iterable[str]) -> dict[str, Any]:
    """The first places of a ranking with their scores, for drill-down."""
    entries = zip(kept["ranking"][:DETAIL_LIMIT], kept["scores"][:DETAIL_LIMIT], strict=True)
    return {
        "relevant": list(relevant),
        "ranking": [{"image_id": answers.image_ids[number], "score": score} for number, score in entries],
    }

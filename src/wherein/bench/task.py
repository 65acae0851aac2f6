"""What `bench run` drives: a task has questions, says what to keep of each answer, and scores what was kept."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Protocol

from wherein import Hit, Method, Query, Ranking
from wherein.bench.evaluate import PROTOCOLS
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

        With `timed` its time counts as that of the method; a search that only the protocol needs does not count.
        """
        ...


class Kind(Enum):
    """What is written after an option."""

    TEXT = "a text"
    TEXTS = "a text, and the option may be repeated"
    NUMBER = "a whole number"
    FOLDER = "a folder"
    FLAG = "nothing"


@dataclass(frozen=True)
class BenchOption:
    """One option of a benchmark, as its task declares it; `bench run` offers and checks it from this alone."""

    name: str
    help: str
    kind: Kind = Kind.TEXT
    choices: tuple[str, ...] = ()
    """The words that may be given; none where any text may."""
    default: str | None = None
    """The word for what is done where nothing is given."""
    least: int | None = None
    """The smallest number that may be given."""
    only_adds_figures: bool = False
    """Whether the answers stay the same: such an option can be added to a finished run."""
    varies: bool = False
    """Whether it asks for several runs, which differ in this."""
    decides: tuple[str, ...] = ()
    """The fields of `Variant` that it decides, where that is not the one of its own name."""

    @property
    def flag(self) -> str:
        """As it is written in a command: `--size-thirds`."""
        return "--" + self.name.replace("_", "-")

    @property
    def explained(self) -> str:
        """The help with the words that may be given: `what is searched: val (default), train or test`."""
        words = [f"{word} (default)" if word == self.default else word for word in self.choices]
        if words:
            return f"{self.help}: {', '.join(words[:-1])} or {words[-1]}"
        return f"{self.help} (may be repeated)" if self.kind is Kind.TEXTS else self.help


LONGEST_SIDE: Final = BenchOption(
    "longest_side", "reduce every image to that many pixels first (forb's paper: 480)", Kind.NUMBER, least=16
)
"""The size at which images are indexed."""
OVERLAPS: Final = BenchOption(
    "overlaps", "overlaps of the method's grid, one run each, as 0,0.1,0.2 (subregion's paper)", varies=True
)
COMMON: Final = (LONGEST_SIDE, OVERLAPS)
"""What every benchmark takes."""
PROTOCOL: Final = BenchOption(
    "protocol", "how it is scored", choices=PROTOCOLS, default=PROTOCOLS[0], only_adds_figures=True
)
"""By whose rules a run is scored: those of the official evaluator, or the paper's."""
DISTRACTORS: Final = BenchOption("distractors", "search the images of this folder as well", Kind.FOLDER)
PERTURB: Final = BenchOption(
    "perturb",
    "SHIFT,SIZE spread of the box, five draws each, or `paper` for all four levels",
    Kind.TEXTS,
    varies=True,
    decides=("perturb", "draw"),
)


@dataclass(frozen=True)
class Variant:
    """What a task is asked with: the papers' protocol variants; None is the benchmark's own protocol."""

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
    captions: str | None = None
    query: str | None = None
    out_of_domain: str | None = None
    longest_side: int | None = None
    protocol: str | None = None
    size_thirds: bool | None = None
    confusion: bool | None = None
    timing: bool | None = None
    box_statistics: bool | None = None
    train: str | None = None
    unseen: tuple[str, ...] | None = None

    def given(self) -> dict[str, Any]:
        """The options that were asked for."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def asking(self, declared: Sequence[BenchOption]) -> dict[str, Any]:
        """The options that change an answer; the others only add figures."""
        figures = {option.name for option in declared if option.only_adds_figures}
        return {name: value for name, value in self.given().items() if name not in figures}

    def check(self, declared: Sequence[BenchOption], *, benchmark: str) -> None:
        """Refuse an option that the benchmark does not declare, and a word that is none of an option's choices."""
        decided = {field for option in declared for field in option.decides or (option.name,)}
        require_declared([name for name in self.given() if name not in decided], declared, benchmark=benchmark)
        given = self.given()
        for option in declared:
            word = given.get(option.name)
            if option.choices and word not in (None, *option.choices):
                raise SpecError(f"{option.flag} {word} is none of {', '.join(option.choices)}")


def require_declared(names: Iterable[str], declared: Sequence[BenchOption], *, benchmark: str) -> None:
    """Refuse the name of an option that the benchmark does not declare, with those it has."""
    known = {option.name for option in declared}
    for name in names:
        if name not in known:
            has = ", ".join(option.flag for option in declared)
            raise SpecError(f"{benchmark} has no option --{name.replace('_', '-')}; it has {has}")


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


@dataclass(frozen=True)
class Trained:
    """What a task learnt before it is run."""

    method: str
    """The method to search with."""
    encoder: str
    """The encoder to index with."""
    archive: bytes | None
    """What was trained, as `export_trained` gives it, for the searched collection to take in; None where the encoder
    itself was fine-tuned."""
    notes: tuple[str, ...] = ()


class Task(ABC):
    """A benchmark with its data, ready to be run."""

    benchmark: str

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options of a benchmark, beside those that every one takes."""
        return ()

    @property
    def searches_all(self) -> bool:
        """Whether every image of the collection may be found; else the task names those it looks at."""
        return True

    def train(self, _home: Path, _method: str, _watch: Callable[[str, int, int], None], /) -> "Trained | None":
        """Learn what the run searches with, in a folder, where that is asked for; None where nothing is learnt."""
        return None

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

    def search_times(self, _collection: Path, _method: Method, _out: Path, /) -> dict[str, Any]:
        """Figures of how long the collection in a folder takes to be searched; none unless a task measures some."""
        return {}

    def tags(self) -> Mapping[str, Sequence[str]]:
        """Tags that a search of this task filters by, with the image_ids that get them."""
        return {}

    def ask(self, question: Question, search: Search, position: Mapping[str, int]) -> dict[str, Any]:
        """Ask the engine and keep what scoring needs; one search over all images unless a task says otherwise."""
        return self.keep(question, search(question.query), position)


def numbered_captions(captions: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Captions (image_id, text) by the name of their question: their image and their number there, from 1."""
    count: dict[str, int] = {}
    named = {}
    for image_id, text in captions:
        count[image_id] = count.get(image_id, 0) + 1
        named[f"{image_id}#{count[image_id]}"] = (image_id, text)
    return named


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

"""Run a method on a benchmark, end to end: index once, ask every question, write predictions, score, report.

Everything is under one folder, and a run that was stopped goes on where it was:

    run.json         what was asked for        images/       links to what is searched
    answers.ndjson   finished questions        collection/   the index
    predictions/     official formats          scores.json   the figures
    evaluation.json  every query's share       report.html   to look at
    training/        what was learnt first, where that was asked for
    queries/         query images made smaller, where that was asked for
    setup.ndjson     seconds that indexing took
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import wherein
from wherein import Collection, Method, Query, Ranking
from wherein.bench.evaluation import Evaluation, Line, QueryScore
from wherein.bench.journal import Journal, SetupLog
from wherein.bench.reference import reference, run_conditions
from wherein.bench.registry import declared_options, load_task
from wherein.bench.report import json_safe
from wherein.bench.staging import Stage, reduce
from wherein.bench.task import Answers, Question, Task, Variant
from wherein.errors import DataError
from wherein.models import load

FORMAT: Final = 1
"""The version of what a run writes; a folder with a run of another version is refused."""


@dataclass(frozen=True)
class RunProgress:
    """How far a run is: what it does, how many of how many are done."""

    doing: str
    done: int
    total: int


Watch = Callable[[RunProgress], None]


@dataclass(frozen=True)
class Plan:
    """One run: a benchmark, its data, a method, where everything goes, and the protocol variant."""

    benchmark: str
    data: Path
    method: str
    out: Path
    options: Variant = field(default_factory=Variant)
    home: Path | None = None  # of the collection, where runs share one

    @property
    def indexed(self) -> Path:
        """The folder with the images and their index."""
        return self.home or self.out

    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run."""
        return {
            "format": FORMAT,
            "benchmark": self.benchmark,
            "data": str(self.data.absolute()),
            "method": self.method,
            "options": json.loads(json.dumps(self.options.asking(declared_options(self.benchmark)))),
        }


def run(plan: Plan, *, watch: Watch = lambda _: None) -> Evaluation:
    """Run, or go on with, one plan; the evaluation's scores hold `timing` and `bytes_per_image` too."""
    method = Method.parse(plan.method)
    task = load_task(plan.benchmark, plan.data, plan.options)
    for folder in (plan.out, plan.indexed):
        if folder.resolve().is_relative_to(plan.data.resolve()):
            raise DataError(f"{folder} lies inside the data, which is only read; choose a folder outside {plan.data}")
    images = _images(plan, task)
    images.check()
    _require_own(plan, plan.identity())
    tell: Callable[[str, int, int], None] = lambda doing, done, total: watch(RunProgress(doing, done, total))  # noqa: E731
    trained = task.train(plan.out / "training", plan.method, tell)
    asked = plan if trained is None else replace(plan, method=trained.method)
    indexed_by = method.encoder if trained is None else trained.encoder
    with wherein.open(plan.indexed / "collection", create=True, encoder=indexed_by) as collection:
        encoder = indexed_by or collection.encoder
        _require_in_place(plan, collection)
        _claim(plan, weights=load(encoder).digest)
        journal = Journal(plan.out / "answers.ndjson")
        warnings = _index(asked, images, collection, journal=journal, watch=watch)
        _tag(task, collection)
        if trained is not None:
            warnings += trained.notes
            if trained.archive is not None:
                collection.import_trained(trained.archive)
        image_ids = tuple(sorted({*task.images(), *collection.image_ids()}))
        _ask(asked, task, collection, image_ids=image_ids, journal=journal, watch=watch)
        size = bytes_per_image(collection, Method.parse(asked.method))
    journal.cost(peak_memory_bytes=peak_memory())
    answers = Answers(image_ids=image_ids, kept=journal, out=plan.out / "predictions")
    scored = task.evaluate(answers)
    times = task.search_times(plan.indexed / "collection", method, answers.out)
    setup = SetupLog(plan.indexed / "setup.ndjson").seconds(encoder=encoder)
    scores = {**scored.scores, **times, "timing": journal.timing(setup_seconds=setup), "bytes_per_image": size}
    added = len(set(image_ids).difference(task.images()))
    conditions = run_conditions(plan.benchmark, plan.options.given(), distractors=added)
    evaluation = replace(
        scored,
        scores=scores,
        warnings=(*warnings, *journal.notes(), *scored.warnings),
        conditions=conditions,
        reference=reference(plan.benchmark, conditions),
    )
    drawn = task.pictures(evaluation, answers)
    save(evaluation, plan, files={**task.images(), **task.query_files()}, drawn=drawn)
    return evaluation


def _claim(plan: Plan, *, weights: str) -> None:
    """Write run.json, or refuse a folder that holds another run; other weights make another run."""
    asked = plan.identity() | {"weights": weights}
    _require_own(plan, asked)
    if not (plan.out / "run.json").is_file():
        plan.out.mkdir(parents=True, exist_ok=True)
        write_json(plan.out / "run.json", asked)


def _require_own(plan: Plan, asked: Mapping[str, Any]) -> None:
    """Refuse a folder whose run.json asks for something else."""
    path = plan.out / "run.json"
    found = read_json(path) if path.is_file() else asked
    for name, value in asked.items():
        if found.get(name) != value:
            raise DataError(
                f"{plan.out} holds another run: its {name} is {found.get(name)!r}, now {value!r}; "
                "choose another --out, or delete the folder"
            )


def _require_in_place(plan: Plan, collection: Collection) -> None:
    """Refuse an index that was copied or moved here: its images have their names from the folder they were in."""
    here = (plan.indexed / "images").resolve()
    elsewhere = [root for root in collection.roots.values() if not isinstance(root, Path) or root.resolve() != here]
    if elsewhere:
        raise DataError(
            f"{plan.indexed} was copied or moved here: its index is of {elsewhere[0]}; run it where it was, or delete "
            "the folder and run again"
        )


def _images(plan: Plan, task: Task) -> Stage:
    """What is searched; a task that looks only at images it names needs no distractors."""
    files = dict(task.images())
    if plan.options.distractors and task.searches_all:
        files |= _distractors(Path(plan.options.distractors))
    side = plan.options.longest_side
    return Stage(files, plan.indexed / "images", longest_side=side, within=not task.searches_all)


def _index(plan: Plan, images: Stage, collection: Collection, *, journal: Journal, watch: Watch) -> tuple[str, ...]:
    """Bring the collection up to date; what could not be indexed is a warning."""
    folder = images.make()
    method = Method.parse(plan.method)
    log, before = SetupLog(plan.indexed / "setup.ndjson"), time.perf_counter()
    report = None
    try:
        report = collection.add(
            folder,
            layers=method.layers,
            follow_links=True,  # the folder is made of links to what the benchmark searches
            on_progress=lambda p: watch(RunProgress("indexing", p.done, p.total)),
        )
    finally:
        if report is None or report.added or report.changed or report.completed:  # stopped, or something was done
            seconds = time.perf_counter() - before
            log.add(encoder=method.encoder or collection.encoder, layers=method.layers, seconds=seconds)
    if len(journal) and report and (report.added or report.changed or report.completed or report.removed):
        raise DataError(
            f"images changed since {len(journal)} questions of {plan.out} were answered; choose another --out, "
            "or delete the folder"
        )
    skipped = report.skipped if report else []
    if not skipped:
        return ()
    return (
        f"{len(skipped)} images could not be indexed and are never found, first {skipped[0].path}: {skipped[0].reason}",
    )


def _tag(task: Task, collection: Collection) -> None:
    there = set(collection.image_ids())
    for tag, image_ids in task.tags().items():
        if not collection.info().tags.get(tag):
            collection.tag(tag, [image_id for image_id in image_ids if image_id in there])


def _distractors(folder: Path) -> dict[str, Path]:
    from wherein.bench.local.dataset import images_under

    return {f"distractors/{image_id}": folder / image_id for image_id in images_under(folder)}


def _ask(
    plan: Plan, task: Task, collection: Collection, *, image_ids: tuple[str, ...], journal: Journal, watch: Watch
) -> None:
    questions = list(task.questions())
    known = {question.question_id for question in questions}
    if len(known) != len(questions):
        raise DataError(f"{plan.benchmark}: two queries of {plan.data} have the same name; rename one")
    position = {image_id: number for number, image_id in enumerate(image_ids)}
    method = Method.parse(plan.method)
    pending = [question for question in questions if question.question_id not in journal]
    if pending:
        _warm(plan, collection, _reduced(pending[0], plan).query)
    indexed = frozenset(collection.image_ids())
    for number, question in enumerate(questions):
        watch(RunProgress("asking", number, len(questions)))
        if question.question_id in journal:
            continue
        search = _Timed(collection, method=method, indexed=indexed)
        kept = task.ask(_reduced(question, plan), search, position)
        journal.answer(question.question_id, seconds=search.seconds, kept=kept, score_kind=search.score_kind)
        journal.note(search.notes)
    watch(RunProgress("asking", len(questions), len(questions)))


def _warm(plan: Plan, collection: Collection, query: Query) -> None:
    """Ask the first question once, untimed: no timed one pays for loading an encoder or making visual words.

    What the method prepares for all questions counts as setup.
    """
    method, before = Method.parse(plan.method), time.perf_counter()
    collection.prepare(query, method=method)
    seconds = time.perf_counter() - before
    SetupLog(plan.indexed / "setup.ndjson").add(
        encoder=method.encoder or collection.encoder, layers=method.layers, seconds=seconds
    )
    collection.search(query, k=1, method=method)


def _reduced(question: Question, plan: Plan) -> Question:
    """The question with its image files no longer than the variant allows; boxes are fractions and stay."""
    if plan.options.longest_side is None:
        return question
    parts = []
    for part in question.query.parts:
        if isinstance(part.image, Path):
            digest = hashlib.sha256(str(part.image.absolute()).encode("utf-8")).hexdigest()[:16]
            copy = plan.out / "queries" / f"{digest}.png"
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists():
                reduce(part.image, copy, longest_side=plan.options.longest_side)
            part = replace(part, image=copy)
        parts.append(part)
    return replace(question, query=Query(parts=tuple(parts)))


@dataclass
class _Timed:
    """The engine with a stop watch."""

    collection: Collection
    method: Method
    indexed: frozenset[str]
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    score_kind: str = ""

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
        """Search, and count the time it takes."""
        started = time.perf_counter()
        most = k or max(len(self.collection), 1)
        how = method or self.method
        named = None if among is None else [image_id for image_id in among if image_id in self.indexed]
        hits = self.collection.search(query, k=most, method=how, tags=tags, among=named, frames=True)
        self.seconds += time.perf_counter() - started if timed else 0.0
        self.notes = (*self.notes, *hits.notes)
        self.score_kind = hits.score_kind
        return hits


def bytes_per_image(collection: Collection, method: Method) -> float:
    """Bytes on disk per image of the layers that the method needs; others may lie beside them."""
    encoder = method.encoder or collection.encoder
    found = collection.info().layers
    total = 0.0
    for kind in method.layers:
        layers = [layer for layer in found if layer.kind == kind]
        own = [layer for layer in layers if layer.encoder == encoder]
        total += sum(layer.bytes_per_image for layer in own or layers)
    return total


def peak_memory() -> int | None:
    """The most memory this process has held, in bytes, where the system says."""
    try:
        import resource
    except ImportError:
        return None
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def write_json(path: Path, document: Any) -> None:
    """Write a document whole or not at all."""
    rough = path.with_name(path.name + ".part")
    rough.write_text(json.dumps(json_safe(document), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    rough.replace(path)


def read_json(path: Path) -> Any:
    """A document of a run folder."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); the run folder is damaged: run it again") from error


def save(
    evaluation: Evaluation, plan: Plan, *, files: Mapping[str, Path], drawn: Mapping[str, str] | None = None
) -> None:
    """Write the figures, every query's share and the page."""
    from wherein.bench.html import write_html
    from wherein.bench.pictures import thumbnails

    write_json(plan.out / "scores.json", evaluation.scores)
    write_json(plan.out / "evaluation.json", asdict(evaluation))
    write_json(plan.out / "run.json", read_json(plan.out / "run.json") | {"protocol": evaluation.protocol})
    pictures = {**thumbnails(evaluation.queries, files), **(drawn or {})}
    write_html(evaluation, plan.out / "report.html", method=plan.method, pictures=pictures)


def load_evaluation(out: Path) -> tuple[str, Evaluation]:
    """The method and the evaluation of a finished run."""
    if not (out / "evaluation.json").is_file():
        hint = "it is not finished: run it again to go on" if (out / "run.json").is_file() else "it is no run folder"
        if (out / "scores.json").is_file():
            hint = "it holds a sweep: compare the draw-… folders below it"
        raise DataError(f"{out} holds no evaluation.json; {hint}")
    document = read_json(out / "evaluation.json")
    asked = read_json(out / "run.json")
    method, benchmark = str(asked.get("method", out.name)), str(document["benchmark"])
    conditions = document.get("conditions") or run_conditions(benchmark, asked.get("options", {}))
    return method, Evaluation(
        benchmark=benchmark,
        protocol=document["protocol"],
        scores=document["scores"],
        queries=tuple(QueryScore(**query) for query in document["queries"]),
        curves=tuple(Line(**curve) for curve in document["curves"]),
        warnings=tuple(document["warnings"]),
        reference=reference(benchmark, conditions),
        conditions=conditions,
    )

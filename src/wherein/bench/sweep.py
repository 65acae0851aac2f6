"""Several runs that differ in one thing each: random support sets, wordings, perturbed boxes, overlaps of a grid."""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wherein.bench.boxes import PERTURBATIONS, SEEDS
from wherein.bench.captioned.dataset import LANGUAGES
from wherein.bench.evaluation import Evaluation, Line
from wherein.bench.reference import reference, run_conditions
from wherein.bench.registry import declared_options
from wherein.bench.run import Plan, RunProgress, Watch, run, write_json
from wherein.bench.tables import SET_ASIDE, is_figure
from wherein.bench.task import Variant, require_declared
from wherein.errors import SpecError

RANDOM_SETS: Final = 20
"""Sets that the SearchAD paper draws."""
WORDINGS: Final = ("first-keyword", "keywords", "all", *(f"text-{number}" for number in range(1, 8)))
"""Each way to ask for a label of SearchAD, and each of its texts alone: at most three keywords, four descriptions."""
EVERY_LANGUAGE: Final = "all"
_GRID: Final = re.compile(r"(static-\d+)(?:@[\d.]+)?")


@dataclass(frozen=True)
class Sweep:
    """What is varied; every combination is run `draws` times, with the draws 0, 1, …"""

    overlaps: tuple[float, ...] = ()
    perturbations: tuple[tuple[float, float], ...] = ()
    draws: int = 1
    texts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()

    def plans(self, plan: Plan) -> dict[str, list[Plan]]:
        """The runs of every combination, by the name of the combination; all share one collection."""
        for option, choices in (("texts", self.texts), ("language", self.languages)):
            if choices:
                return {
                    f"{option}: {word}": [
                        replace(
                            plan,
                            out=plan.out / word,
                            home=plan.indexed,
                            options=replace(plan.options, **{option: word}),  # type: ignore[arg-type]
                        )
                    ]
                    for word in choices
                }
        made: dict[str, list[Plan]] = {}
        for overlap in self.overlaps or (None,):
            method = plan.method if overlap is None else with_overlap(plan.method, overlap)
            for spread in self.perturbations or (None,):
                words = [method] if overlap is not None else []
                words += [] if spread is None else [f"shift {spread[0]:g} size {spread[1]:g}"]
                name = ", ".join(words) or "random sets"
                draws = 1 if spread == (0.0, 0.0) else self.draws  # nothing is drawn there
                made[name] = [
                    replace(
                        plan,
                        method=method,
                        out=plan.out / _folder(name) / f"draw-{draw:02d}",
                        home=plan.indexed,
                        options=replace(plan.options, perturb=spread, draw=draw if draws > 1 or spread else None),
                    )
                    for draw in range(draws)
                ]
        return made


def read_variant(benchmark: str, given: Mapping[str, Any]) -> tuple[Variant, Sweep | None]:
    """What a task is asked with, and what is varied, from the options that were given by name.

    `{"modality": "vision", "random_sets": 20}` is one way to ask, in twenty runs.
    """
    declared = declared_options(benchmark)
    require_declared(given, declared, benchmark=benchmark)
    varied = {option.name for option in declared if option.varies}
    asked = {name: value for name, value in given.items() if name not in varied}
    every_language = asked.get("language") == EVERY_LANGUAGE
    if every_language:
        del asked["language"]
    what = Sweep(languages=LANGUAGES) if every_language else _varied({name: given.get(name) for name in varied})
    return Variant(**asked), what


def _varied(given: Mapping[str, Any]) -> Sweep | None:
    """The sweep that the options which vary something ask for."""
    sets, perturb, overlaps = given.get("random_sets"), given.get("perturb") or (), given.get("overlaps")
    if given.get("prompts"):
        if sets is not None or perturb or overlaps:
            raise SpecError("--prompts varies the texts alone; leave --random-sets, --perturb and --overlaps away")
        return Sweep(texts=WORDINGS)
    if sets is None and not perturb and overlaps is None:
        return None
    if sets is not None and sets < 1:
        raise SpecError(f"--random-sets {sets}: draw at least one; the paper draws {RANDOM_SETS}")
    spreads = PERTURBATIONS if "paper" in perturb else tuple(map(parse_spread, perturb))
    try:
        levels = tuple(float(word) for word in overlaps.split(",")) if overlaps else ()
    except ValueError:
        raise SpecError(f"--overlaps {overlaps!r} is not a list of fractions such as 0,0.1,0.2") from None
    return Sweep(overlaps=levels, perturbations=spreads, draws=sets or (SEEDS if spreads else 1))


def _folder(name: str) -> str:
    return re.sub(r"[^\w.@+~-]+", "-", name)


def with_overlap(method: str, overlap: float) -> str:
    """The method with its grid at another overlap: `mini+static-9` → `mini+static-9@0.1`."""
    if not _GRID.search(method):
        raise SpecError(f"method {method!r} has no grid whose overlap could be varied; write mini+static-9")
    return _GRID.sub(lambda found: found[1] + (f"@{overlap:g}" if overlap else ""), method)


def parse_spread(text: str) -> tuple[float, float]:
    """`0.1,0.25` → (shift σ, size σ), both fractions; `0.1,10%` is understood too."""
    try:
        shift, size = (float(w.rstrip("%")) / (100 if w.endswith("%") else 1) for w in text.replace(" ", "").split(","))
    except ValueError:
        raise SpecError(f"--perturb {text!r} is not SHIFT,SIZE, two fractions such as 0.1,0.1") from None
    if shift < 0 or size < 0:
        raise SpecError(f"--perturb {text!r}: a spread is not negative")
    return shift, size


def sweep(plan: Plan, what: Sweep, *, watch: Watch = lambda _: None) -> Evaluation:
    """Run every combination and put the mean and the spread of their figures side by side."""
    runs: dict[str, Any] = {}
    warnings: list[str] = []
    plans = what.plans(plan)
    total, done = sum(map(len, plans.values())), 0
    for name, members in plans.items():
        scored = []
        for member in members:
            watch(RunProgress(f"run {done + 1} of {total}: {name}", done, total))
            evaluation = run(member, watch=watch)
            scored.append(evaluation.scores)
            warnings += [warning for warning in evaluation.warnings if warning not in warnings]
            done += 1
        runs[name] = {"mean": combined(scored, statistics.fmean), "std": combined(scored, _std)}
    if what.languages:
        every = [one["mean"] for one in runs.values()]
        runs = {f"mean of {len(every)} languages": combined(every, statistics.fmean), **runs}
    asked = plan.options.given() | ({"language": EVERY_LANGUAGE} if what.languages == LANGUAGES else {})
    conditions = run_conditions(plan.benchmark, asked) if what.languages else {}
    summary = Evaluation(
        benchmark=plan.benchmark,
        protocol="mean over draws",
        scores={**runs, "runs": {name: [str(member.out) for member in members] for name, members in plans.items()}},
        queries=(),
        curves=overlap_curves(what, runs, plan.method),
        warnings=tuple(warnings),
        conditions=conditions,
        reference=reference(plan.benchmark, conditions) if what.languages == LANGUAGES else (),
    )
    _save(summary, plan.out, plan.method)
    return summary


def _std(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def combined(documents: Sequence[Mapping[str, Any]], how: Any) -> dict[str, Any]:
    """One scores document from several, figure by figure; only what all of them have."""
    made: dict[str, Any] = {}
    for name, first in documents[0].items():
        values = [document.get(name) for document in documents]
        if name in SET_ASIDE:
            continue
        if all(isinstance(value, Mapping) for value in values):
            made[name] = combined(values, how)  # type: ignore[arg-type]
        elif first is not None and all(is_figure(value) and value is not None for value in values):
            made[name] = how(values)
    return made


def overlap_curves(what: Sweep, runs: Mapping[str, Any], method: str) -> tuple[Line, ...]:
    """R@100 of skippable annotations with long texts against overlap, one line per perturbation."""
    if len(what.overlaps) < 2:
        return ()
    curves = []
    for spread in what.perturbations or (None,):
        suffix = "" if spread is None else f", shift {spread[0]:g} size {spread[1]:g}"
        found = []
        for overlap in what.overlaps:
            scores = runs[with_overlap(method, overlap) + suffix]["mean"]
            value = scores.get("skippable", {}).get("long", {}).get("R@100")
            if value is not None:
                found.append((overlap, value))
        if found:
            x, y = ([float(pair[side]) for pair in found] for side in (0, 1))
            curves.append(Line(suffix.lstrip(", ") or method, "overlap", "R@100", x, y))
    return tuple(curves)


def _save(summary: Evaluation, out: Path, method: str) -> None:
    from wherein.bench.html import write_html

    write_json(out / "scores.json", summary.scores)
    write_html(summary, out / "report.html", method=method)

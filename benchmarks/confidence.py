"""The shipped models of confidence (`src/wherein/search/models.json`), and how far they can be trusted.

    python benchmarks/confidence.py EVAL_FOLDER [--out out/confidence] [--page docs/results/confidence.md] [--keep]

The development sets are indexed together, as the mixed library that people have, and each alone; of half of the queries
the answers are removed. What tells right hits from wrong ones is written down once (`OUT/signs`), so that fitting takes
seconds. Every figure of a set is of a model that was fitted on the other sets; the shipped one is fitted on all. With
--keep the shipped models stay as they are and only the page is written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import wherein
from confidence_page import page
from confidence_sets import SETS, Ask, Sets, Trial, trials
from wherein.collection import Collection
from wherein.options import Asked
from wherein.search.confidence import Evidence, Model

HITS = 20
"""Hits of each query that are judged."""
ABSENT = Path(__file__).with_name("absent_texts.txt")
WEIGHTS = {
    "text": ("beats", "agrees", "leads"),
    "example": ("above look-alikes", "apart"),
    "region": ("above look-alikes", "apart"),
    "both": ("plain",),
    "place": ("plain", "stands out"),
    "anywhere": ("plain", "stands out"),
    "again": ("plain", "stands out"),
    "verified": ("inliers",),
    "fused": ("inliers", "plain"),
    "words": ("stands out",),
}
"""The signs of each kind of evidence, in their order."""
AFTER = ("text", "example", "region", "both", "place", "anywhere", "again", "fused", "verified", "words")
"""Kinds in the order in which they are fitted: `plain` is the odds of the first three."""
LIKE_OTHERS = 1e-3
"""How strongly large weights are avoided."""


@dataclass(frozen=True)
class Judged:
    """The hits of one trial: (n, signs), whether right, whether nobody can say, the first of its query or not."""

    signs: np.ndarray
    right: np.ndarray
    unknown: np.ndarray
    query: np.ndarray
    score: np.ndarray
    images: np.ndarray
    answerable: np.ndarray
    milliseconds: float

    @property
    def first(self) -> np.ndarray:
        """Whether each is the first hit of its query."""
        return np.r_[True, self.query[1:] != self.query[:-1]] if len(self.query) else np.zeros(0, bool)


def main() -> None:
    """Judge what is missing, fit, write the models and the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/confidence"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/confidence.md"))
    parser.add_argument("--models", type=Path, default=Path("src/wherein/search/models.json"))
    parser.add_argument("--only", nargs="*", default=[], help="kinds of evidence to judge")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    sets, absent = Sets(arguments.data), [one for one in ABSENT.read_text("utf-8").splitlines() if one[0] != "#"]
    judged = dict[tuple[str, str], Judged]()
    fitted = dict[tuple[str, str], bool]()
    for trial in trials(sets, absent):
        kept = arguments.out / "signs" / f"{trial.kind} {trial.name}.npz"
        if not kept.exists() and (not arguments.only or trial.kind in arguments.only):
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.savez(kept, **vars(judge(trial, library(trial.library, sets, arguments.out))))
        if kept.exists():
            with np.load(kept) as stored:
                judged[trial.kind, trial.name] = Judged(**{name: stored[name] for name in stored.files})
            fitted[trial.kind, trial.name] = trial.fitted
    models = dict[str, Model]()
    for kind in AFTER:
        some = [one for (own, name), one in judged.items() if own == kind and fitted[own, name]]
        models[kind] = fit(some) if some else Model(0.0, (1.0,) * len(WEIGHTS[kind]))
    if not arguments.keep:
        arguments.models.write_text(written(models), "utf-8")
    arguments.page.write_text(page(judged, fitted, models, fit, WEIGHTS), "utf-8")


def written(models: dict[str, Model]) -> str:
    """The models as they are shipped."""
    known = {
        kind: {
            "offset": round(one.offset, 4),
            "weights": {name: round(float(weight), 4) for name, weight in zip(WEIGHTS[kind], one.weights, strict=True)},
        }
        for kind, one in models.items()
    }
    return json.dumps(known, indent=1, ensure_ascii=False) + "\n"


def library(name: str, sets: Sets, out: Path) -> Collection:
    """A collection of one set, or of all (`mixed`); `half-` lacks the answers of half of the queries."""
    home = out / "libraries" / name
    if not home.exists():
        whole = mixed(sets, out)
        making = home.with_name(f"{name}.part")
        shutil.rmtree(making, ignore_errors=True)
        shutil.copytree(whole, making / ".wherein")
        with wherein.open(making) as collection:
            wanted = name.removeprefix("half-")
            gone = sets.half if name.startswith("half-") else frozenset[str]()
            source = wanted.removeprefix("captions-")

            def stays(image_id: str) -> bool:
                if image_id in gone:
                    return False
                if wanted.startswith("captions-"):
                    return sets.sources.get(image_id) == source
                return wanted == "mixed" or image_id.startswith(f"{wanted}/")

            collection.remove(*(one for one in collection.image_ids() if not stays(one)))
        making.rename(home)
    return wherein.open(home)


def mixed(sets: Sets, out: Path) -> Path:
    """The `.wherein` folder of all sets in one."""
    folder = out / "images"
    if not (folder / ".wherein").exists():
        for name in SETS:
            shutil.copytree(sets.folder(name), folder / name, dirs_exist_ok=True)
        with wherein.open(folder, create=True, encoder="mini") as collection:
            collection.add(folder, layers=("global", "patches", "cells", "local"))
    return folder / ".wherein"


def judge(trial: Trial, collection: Collection) -> Judged:
    """The signs of the first hits of every query, and which of them are right."""
    rows = list[tuple[np.ndarray, bool, bool, int, float, str, bool]]()
    there, spent, started = frozenset(collection.image_ids()), 0.0, time.perf_counter()
    for number, ask in enumerate(trial.asks):
        options = {"method": trial.method, "k": HITS + 1}
        asked = Asked.of(ask.query, options)
        view, _, ranked, _ = collection._ranked(asked)
        before = time.process_time()
        encoder = collection._encoder(collection.encoder)
        signs = Evidence(asked.query, asked.method, ranked, view, encoder).signs()
        spent += time.process_time() - before
        own = ask.unknown if ask.query.parts[0].image is not None else frozenset[str]()
        found = [collection._hit(view, one).image_id for one in ranked.candidates]
        kept = [place for place, image_id in enumerate(found) if image_id not in own][:HITS]
        rows += [
            (
                signs[place],
                found[place] in ask.right,
                _unknown(found[place], ask),
                number,
                ranked.candidates[place].score,
                found[place],
                bool(ask.right & there),
            )
            for place in kept
        ]
    print(f"{trial.kind} {trial.name}: {len(rows)} hits, {time.perf_counter() - started:.0f} s", flush=True)
    columns = list(zip(*rows, strict=True))
    arrays = [np.array(column) for column in columns]
    return Judged(*arrays, milliseconds=1000 * spent / max(len(trial.asks), 1))


def _unknown(image_id: str, ask: Ask) -> bool:
    if image_id in ask.right:
        return False
    return image_id in ask.unknown or any(fnmatchcase(image_id, one) for one in ask.unknown if one.endswith("/*"))


def fit(sets: Sequence[Judged]) -> Model:
    """The model of several sets; no sign may speak against a hit.

    Each counts the same, but sets of which no query has an answer count together no more than those of which all have
    one: half of what is asked has an answer.
    """
    answered, unanswered = (sum(own(one.answerable) for one in sets) for own in (np.all, _none))
    less = min(1.0, max(answered, 1) / max(unanswered, 1))
    kept = [(one.signs[~one.unknown], one.right[~one.unknown]) for one in sets]
    x = np.concatenate([signs for signs, _ in kept]).astype(np.float64)
    y = np.concatenate([right for _, right in kept]).astype(np.float64)
    counts = [less if _none(one.answerable) else 1.0 for one in sets]
    worth = np.concatenate(
        [np.full(len(right), count / max(len(right), 1)) for (_, right), count in zip(kept, counts, strict=True)]
    )
    worth /= worth.sum()
    middle, scale = x.mean(axis=0), x.std(axis=0) + 1e-9
    design = np.c_[np.ones(len(x)), (x - middle) / scale]

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        odds = design @ at
        p = 1.0 / (1.0 + np.exp(-np.clip(odds, -60, 60)))
        value = worth @ (np.logaddexp(0.0, odds) - y * odds) + LIKE_OTHERS * at[1:] @ at[1:]
        return float(value), design.T @ (worth * (p - y)) + 2 * LIKE_OTHERS * np.r_[0.0, at[1:]]

    bounds = [(None, None), *[(0.0, None)] * x.shape[1]]
    found = minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = found[1:] / scale
    return Model(float(found[0] - weights @ middle), tuple(weights.tolist()))


def _none(answerable: np.ndarray) -> bool:
    return not answerable.any()


if __name__ == "__main__":
    main()

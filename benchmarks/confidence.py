"""The shipped models of confidence (`src/wherein/search/models.json`), and how far they can be trusted.

    python benchmarks/confidence.py EVAL_FOLDER --photos DATA [--weights FOLDER] [--keep]

EVAL_FOLDER holds the development sets: they are indexed together, as the mixed library that people have, and each
alone; of half of the queries the answers are removed. DATA is the folder of the training pictures, of which those held
back are used (`confidence_held.py`): the model of texts is fitted on them and measured on the development sets. Of the
other kinds of evidence every figure of a set is of a model that was fitted on the other sets, `plain` inside included;
the shipped one is fitted on all.

What tells right hits from wrong ones is written down once (`OUT/DIGEST/signs`, by the digest of mini's weights), so
that fitting takes seconds. With --keep the shipped models stay as they are and only the page is written; --weights
measures another edition of mini by the shipped models, and the page of the next run lists its figures too.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

import wherein
from confidence_by_eye import by_eye_lines
from confidence_captions import every_caption_lines, length_lines
from confidence_fit import fit
from confidence_held import Held
from confidence_inside import MOST, Boxed, fit_most, held_trials, inside_cost, inside_lines, inside_trials
from confidence_more import count_lines, counted_photos, more
from confidence_page import page
from confidence_sets import SETS, Ask, Sets, Trial, absent_texts, trials, unanswered
from confidence_text import text_model
from confidence_tried import larger_banks, tried_lines
from wherein.collection import Collection
from wherein.encoders import load, mini
from wherein.options import Asked
from wherein.search.confidence import BOUNDED, Evidence, Model, shipped
from wherein.search.signs import TEXT_SIGNS

HITS = 20
"""Hits of each query that are judged."""
MANY = 25_000
"""Images of the largest library."""
WEIGHTS = {
    "text": TEXT_SIGNS,
    "example": ("nearer than look-alikes",),
    "region": ("nearer than look-alikes",),
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
WITHOUT_WEIGHTS = ("words", "verified")
"""Kinds of evidence that mini has no part in: they are judged once, whatever the weights."""
LOCAL = ("words", "verified", "fused")
"""Kinds of evidence that need local features."""
Key = tuple[str, str]


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
    less: np.ndarray
    """What a confidence is multiplied by: less than 1 where no word of the query is known."""
    inner: np.ndarray
    """(n, signs) of whole images, where the kind weighs their odds too"""
    inner_kind: str
    milliseconds: float
    whole: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(queries, images, signs) of the best whole images, the surest of which no hit exceeds; none where all may"""

    @property
    def first(self) -> np.ndarray:
        """Whether each is the first hit of its query."""
        return np.r_[True, self.query[1:] != self.query[:-1]] if len(self.query) else np.zeros(0, bool)

    def by(self, models: Mapping[str, Model], kind: str) -> Judged:
        """The same with `plain` as other models of whole images say."""
        if "plain" not in WEIGHTS[kind] or not self.inner_kind:
            return self
        signs = self.signs.copy()
        signs[:, WEIGHTS[kind].index("plain")] = models[self.inner_kind].odds(self.inner)
        return replace(self, signs=signs)

    def most_signs(self, models: Mapping[str, Model]) -> np.ndarray:
        """(n, signs) what bounds hits of a text, as `MOST` names them."""
        queries, images, signs = self.whole.shape
        odds = models["text"].odds(self.whole.reshape(-1, signs)).reshape(queries, images)
        return np.stack([odds.max(axis=1)[self.query], self.signs[:, -1]], axis=1)


def main() -> None:
    """Judge what is missing, fit, write the models and the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--photos", type=Path, required=True, help="the folder of training pictures")
    parser.add_argument("--out", type=Path, default=Path("out/confidence"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/confidence.md"))
    parser.add_argument("--models", type=Path, default=Path("src/wherein/search/models.json"))
    parser.add_argument("--only", nargs="*", default=[], help="kinds of evidence to judge")
    parser.add_argument("--many", type=int, default=MANY, help="images of the largest library; 0 leaves it out")
    parser.add_argument("--weights", type=Path, help="another edition of mini")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    if arguments.weights is not None:
        mini.WEIGHTS = arguments.weights
    out = arguments.out / load("mini").digest[:8]
    sets, held, boxed = Sets(arguments.data), Held(arguments.photos), Boxed(arguments.photos)
    photos = {"held": held, "boxed": boxed}
    judged, fitted = dict[Key, Judged](), dict[Key, bool]()
    for trial in (*held.trials(), *held_trials(held, boxed), *trials(sets), *inside_trials(sets, boxed)):
        folder = arguments.out / "local" if trial.kind in WITHOUT_WEIGHTS else out / "signs"
        kept = folder / f"{trial.kind} {trial.name}.npz"
        if not kept.exists() and (not arguments.only or trial.kind in arguments.only):
            kept.parent.mkdir(parents=True, exist_ok=True)
            local = trial.kind in LOCAL
            np.savez(kept, **vars(judge(trial, library(trial.library, sets, photos, out, local=local))))
        if kept.exists():
            with np.load(kept) as stored:
                found = {name: stored[name] for name in stored.files}
            judged[trial.kind, trial.name] = Judged(**found | {"inner_kind": str(found["inner_kind"])})
            fitted[trial.kind, trial.name] = trial.fitted
    models = read(arguments.models)
    if arguments.weights is None and not arguments.keep:
        unjudged = {kind: one for kind, one in models.items() if kind not in {own for own, _ in judged}}
        arguments.models.write_text(written(fit_all(judged, fitted, known=unjudged)), "utf-8")
        models = read(arguments.models)
        shipped.cache_clear()  # counts are measured by what is shipped now
    alone, said = dict[Key, np.ndarray](), dict[Key, np.ndarray]()
    for key in judged:
        alone[key], said[key] = left_out(key, judged, fitted, models)
    extra = inside_lines(judged, alone, said)
    extra += inside_cost(out, sets, many=arguments.many) if arguments.many else []
    extra += by_eye_lines(judged, said) + every_caption_lines(judged, said) + length_lines(judged, said)
    extra += more(library("mixed", sets, photos, out), sets, held, models["text"], out, many=arguments.many)
    if arguments.many:
        banks = larger_banks(held, out, arguments.many)
        extra += tried_lines(lambda name: library(name, sets, photos, out), sets, judged, models["text"], banks)
    nothing = unanswered(absent_texts())
    captions, people = (library(name, sets, photos, out) for name in ("captions", "held-people"))
    counted = {"nouns, held back": (people, tuple(held.noun_asks())), "nouns": (captions, tuple(sets.noun_asks()))}
    counted |= counted_photos(held, out, sets, many=arguments.many)
    extra += count_lines(counted | {"absent": (captions, nothing)})
    before = arguments.page.read_text("utf-8") if arguments.page.exists() else ""
    arguments.page.write_text(page(judged, said, models, WEIGHTS, extra, out, before), "utf-8")


def fit_all(
    judged: Mapping[Key, Judged],
    fitted: Mapping[Key, bool],
    *,
    known: Mapping[str, Model] | None = None,
    without: str | None = None,
) -> dict[str, Model]:
    """A model for each kind of evidence that is not `known`, fitted on every set but one, in whatever library it is."""
    models = dict(known or {})
    for kind in AFTER:
        some = {
            name: one.by(models, kind)
            for (own, name), one in judged.items()
            if own == kind and fitted[own, name] and not (without is not None and same(name, without))
        }
        if kind in models:
            continue
        if kind == "text":
            models[kind] = text_model(some)
        else:
            models[kind] = fit(list(some.values())) if some else Model(0.0, (1.0,) * len(WEIGHTS[kind]))
        held = [one.by(models, kind) for (own, name), one in judged.items() if own == kind and name.startswith("held ")]
        if kind in BOUNDED and held:
            models[kind] = replace(models[kind], most=fit_most(kind, held, models))
    return models


def left_out(
    key: Key, judged: Mapping[Key, Judged], fitted: Mapping[Key, bool], models: Mapping[str, Model]
) -> tuple[np.ndarray, np.ndarray]:
    """(n,) log odds of a trial's hits by models that did not see it; that of texts was fitted elsewhere anyway.

    Before they are bounded by what whole images say, and after.
    """
    kind, name = key
    some = {one: hits for one, hits in judged.items() if one[0] in ("example", "region", kind) and one[0] != "text"}
    own = models if kind == "text" else fit_all(some, fitted, known={"text": models["text"]}, without=name)
    one, model = judged[key].by(own, kind), own[kind]
    odds = np.asarray(model.odds(one.signs), np.float64)
    bounded = model.most is not None and one.whole.size > 0
    return odds, np.minimum(odds, model.most.odds(one.most_signs(own))) if model.most and bounded else odds


def same(one: str, other: str) -> bool:
    """Whether two trials ask for the same things."""
    plain = (re.sub(r"^(mixed|inside \S+) | by diffusion$", "", name) for name in (one, other))
    return len(set(plain)) == 1


def read(path: Path) -> dict[str, Model]:
    """The models of a file."""
    known = json.loads(path.read_text("utf-8"))
    return {kind: Model.of(one) for kind, one in known.items()}


def written(models: dict[str, Model]) -> str:
    """The models as they are shipped."""
    known = {kind: _as_json(models[kind], names) for kind, names in WEIGHTS.items()}
    return json.dumps(known, indent=1, ensure_ascii=False) + "\n"


def _as_json(one: Model, names: Sequence[str]) -> dict[str, object]:
    weights = {name: round(float(weight), 4) for name, weight in zip(names, one.weights, strict=True)}
    found: dict[str, object] = {"offset": round(one.offset, 4), "weights": weights}
    if one.believed != (1.0,):
        found["believed"] = list(one.believed)
    return found if one.most is None else found | {"most": _as_json(one.most, MOST)}


def library(name: str, sets: Sets, photos: Mapping[str, Held | Boxed], out: Path, *, local: bool = False) -> Collection:
    """A collection of one set, or of all (`mixed`); `half-` lacks the answers of half of the queries.

    Names that begin with `held-` are of photographs that training held back, with `boxed-` of those with boxes;
    `inside-` is a set with every layer; `local` ones have local features.
    """
    home = out / ("local libraries" if local else "libraries") / name
    if not home.exists():
        first, own = name.split("-", 1) if name.startswith(("held-", "boxed-", "inside-")) else ("", name)
        stays = photos[first].stays if first in photos else sets.stays
        making = home.with_name(f"{name}.part")
        shutil.rmtree(making, ignore_errors=True)
        if first == "inside":
            with_every_layer(making, sets, own)
        else:
            whole = photographs(photos[first], out / first) if first else mixed(sets, out, local=local)
            shutil.copytree(whole, making / ".wherein")
            with wherein.open(making) as collection:
                collection.remove(*(one for one in collection.image_ids() if not stays(one, own)))
        making.rename(home)
    return wherein.open(home)


def with_every_layer(folder: Path, sets: Sets, name: str) -> None:
    """A collection of one set with the layers of every method that looks inside, and copies of its files."""
    inside = name.removeprefix("half-")
    for path in sorted(sets.folder(inside).iterdir()):
        if sets.stays(f"{inside}/{path.name}", name):
            (folder / inside).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / inside / path.name)
    with wherein.open(folder, create=True, encoder="mini") as collection:
        collection.add(folder, layers=("global", "patches", "cells", "proposals", "pyramid"))


def mixed(sets: Sets, out: Path, *, local: bool) -> Path:
    """The `.wherein` folder of all sets in one."""
    folder, home = out.parent / "images", out / ("local" if local else "mixed")
    if not folder.exists():
        for name in SETS:
            shutil.copytree(sets.folder(name), folder.with_suffix(".part") / name)
        folder.with_suffix(".part").rename(folder)
    if not (home / ".wherein").exists():
        with wherein.open(home, create=True, encoder="mini") as collection:
            collection.add(folder, layers=("global", "local") if local else ("global", "patches", "cells"))
    return home / ".wherein"


def photographs(photos: Held | Boxed, folder: Path) -> Path:
    """The `.wherein` folder of training photographs."""
    if not (folder / ".wherein").exists():
        photos.write(folder)
        with wherein.open(folder, create=True, encoder="mini") as collection:
            collection.add(folder, layers=("global", "patches", "cells"))
    return folder / ".wherein"


def judge(trial: Trial, collection: Collection) -> Judged:
    """The signs of the first hits of every query, and which of them are right."""
    rows = list[tuple[np.ndarray, bool, bool, int, float, str, bool, float, np.ndarray]]()
    there, spent, started = frozenset(collection.image_ids()), 0.0, time.perf_counter()
    inner_kind, whole = "", list[np.ndarray]()
    for number, ask in enumerate(trial.asks):
        asked = Asked.of(ask.query, {"method": trial.method, "k": HITS + 1})
        view, _, ranked, _ = collection._ranked(asked)
        before = time.process_time()
        evidence = Evidence(asked.query, asked.method, ranked, view, collection._encoder(collection.encoder))
        signs = evidence.signs()
        whole += [one.signs() for one in evidence.of_whole_images()]
        spent += time.process_time() - before
        inner = np.zeros((len(signs), 0), np.float32)
        if "plain" in WEIGHTS[trial.kind]:
            ((inner_kind, inner),) = evidence.plain()
        less = float(ranked.unknown.less_sure(np.ones(1, np.float32))[0])
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
                less,
                inner[place],
            )
            for place in kept
        ]
    print(f"{trial.kind} {trial.name}: {len(rows)} hits, {time.perf_counter() - started:.0f} s", flush=True)
    arrays = [np.array(column) for column in zip(*rows, strict=True)]
    each = 1000 * spent / max(len(trial.asks), 1)
    return Judged(*arrays, inner_kind=inner_kind, milliseconds=each, whole=np.array(whole))


def _unknown(image_id: str, ask: Ask) -> bool:
    if image_id in ask.right:
        return False
    return image_id in ask.unknown or any(fnmatchcase(image_id, one) for one in ask.unknown if one.endswith("/*"))


if __name__ == "__main__":
    main()

"""SearchAD: each label's support set is a query; texts or examples, curated or drawn at random."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein import Hit, Method, Part, Query
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.located import located, no_region_warning, pixel_box
from wherein.bench.searchad import dataset as searchad
from wherein.bench.searchad.localization import localization, true_boxes
from wherein.bench.searchad.timing import Rankings, detector_times, search_times
from wherein.bench.searchad.training import KINDS, by_source, taught_images, taught_labels, train
from wherein.bench.searchad.variants import variants
from wherein.bench.task import PROTOCOL, Answers, BenchOption, Kind, Question, Search, Task, Trained, Variant
from wherein.errors import DataError, SpecError
from wherein.values.region import WHOLE
from wherein.values.training import LABEL_PREFIX

TEXTS: Final = ("first-keyword", "keywords", "all")
ONE_TEXT: Final = "text-"
Support = tuple[str, tuple[float, float, float, float]]
EXAMPLES: Final = 5  # images of a random support set, as many as a curated one has
OPTIONS: Final = (
    BenchOption("split", "what is searched", choices=("val", "train", "test"), default="val"),
    BenchOption("modality", "what is asked with", choices=("language", "vision", "multimodal"), default="language"),
    BenchOption(
        "texts", "first-keyword, keywords, all (default: with descriptions), or text-N: the N-th alone", default="all"
    ),
    BenchOption(
        "random_sets",
        "that many random support sets instead of the curated one (paper: 20)",
        Kind.NUMBER,
        varies=True,
        decides=("draw",),
    ),
    BenchOption(
        "prompts",
        "how much depends on the wording: one run per kind of text",
        Kind.FLAG,
        varies=True,
        decides=("texts",),
    ),
    BenchOption("seed", "seed of the random support sets", Kind.NUMBER),
    BenchOption("size_thirds", "smallest and largest objects", Kind.FLAG, only_adds_figures=True),
    BenchOption("confusion", "what the top 50 of a label show", Kind.FLAG, only_adds_figures=True),
    BenchOption(
        "timing",
        "seconds of a query with and without an index, and of a grounded detector (the paper's Table 9)",
        Kind.FLAG,
        only_adds_figures=True,
    ),
    BenchOption("task", "what is scored", choices=("ranking", "localization"), default="ranking"),
    PROTOCOL,
    BenchOption("train", "learn from the train split first", choices=KINDS),
    BenchOption("unseen", "with --train: a source that is not learnt from, as kitti", Kind.TEXTS),
)
"""What can be asked for; the names of splits and modalities are those of the devkit."""
_DEFAULTS: Final = {option.name: option.default for option in OPTIONS if option.default is not None}


@dataclass(frozen=True)
class SearchADTask(Task):
    """Every label of the default queries against the images of a split."""

    benchmark: str
    root: Path
    options: Variant

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options of this benchmark: the paper's variants."""
        return OPTIONS

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "SearchADTask":
        """Check the options; the files are read when they are needed."""
        _check_texts(options.texts)
        if options.draw is not None and options.modality in (None, "language"):
            raise SpecError("random support sets are sets of examples; add --modality vision or multimodal")
        if options.unseen and options.train is None:
            raise SpecError("sources stay unseen only where something is learnt; add --train head, adapter or full")
        if options.train is not None and options.split == "train":
            raise SpecError("what is learnt from the train split cannot be measured on it; leave out --split train")
        if options.train == "head" and options.modality not in (None, "language"):
            raise SpecError("a head is asked for its labels, not by examples; leave out --modality")
        return cls(benchmark=benchmark, root=data, options=options)

    def train(self, home: Path, method: str, watch: Callable[[str, int, int], None]) -> Trained | None:
        """Learn from the train split, where that is asked for."""
        if self.options.train is None:
            return None
        unseen, seed = self.options.unseen or (), self.options.seed or 0
        return train(self.options.train, self.root, home, method=method, unseen=unseen, seed=seed, watch=watch)

    @cached_property
    def _taught(self) -> frozenset[str]:
        """The labels that a head has learnt and is asked for."""
        if self.options.train != "head":
            return frozenset()
        annotations = searchad.read_annotations(self.root, "train")
        return frozenset(taught_labels(taught_images(annotations, self.options.unseen or ())))

    @property
    def split(self) -> str:
        """The split that is searched."""
        return self.options.split or _DEFAULTS["split"]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        if self.split == "test":
            return tuple(searchad.read_test_mapping(self.root).values())
        return tuple(searchad.read_annotations(self.root, self.split))

    @cached_property
    def _support(self) -> tuple[searchad.SupportSet, ...]:
        found = tuple(one for one in searchad.load_queries(self.root) if one.label in searchad.LABELS)
        if not found:
            raise DataError(f"{self.root / 'default_queries'} has no query for any of the 90 labels")
        return found

    def images(self) -> dict[str, Path]:
        """The images of the split."""
        return {name: self.root / name for name in self._names}

    def questions(self) -> Sequence[Question]:
        """One question per label that has a default query."""
        drawn = self._drawn() if self.options.draw is not None else {}
        parts = {one.label: tuple(self._parts(one, drawn.get(one.label))) for one in self._support}
        bare = [label for label, own in parts.items() if not own]
        if bare:
            named = ", ".join(bare[:5]) + (f" and {len(bare) - 5} more" if len(bare) > 5 else "")
            raise DataError(
                f"{len(bare)} labels have no example images in {self.root / 'default_queries'}: {named}; add "
                '"vision" examples to their files, or use --modality language'
            )
        return [Question(question_id=label, query=Query(parts=own)) for label, own in parts.items()]

    def _parts(self, support: searchad.SupportSet, drawn: Sequence[Support] | None) -> Iterator[Part]:
        if support.label in self._taught:
            yield Part(text=f"{LABEL_PREFIX}{support.label}")
            return
        modality = self.options.modality or _DEFAULTS["modality"]
        if modality != "vision":
            for text in chosen_texts(support, self.options.texts or _DEFAULTS["texts"]):
                yield Part(text=text)
        if modality != "language":
            for name, xyxy in support.examples if drawn is None else drawn:
                yield Part(image=self.root / name, box=pixel_box(self.root / name, xyxy))

    def _drawn(self) -> dict[str, list[Support]]:
        """A random support set per label, from the boxes of the train split; seeded by label and draw."""
        by_label: dict[str, dict[str, tuple[float, float, float, float]]] = {}
        for image, entries in searchad.read_annotations(self.root, "train").items():
            for label, (x1, y1, x2, y2) in entries:
                if (x2 - x1) * (y2 - y1) >= searchad.MIN_AREA:
                    by_label.setdefault(label, {}).setdefault(image, (x1, y1, x2, y2))
        drawn = {}
        for label, found in sorted(by_label.items()):
            names = sorted(found)
            number = searchad.LABELS.index(label) if label in searchad.LABELS else len(searchad.LABELS)
            rng = np.random.default_rng([self.options.seed or 0, self.options.draw or 0, number])
            picked = rng.choice(len(names), size=min(EXAMPLES, len(names)), replace=False)
            drawn[label] = [(names[i], found[names[i]]) for i in sorted(picked.tolist())]
        return drawn

    @cached_property
    def _annotations(self) -> dict[str, list[tuple[str, tuple[float, ...]]]]:
        return searchad.read_annotations(self.root, self.split)

    def ask(self, question: Question, search: Search, position: Mapping[str, int]) -> dict[str, Any]:
        """The whole ranking; where boxes are scored, that of every relevant image too, whatever its rank."""
        hits = search(question.query)
        kept: dict[str, Any] = {"ranking": [position[hit.image_id] for hit in hits]}
        if self.options.task == "localization" and self.split != "test":
            wanted = [name for name in true_boxes(self._annotations, question.question_id) if name in position]
            found = located(search, question.query, hits, wanted, timed=False)
            boxes = {name: _pixels(hit) for name, hit in found.items() if hit.box is not None}
            kept["boxes"] = {str(position[name]): boxes[name] for name in wanted if name in boxes}
        return kept

    def evaluate(self, answers: Answers) -> Evaluation:
        """Write `{label: [paths]}` and score it as the devkit does."""
        path = answers.out / f"searchad_{self.split}.json"
        write_predictions(path, answers, known=set(self._names))
        if self.split == "test":
            note = f"the truth of the test split is not public; {path} is ready to be made a submission"
            return Evaluation(self.benchmark, "official", {}, (), (), (note,), ())
        scored = evaluate(
            "searchad", data=self.root, predictions=path, split=self.split, protocol=self.options.protocol or "official"
        )
        found = variants(self.root, self.split, answers, options=self.options)
        scores = {**scored.scores, **({"variants": found} if found else {})}
        notes = self._notes()
        if self.options.train is not None:
            truth = searchad.load(self.root, split=self.split)
            scores["sources"] = by_source(truth, answers, unseen=self.options.unseen or ())
        if self.options.task == "localization":
            scores["localization"] = localization(self._annotations, answers)
            any_box = any(kept.get("boxes") for kept in answers.kept.values())
            notes += no_region_warning(any_box, "every figure of localization is 0")
        return replace(scored, scores=scores, warnings=(*scored.warnings, *notes))

    def search_times(self, collection: Path, method: Method, out: Path) -> dict[str, Any]:
        """The rows of the paper's Table 9, under `search time`; nothing unless it is asked for."""
        if not self.options.timing:
            return {}

        def precision(rankings: Rankings) -> float | None:
            if self.split == "test":
                return None
            path = out / f"searchad_{self.split}_timed.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(rankings), "utf-8")
            scored = evaluate("searchad", data=self.root, predictions=path, split=self.split, protocol="official")
            return float(scored.scores["overall"]["MAP"])

        rows = search_times(collection, self.questions(), method, precision=precision)
        detector = detector_times(len(self._names))
        return {"search time": rows if detector is None else {**rows, "grounded detector": detector}}

    def _notes(self) -> tuple[str, ...]:
        unread = [f"{one.label}: {', '.join(one.unread)}" for one in self._support if one.unread]
        return (f"parts of the default queries were not understood: {'; '.join(unread[:3])}",) if unread else ()


def _pixels(hit: Hit) -> list[float]:
    """The box of a hit in pixels; every caller has looked that there is one."""
    box, (width, height) = hit.box or WHOLE, hit.size_wh
    return [box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height]


def _check_texts(texts: str | None) -> None:
    if texts is None or texts in TEXTS:
        return
    number = texts.removeprefix(ONE_TEXT)
    if not texts.startswith(ONE_TEXT) or not number.isdigit() or int(number) < 1:
        raise SpecError(f"--texts {texts} is none of {', '.join(TEXTS)}, {ONE_TEXT}N")


def chosen_texts(support: searchad.SupportSet, texts: str) -> tuple[str, ...]:
    """The first keyword, the keywords, keywords and descriptions of a support set, or one of these alone (`text-2`).

    Of a set with fewer texts the last one is asked.
    """
    keywords = support.keywords or support.descriptions[:1]
    if not keywords:
        raise DataError(f"the default query of {support.label} has no text; use --modality vision")
    if texts == "first-keyword":
        return keywords[:1]
    if texts.startswith(ONE_TEXT):
        every = (*support.keywords, *support.descriptions)
        return (every[min(int(texts.removeprefix(ONE_TEXT)), len(every)) - 1],)
    return keywords if texts == "keywords" else (*support.keywords, *support.descriptions)


def write_predictions(path: Path, answers: Answers, *, known: set[str]) -> None:
    """The devkit's prediction file, one label at a time; distractors are left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.write("{")
        for number, (label, kept) in enumerate(answers.kept.items()):
            names = (answers.image_ids[row] for row in kept["ranking"])
            ranking = [name for name in names if name in known]
            file.write(("," if number else "") + f"\n{json.dumps(label)}: {json.dumps(ranking)}")
        file.write("\n}\n")

"""Text→image and image→text retrieval from one pass: every caption is asked, and its score on every image is kept."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wherein import Part, Query
from wherein.bench.captioned.dataset import SPLITS, Captioned, load_crossmodal, load_karpathy
from wherein.bench.evaluation import DETAIL_LIMIT, Evaluation, QueryScore
from wherein.bench.local.captions import recall_curve
from wherein.bench.task import Answers, BenchOption, Question, Search, Task, Variant, numbered_captions
from wherein.errors import DataError

DEPTHS: Final = (1, 5, 10)
"""The depths of recall that are usual for captions."""
ENGLISH: Final = "en"
LANGUAGE: Final = BenchOption(
    "language", "a code such as de (default en), or all for the mean of 36 languages", default=ENGLISH
)
CAPTIONS: Final = BenchOption(
    "captions", "which of an image are asked (others ask the first)", choices=("all", "first"), default="all"
)
SPLIT: Final = BenchOption("split", "what is searched", choices=SPLITS, default=SPLITS[0])
"""Which images are searched."""
FOLD: Final = 1000
"""Images of a fold: of COCO's 5,000 test images papers also report the mean over five folds."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class CaptionedTask(Task):
    """Every caption of a split or a language against all of its images."""

    benchmark: str
    dataset: Captioned

    @classmethod
    def takes(cls, benchmark: str, /) -> tuple[BenchOption, ...]:
        """A language and captions of Crossmodal-3600, a split of the others."""
        return (LANGUAGE, CAPTIONS) if benchmark == "xm3600" else (SPLIT,)

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "CaptionedTask":
        """Read the captions of the split (Karpathy) or the language (Crossmodal-3600)."""
        if benchmark == "xm3600":
            first = options.captions == "first"
            return cls(benchmark, load_crossmodal(data, language=options.language or ENGLISH, only_first=first))
        return cls(benchmark, load_karpathy(data, name=benchmark, split=options.split or SPLITS[0]))

    def images(self) -> dict[str, Path]:
        """The images of the split."""
        absent = next((path for path in self.dataset.images.values() if not path.is_file()), None)
        if absent is not None:
            raise DataError(f"the image {absent} is not there; unpack the images below the folder of the captions")
        return self.dataset.images

    @cached_property
    def asked(self) -> dict[str, tuple[str, str]]:
        """(image_id, text) of every question, which is named by its image and the number of its caption."""
        return numbered_captions(self.dataset.captions)

    def questions(self) -> Sequence[Question]:
        """One question per caption."""
        return [Question(name, Query(parts=(Part(text=text),))) for name, (_, text) in self.asked.items()]

    def ask(self, question: Question, search: Search, position: Mapping[str, int]) -> dict[str, Any]:
        """What the caption scores on every image, packed; the first places for people to look at."""
        hits = search(question.query)
        scores = np.full(len(position), -np.inf, dtype=np.float32)
        for hit in hits:
            scores[position[hit.image_id]] = hit.score
        first = [position[hit.image_id] for hit in hits[:DETAIL_LIMIT]]
        return {"scores": base64.b64encode(scores.tobytes()).decode("ascii"), "first": first, "kind": hits.score_kind}

    def evaluate(self, answers: Answers) -> Evaluation:
        """`{"text-to-image", "image-to-text": {"R@1", "R@5", "R@10", "MedR"}}`, and their sum."""
        return score_captioned(self.benchmark, self.asked, answers)


def unpacked(kept: Mapping[str, Any]) -> Floats:
    """The scores of one caption on every image."""
    return np.frombuffer(base64.b64decode(kept["scores"]), dtype=np.float32)


def score_captioned(benchmark: str, asked: Mapping[str, tuple[str, str]], answers: Answers) -> Evaluation:
    """Recall in both directions; images that no caption belongs to are searched and have no rank of their own."""
    position = answers.position()
    owners = np.array([position[image_id] for image_id, _ in asked.values()], dtype=np.int64)

    def rows() -> Iterator[Floats]:
        return (unpacked(answers.kept[name]) for name in asked)

    kinds = {answers.kept[name]["kind"] for name in asked}
    whole = _both_ways(rows, owners, folds=np.zeros(len(position), dtype=np.int64))
    document: dict[str, Any] = {"text-to-image": _recalls(whole.texts)}
    warnings = []
    if kinds == {"cosine"}:
        document["image-to-text"] = _recalls(whole.images)
        document["sum of recalls"] = {
            "RSUM": sum(document[way][f"R@{k}"] for way in ("text-to-image", "image-to-text") for k in DEPTHS)
        }
    else:
        said = " and ".join(sorted(kinds))
        warnings.append(
            f"image-to-text is left out: scores of the kind {said} do not compare between texts; use whole~any-style"
        )
    if len(position) >= 2 * FOLD:
        document |= _folded(rows, owners, len(position), both=kinds == {"cosine"})
    ranks = whole.texts
    return Evaluation(
        benchmark=benchmark,
        protocol="recall",
        scores=document,
        queries=tuple(
            QueryScore(
                name,
                "",
                {"reciprocal": 1 / float(rank), "rank": float(rank)} | {f"R@{k}": float(rank <= k) for k in DEPTHS},
                {"text": text, "relevant": [image_id], "ranking": _first(answers, name)},
            )
            for (name, (image_id, text)), rank in zip(asked.items(), ranks, strict=True)
        ),
        curves=(recall_curve(ranks.astype(np.float64), most=len(position)),),
        warnings=tuple(warnings),
    )


def _first(answers: Answers, name: str) -> list[dict[str, Any]]:
    return [{"image_id": answers.image_ids[row]} for row in answers.kept[name]["first"]]


@dataclass(frozen=True)
class _Ranks:
    """1-based ranks: of each caption's image among images, and of each image's best caption among captions."""

    texts: NDArray[np.int64]
    images: NDArray[np.int64]


def _both_ways(rows: Any, owners: NDArray[np.int64], *, folds: NDArray[np.int64]) -> _Ranks:
    """Ranks in both directions, a caption in memory at a time; images of one fold compete; of equals the first wins."""
    images = len(folds)
    best = np.full(images, -np.inf, dtype=np.float32)
    winner = np.full(images, -1, dtype=np.int64)
    texts = np.zeros(len(owners), dtype=np.int64)
    order = np.arange(images)
    for number, (own, scores) in enumerate(zip(owners, rows(), strict=True)):
        rivals = (folds == folds[own]) & ((scores > scores[own]) | ((scores == scores[own]) & (order < own)))
        texts[number] = 1 + np.count_nonzero(rivals)
        if winner[own] < 0 or scores[own] > best[own]:
            best[own], winner[own] = scores[own], number
    ahead = np.zeros(images, dtype=np.int64)
    for number, (own, scores) in enumerate(zip(owners, rows(), strict=True)):
        passes = (folds == folds[own]) & ((scores > best) | ((scores == best) & (number < winner)))
        passes[own] = False
        ahead += passes
    return _Ranks(texts, 1 + ahead[winner >= 0])


def _folded(rows: Any, owners: NDArray[np.int64], images: int, *, both: bool) -> dict[str, Any]:
    """The mean over folds of a thousand images, in the order of the images; a last smaller fold is left out."""
    folds = np.arange(images) // FOLD
    ranks = _both_ways(rows, owners, folds=folds)
    whole = images // FOLD
    of_texts, of_images = folds[owners], folds[np.unique(owners)]
    made = {"text-to-image, folds of 1000": _mean_recalls([ranks.texts[of_texts == fold] for fold in range(whole)])}
    if both:
        made["image-to-text, folds of 1000"] = _mean_recalls([ranks.images[of_images == fold] for fold in range(whole)])
    return made


def _recalls(ranks: NDArray[np.int64]) -> dict[str, float]:
    return {f"R@{k}": float(np.mean(ranks <= k)) for k in DEPTHS} | {"MedR": float(np.median(ranks))}


def _mean_recalls(parts: Sequence[NDArray[np.int64]]) -> dict[str, float]:
    every = [_recalls(ranks) for ranks in parts if len(ranks)]
    return {name: float(np.mean([one[name] for one in every])) for name in every[0]}

"""Sub-region search: a text and a box say which frame is meant; perturbed boxes, target-only, box statistics."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein import Box, Hit, Method, Part, Query, Ranking
from wherein.bench.boxes import box_statistics, clipped, perturbed
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.subregion import dataset as subregion
from wherein.bench.subregion.contents import description_lengths
from wherein.bench.task import PERTURB, PROTOCOL, Answers, BenchOption, Kind, Question, Search, Task, Variant
from wherein.errors import DataError, SpecError

FRAME_FOLDERS: Final = ("frames", "keyframes", "images")
TARGET_ONLY: Final = BenchOption("target_only", "all frames but the target keep their whole-image score", Kind.FLAG)
BOX_STATISTICS: Final = BenchOption("box_statistics", "IoU of boxes and grid cells", Kind.FLAG, only_adds_figures=True)


@dataclass(frozen=True)
class SubRegionTask(Task):
    """Every annotation, asked with its short and with its long text."""

    benchmark: str
    dataset: subregion.SubRegion
    options: Variant

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (
            PERTURB,
            TARGET_ONLY,
            BOX_STATISTICS,
            PROTOCOL,
        )

    @classmethod
    def load(cls, benchmark: str, data: Path, options: Variant) -> "SubRegionTask":
        """Read the annotated regions and the frames they were drawn on."""
        return cls(benchmark=benchmark, dataset=subregion.load(data), options=options)

    @cached_property
    def frames(self) -> tuple[Path, tuple[str, ...]]:
        """The folder of the frames and their names, in the order `frameIdx` counts them."""
        for name in FRAME_FOLDERS:
            folder = self.dataset.root / name
            if folder.is_dir():
                return folder, subregion.frames_of(folder)
        raise DataError(f"{self.dataset.root} has no {' or '.join(FRAME_FOLDERS)} folder; put frames in frames/VIDEO/")

    def images(self) -> dict[str, Path]:
        """The file of every frame, by image_id."""
        folder, names = self.frames
        return {name: folder / name for name in names}

    @cached_property
    def asked(self) -> dict[str, tuple[subregion.Annotation, str]]:
        """The annotation and the kind of text of every question."""
        return {
            f"{one.set}/{one.author}/{one.id}/{text}": (one, text)
            for one in self.dataset.annotations
            for text in subregion.TEXTS
        }

    def box(self, annotation: subregion.Annotation) -> Box:
        """The box of an annotation, perturbed where the variant says so: the same draw for every method."""
        box = clipped(annotation.xyxy, size_wh=subregion.FRAME_WH)
        if self.options.perturb is None:
            return box
        name = f"{annotation.set}/{annotation.author}/{annotation.id}"
        seed = [self.options.draw or 0, zlib.crc32(name.encode("utf-8"))]
        return perturbed(box, spread=self.options.perturb, rng=np.random.default_rng(seed))

    def questions(self) -> Sequence[Question]:
        """Two questions per annotation."""
        return [
            Question(
                question_id=name,
                query=Query(parts=(Part(text=one.short if text == "short" else one.long, where=self.box(one)),)),
            )
            for name, (one, text) in self.asked.items()
        ]

    def ask(self, question: Question, search: Search, position: Mapping[str, int]) -> dict[str, Any]:
        """The ranking of frames, and the target's rank and score."""
        _, names = self.frames
        annotation, _ = self.asked[question.question_id]
        if not 0 <= annotation.frame < len(names):
            raise DataError(f"{question.question_id}: frame {annotation.frame} is not among the {len(names)} frames")
        target = names[annotation.frame]
        ranking = search(question.query)
        hits: Sequence[Hit] = ranking
        if self.options.target_only:
            require_cosines(ranking)
            hits = target_only(search(placeless(question.query), method=WHOLE), ranking, target=target)
        found = next((place for place, hit in enumerate(hits) if hit.image_id == target), None)
        return {
            "rank": len(position) if found is None else found + 1,
            "score": None if found is None else float(hits[found].score),
            "ranking": [position[hit.image_id] for hit in hits],
        }

    def evaluate(self, answers: Answers) -> Evaluation:
        """Write our prediction lines and score them."""
        path = answers.out / "subregion.ndjson"
        path.parent.mkdir(parents=True, exist_ok=True)
        _, names = self.frames
        frame_of = {name: number for number, name in enumerate(names)}
        with path.open("w", encoding="utf-8") as file:
            for name, (one, text) in self.asked.items():
                ids = [answers.image_ids[place] for place in answers.kept[name]["ranking"]]
                ranking = [frame_of[image_id] for image_id in ids if image_id in frame_of]
                author = f"{subregion.SETS[one.set]}/{one.author}"  # one author may number both sets alike
                file.write(json.dumps({"author": author, "id": one.id, "text": text, "ranking": ranking}) + "\n")
        scored = evaluate(
            "subregion", data=self.dataset.root, predictions=path, protocol=self.options.protocol or "official"
        )
        scores = dict(scored.scores)
        if self.options.box_statistics:
            sets = {
                name: [a for a in self.dataset.annotations if name in ("all", a.set)]
                for name in (*subregion.SETS, "all")
            }
            sets = {name: members for name, members in sets.items() if members}
            lengths = {f"annotations {name}": row for name, row in description_lengths(sets).items()}
            boxes = {name: [self.box(one) for one in members] for name, members in sets.items()}
            scores["variants"] = lengths | box_statistics(boxes)
        return replace(scored, scores=scores, warnings=scored.warnings)


WHOLE: Final = Method(search="whole")


def placeless(query: Query) -> Query:
    """The query without its places."""
    return Query(parts=tuple(replace(one, where=None) for one in query.parts))


def require_cosines(ranking: Ranking) -> None:
    """Refuse a method whose scores are on another scale than those of whole images."""
    if ranking.score_kind != "cosine":
        raise SpecError(
            f"--target-only ranks the target among the cosines of whole images, but the scores of {ranking.method} "
            f"are of the kind {ranking.score_kind}; search the place alone, as with mini+static-9~best~crop~alone"
        )


def target_only(whole: Sequence[Hit], hits: Sequence[Hit], *, target: str) -> list[Hit]:
    """Every frame by its whole-image score, the target by its score under the method; ties by image_id."""
    own = next((hit for hit in hits if hit.image_id == target), None)
    others = [hit for hit in whole if own is None or hit.image_id != target]
    return sorted([*others, *([own] if own else [])], key=lambda hit: (-hit.score, hit.image_id))

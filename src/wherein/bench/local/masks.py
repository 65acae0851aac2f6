"""`masks`: pixel retrieval. The first frame and its mask are the query for the frames of the same sequence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wherein import Hit, Part, Query
from wherein.bench import metrics
from wherein.bench.evaluation import Evaluation, Line, QueryScore
from wherein.bench.local.dataset import Clip, Masks, files_of, load_masks, read_mask
from wherein.bench.located import no_region_warning, region_ious
from wherein.bench.task import DISTRACTORS, Answers, BenchOption, Question, Task, Variant, kept_ranking, ranked_detail


@dataclass(frozen=True)
class MasksTask(Task):
    """Rank all frames, say which pixels show the object; the query's own frame is left out."""

    benchmark: str
    dataset: Masks

    @classmethod
    def takes(cls, _benchmark: str, /) -> tuple[BenchOption, ...]:
        """The options that it has."""
        return (DISTRACTORS,)

    @classmethod
    def load(cls, benchmark: str, data: Path, _options: Variant) -> "MasksTask":
        """Read the set by its shape."""
        return cls(benchmark=benchmark, dataset=load_masks(data))

    def images(self) -> dict[str, Path]:
        """The files that are searched, by image_id."""
        return files_of(self.dataset.root, self.dataset.image_ids)

    def questions(self) -> Sequence[Question]:
        """One question per sequence: its first frame with its mask."""
        made = []
        for clip in self.dataset.clips:
            asked = Part(image=self.dataset.root / clip.query, mask=read_mask(clip.masks[clip.query]))
            made.append(Question(question_id=clip.name, query=Query(parts=(asked,))))
        return made

    def keep(self, question: Question, hits: Sequence[Hit], position: Mapping[str, int]) -> dict[str, Any]:
        """The ranking, and both IoUs of every frame that shows the object."""
        clip = next(clip for clip in self.dataset.clips if clip.name == question.question_id)
        others = [hit for hit in hits if hit.image_id != clip.query]
        by_id = {hit.image_id: hit for hit in others}
        ious: dict[str, list[float]] = {}
        empty = []
        for frame, path in clip.frames().items():
            truth = read_mask(path)
            if not truth.any():
                empty.append(position[frame])
            else:
                ious[str(position[frame])] = list(region_ious(by_id[frame], truth)) if frame in by_id else [0.0, 0.0]
        return kept_ranking(others, position) | {"ious": ious, "junk": empty}

    def evaluate(self, answers: Answers) -> Evaluation:
        """`{"mAP", "mIoU": {"D", "S"}, "mAP@50:5:95": {"official", "paper-D", "paper-S"}}`."""
        return score_masks(self.benchmark, self.dataset.clips, answers)


def _located(kept: Mapping[str, Any], *, column: int) -> metrics.LocatedQuery:
    ious = [ious[column] for ious in kept["ious"].values()]
    return metrics.located_query(kept["ranking"], relevant=_relevant(kept), ious=ious, junk=kept["junk"])


def _relevant(kept: Mapping[str, Any]) -> list[int]:
    return [int(number) for number in kept["ious"]]


def score_masks(benchmark: str, clips: Sequence[Clip], answers: Answers) -> Evaluation:
    """Image ranking and pixels together; AP is trapezoidal, as in pixel retrieval (`proxford`)."""
    kept = [answers.kept[clip.name] for clip in clips]
    boxes, masks = ([_located(one, column=column) for one in kept] for column in (0, 1))
    ap = np.array([_image_ap(query) for query in boxes])
    official, at_box = metrics.map_50_5_95(boxes, keep_failed=False)
    paper_d, _ = metrics.map_50_5_95(boxes, keep_failed=True)
    paper_s, at_mask = metrics.map_50_5_95(masks, keep_failed=True)
    miou = [[float(np.mean(q.ious)) if len(q.ious) else float("nan") for q in side] for side in (boxes, masks)]
    scores = {
        "mAP": _mean(ap),
        "mIoU": {"D": _mean(np.array(miou[0])), "S": _mean(np.array(miou[1]))},
        "mAP@50:5:95": {"official": official, "paper-D": paper_d, "paper-S": paper_s},
    }
    thresholds = list(metrics.IOU_THRESHOLDS)
    return Evaluation(
        benchmark=benchmark,
        protocol="trapezoidal AP",
        scores=scores,
        queries=tuple(
            QueryScore(
                query_id=clip.name,
                group="",
                metrics={"AP": float(ap[n]), "mIoU D": miou[0][n], "mIoU S": miou[1][n]},
                detail={
                    "query": clip.query,
                    **ranked_detail(answers, kept[n], relevant=[answers.image_ids[i] for i in _relevant(kept[n])]),
                },
            )
            for n, clip in enumerate(clips)
        ),
        curves=(
            Line("official, boxes", "IoU threshold", "mAP", thresholds, at_box.tolist()),
            Line("paper, masks", "IoU threshold", "mAP", thresholds, at_mask.tolist()),
        ),
        warnings=no_region_warning(any(query.ious.any() for query in (*boxes, *masks)), "every IoU is 0"),
    )


def _image_ap(query: metrics.LocatedQuery) -> float:
    found = np.sort(query.positions[query.positions >= 0])
    return metrics.trapezoidal_ap(found, relevant=len(query.positions))


def _mean(values: metrics.Floats) -> float:
    present = values[~np.isnan(values)]
    return float(np.mean(present)) if len(present) else 0.0

"""Predicted labels: as JSON or a file, as tags, and the review of the least certain ones."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from wherein.options import DEFAULT_CUT
from wherein.output.labels import labels_as
from wherein.server.routes import ServedHere
from wherein.server.routes.train import TrainedName
from wherein.server.shapes import FiltersIn, ImageId, Name, Sent, Shape, filters_of

router = APIRouter(tags=["training"])
Labels = Annotated[list[Name], Field(max_length=1000)]
Least = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class PredictionOut(Shape):
    """One label of one image; without a confidence, too few examples were held out to tell."""

    image_id: str
    label: str
    confidence: float | None
    score: float
    size_wh: tuple[int, int]


class PredictedOut(Shape):
    """What trained labels say of the images, and what was done with it."""

    spec: str
    predictions: list[PredictionOut]
    tagged: int
    left: int
    step: int | None
    notes: list[str]


class LabelsIn(FiltersIn):
    """Which labels are given, of which images, how sure they have to be, and how they are written; in an address."""

    model_config = ConfigDict(strict=False)
    label: Labels | None = None
    min_confidence: Least = DEFAULT_CUT
    format: Literal["json", "coco", "csv"] = "json"


class TagsIn(FiltersIn):
    """Which labels become tags, of which images, and how sure they have to be."""

    labels: Labels | None = None
    min_confidence: Least = DEFAULT_CUT


class LabelAnswerIn(Sent):
    """Whether a label is right for an image."""

    label: Name
    image_id: ImageId
    right: bool


class AnswerOut(Shape):
    """What was said, what followed from it, and the number by which it can be taken back."""

    label: str
    image_id: str
    right: bool
    step: int
    told: str


class StepIn(Sent):
    """Which step is taken back; the last one where none is named."""

    step: Annotated[int, Field(ge=1)] | None = None


class ChangedOut(Shape):
    """What was taken back, in a sentence."""

    changed: str


@router.get("/collections/{name}/trained/{trained}/labels", response_model=PredictedOut)
async def predicted_labels(
    served: ServedHere,
    trained: TrainedName,
    asked: Annotated[LabelsIn, Query()],
) -> Response | PredictedOut:
    """The labels that are likely enough, of every image that passes: as JSON, or as a COCO or CSV file."""
    found = await served.searching(
        lambda collection: collection.label(
            trained, labels=asked.label, min_confidence=asked.min_confidence, **filters_of(asked)
        )
    )
    if asked.format == "json":
        return PredictedOut.model_validate(found.to_dict())
    kind, suffix = ("application/json", "json") if asked.format == "coco" else ("text/csv; charset=utf-8", "csv")
    disposition = f"attachment; filename*=UTF-8''{quote(trained, safe='')}.{suffix}"
    return Response(labels_as(found, asked.format), media_type=kind, headers={"content-disposition": disposition})


@router.post("/collections/{name}/trained/{trained}/tags")
async def tag_labels(served: ServedHere, trained: TrainedName, asked: TagsIn) -> PredictedOut:
    """Give labels that are likely enough as tags; what people said is left alone, and `untag-labels` takes it back."""
    found = await served.writing(
        lambda collection: collection.label(
            trained, labels=asked.labels, min_confidence=asked.min_confidence, tag=True, **filters_of(asked)
        )
    )
    return PredictedOut.model_validate(found.to_dict())


@router.get("/collections/{name}/trained/{trained}/review")
async def review(
    served: ServedHere,
    trained: TrainedName,
    label: Annotated[Name, Query()],
    limit: Annotated[int, Query(ge=1, le=500)] = 20,
) -> list[PredictionOut]:
    """Images whose label is least certain, of those that nobody has said anything of, first the least."""
    found = await served.searching(lambda collection: collection.review(trained, label, k=limit))
    return [PredictionOut.model_validate(one, from_attributes=True) for one in found]


@router.post("/collections/{name}/trained/{trained}/answers", status_code=201)
async def answer(served: ServedHere, trained: TrainedName, asked: LabelAnswerIn) -> AnswerOut:
    """Say whether a label is right for an image; the tag follows, and the next training learns from it."""
    found = await served.writing(
        lambda collection: collection.answer(trained, asked.label, asked.image_id, right=asked.right)
    )
    return AnswerOut.model_validate(found, from_attributes=True)


@router.post("/collections/{name}/untag-labels")
async def untag_labels(served: ServedHere, asked: StepIn) -> ChangedOut:
    """Take back the tags that labels gave, or an answer."""
    return ChangedOut(changed=await served.writing(lambda collection: collection.unlabel(asked.step)))

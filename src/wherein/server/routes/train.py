"""Training: start it as a job, list what was trained, fetch it, forget it."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import Field

from wherein.server.job_shapes import JobOut
from wherein.server.routes import JobsHere, ServedHere
from wherein.server.shapes import Name, Sent, Shape

router = APIRouter(tags=["training"])
TrainedName = Annotated[str, Path(max_length=64, description="What it was trained as")]


class TrainIn(Sent):
    """What to learn, from what."""

    name: Name
    """What it is called: afterwards the method `mini:NAME` knows its labels."""
    source: Literal["tags", "judgements", "again"] | dict[str, Any] = "tags"
    """Where labels come from; a COCO document may stand here itself."""
    encoder: Annotated[str, Field(max_length=500)] | None = None
    kind: Literal["head", "adapter", "full"] = "head"
    labels: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    """Only these."""
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class LabelFiguresOut(Shape):
    """What is known of one label; figures are how high held-out examples stand, from 0 to 1."""

    label: str
    right: int
    wrong: int
    by_text: float | None
    by_average: float | None
    trained: float | None
    confident: bool


class CardOut(Shape):
    """What was trained, from what, and what came of it."""

    name: str
    spec: str
    encoder: str
    digest: str
    kind: str
    source: str
    made: str
    seed: int
    images: int
    labels: list[LabelFiguresOut]
    notes: list[str]
    figures: list[tuple[str, float, float]]
    seconds: float
    worse: list[str]


class ForgottenOut(Shape):
    """What was forgotten."""

    name: str


@router.post("/collections/{name}/train", status_code=201)
def train(running: JobsHere, served: ServedHere, asked: TrainIn) -> JobOut:
    """Train as a job: /jobs has its progress, cancels it and lets it go on; its report is the card."""
    return running.start_training(served.name, asked.model_dump()).out()


@router.get("/collections/{name}/trained")
async def trained(served: ServedHere) -> list[CardOut]:
    """Everything that was trained in the collection."""
    cards = await served.reading(lambda found: found.trained())
    return [CardOut.model_validate(card.to_dict()) for card in cards]


@router.get("/collections/{name}/trained/{trained}", response_class=Response)
async def export_trained(served: ServedHere, trained: TrainedName) -> Response:
    """Something trained as a ZIP archive, for another collection."""
    data = await served.reading(lambda found: found.export_trained(trained))
    disposition = f"attachment; filename*=UTF-8''{quote(trained, safe='')}.zip"
    return Response(data, media_type="application/zip", headers={"content-disposition": disposition})


@router.delete("/collections/{name}/trained/{trained}")
async def remove_trained(served: ServedHere, trained: TrainedName) -> ForgottenOut:
    """Forget something trained."""
    await served.writing(lambda found: found.remove_trained(trained))
    return ForgottenOut(name=trained)

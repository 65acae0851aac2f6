"""The user study: made from selections, answered by participants, evaluated."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from wherein.server import documents
from wherein.server.problems import Problem
from wherein.server.routes import ServedHere
from wherein.server.shapes import ImageId, Name, Sent, Shape
from wherein.server.study import GROUPS, TRUE, questions_of, results, sheet

router = APIRouter(tags=["study"])


class StudyOut(Shape):
    """A study, in a list."""

    name: str
    questions: int
    participants: int


class SheetOut(Shape):
    """The questions of one participant."""

    participant: str
    group: int
    choose: int
    questions: list[dict[str, Any]]


class StudyAnswerIn(Sent):
    """Which candidates were chosen, and how long it took."""

    question: Annotated[int, Field(ge=0, le=100)]
    chosen: Annotated[list[ImageId], Field(min_length=TRUE, max_length=TRUE)]
    seconds: Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)]


class FinishIn(Sent):
    """Did outlines help? 1 not at all, 7 very much."""

    helpful: Annotated[int, Field(ge=1, le=7)]


@router.get("/collections/{name}/studies")
def studies(served: ServedHere) -> list[StudyOut]:
    """Every study of the collection."""
    known = documents.read(served, "studies", {})
    return [
        StudyOut(name=name, questions=len(study["questions"]), participants=len(study["participants"]))
        for name, study in sorted(known.items())
    ]


@router.post("/collections/{name}/studies/{study}", status_code=201)
async def make(served: ServedHere, study: Name) -> StudyOut:
    """A study from the selections: each of four images or more is a question, its first image the query."""
    chosen, living = documents.read(served, "selections", {}), await served.living()
    questions = questions_of(
        {name: [item for item in items if item["image_id"] in living] for name, items in chosen.items()}
    )
    sheet({"questions": questions}, "", 0)  # says at once when false candidates are short
    with documents.changed(served, "studies", {}) as known:
        if study in known:
            raise Problem(409, f"there is a study {study!r} already. Choose another name.")
        known[study] = {"questions": questions, "participants": {}}
    return StudyOut(name=study, questions=len(questions), participants=0)


@router.post("/collections/{name}/studies/{study}/participants", status_code=201)
def begin(served: ServedHere, study: Name) -> SheetOut:
    """A new participant, in the group whose turn it is, and their questions."""
    participant = secrets.token_hex(6)
    with documents.changed(served, "studies", {}) as known:
        found = _study(known, study)
        group = len(found["participants"]) % len(GROUPS)
        pages = sheet(found, participant, group)
        found["participants"][participant] = {"group": group, "answers": {}, "helpful": None}
    shown = [{key: value for key, value in page.items() if key != "true"} for page in pages]
    return SheetOut(participant=participant, group=group, choose=TRUE, questions=shown)


@router.post("/collections/{name}/studies/{study}/participants/{participant}/answers", status_code=204)
def answer(served: ServedHere, study: Name, participant: Name, asked: StudyAnswerIn) -> None:
    """Keep an answer; each question is answered once."""
    with documents.changed(served, "studies", {}) as known:
        found = _study(known, study)
        person = _person(found, participant)
        pages = sheet(found, participant, person["group"])
        if asked.question >= len(pages) or str(asked.question) in person["answers"]:
            raise Problem(409, f"question {asked.question}: does not exist, or is answered already.")
        page = pages[asked.question]
        person["answers"][str(asked.question)] = {
            "chosen": asked.chosen,
            "right": len(set(asked.chosen) & set(page["true"])),
            "outlines": page["outlines"],
            "seconds": asked.seconds,
        }


@router.post("/collections/{name}/studies/{study}/participants/{participant}/finish", status_code=204)
def finish(served: ServedHere, study: Name, participant: Name, asked: FinishIn) -> None:
    """The last question; only finished participants count."""
    with documents.changed(served, "studies", {}) as known:
        found = _study(known, study)
        person = _person(found, participant)
        missing = len(found["questions"]) - len(person["answers"])
        if missing:
            raise Problem(409, f"{missing} questions are not answered yet.")
        person["helpful"] = asked.helpful


@router.get("/collections/{name}/studies/{study}/results")
def evaluate(served: ServedHere, study: Name) -> dict[str, Any]:
    """Times with and without outlines over all finished participants, and the paired tests."""
    return results(_study(documents.read(served, "studies", {}), study))


def _study(known: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in known:
        raise Problem(404, f"there is no study {name!r}; there are: {', '.join(sorted(known)) or 'none'}.")
    found: dict[str, Any] = known[name]
    return found


def _person(study: dict[str, Any], participant: str) -> dict[str, Any]:
    if participant not in study["participants"]:
        raise Problem(404, "that participant has not begun this study.")
    found: dict[str, Any] = study["participants"][participant]
    return found

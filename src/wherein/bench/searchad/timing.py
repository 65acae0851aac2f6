"""SearchAD's Table 9: seconds of a query with and without an index, what an index loses, what a detector takes."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import wherein
from wherein import Method
from wherein.bench.task import Question
from wherein.models import untrained_grounding_dino

DEPTH: Final = 1000
"""How many images an index is asked for: the paper does not say; what lies deeper counts as not found."""
DETECTOR_HW: Final = (800, 1333)
"""Height and width of the images that the detector is timed on: as large as Grounding DINO's own preprocessing makes
them, at most."""
_PROMPT: Final = (101, 1037, 11190, 1012, 102)
"""`a cow .` in the numbers of the detector's tokenizer: a prompt as short as the labels of SearchAD are."""
_TIMED: Final = 2
"""Images that a detector is timed on, after one that is not: each takes seconds, and all take about as long."""

Rankings = dict[str, list[str]]
"""Label → image_ids, best first."""
MeanPrecision = Callable[[Rankings], float | None]
"""The MAP of rankings; None where the truth is not public."""


def search_times(
    folder: Path, questions: Sequence[Question], method: Method, *, precision: MeanPrecision
) -> dict[str, dict[str, float]]:
    """The rows of the table by name: seconds of a query, seconds until the first is answered, MAP.

    Every row opens the collection anew, so that what an index needs first is counted.
    """
    plain = _timed(folder, questions, method, index="exact", depth=None, precision=precision)
    coded = _timed(folder, questions, method, index="compressed", depth=DEPTH, precision=precision)
    if "MAP" in plain and "MAP" in coded:
        coded["MAP lost"] = plain["MAP"] - coded["MAP"]
    return {"no index": plain, "compressed index": coded}


def _timed(
    folder: Path,
    questions: Sequence[Question],
    method: Method,
    *,
    index: str,
    depth: int | None,
    precision: MeanPrecision,
) -> dict[str, float]:
    started = time.perf_counter()
    with wherein.open(folder) as collection:
        collection.search(questions[0].query, k=1, method=method, index=index)
        setup = time.perf_counter() - started
        most = max(len(collection), 1)
        times, rankings = list[float](), Rankings()
        for question in questions:
            before = time.perf_counter()
            hits = collection.search(
                question.query, k=min(most, depth or most), method=method, index=index, frames=True
            )
            times.append(time.perf_counter() - before)
            rankings[question.question_id] = [hit.image_id for hit in hits]
    found = {"seconds per query": median(times), "setup seconds": setup}
    value = precision(rankings)
    return found if value is None else {**found, "MAP": value}


def detector_times(images: int) -> dict[str, float] | None:
    """The row of a grounded detector, which must look at every image for every query; None without torch.

    It is a Grounding DINO of the real size with random weights: they cost what trained ones cost.
    """
    started = time.perf_counter()
    look = untrained_grounding_dino(size_hw=DETECTOR_HW, prompt=_PROMPT)
    if look is None:
        return None
    setup, times = time.perf_counter() - started, list[float]()
    for _ in range(1 + _TIMED):
        before = time.perf_counter()
        look()
        times.append(time.perf_counter() - before)
    each = median(times[1:])
    return {"seconds per query": each * images, "setup seconds": setup, "seconds per image": each}

"""Requests and answers as OpenAPI describes them. Boxes are x1, y1, x2, y2 in [0, 1]; scores: higher is better."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from wherein.options import Filters

Fraction = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Corners = Annotated[tuple[Fraction, Fraction, Fraction, Fraction], Field(strict=False)]
"""A box; JSON has lists only, which a strict shape would not take for a tuple."""
Number = Annotated[float, Field(allow_inf_nan=False)]
CornersIn = Annotated[tuple[Number, Number, Number, Number], Field(strict=False)]
"""A box as it is asked for; one that leaves the image is answered by `Box` itself."""
_Side = Annotated[int, Field(ge=1, le=20_000)]
_Size = Annotated[tuple[_Side, _Side], Field(strict=False)]
_Runs = Annotated[list[Annotated[int, Field(ge=0, le=400_000_000)]], Field(max_length=1_000_000)]
ImageId = Annotated[str, Field(min_length=1, max_length=4096)]
ImageIds = Annotated[list[ImageId], Field(max_length=10_000)]
Day = Annotated[str, Field(max_length=40)] | int
"""A date as 2024-05-01, 2024-05 or 2024; a year may be a number."""
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f/\\]+$")]

Line = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]


class Shape(BaseModel):
    """What all bodies share: unknown fields are refused, so that a misspelling is noticed."""

    model_config = ConfigDict(extra="forbid")


class Sent(Shape):
    """What all bodies of requests share: a number or a boolean is none in quotes, as in Python."""

    model_config = ConfigDict(strict=True)


class ErrorBody(Shape):
    """What went wrong, and the way out."""

    kind: str
    message: str
    status: int


class ErrorAnswer(Shape):
    """The one shape of every error."""

    error: ErrorBody


class MaskOut(Sent):
    """Pixels as COCO's run lengths: zeros and ones in turn, column by column."""

    size: _Size
    """height, width"""
    counts: _Runs


class MaskIn(Sent):
    """Pixels as COCO's run lengths: as their plain list, or as COCO's string of them, which is much shorter."""

    size: _Size
    """height, width"""
    counts: _Runs | str


class PartIn(Sent):
    """One thing to look for, or to avoid: exactly one of words, text, image_id, example, upload."""

    words: Annotated[str, Field(max_length=2000)] | None = None
    """A text as a person writes it: `red car^2` weighs, `a fish in the upper left` says where."""
    text: Annotated[str, Field(max_length=2000)] | None = None
    """A text taken literally."""
    image_id: ImageId | None = None
    """An image of this collection."""
    example: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    """An image that was sent to /examples before."""
    upload: Annotated[str, Field(max_length=100)] | None = None
    """The name of a file in the same multipart request."""
    box: CornersIn | None = None
    """The part of the example image that counts."""
    mask: MaskIn | None = None
    """The pixels of the example image that count, instead of a box."""
    where: CornersIn | Annotated[str, Field(max_length=40)] | None = None
    """Where in the searched images it should be: a box, or a word such as top-left."""
    said_where: Annotated[str, Field(max_length=40)] | None = None
    """The words that `where` was read from, to be told back."""
    weight: Annotated[float, Field(gt=0.0, le=1000.0, allow_inf_nan=False)] = 1.0
    negative: bool = False


MASK_PIXELS: Final = 1 << 27
"""Pixels of all masks in one request: 134 million, which take as many bytes while it is answered."""


def _within(parts: Iterable[PartIn]) -> None:
    """Refuse more pixels of masks than one request may have, before any is unfolded."""
    pixels = sum(part.mask.size[0] * part.mask.size[1] for part in parts if part.mask is not None)
    if pixels > MASK_PIXELS:
        raise ValueError(f"its masks have {pixels:,} pixels in all, and {MASK_PIXELS:,} are taken: send them smaller")


def _bounded(parts: list[PartIn]) -> list[PartIn]:
    _within(parts)
    return parts


Parts = Annotated[list[PartIn], Field(min_length=1, max_length=64), AfterValidator(_bounded)]


class FiltersIn(Sent):
    """Which images may be returned."""

    folder: Annotated[str, Field(max_length=4096)] | None = None
    after: Day | None = None
    before: Day | None = None
    tags: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=50)] = []
    min_side: Annotated[int, Field(ge=0, le=1_000_000)] = 0


def filters_of(asked: FiltersIn) -> Filters:
    """What a request says of which images may be returned."""
    return cast(Filters, asked.model_dump(include=set(FiltersIn.model_fields)))


class ImagesIn(FiltersIn):
    """A page of the images that pass, as an address asks for it: there all values are texts."""

    model_config = ConfigDict(strict=False)
    offset: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    group: bool = False
    """Say which images look nearly the same as an earlier one."""


class SearchIn(FiltersIn):
    """A search: parts, how to search, filters, and marks on hits that refine it."""

    parts: Parts
    method: Annotated[str, Field(max_length=500)] = ""
    k: Annotated[int, Field(ge=1, le=5000)] = 20
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    locate: bool = False
    """Outline the pixels that matched, where the engine can."""
    polygons: bool = False
    """Send each outline as polygons too, beside its run lengths."""
    group: bool = False
    """Say which hits look nearly the same as a better one."""
    among: Annotated[list[ImageId], Field(max_length=500)] | None = None
    """Only these images."""
    frames: bool = False
    """Every image of a video as a hit of its own; else the best stands for its clip."""
    index: Annotated[str, Field(max_length=50, pattern="^[a-z0-9_:-]+$")] = "auto"
    """The index that is asked, as `exact` or `milvus`; `auto`: the one that the server or the collection keeps."""
    min_confidence: Fraction | None = None
    """Reject hits less likely to be right than this; the best of them come back as `rejected`."""
    precision: Fraction | None = None
    """Keep as many hits as possible while this share of them is right."""
    false_alarms: Annotated[float, Field(ge=0, le=1e6)] | None = None
    """Keep hits while at most so many of them are expected to be wrong."""
    decide: bool = False
    """Reject hits that are less likely right than wrong."""
    all: bool = False
    """As many hits as images are expected to be right, whatever `k` is."""
    liked: Annotated[list[ImageId], Field(max_length=200)] = []
    disliked: Annotated[list[ImageId], Field(max_length=200)] = []


class JudgementIn(Sent):
    """Which hits of a query are right and which are wrong; without `wrong`, all others are."""

    parts: Parts
    right: Annotated[list[ImageId], Field(max_length=1000)]
    wrong: Annotated[list[ImageId], Field(max_length=1000)] | None = None


def _judged(judgements: list[JudgementIn]) -> list[JudgementIn]:
    _within(part for one in judgements for part in one.parts)
    return judgements


class CalibrateIn(Sent):
    """Judged hits of a method."""

    judgements: Annotated[list[JudgementIn], Field(min_length=1, max_length=1000), AfterValidator(_judged)]
    method: Annotated[str, Field(max_length=500)] = ""


class CurveOut(Shape):
    """Confidence over a measure of the evidence: 1 / (1 + exp(−offset − slope · measure))."""

    offset: float
    slope: float


class CalibrationOut(Shape):
    """What is judged of one kind of evidence so far, and the curve that follows from it."""

    source: str
    right: int
    wrong: int
    curve: CurveOut | None
    """The curve of queries that share no word with the judged ones."""
    changed: str
    """What these judgements changed, in one sentence."""
    step: int
    """Its number: …/uncalibrate takes it back."""


class TenthOut(Shape):
    """Judged hits of about the same confidence: from which on, how many, what was said on average, how many right."""

    low: float
    hits: int
    said: float
    right: int


class ReliabilityOut(Shape):
    """How far the confidence of one kind of evidence can be trusted here, by what was judged."""

    source: str
    right: int
    wrong: int
    tenths: list[TenthOut]
    told: str
    """In one sentence."""


class UncalibrateIn(Sent):
    """What to forget of what was judged: one step, the last unless given, or with `reset` all of it."""

    step: Annotated[int, Field(ge=1)] | None = None
    reset: bool = False


class UncalibratedOut(Shape):
    """What was forgotten, in one sentence."""

    changed: str


class MatchesIn(Sent):
    """Example images, and the image to compare them with."""

    parts: Annotated[list[PartIn], Field(min_length=1, max_length=16), AfterValidator(_bounded)]
    image_id: ImageId


class MatchesOut(Shape):
    """Keypoint matches that agree with one view of the example that has most of them."""

    part: int
    """The number of that example among the parts."""
    inliers: int
    lines: list[Corners]
    """Each from x1, y1 in the example to x2, y2 in the image, all in [0, 1]; the strongest 200."""


class HitOut(Shape):
    """An image that answers, and where in it."""

    image_id: str
    score: float
    confidence: float | None
    box: Corners | None
    path: str | None
    size_wh: tuple[int, int]
    seconds: float | None
    inliers: int | None
    mask: MaskOut | None
    polygons: list[list[tuple[float, float]]] | None = None
    """The mask's outline in [0, 1], to be filled by the even-odd rule; only where polygons were asked for."""
    others: list[str] = []
    """The ids of other images of the same video that answer too, best first."""
    like: str | None = None
    """The better hit that this one looks nearly the same as; only where grouping was asked for."""


class PartOut(Shape):
    """A part as it was understood."""

    said: str
    text: str | None
    where: Corners | None
    weight: float
    negative: bool


class ExpectedOut(Shape):
    """About how many images are right, and an interval that holds the true number four times in five."""

    about: float
    low: float
    high: float


class RankingOut(Shape):
    """Hits, best first, and how they were scored."""

    query: str
    encoder: str
    method: str
    score_kind: str
    searched: int
    notes: list[str]
    parts: list[PartOut]
    offset: int
    seconds: float
    """What the engine took."""
    hits: list[HitOut]
    rejected: list[HitOut]
    """The best that were not likely enough, where a cut was asked for (by `min_confidence`, say)."""
    label: str
    """What was looked for, in clean words: without weights, places and what was to be avoided."""
    nothing_indexed: bool
    """Whether there was nothing to search: the collection holds no image that its encoder has described."""
    cut: float
    """The least confidence of a hit that counts; weaker ones are shown apart, or rejected where that was asked for."""
    decided: bool
    """Whether weaker hits were rejected."""
    expected: ExpectedOut | None
    """About how many images are right, also beyond these hits."""


class DetailsOut(Shape):
    """What is known about one image."""

    image_id: str
    size_wh: tuple[int, int]
    taken: float
    seconds: float | None
    path: str | None
    file_bytes: int
    digest: str
    tags: list[str]
    frames: list[str]
    """The keyframes of the same video, in order; empty for a photograph."""


class ImageLine(Shape):
    """An image in a list."""

    image_id: str
    size_wh: tuple[int, int]
    like: str | None = None
    """The earlier image that this one looks nearly the same as; only where grouping was asked for."""


class ImagesOut(Shape):
    """A page of images, by id."""

    total: int
    offset: int
    images: list[ImageLine]


class CollectionOut(Shape):
    """A served collection."""

    name: str
    folder: str
    encoder: str
    images: int
    roots: list[str]
    tags: dict[str, int]
    layers: list[str]
    methods: list[str]
    """What `method` may be, for the layers this collection has."""
    steps: list[str]
    searchad: bool
    """Whether a SearchAD submission can be written from it."""


class TagIn(Sent):
    """Images to tag."""

    tag: Name
    image_ids: ImageIds


class ItemIn(Sent):
    """A selected image; box, mask and label go into exports."""

    image_id: ImageId
    box: Corners | None = None
    mask: MaskOut | None = None
    label: Annotated[str, Field(max_length=200)] | None = None


class ExampleOut(Shape):
    """An uploaded example; it can be searched with until the server forgets it."""

    example: str
    size_wh: tuple[int, int]

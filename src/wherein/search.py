"""A query → hits: encode its parts, score every image, combine, rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, overload

import numpy as np

from wherein.embed import detail
from wherein.encoders import Encoder, Floats, unit
from wherein.errors import QueryError
from wherein.image import decode
from wherein.index import Mask, best
from wherein.masks import check_aspect
from wherein.query import STEPS, Method, Part, Query
from wherein.region import Box, place_suffix
from wherein.views import View


@dataclass(frozen=True, slots=True)
class Hit:
    """An image that answers a query. `box` says where in it, where the method knows."""

    image_id: str
    score: float
    confidence: float | None = None
    box: Box | None = None
    path: Path | None = None
    size_wh: tuple[int, int] = (0, 0)
    seconds: float | None = None
    mask: Mask | None = None
    """The pixels that matched, bool (h, w) at any resolution of the same aspect."""
    inliers: int | None = None
    """How many keypoint matches agree with one view of the object, where they were verified."""


@dataclass(frozen=True, slots=True)
class Ranking(Sequence[Hit]):
    """Hits, best first, and how they were scored."""

    hits: tuple[Hit, ...]
    query: str
    encoder: str
    method: str
    score_kind: str
    searched: int = 0
    """How many images passed the filters and were ranked."""
    notes: tuple[str, ...] = ()
    """What a person should know about how the query was read."""

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


@dataclass(frozen=True, slots=True)
class _Group:
    """Parts of one modality, sign and place: what they are compared with, where, and how much they count."""

    vectors: Floats
    where: Box | None
    weight: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """An image in a ranking that is being made: its number in the view, and what is known of it so far."""

    image: int
    score: float
    box: Box | None = None
    mask: Mask | None = None
    inliers: int | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """Candidates, best first, and the kind of their scores."""

    candidates: tuple[Candidate, ...]
    score_kind: str


@dataclass(frozen=True, slots=True)
class Context:
    """What a step may use: what was asked, how, and what the collection keeps of each image."""

    query: Query
    method: Method
    encoder: Encoder
    view: View
    scores: Floats
    """(images,) the score of every image before the steps"""
    allowed: Mask | None
    k: int


class Step(Protocol):
    """What is done with a ranking: verify it, expand it, locate in it."""

    depth: int
    """How many candidates it wants to see, at least."""

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The ranking after the step."""


def rank(query: Query, view: View, *, encoder: Encoder, method: Method, k: int, allowed: Mask | None) -> Ranked:
    """The best k images, among those `allowed`."""
    groups = _groups(query, encoder, method)
    each = [view.scorer.scores(group.vectors, group.where).max(axis=0) for group in groups]
    if len(groups) == 1:
        total, kind = each[0], "cosine"
    else:
        parts = [_contribution(group, scores) for group, scores in zip(groups, each, strict=True)]
        total, kind = np.asarray(np.sum(parts, axis=0), np.float32), "standardised"
    steps = [_load_step(word) for word in method.steps]
    top = best(total, k=max([k, *(step.depth for step in steps)]), allowed=allowed)
    first = groups[0]
    regions = view.scorer.regions(first.vectors[0], first.where, top.images)
    found = zip(top.images.tolist(), top.scores.tolist(), regions, strict=True)
    ranked = Ranked(tuple(Candidate(image, score, box) for image, score, box in found), kind)
    context = Context(query, method, encoder, view, total, allowed, k)
    for step in steps:
        ranked = step(context, ranked)
    return Ranked(ranked.candidates[:k], ranked.score_kind)


def _load_step(word: str) -> Step:
    module, _, name = STEPS[word].partition(":")
    step: Step = getattr(import_module(module), name)
    return step


def notes(query: Query, method: Method) -> tuple[str, ...]:
    """What a person should know about how the query was read."""
    said = [f"read “{part.said_where}” as a place: {part.where}" for part in query.parts if part.said_where is not None]
    if method.search == "whole" and any(part.where is not None for part in query.parts):
        said.append("method whole looks at the whole image: the place was not used. Try --method static-9@0.1.")
    return tuple(said)


def _groups(query: Query, encoder: Encoder, method: Method) -> list[_Group]:
    """Parts by sign, modality and place; the first group always looks for something."""
    gathered = dict[tuple[bool, bool, Box | None], list[Part]]()
    for part in query.parts:
        gathered.setdefault((part.negative, part.image is not None, part.where), []).append(part)
    groups = []
    for (_, is_image, where), parts in sorted(gathered.items(), key=lambda item: item[0][:2]):
        vectors = _embed_images(parts, encoder) if is_image else _embed_texts(parts, encoder, method)
        groups.append(_group(vectors, parts, where, method))
    return groups


def _group(vectors: Floats, parts: Sequence[Part], where: Box | None, method: Method) -> _Group:
    weights = np.array([part.weight for part in parts], np.float32)
    if method.support == "mean":
        vectors = unit((weights[:, None] * vectors).sum(axis=0, keepdims=True))
    sign = -1.0 if parts[0].negative else 1.0
    return _Group(vectors, where, sign * float(weights.mean()))


def _embed_texts(parts: Sequence[Part], encoder: Encoder, method: Method) -> Floats:
    if not encoder.embeds_text:
        raise QueryError(f"{encoder.spec} does not understand text: search with --image FILE.")
    return encoder.texts([_worded(part, method) for part in parts])


def _worded(part: Part, method: Method) -> str:
    """The text of a part; the methods append-short and append-long say its place in words."""
    text = part.text or ""
    if part.where is None or method.search not in ("append-short", "append-long"):
        return text
    return f"{text} {place_suffix(part.where, long=method.search == 'append-long')}"


def _embed_images(parts: Sequence[Part], encoder: Encoder) -> Floats:
    # A whole example is decoded as it was indexed, so that every image finds itself; a region needs all its pixels.
    whole = detail(encoder)
    inputs = []
    for part in parts:
        if part.image is None:
            continue
        mask, box = part.pixels(), part.region
        image = decode(part.image, at_least=whole if box is None else None)
        if mask is not None:
            check_aspect(mask, size_wh=image.full_wh)
        inputs.append(encoder.prepare(image if box is None else image.crop(box)))
    return encoder.images(np.stack(inputs)).global_


def _contribution(group: _Group, scores: Floats) -> Floats:
    """What a group adds. To be unlike what is avoided is no merit: only likeness above the average subtracts."""
    standardised = _standardised(scores)
    return group.weight * (standardised if group.weight > 0 else np.maximum(standardised, 0.0))


def _standardised(scores: Floats) -> Floats:
    spread = float(scores.std(dtype=np.float64))
    centred = scores - np.float32(scores.mean(dtype=np.float64))
    return centred / np.float32(spread) if spread > 1e-9 else np.zeros_like(scores)

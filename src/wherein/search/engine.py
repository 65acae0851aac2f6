"""A query → hits: encode its parts, score every image, combine, rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final, Protocol

import numpy as np

from wherein.arrays import Floats, Ints, Mask, unit
from wherein.encoders import Encoded, Encoder
from wherein.errors import QueryError
from wherein.features import LocalFeatures
from wherein.images.image import decode
from wherein.images.pyramid import QUERY_SCALES, levels
from wherein.index.exact import best
from wherein.indexing.embed import detail
from wherein.limits import checkpoint
from wherein.search.clips import best_of_each, others_of
from wherein.search.evidence import centrality, certain, fused, standardised
from wherein.search.local import LocalIndex, query_features
from wherein.search.method import STEPS, Method
from wherein.search.scorers import whole_embeddings
from wherein.search.style import asks_for_style, drawn_shares, lowered, style_note
from wherein.search.unknown import unknown_words
from wherein.search.verify import CHANCE
from wherein.search.views import View
from wherein.values.masks import check_aspect
from wherein.values.query import Part, Query
from wherein.values.region import Box, place_suffix

GAUSSIAN_SPREAD: Final = 0.5
"""Standard deviation of `~gaussian`, as a share of half the image: two thirds of the weight in the middle half."""


@dataclass(frozen=True, slots=True)
class Group:
    """Parts of one modality, sign and place: what they are compared with, where, and how much they count."""

    vectors: Floats
    where: Box | None
    weight: float
    photos: bool = False
    """Whether it is of texts that mean photographs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An image in a ranking that is being made: its number in the view, and what is known of it so far."""

    image: int
    score: float
    box: Box | None = None
    mask: Mask | None = None
    inliers: int | None = None
    others: tuple[int, ...] = ()
    """Other images of the same clip that answer too, best first."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Candidates, best first, and the kind of their scores."""

    candidates: tuple[Candidate, ...]
    score_kind: str
    scores: Floats | None = None
    """(images,) every image's score now, where the last step gave one to each; else they are as before it."""
    notes: tuple[str, ...] = ()
    """What a person should know about what was found, or why nothing was."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a step may use: what was asked, how, and what the collection keeps of each image."""

    query: Query
    method: Method
    encoder: Encoder
    view: View
    scores: Floats
    """(images,) the score of every image before the steps"""
    examples: tuple[tuple[Part, LocalFeatures], ...]
    """The query's examples and their local features, where the method looks at them."""
    allowed: Mask | None
    k: int


class Step(Protocol):
    """What is done with a ranking: verify it, expand it, locate in it."""

    depth: int
    """How many candidates it wants to see, at least."""

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The ranking after the step."""


@dataclass(frozen=True, slots=True)
class _Scored:
    """Every image's score by one kind of evidence, and where in an image it lies."""

    scores: Floats
    kind: str
    regions: Callable[[Ints], list[Box | None]]
    hits: Mask | None = None
    """(images,) those that share anything with the query; None: all do."""
    any_style: Floats | None = None
    """(images,) the scores before drawings were lowered, where they were."""


def rank(
    query: Query,
    view: View,
    *,
    encoder: Encoder,
    method: Method,
    k: int,
    allowed: Mask | None,
    clips: Ints | None = None,
) -> Ranked:
    """The best k images, among those `allowed`; with `clips` (images,), the clip of each, one image of a clip."""
    sources = [_by_embedding(query, view, encoder=encoder, method=method)] if method.embeds else []
    examples = _examples(query, view.local, alone=not sources)
    if method.words is not None and view.local is not None and examples:
        sources.append(_by_local_features(examples, view.local, method))
    scored = sources[0] if len(sources) == 1 else _fused(sources)
    unknown = unknown_words(query, encoder)
    # Where no word is known nothing was looked for, so there is nothing to outline.
    steps = [_load_step(word) for word in method.steps if word != "locate" or not unknown.all_words]
    every = _both(allowed, scored.hits)
    hits = every if clips is None else best_of_each(scored.scores, clips, every)
    top = best(scored.scores, k=max([k, *(step.depth for step in steps)]), allowed=hits)
    found = zip(top.images.tolist(), top.scores.tolist(), scored.regions(top.images), strict=True)
    ranked = Ranked(tuple(Candidate(image, score, box) for image, score, box in found), scored.kind)
    context = Context(query, method, encoder, view, scored.scores, examples, allowed if clips is None else hits, k)
    said = unknown.notes + _too_plain(examples)
    if scored.any_style is not None and len(top.scores):
        said += style_note(scored.any_style, scored.scores, last=float(top.scores[:k][-1]))
    for step in steps:
        checkpoint()
        ranked = step(context, ranked)
        said += ranked.notes
    now = scored.scores if ranked.scores is None else ranked.scores
    first = ranked.candidates[:k]
    if clips is not None:
        others = others_of([one.image for one in first], scored.scores, clips, every)
        first = tuple(replace(one, others=same) for one, same in zip(first, others, strict=True))
    return Ranked(first, ranked.score_kind, now, said)


def _both(allowed: Mask | None, hits: Mask | None) -> Mask | None:
    """What both let pass; None lets everything."""
    return hits if allowed is None else allowed if hits is None else allowed & hits


def reordered(ranked: Ranked, first: Sequence[Candidate], seen: Floats) -> Ranked:
    """The first candidates in the order of their score and of what was seen in them (n,), both standardised.

    The rest follow as they were.
    """
    totals = standardised(np.array([one.score for one in first], np.float32)) + standardised(seen)
    order = np.argsort(-totals, kind="stable")
    head = [replace(first[number], score=float(totals[number])) for number in order.tolist()]
    lowest = head[-1].score - first[-1].score
    rest = (replace(one, score=one.score + lowest) for one in ranked.candidates[len(first) :])
    return Ranked((*head, *rest), "standardised")


def no_surer(ranked: Ranked) -> Ranked:
    """Evidence stops where a hit is certain, so that one threshold keeps all that are; their order stays."""
    if ranked.score_kind != "evidence" or ranked.scores is None:
        return ranked
    most = certain(len(ranked.scores))
    return replace(ranked, candidates=tuple(replace(one, score=min(one.score, most)) for one in ranked.candidates))


def _examples(query: Query, local: LocalIndex | None, *, alone: bool) -> tuple[tuple[Part, LocalFeatures], ...]:
    """The local features of the query's examples; beside an encoder, a query without any is left to it."""
    if local is None or (not alone and all(part.image is None or part.negative for part in query.parts)):
        return ()
    return tuple(query_features(query, local.family))


def _too_plain(examples: Sequence[tuple[Part, LocalFeatures]]) -> tuple[str, ...]:
    return tuple(
        f"{part}: {len(found)} local features are too few to recognise anything by; {CHANCE} are needed. "
        "Give a larger or sharper picture, or search with an encoder, as --method mini."
        for part, found in examples
        if len(found) < CHANCE
    )


def _by_embedding(query: Query, view: View, *, encoder: Encoder, method: Method) -> _Scored:
    groups = asked_groups(query, encoder, method)
    each = [view.scorer.scores(group.vectors, group.where).max(axis=0) for group in groups]
    total, kind = _combined(groups, each), view.scorer.kind if len(groups) == 1 else "standardised"
    plain, drawn = None, _drawn(groups, view, encoder)
    if drawn is not None and drawn.any():
        each = [lowered(scores, drawn) if group.photos else scores for group, scores in zip(groups, each, strict=True)]
        plain, total = total, _combined(groups, each)
    first = groups[0]
    return _Scored(total, kind, lambda images: view.scorer.regions(first.vectors[0], first.where, images), None, plain)


def _combined(groups: Sequence[Group], each: Sequence[Floats]) -> Floats:
    """(images,) the scores of the only group, or the sum of what all of them contribute."""
    if len(groups) == 1:
        return each[0]
    parts = [_contribution(group.weight, scores) for group, scores in zip(groups, each, strict=True)]
    return np.asarray(np.sum(parts, axis=0), np.float32)


def _drawn(groups: Sequence[Group], view: View, encoder: Encoder) -> Floats | None:
    """(images,) how drawn each image looks, where a group means photographs."""
    rows = whole_embeddings(view.scorer) if any(group.photos for group in groups) else None
    return None if rows is None else drawn_shares(rows, encoder)


def _by_local_features(examples: Sequence[tuple[Part, LocalFeatures]], index: LocalIndex, method: Method) -> _Scored:
    """The kernel's scores, averaged over examples (or their maximum), less what is to be avoided."""
    tables = [
        part.weight * index.scores(found, part.where, worth=_worth(part, found, method))
        for part, found in examples
        if not part.negative
    ]
    table = np.max(tables, axis=0) if method.support == "max" else np.mean(tables, axis=0)
    avoided = [(part, index.scores(found, part.where).max(axis=1)) for part, found in examples if part.negative]
    total, kind = table.max(axis=1), index.score_kind
    hits = total != 0.0
    if avoided:
        weight = float(np.mean([part.weight for part, _ in examples if not part.negative]))
        parts = [weight * standardised(total), *(_contribution(-part.weight, scores) for part, scores in avoided)]
        total, kind = np.sum(parts, axis=0), "standardised"

    def regions(images: Ints) -> list[Box | None]:
        return index.best_regions(images, table[images])

    return _Scored(np.asarray(total, np.float32), kind, regions, hits)


def _worth(part: Part, found: LocalFeatures, method: Method) -> Floats | None:
    """How much each feature of an example counts.

    Beside an encoder, words say whether it is the very same thing: those in the middle of a photo are likely on it.
    """
    return centrality(found.keypoints[:, :2]) if method.embeds and part.region is None else None


def _fused(sources: Sequence[_Scored]) -> _Scored:
    """The sum of how much each kind of score stands out."""
    embedding, *local = sources
    return _Scored(fused(embedding.scores, [one.scores for one in local]), "evidence", embedding.regions)


def _load_step(word: str) -> Step:
    step_word, named, model = word.partition(":")
    module, _, name = STEPS[step_word].partition(":")
    found = getattr(import_module(module), name)
    step: Step = found(model) if named else found
    return step


def notes(query: Query, method: Method) -> tuple[str, ...]:
    """What a person should know about how the query was read."""
    said = [f"read “{part.said_where}” as a place: {part.where}" for part in query.parts if part.said_where is not None]
    unplaced = method.search in ("whole", "proposals", "pyramid") and "zoom" not in method.steps
    if unplaced and any(part.where is not None for part in query.parts):
        looks = "anywhere in the image" if method.search == "proposals" else "at the whole image"
        said.append(f"method {method.search} looks {looks}: the place was not used. Try --method static-36.")
    return tuple(said)


def asked_groups(query: Query, encoder: Encoder, method: Method) -> list[Group]:
    """Parts by sign, modality and place; the first group always looks for something."""
    gathered = dict[tuple[bool, bool, Box | None], list[Part]]()
    for part in query.parts:
        gathered.setdefault((part.negative, part.image is not None, part.where), []).append(part)
    groups = []
    for (_, is_image, where), parts in sorted(gathered.items(), key=lambda item: item[0][:2]):
        vectors = _embed_images(parts, encoder, method) if is_image else _embed_texts(parts, encoder, method)
        groups.append(_group(vectors, parts, where, method))
    return groups


def _group(vectors: Floats, parts: Sequence[Part], where: Box | None, method: Method) -> Group:
    weights = np.array([part.weight for part in parts], np.float32)
    if method.support == "mean":
        vectors = unit((weights[:, None] * vectors).sum(axis=0, keepdims=True))
    sign = -1.0 if parts[0].negative else 1.0
    plain = method.style == "photos" and method.context == "beside"
    photos = plain and sign > 0 and all(part.text is not None and not asks_for_style(part.text) for part in parts)
    return Group(vectors, where, sign * float(weights.mean()), photos)


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


def _embed_images(parts: Sequence[Part], encoder: Encoder, method: Method) -> Floats:
    # A whole example is decoded as it was indexed, so that every image finds itself; a region needs all its pixels.
    scales = QUERY_SCALES if method.search == "pyramid" else (1.0,)
    whole = detail(encoder, least=math.ceil(max(encoder.input_hw) * max(scales)))
    inputs, owners = [], []
    for number, part in enumerate(parts):
        if part.image is None:
            continue
        mask, box = part.pixels(), part.region
        image = decode(part.image, at_least=whole if box is None else None)
        if mask is not None:
            check_aspect(mask, size_wh=image.full_wh)
        # A mask says which pixels are meant; what surrounds them still says in what scene they are found.
        views = [image] if box is None else [image.crop(box)] if mask is None else [image.crop(box), image]
        if method.search == "pyramid":
            views = [level for view in views for level in levels(view, QUERY_SCALES)]
        inputs += [encoder.prepare(view) for view in views]
        owners += [number] * len(views)
    rows = _pooled(encoder.images(np.stack(inputs)), encoder, method)
    if len(rows) == len(parts):
        return rows
    return unit(np.stack([rows[np.array(owners) == number].sum(axis=0) for number in range(len(parts))]))


def _pooled(encoded: Encoded, encoder: Encoder, method: Method) -> Floats:
    """(n, d): one vector an image, as the method sums up what it shows."""
    if method.pooling == "summary":
        return encoded.global_
    if encoded.patches is None:
        raise QueryError(f"{encoder.spec} gives no patches, so ~gaussian has nothing to pool: leave it out.")
    rows, columns = (np.linspace(-1.0, 1.0, count) for count in encoded.patches.shape[1:3])
    weights = np.exp(-(rows[:, None] ** 2 + columns**2) / (2.0 * GAUSSIAN_SPREAD**2)).astype(np.float32)
    return unit(np.einsum("nhwd,hw->nd", encoded.patches, weights, optimize=True))


def _contribution(weight: float, scores: Floats) -> Floats:
    """What scores add. To be unlike what is avoided is no merit: only likeness above the average subtracts."""
    apart = standardised(scores)
    counted = apart if weight > 0 else np.maximum(apart, np.float32(0))
    return np.asarray(weight * counted, np.float32)

"""A query → a ranking: its parts become groups of vectors, groups find candidates, candidates are scored and combined
against the background, and the steps of the method are done with what was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, cast, runtime_checkable

import numpy as np

from wherein.arrays import Floats, Ints, Mask, unit
from wherein.encoders import Encoded, Encoder
from wherein.errors import QueryError
from wherein.features import LocalFeatures
from wherein.features.verify import CHANCE
from wherein.images.isolated import decode_given
from wherein.layers import detail
from wherein.limits import checkpoint
from wherein.search.background import Background
from wherein.search.clips import best_of_each, others_of
from wherein.search.fewshot import known_marks, learn_feedback
from wherein.search.local import LocalIndex, query_features
from wherein.search.reading import read_query
from wherein.search.signs import asked_otherwise
from wherein.search.sources import EmbeddingSource, FusedSource, Group, LocalSource, Source
from wherein.search.style import asks_for_style
from wherein.search.unknown import Unknown, unknown_words
from wherein.search.views import View, word_of
from wherein.values.masks import check_aspect
from wherein.values.method import Method, Option, declared_step
from wherein.values.query import Part, Query
from wherein.values.region import Box

GAUSSIAN_SPREAD: Final = 0.5
"""Standard deviation of `~gaussian`, as a share of half the image: half of the weight then lies in the middle half each
way. The SearchAD paper names the kernel and not its width."""


_TEXT, _IMAGE, _LABEL = range(3)
"""The kinds of parts, which are scored apart: their scores are spread differently."""


@runtime_checkable
class AsksAnew(Protocol):
    """An encoder whose examples are asked with other vectors than the ones that images are stored with."""

    def asked_images(self, vectors: Floats) -> Floats:
        """Embeddings of example images (n, d) as they are asked with."""


@runtime_checkable
class KnowsPlaces(Protocol):
    """An encoder that compares what it learnt with patches by other vectors than with whole images."""

    def texts_of_places(self, texts: Sequence[str]) -> Floats:
        """Embeddings of texts (n, d) to be compared with patches."""


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
    source: Source | None = None
    """What scores any other image as these were, and knows their background; None where nothing was searched."""
    notes: tuple[str, ...] = ()
    """What a person should know about what was found, or why nothing was."""
    groups: tuple[Group, ...] = ()
    """What was looked for by an encoder, once the ranking is done."""
    unknown: Unknown = field(default_factory=Unknown)
    """Words of the query that the encoder cannot know, once the ranking is done."""
    read: Query | None = None
    """The query as the encoder read it, once the ranking is done."""
    allowed: Mask | None = None
    """The images that were searched, once the ranking is done; None: every one."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a step may use: what was asked, how, and what the collection keeps of each image."""

    query: Query
    method: Method
    encoder: Encoder
    view: View
    examples: tuple[tuple[Part, LocalFeatures], ...]
    """The query's examples and their local features, where the method looks at them."""
    allowed: Mask | None
    k: int


class Step(Protocol):
    """What is done with a ranking: verify it, expand it, locate in it. One step is one file that declares itself."""

    name: str
    summary: str
    """One line for people: what it does."""
    options: tuple[Option, ...]
    layers: tuple[str, ...]
    """The layers that it reads beside those that were searched."""
    uses_place: bool
    """Whether it looks at the place that a query names."""
    depth: int
    """How many candidates it wants to see, at least."""

    def needs_local(self, method: Method) -> bool:
        """Whether it reads local features."""

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The ranking after the step."""


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
    query, read = read_query(query, encoder) if method.embeds else (query, ())
    sources, groups, learnt = list[Source](), list[Group](), tuple[str, ...]()
    if method.embeds:
        groups, learnt = _learnt_groups(query, view, encoder, method)
        sources.append(EmbeddingSource(groups, view, encoder))
    examples = _examples(query, view.local, alone=not sources)
    if method.words is not None and view.local is not None and examples:
        sources.append(LocalSource(examples, view.local, method))
    source = sources[0] if len(sources) == 1 else FusedSource(sources[0], sources[1:])
    unknown = unknown_words(query, encoder)
    # Where no word is known nothing was looked for, so there is nothing to outline.
    steps = [load_step(word) for word in method.steps if word != "locate" or not unknown.all_words]
    every, depth = source.findable(allowed), max([k, *(step.depth for step in steps)])
    hits = every if clips is None else best_of_each(source, clips, every, depth=depth)
    top = source.top(depth, hits)
    found = zip(top.images.tolist(), top.scores.tolist(), source.regions(top.images), strict=True)
    ranked = Ranked(tuple(Candidate(image, score, box) for image, score, box in found), source.kind, source)
    context = Context(query, method, encoder, view, examples, allowed if clips is None else hits, k)
    said = read + learnt + unknown.notes + _too_plain(examples) + source.notes(top, k, every)
    for step in steps:
        checkpoint()
        ranked = step(context, ranked)
        said += ranked.notes
    first = ranked.candidates[:k]
    if clips is not None:
        others = others_of([one.image for one in first], source, clips, every)
        first = tuple(replace(one, others=same) for one, same in zip(first, others, strict=True))
    return replace(
        ranked, candidates=first, notes=said, groups=tuple(groups), unknown=unknown, read=query, allowed=allowed
    )


def load_step(word: str) -> Step:
    """The step of a word."""
    return cast(Step, declared_step(word))


def reordered(ranked: Ranked, first: Sequence[Candidate], seen: Floats) -> Ranked:
    """The first candidates in the order of their score and of what was seen in them (n,), both standardised.

    The rest follow as they were.
    """
    own = np.array([one.score for one in first], np.float32)
    totals = Background.of(own).standardise(own) + Background.of(seen).standardise(seen)
    order = np.argsort(-totals, kind="stable")
    head = [replace(first[number], score=float(totals[number])) for number in order.tolist()]
    lowest = head[-1].score - first[-1].score
    rest = (replace(one, score=one.score + lowest) for one in ranked.candidates[len(first) :])
    return Ranked((*head, *rest), "standardised", ranked.source)


def _examples(query: Query, local: LocalIndex | None, *, alone: bool) -> tuple[tuple[Part, LocalFeatures], ...]:
    """The local features of the query's examples; beside an encoder, a query without any is left to it."""
    if local is None or (not alone and all(part.image is None or part.negative for part in query.parts)):
        return ()
    return tuple(query_features(query, local.family))


def _too_plain(examples: Sequence[tuple[Part, LocalFeatures]]) -> tuple[str, ...]:
    return tuple(
        f"{part}: {len(found)} local features are too few to recognise anything by; {CHANCE} are needed. "
        "Give a larger or sharper picture, or search with an encoder, as by the method mini."
        for part, found in examples
        if len(found) < CHANCE
    )


def notes(query: Query, method: Method) -> tuple[str, ...]:
    """What a person should know about how the query was read."""
    said = [f"read “{part.said_where}” as a place: {part.where}" for part in query.parts if part.said_where is not None]
    word = word_of(method)
    used = word.uses_place or any(load_step(step).uses_place for step in method.steps)
    if not used and any(part.where is not None for part in query.parts):
        said.append(f"method {word.name} looks {word.looks}: the place was not used. Try the method static-36.")
    return tuple(said)


def asked_groups(query: Query, encoder: Encoder, method: Method) -> list[Group]:
    """Parts by sign, modality and place; the first group always looks for something."""
    return _groups_of(query.parts, encoder, method)


def _groups_of(asked: Sequence[Part], encoder: Encoder, method: Method) -> list[Group]:
    gathered = dict[tuple[bool, int, Box | None], list[Part]]()
    for part in asked:
        kind = _IMAGE if part.image is not None else _TEXT if part.trained_label is None else _LABEL
        gathered.setdefault((part.negative, kind, part.where), []).append(part)
    groups = []
    for (_, kind, where), parts in sorted(gathered.items(), key=lambda item: item[0][:2]):
        if kind == _IMAGE:
            groups.append(_group(_embed_images(parts, encoder, method), parts, where, method))
        else:
            vectors, otherwise = _embed_texts(parts, encoder, method)
            groups.append(replace(_group(vectors, parts, where, method), otherwise=otherwise))
    return groups


def _learnt_groups(query: Query, view: View, encoder: Encoder, method: Method) -> tuple[list[Group], tuple[str, ...]]:
    """The groups to search with, and what a person is told: learnt from marked images where there are enough of them.

    What a classifier cannot learn from (regions, places, texts to avoid) is looked for or avoided beside it.
    """
    marks = known_marks(query, view)
    if marks is None:
        return asked_groups(query, encoder, method), ()
    words = [part for part in marks.others if part.text is not None and not part.negative and part.where is None]
    rest = [part for part in marks.others if part not in words]
    text = None
    if words:
        weights = np.array([[part.weight] for part in words], np.float32)
        text = unit((weights * _embed_texts(words, encoder, method)[0]).sum(axis=0))
    vector = learn_feedback(marks.right, marks.wrong, view.layers.usual, text=text)
    learnt = Group(vector[None], None, 1.0, of_images=True, learnt=True)
    return [learnt, *_groups_of(rest, encoder, method)], (marks.note,)


def _group(vectors: Floats, parts: Sequence[Part], where: Box | None, method: Method) -> Group:
    weights = np.array([part.weight for part in parts], np.float32)
    if method.choice("query", "support") == "mean":
        vectors = unit((weights[:, None] * vectors).sum(axis=0, keepdims=True))
    sign = -1.0 if parts[0].negative else 1.0
    plain = method.choice("query", "style") == "photos" and method.choice("search", "context") != "alone"
    photos = plain and sign > 0 and all(_means_photographs(part) for part in parts)
    regions = not all(part.is_whole for part in parts)
    marks, weight = all(part.is_mark for part in parts), sign * float(weights.mean())
    return Group(vectors, where, weight, photos, parts[0].image is not None, regions, of_marks=marks)


def _means_photographs(part: Part) -> bool:
    """Whether a part is plain words: a trained label has learnt from its examples what it means."""
    return part.text is not None and part.trained_label is None and not asks_for_style(part.text)


def _embed_texts(parts: Sequence[Part], encoder: Encoder, method: Method) -> tuple[Floats, Floats | None]:
    """(m, d) the texts of parts; and, where it is one name, (1, d) the same asked otherwise."""
    if not encoder.embeds_text:
        raise QueryError(f"{encoder.spec} does not understand text: give an example image.")
    word = word_of(method)
    texts = [word.wording(part) if part.trained_label is None else part.text or "" for part in parts]
    if word.name == "patches" and isinstance(encoder, KnowsPlaces):
        return encoder.texts_of_places(texts), None
    other = asked_otherwise(texts[0]) if len(parts) == 1 and parts[0].trained_label is None else None
    if other is None:
        return encoder.texts(texts), None
    found = encoder.texts([*texts, other])  # together they take hardly longer than one
    return found[:1], found[1:]


def _embed_images(parts: Sequence[Part], encoder: Encoder, method: Method) -> Floats:
    # A whole example is decoded as it was indexed, so that every image finds itself; a region needs all its pixels.
    word = word_of(method)
    whole = detail(encoder, least=math.ceil(max(encoder.input_hw) * max(word.scales)))
    inputs, owners = [], []
    for number, part in enumerate(parts):
        if part.image is None:
            continue
        mask, box = part.pixels(), part.region
        image = decode_given(part.image, at_least=whole if box is None else None)
        if mask is not None:
            check_aspect(mask, size_wh=image.full_wh)
        # A mask says which pixels are meant; what surrounds them still says in what scene they are found.
        views = [image] if box is None else [image.crop(box)] if mask is None else [image.crop(box), image]
        views = [one for view in views for one in word.views(view)]
        inputs += [encoder.prepare(view) for view in views]
        owners += [number] * len(views)
    rows = _pooled(encoder.images(np.stack(inputs)), encoder, method)
    rows = encoder.asked_images(rows) if isinstance(encoder, AsksAnew) else rows
    if len(rows) == len(parts):
        return rows
    return unit(np.stack([rows[np.array(owners) == number].sum(axis=0) for number in range(len(parts))]))


def _pooled(encoded: Encoded, encoder: Encoder, method: Method) -> Floats:
    """(n, d): one vector an image, as the method sums up what it shows."""
    if method.choice("query", "pooling") == "summary":
        return encoded.global_
    if encoded.patches is None:
        raise QueryError(f"{encoder.spec} gives no patches, so ~gaussian has nothing to pool: leave it out.")
    rows, columns = (np.linspace(-1.0, 1.0, count) for count in encoded.patches.shape[1:3])
    weights = np.exp(-(rows[:, None] ** 2 + columns**2) / (2.0 * GAUSSIAN_SPREAD**2)).astype(np.float32)
    return unit(np.einsum("nhwd,hw->nd", encoded.patches, weights, optimize=True))

"""Predicted labels of every image, tags that follow from them, and what a person should look at next.

A part of the facade. What people say (tags, answers, examples) is never changed by a prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, Unpack

import numpy as np

from wherein.arrays import Floats, Ints
from wherein.errors import InputError, did_you_mean
from wherein.options import DEFAULT_CUT, Asked, Filters, flag, only_filters, require_tag, whole_number
from wherein.search.calibrate import ODDS, source_of
from wherein.search.decide import shown
from wherein.search.head import CURVE_LEAST
from wherein.search.scorers import RowScorer
from wherein.training.encoder import TrainedEncoder
from wherein.training.learning import Learning
from wherein.values.labelling import Answer, Predicted, Prediction
from wherein.values.method import Method
from wherein.values.records import Filter
from wherein.values.training import LABEL_PREFIX

_BLOCK: Final = 8192
"""Images whose embeddings are read at once: 16 MB of `mini`'s 512 numbers each."""


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """What one label says of images: their keys, the cosines with its vector, and confidences, where it has some."""

    keys: Ints
    cosines: Floats
    confidences: Floats | None

    def unsure_first(self) -> Ints:
        """The order in which a person should look: nearest to a confidence of 0.5; without any, by the score."""
        if self.confidences is None:
            return np.asarray(np.argsort(-self.cosines, kind="stable"), np.int64)
        return np.asarray(np.argsort(np.abs(self.confidences - 0.5), kind="stable"), np.int64)


class Labelling(Learning):
    """What trained labels say of the images, and what people say of that."""

    def tag(self, tag: str, image_ids: Iterable[str]) -> None:
        """Tag images."""
        raise NotImplementedError

    def untag(self, tag: str, image_ids: Iterable[str]) -> None:
        """Take a tag off images."""
        raise NotImplementedError

    def _keys(self, image_ids: str | Iterable[str | Iterable[str]]) -> list[int]:
        raise NotImplementedError

    def _passing(self, filter_: Filter) -> list[tuple[int, str]]:
        raise NotImplementedError

    def label(
        self,
        name: str,
        *,
        labels: Sequence[str] | None = None,
        min_confidence: float = DEFAULT_CUT,
        tag: bool = False,
        **filters: Unpack[Filters],
    ) -> Predicted:
        """What the labels of something trained say of every image, or of those that pass the filters.

        Only predictions of `min_confidence` and more are given. With `tag`, such images get the label as a tag, unless
        a person has said something of that image and label already; `unlabel` takes the tags back.
        """
        if not 0.0 <= min_confidence <= 1.0:
            raise InputError(f"min_confidence {min_confidence}: give a number from 0 to 1.")
        encoder = self._knowing(name)
        wanted, notes = _chosen(encoder, labels), tuple[str, ...]()
        for label in wanted if tag else ():
            require_tag(label)
        names = dict(self._passing(only_filters(filters)))
        found, tags, left = list[Prediction](), dict[str, list[str]](), 0
        for label in wanted:
            scored = self._scored(encoder, label, frozenset(names))
            if scored.confidences is None:
                needed = f"{CURVE_LEAST} right and {CURVE_LEAST} wrong ones, of all labels together"
                notes += (f"{label}: has no confidence yet, so nothing is predicted; give more examples: {needed}.",)
                continue
            mine = self._predicted(label, scored, names, least=min_confidence)
            found += mine
            if tag:
                said, tagged = self._said_of(encoder, label), frozenset(self._tagged_by(label))
                tags[label] = [one.image_id for one in mine if one.image_id not in said | tagged]
                left += sum(one.image_id in said for one in mine)
        step = self._tagged({label: image_ids for label, image_ids in tags.items() if image_ids})
        return Predicted(encoder.spec, tuple(found), sum(map(len, tags.values())), left, step, notes)

    def review(self, name: str, label: str, *, k: int = 20) -> list[Prediction]:
        """The k images whose label is least certain, of those that nobody has said anything of, first the least.

        A label without a confidence is asked where it scores highest.
        """
        encoder = self._knowing(name)
        (own,), most = _chosen(encoder, [label]), whole_number("k", k, least=1)
        said = self._said_of(encoder, own)
        names = {key: image_id for key, image_id in self._passing(Filter()) if image_id not in said}
        scored = self._scored(encoder, own, frozenset(names))
        first = scored.unsure_first()[:most]
        sure = None if scored.confidences is None else scored.confidences[first]
        return self._predicted(own, _Scored(scored.keys[first], scored.cosines[first], sure), names, ordered=False)

    def answer(self, name: str, label: str, image_id: str, *, right: bool) -> Answer:
        """Say whether a label is right for an image: the next training learns from it, and the tag follows.

        An image that is right gets the tag; one that is not loses it.
        """
        flag("right", right)
        encoder = self._knowing(name)
        (own,), (key,) = _chosen(encoder, [label]), self._keys([image_id])
        require_tag(own)
        tagged = own in self._store.catalogue.tags(key)
        with self._keeping():
            step = self._answers.answer(own, image_id, right=right, tagged=tagged)
            number = self._answers.last
        self._turn(step.tagged, step.untagged)
        told = "tagged" if step.tagged else "its tag was taken off" if step.untagged else "kept for the next training"
        return Answer(own, image_id, right, number, f"{image_id}: {'is' if right else 'is not'} {own}; {told}.")

    def unlabel(self, step: int | None = None) -> str:
        """Take back tags that `label` gave, or an answer: one step, the last unless given. Says so in a sentence."""
        with self._keeping():
            undone = self._answers.undo(step)
        self._turn(undone.untagged, undone.tagged)
        answers = sum(map(len, undone.said.values()))
        tags = sum(map(len, undone.tagged.values()))
        return "1 answer was taken back." if answers else f"{tags:,} tag{'' if tags == 1 else 's'} taken off again."

    def _by_trained(self, asked: Asked) -> Asked:
        """The search by the one trained encoder that knows all labels of the query, where no method names another."""
        wanted = {part.trained_label for part in asked.query.parts} - {None}
        if not wanted or asked.method.encoder is not None or not asked.method.embeds:
            return asked
        knowing = [card.spec for card in self.trained() if wanted <= {one.label for one in card.labels}]
        if len(knowing) != 1:
            return asked
        return replace(asked, method=replace(asked.method, encoder=knowing[0]))

    def _knowing(self, name: str) -> TrainedEncoder:
        """The trained encoder of that name, which has labels."""
        self._store.refresh()
        card = self.trained_card(name)
        encoder = self._trained_encoder(card.spec)
        if not isinstance(encoder, TrainedEncoder) or not encoder.head.labels:
            raise InputError(
                f"{card.spec}: has no labels, it is of kind {card.kind}. Train a head: wherein train NAME."
            )
        return encoder

    def _keeping(self) -> AbstractContextManager[None]:
        return self._store.keeping()

    def _said_of(self, encoder: TrainedEncoder, label: str) -> frozenset[str]:
        """Images of which people have said something as far as a label goes: tags, answers, examples."""
        tagged = set(self._tagged_by(label)).difference(self._answers.pushed().get(label, ()))
        return frozenset(tagged | set(self._answers.said().get(label, ())) | encoder.taught(label))

    def _scored(self, encoder: TrainedEncoder, label: str, among: frozenset[int]) -> _Scored:
        """The scores of images with these keys, as a search for the label gives them."""
        asked = Asked.of(f"{LABEL_PREFIX}{label}", {"method": Method(encoder=encoder.spec)})
        view = self._views.of(encoder, asked.method)
        if not isinstance(view.scorer, RowScorer):
            raise InputError(f"{encoder.spec}: keeps no embedding of whole images, so labels cannot be predicted.")
        numbers = np.flatnonzero(np.isin(view.images, np.fromiter(among, np.int64, len(among))))
        vector = encoder.texts([f"{LABEL_PREFIX}{label}"])[0]
        blocks = [numbers[start : start + _BLOCK] for start in range(0, len(numbers), _BLOCK)]
        found = [view.scorer.table.vectors(block) @ vector for block in blocks]
        cosines = np.concatenate([np.zeros(0, np.float32), *found])
        curve = encoder.label_curve(label)
        if curve is None:
            return _Scored(view.images[numbers], cosines, None)
        source = source_of(asked.query, asked.method, kind=ODDS, encoder=encoder, family=None)
        judged = self._curves.of(source, asked.query)
        odds = np.asarray(curve.offset + curve.slope * cosines, np.float32)
        return _Scored(view.images[numbers], cosines, odds if judged is None else judged.confidence(odds))

    def _predicted(
        self, label: str, scored: _Scored, names: dict[int, str], *, least: float = 0.0, ordered: bool = True
    ) -> list[Prediction]:
        """Predictions that are sure enough, the surest first where they are to be `ordered`."""
        sure: list[float | None] = [None] * len(scored.keys)
        if scored.confidences is not None:
            sure = list(shown(scored.confidences))
        rows = zip(scored.keys.tolist(), sure, scored.cosines.tolist(), strict=True)
        kept = [one for one in rows if one[1] is None or one[1] >= least]
        found = [
            Prediction(names[key], label, own, cosine, self._store.catalogue.describe(key)[0].size_wh)
            for key, own, cosine in kept
        ]
        return sorted(found, key=lambda one: (-one.score, one.image_id)) if ordered else found

    def _tagged(self, tags: dict[str, list[str]]) -> int | None:
        """Give tags, and remember that no person did; the number of the step."""
        if not tags:
            return None
        with self._keeping():
            step = self._answers.push(tags)
        self._turn(tags, {})
        return step

    def _turn(self, tagged: dict[str, list[str]], untagged: dict[str, list[str]]) -> None:
        """Put tags on and take others off, for images that are still here."""
        living = {image_id for _, image_id in self._store.catalogue.live_images()}
        for change, tags in ((self.tag, tagged), (self.untag, untagged)):
            for label, image_ids in tags.items():
                change(label, [one for one in image_ids if one in living])


def _chosen(encoder: TrainedEncoder, labels: Sequence[str] | None) -> tuple[str, ...]:
    """The labels to look at; an unknown one is answered with the known."""
    known = encoder.head.labels
    for label in labels or ():
        if label not in known:
            there = ", ".join(known)
            raise InputError(
                f"{encoder.spec} has learnt no label {label!r}; it knows: {there}.{did_you_mean(label, known)}"
            )
    return known if labels is None else tuple(dict.fromkeys(labels))

"""Training in a collection: from what its images are called to what can be searched with. A part of the facade."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats, unit
from wherein.encoders import Encoder, load
from wherein.errors import ImageNotFound, InputError
from wherein.images.image import ImageLike
from wherein.index.rows import RowTable
from wherein.indexing.names import ids_of
from wherein.parallel import default_workers
from wherein.search.bank import bank_of
from wherein.search.head import Learnt, Marks, Usual, learn_head, standings
from wherein.search.judgements import Curves
from wherein.search.scorers import RowScorer
from wherein.search.views import Views
from wherein.store.store import Store
from wherein.training.answers import AnswerBook
from wherein.training.encoder import (
    TrainedEncoder,
    head_numbers,
    learnt_from,
    learnt_numbers,
    require_no_labels,
    trained_encoder,
)
from wherein.training.examples import (
    Examples,
    as_numbers,
    from_coco,
    from_judgements,
    from_numbers,
    from_tags,
    read_coco,
    texts_of,
    with_answers,
)
from wherein.training.kept import Arrays, Checkpoint, TrainedHere, check_name
from wherein.training.places import GRIDS_MOST, place_vectors
from wherein.values.method import Method
from wherein.values.query import Query
from wherein.values.records import Filter, Progress
from wherein.values.training import Card, LabelFigures, said_label

KINDS: Final = ("head", "adapter", "full")
SOURCES: Final = ("tags", "judgements")
"""Where labels come from, beside files and documents of COCO."""
AGAIN: Final = "again"
"""The source of what is trained once more: what it was trained from, and what was answered since."""
LabelSource = str | os.PathLike[str] | Mapping[str, Any]
"""`tags`, `judgements`, `again`, the path of a COCO file, or a COCO document."""
OnProgress = Callable[[Progress], None]
_SAVE_SECONDS: Final = 1.0
"""How often what is done so far is written to disk: what a person loses by Ctrl-C, at most."""


class Learning:
    """What a collection learns from labels."""

    _store: Store
    _views: Views
    _curves: Curves
    _trained_known: dict[str, tuple[int, Encoder]]

    @property
    def encoder(self) -> str:
        """The spec of the encoder that serves searches."""
        raise NotImplementedError

    def _encoder(self, spec: str) -> Encoder:
        raise NotImplementedError

    def train(
        self,
        name: str,
        source: LabelSource = "tags",
        *,
        encoder: str | None = None,
        kind: str = "head",
        labels: Sequence[str] | None = None,
        seed: int = 0,
        on_progress: OnProgress = lambda _: None,
    ) -> Card:
        """Learn labels from tags, judgements or a COCO file; afterwards `method="mini:NAME"` knows `label:LABEL`.

        What was answered in reviews counts too; the source `again` trains NAME as it was trained before. `kind` is a
        `head` (labels, in seconds, on stored embeddings), an `adapter` (texts and examples are understood as they are
        used here), or `full` (the model itself, with torch; index with it afterwards). Where it is stopped, by an error
        that `on_progress` raises or from outside, what is learnt so far stays, and the same call goes on from there.
        """
        if kind not in KINDS:
            raise InputError(f"kind {kind!r}: give one of {', '.join(KINDS)}.")
        self._store.refresh()
        before = self._here.card(name) if source == AGAIN else None
        kind = kind if before is None else before.kind
        base = self._encoder(encoder or (self.encoder if before is None else before.encoder))
        if isinstance(base, TrainedEncoder):
            raise InputError(f"{base.spec}: is trained already; train on {base.stored_by.spec}.")
        check_name(name, base.spec)
        if kind == "full":
            from wherein.training.towers import require_trainable

            require_trainable(base)
        said, examples = (source_name(source), self._examples(source)) if before is None else self._taught(before)
        examples, started = with_answers(examples, self._answers.said()).usable(labels), time.perf_counter()
        if kind != "full":
            table, rows = self._rows(base, examples)
            examples, rows = _present(examples, rows)
        card = Card(
            name=name,
            encoder=base.spec,
            digest=base.digest,
            kind=kind,
            source=said,
            made=date.today().isoformat(),
            seed=seed,
            images=len(examples.image_ids),
            labels=(),
            notes=examples.notes,
        )
        model: Path | None = None
        if kind == "full":
            (trained, model), numbers = self._trained_full(card, examples, on_progress), Arrays()
        else:
            learn = self._trained_head if kind == "head" else self._trained_adapter
            trained, numbers = learn(card, base, examples, rows, usual=table, on_progress=on_progress)
        numbers |= as_numbers(examples)
        trained = replace(trained, seconds=round(time.perf_counter() - started, 3))
        with self._store.keeping():
            self._here.save(trained, numbers, model=model)
        if model is not None:
            shutil.rmtree(model.parent, ignore_errors=True)
        return trained

    def trained(self) -> list[Card]:
        """The cards of everything that was trained here, by name."""
        return self._here.cards()

    def trained_card(self, name: str) -> Card:
        """The card of something trained."""
        return self._here.card(name)

    def remove_trained(self, name: str) -> None:
        """Forget something trained; the images and their embeddings stay as they are."""
        with self._store.keeping():
            self._here.remove(name)

    def export_trained(self, name: str) -> bytes:
        """Something trained as one ZIP archive, for another collection of the same encoder."""
        return self._here.exported(name)

    def import_trained(self, data: bytes, *, name: str | None = None) -> Card:
        """Take in what `export_trained` gave, under its own name or another."""
        with self._store.keeping():
            return self._here.take_in(data, name=name)

    @property
    def _here(self) -> TrainedHere:
        return TrainedHere(self._store.folder)

    def _trained_encoder(self, spec: str) -> Encoder | None:
        """The encoder of `mini:NAME`; None where nothing of that name is trained on that encoder here."""
        card = self._here.of_spec(spec)
        if card is None:
            return None
        stamp, known = self._here.stamp(card.name), self._trained_known.get(spec)
        if known is None or known[0] != stamp:
            made: Encoder
            if card.kind == "full":
                made = self._loaded(spec, threads=default_workers())
            else:
                made = trained_encoder(self._encoder(card.encoder), card, self._here.numbers(card.name))
            known = self._trained_known[spec] = (stamp, made)
        return known[1]

    def _refuse_labels(self, query: Query, encoder: Encoder) -> None:
        """Refuse labels that an encoder has not learnt, before anything is loaded for them."""
        if isinstance(encoder, TrainedEncoder):
            return
        texts = [part.text for part in query.parts if said_label(part.text) is not None]
        if texts:
            require_no_labels([text or "" for text in texts], encoder.spec, self.trained())

    @property
    def _answers(self) -> AnswerBook:
        return AnswerBook(self._store.folder)

    def _taught(self, card: Card) -> tuple[str, Examples]:
        """What something was trained from, and its labels as they are now; those of a file as they were."""
        kept = from_numbers(self._here.numbers(card.name))
        labels = kept.labels or [one.label for one in card.labels]
        return card.source, self._examples(card.source).only(labels) if card.source in SOURCES else kept

    def _examples(self, source: LabelSource) -> Examples:
        """The labels of a source, for images that are here."""
        if isinstance(source, Mapping):
            return from_coco(source, self._resolved, name="the COCO document")
        if source == "tags":
            tags = self._store.catalogue.tags()
            return from_tags({tag: self._tagged_by(tag) for tag in tags}, given=self._answers.pushed())
        if source == "judgements":
            return from_judgements(self._curves.judged().values())
        path = Path(source)
        if path.suffix.lower() != ".json":
            raise InputError(f"labels from {str(path)!r}: give {', '.join(SOURCES)} or a COCO file, FILE.json.")
        return from_coco(read_coco(path), self._resolved, name=str(path))

    def _tagged_by(self, tag: str) -> list[str]:
        return [image_id for _, image_id in self._store.catalogue.live_images(Filter(tags=(tag,)))]

    def _resolved(self, name: str) -> str | None:
        try:
            found = ids_of(self._store, name)
        except (ImageNotFound, InputError):
            return None
        return found[0] if len(found) == 1 else None

    def _rows(self, encoder: Encoder, examples: Examples) -> tuple[Usual, Floats]:
        """What is usual in the collection, and the embeddings (n, d) of the examples; NaN for those that left."""
        table, numbers, sample = self._whole(encoder, examples.image_ids)
        rows = np.full((len(numbers), encoder.dim), np.nan, np.float32)
        here = np.flatnonzero(numbers >= 0)
        rows[here] = table.vectors(numbers[here])
        return Usual.of(table.vectors(sample)), rows

    def _whole(self, encoder: Encoder, image_ids: Sequence[str]) -> tuple[RowTable, Any, Any]:
        """The embeddings of whole images, the numbers of these images among them (−1: not there), and the sample."""
        if not self._store.manifest.layers:
            raise InputError(f"{self._store.folder}: nothing is indexed yet. Run `wherein index FOLDER` first.")
        view = self._views.of(encoder, Method(search="whole"))
        if not isinstance(view.scorer, RowScorer):
            raise InputError(f"{encoder.spec}: keeps no embedding of whole images, so nothing can be learnt on it.")
        numbers = {key: number for number, key in enumerate(view.images.tolist())}
        keys = (self._store.catalogue.image_at(image_id) for image_id in image_ids)
        return view.scorer.table, np.array([numbers.get(key, -1) for key in keys], np.int64), view.sample

    def _picture(self, image_id: str) -> ImageLike:
        """An image to look at."""
        raise NotImplementedError

    def _loaded(self, spec: str, *, threads: int) -> Encoder:
        """The encoder of a spec, for indexing: one that comes from a plug-in, or one that was fine-tuned here."""
        card = self._here.of_spec(spec)
        if card is None or card.kind != "full":
            return load(spec, threads=threads)
        from wherein.training.tuning import fine_tuned

        return fine_tuned(spec, self._here.model(card.name), threads=threads)

    def _trained_full(self, card: Card, examples: Examples, on_progress: OnProgress) -> tuple[Card, Path]:
        """A fine-tuned model, and its card; what is done so far lies in a folder of its own."""
        from wherein.training.tuning import trained_full

        living = {image_id for _, image_id in self._store.catalogue.live_images()}
        there = np.array([image_id in living for image_id in examples.image_ids])
        examples = _left_out(examples, there)
        checkpoint = self._checkpoint(card, examples, np.zeros(0, np.float32))
        folder = checkpoint.path.with_suffix("")
        own = self._loaded(card.encoder, threads=default_workers())
        return trained_full(card, examples, own, picture=self._picture, folder=folder, on_progress=on_progress)

    def _checkpoint(self, card: Card, examples: Examples, rows: Floats) -> Checkpoint:
        """How far this very training is."""
        made_of = (card.digest, card.kind, card.seed, examples.labels, examples.image_ids, examples.marks, rows)
        return Checkpoint.of(self._store.folder, card.name, *made_of)

    def _trained_adapter(
        self, card: Card, base: Encoder, examples: Examples, rows: Floats, *, usual: Usual, on_progress: OnProgress
    ) -> tuple[Card, Arrays]:
        """An adapter of these examples, and the card with its figures."""
        from wherein.training.adapting import trained_adapter

        return trained_adapter(
            card,
            base,
            examples,
            rows,
            usual=usual,
            bank=bank_of(base, self._store.derived.array),
            checkpoint=self._checkpoint(card, examples, rows),
            on_progress=on_progress,
        )

    def _trained_head(
        self, card: Card, base: Encoder, examples: Examples, rows: Floats, *, usual: Usual, on_progress: OnProgress
    ) -> tuple[Card, Arrays]:
        """A head of these examples, and the card with its figures."""
        checkpoint, total = self._checkpoint(card, examples, rows), len(examples.labels)
        saved = time.monotonic()

        def step(learnt: dict[int, tuple[Learnt, Learnt]]) -> None:
            nonlocal saved
            try:
                on_progress(Progress(len(learnt), total, stage=f"learning {card.name}"))
                due = time.monotonic() - saved >= _SAVE_SECONDS
            except BaseException:
                checkpoint.write(learnt_numbers(learnt))
                raise
            if due:
                checkpoint.write(learnt_numbers(learnt))
                saved = time.monotonic()

        texts = texts_of(examples, base.texts) if base.embeds_text else None
        known = learnt_from(checkpoint.read())
        head, learnt = learn_head(
            rows, examples.marks, usual, labels=examples.labels, texts=texts, known=known, on_label=step
        )
        figures = tuple(
            _figures(
                label,
                rows,
                examples.marks[:, number],
                learnt[number],
                head.curves[number] is not None,
                text=None if texts is None else texts[number],
            )
            for number, label in enumerate(examples.labels)
        )
        checkpoint.clear()
        places, taught = self._places_of(base, examples, texts, head.vectors, seed=card.seed)
        notes = (f"{', '.join(taught)}: boxes taught what patches of it look like.",) if taught else ()
        numbers = head_numbers(head) | ({"place_vectors": places} if taught else {})
        return replace(card, labels=figures, notes=(*card.notes, *notes)), numbers

    def _places_of(
        self, base: Encoder, examples: Examples, texts: Floats | None, vectors: Floats, *, seed: int
    ) -> tuple[Floats, tuple[str, ...]]:
        """What labels are compared with patches by, and the labels that boxes taught something of."""
        view = self._views.of(base, Method(search="whole"))
        _, numbers, sample = self._whole(base, examples.image_ids)
        patches = [view.grid(int(one), kind="patches", encoder=base) for one in _evenly(sample) if examples.boxes]
        return place_vectors(
            examples,
            lambda row: view.grid(int(numbers[row]), kind="patches", encoder=base),
            [own for own in patches if own is not None],
            basis=base.patch_basis,
            texts=texts,
            vectors=vectors,
            seed=seed,
        )


def _evenly(sample: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return sample[:: max(1, -(-len(sample) // GRIDS_MOST))]


def source_name(source: LabelSource) -> str:
    """Where labels came from, in a word or two."""
    if isinstance(source, Mapping):
        return "a COCO document"
    return str(source) if source in SOURCES else Path(source).name


def _present(examples: Examples, rows: Floats) -> tuple[Examples, Floats]:
    """The examples that have an embedding, and their embeddings."""
    here = np.isfinite(rows[:, 0]) if rows.size else np.zeros(0, np.bool_)
    left = _left_out(examples, here)
    places = {image_id: row for row, image_id in enumerate(examples.image_ids)}
    return left, rows[[places[image_id] for image_id in left.image_ids]]


def _left_out(examples: Examples, here: npt.NDArray[np.bool_]) -> Examples:
    """The examples that are `here` (n,); images that left since they were labelled are counted in a note."""
    if here.all() and len(here):
        return examples
    gone = [image_id for image_id, there in zip(examples.image_ids, here.tolist(), strict=True) if not there]
    note = f"{len(gone):,} labelled images are not in the collection any more, or not described by its encoder."
    marks = np.where(here[:, None], examples.marks, np.int8(0)).astype(np.int8)
    return replace(examples, marks=marks, notes=(*examples.notes, note)).usable()


def _figures(
    label: str, rows: Floats, marks: Marks, learnt: Learnt, confident: bool, *, text: Floats | None
) -> LabelFigures:
    """How high a label's right examples stand among wrong ones by its text, by their mean, and by what was learnt."""
    said = marks != 0
    right, known = marks[said] > 0, rows[said]
    count, wrong = int(right.sum()), known[~right]
    by_text = by_average = trained = None
    if text is not None:
        by_text = float(standings((known[right] @ text)[:, None] - wrong @ text).mean())
    if count > 1:
        others = unit(known[right].sum(axis=0)[None] - known[right])
        own = np.einsum("nd,nd->n", known[right], others)
        by_average = float(standings(own[:, None] - others @ wrong.T).mean())
        trained = float(learnt.standings().mean())
    return LabelFigures(label, count, len(wrong), by_text, by_average, trained, confident)

"""The facade: a collection of images on disk that can be searched. Every door (Python, command, HTTP) calls this."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack

import numpy as np

from wherein.arrays import Floats, Mask
from wherein.encoders import Encoder
from wherein.errors import CollectionChanged, CollectionNotFound, NotPrepared
from wherein.files import expanded
from wherein.images.image import ImageLike
from wherein.images.picture import MAX_PIXELS
from wherein.images.video import EVERY, seconds_of
from wherein.indexing.compress import check_choice, update_codes
from wherein.indexing.executors import load_executor
from wherein.indexing.inventory import Inventory
from wherein.indexing.layer_choice import fillable, kinds_to_keep, shortfalls
from wherein.indexing.names import named_image, unknown_names
from wherein.indexing.sharing import Sharing
from wherein.options import Askable, Asked, Cut, Options, lists_options, whole_number
from wherein.parallel import default_workers, one_blas_thread
from wherein.search.answers import how_sure, nothing_yet, plain_question, plainly_sure
from wherein.search.confidence import Measured, measure
from wherein.search.decide import COUNTED_FROM, at_least, cut_of, expected_right, further, shown, split, with_sure
from wherein.search.engine import Candidate, Ranked, notes, rank
from wherein.search.judgements import Curves
from wherein.search.judging import Judging
from wherein.search.local import OnStep, no_step
from wherein.search.refusals import refuse_texts, refuse_unread_texts
from wherein.search.scorers import RowScorer
from wherein.search.views import View, Views
from wherein.store.published import PublishedStore, address_of
from wherein.store.store import Store, home_in, is_collection
from wherein.training.labelling import Labelling
from wherein.values.address import Address, Location, location_of, url_of
from wherein.values.judgement import Curve
from wherein.values.method import Method
from wherein.values.ranking import Expected, Hit, Ranking
from wherein.values.records import FOLDER, AddReport, Filter, ImageRecord, Progress

DEFAULT_ENCODER = "mini"
T = TypeVar("T")
_TRIES: Final = 5
"""How often a search is asked again while others change the collection; a change takes much longer than a search."""


def open(path: str | os.PathLike[str], *, create: bool = False, encoder: str | None = None) -> Collection:
    """Open the collection in `path`: a `.wherein` folder, or the folder of images that holds one.

    With `create`, an empty one is made where there is none; `encoder` is what it will be filled with. An address, as
    `s3://bucket/photos`, is that of a published collection, which is only read.
    """
    folder = expanded(path).absolute()
    inside = home_in(folder)
    url = url_of(path) or address_of(inside)
    if url is not None:
        return Collection(PublishedStore(url), encoder=encoder)
    if not create and not is_collection(folder):
        raise CollectionNotFound(
            f"{folder}: holds no collection. Make one with `wherein index {folder}` or open(…, create=True)."
        )
    return Collection(Store.create(inside) if create else Store(inside), encoder=encoder)


def mend(path: str | os.PathLike[str], *, repair: bool = True) -> list[str]:
    """Make a collection whose manifest or catalogue is damaged or lost openable again; says what was wrong and done.

    They come back from their copies, and from what the shards say they hold. Nothing else may have it open meanwhile.
    """
    from wherein.store import rebuild

    return rebuild.mend(home_in(expanded(path).absolute()), repair=repair)


def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> int:
    """Make the collection of a backup again, in the folder `path`, where there is none. Returns how many images."""
    from wherein.store.backup import restore as made_again

    source, target = (expanded(one).absolute() for one in (backup, path))
    return made_again(home_in(source), target if target.name == FOLDER else target / FOLDER)


class Collection(Inventory, Labelling, Judging, Sharing):
    """Images and their embeddings on disk. Use `wherein.open`."""

    def __init__(self, store: Store, *, encoder: str | None = None) -> None:
        self._store = store
        self._wanted = encoder
        self._views = Views(store)
        self._curves = Curves(store.folder)
        self._known = dict[int, tuple[ImageRecord, Location | None]]()
        self._known_of: View | None = None
        self._encoders = dict[str, Encoder]()
        self._trained_known = {}
        self._living: tuple[int, int] | None = None
        self.prepares = True
        """Whether a first search makes what it needs; else it raises NotPrepared, and `prepare` makes it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Collection {self.folder} of {len(self)} images, encoder {self.encoder}>"

    @property
    def encoder(self) -> str:
        """The spec of the encoder that serves searches."""
        return self._store.manifest.encoder or self._wanted or DEFAULT_ENCODER

    @property
    def made_by(self) -> frozenset[str]:
        """The specs of the encoders and local features that its layers were made by, and of the one that serves."""
        self._store.refresh()
        layers = (layer.spec for layer in self._store.manifest.layers.values())
        return frozenset({self.encoder, *layers, *(card.spec for card in self.trained())})

    def close(self) -> None:
        """Close the files of the collection; it cannot be used afterwards."""
        self._store.close()

    def add(
        self,
        *sources: str | os.PathLike[str] | Address | tuple[str, ImageLike],
        encoder: str | None = None,
        layers: Sequence[str] | None = None,
        workers: int | None = None,
        max_pixels: int = MAX_PIXELS,
        every: float | str | None = None,
        follow_links: bool | None = None,
        verify: bool = False,
        index: str | None = None,
        executor: str = "threads",
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> AddReport:
        """Index folders, files, addresses, or `(image_id, image)` pairs; with none, bring all known up to date.

        An address is that of a folder elsewhere, as `s3://bucket/photos`. What is indexed already is skipped. `layers`
        join those the collection keeps; a new one keeps them alone, or `DEFAULT_KINDS` of `wherein.layers`. A new
        `encoder` fills new layers beside the old ones, which serve until the new are complete. A file that cannot be
        used is reported, never raised. Of a video, its keyframes, changes of scene and one image `every` few seconds
        are kept: as it was said last, or 5. Links that leave the folders are taken in only with `follow_links`, which
        is remembered. With `verify`, files are read whose size and date are the same. The `index` to keep is
        remembered: exact, compressed, compressed:BITS, or auto, which compresses layers that are large enough for it to
        pay. The `executor` runs the work: threads of this process, or `ray`, or `ray:ADDRESS` of a cluster.
        """
        from wherein.indexing.sync import IndexSettings, Sync

        chosen = None if index is None else check_choice(index)
        threads = default_workers() if workers is None else whole_number("workers", workers, least=1)
        pixels = whole_number("max_pixels", max_pixels, least=1)
        load_executor(executor, workers=threads)  # a slip is refused before anything is touched
        seconds = None if every is None else seconds_of(every)
        pairs = [named_image(source) for source in sources if not isinstance(source, str | os.PathLike | Address)]
        folders = [location_of(source) for source in sources if isinstance(source, str | os.PathLike | Address)]
        spec = encoder or self._wanted or self.encoder
        with self._store.writing():
            if not sources:
                folders = list(self.roots.values())
            made_by = self._loaded(spec, threads=1)  # one thread a call: the workers call side by side
            kept = kinds_to_keep(self._store.manifest, encoder=made_by.spec, asked=layers)
            kinds, said = fillable(kept, asked=layers)
            if follow_links is not None:
                self._store.follow_links(follow_links)
            if chosen is not None:
                self._store.keep_index(chosen)
            try:
                settings = IndexSettings(
                    kinds, threads, pixels, seconds or self._store.manifest.every or EVERY, executor, verify
                )
                report = Sync(self._store, made_by, settings, on_progress).run(folders, pairs)
                report.notes += (*said, *update_codes(self._store, made_by, on_progress=on_progress))
                return report
            finally:
                self._forget()

    @lists_options(Options)
    def search(self, query: Askable, **options: Unpack[Options]) -> Ranking:
        """The images that answer best, first the best.

        A str is a text; a Path, bytes, array or PIL image is an example; a list of those is looked for together.
        """
        asked = self._by_trained(Asked.of(query, options))
        return self._steadily(lambda: self._decided(asked))

    def _decided(self, asked: Asked) -> Ranking:
        """The answer, in which no sure hit is left out because fewer were wanted."""
        with one_blas_thread():
            found = self._search(asked)
            deeper = further(found, asked)
            return found if deeper is None else with_sure(found, self._search(deeper), asked)

    def _steadily(self, answer: Callable[[], T]) -> T:
        """An answer from one state of the collection: asked again where another process changed it meanwhile."""
        for _ in range(_TRIES):
            try:
                return answer()
            except CollectionChanged:
                self._forget()
        return answer()

    def _search(self, asked: Asked) -> Ranking:
        self._store.refresh()
        if not self._store.manifest.layers:
            return nothing_yet(asked, encoder=asked.method.encoder or self.encoder)
        if asked.all:
            asked = self._as_many_as_expected(asked)
        view, searched, ranked, measured = self._ranked(asked)
        curve = None if measured is None else self._curves.of(measured.source, asked.query)
        hits = [self._hit(view, found) for found in ranked.candidates]
        said = notes(asked.query, asked.method) + ranked.notes + self._shortfalls(view, asked.method)
        expected = None
        if curve is not None and measured is not None:
            sure = ranked.unknown.less_sure(curve.confidence(measured.values()))
            hits = [replace(hit, confidence=known) for hit, known in zip(hits, shown(sure), strict=True)]
            likely = not ranked.unknown.all_words and float(sure.max(initial=0.0)) >= COUNTED_FROM
            counted = self._expected(asked, view, ranked, curve) if likely else None
            expected = at_least(counted, shown(sure))
        elif asked.cut.decides and hits:
            question = plain_question(asked, hits)
            plain = None if question is None else self._search(replace(question, cut=Cut()))
            hits = hits if plain is None else plainly_sure(plain, hits)
            said += (how_sure(asked, plain),)
        if not searched:
            said += unknown_names(self._store, asked.filter)
        known = [hit.confidence for hit in hits if hit.confidence is not None]
        cut = cut_of(known, asked.cut)
        kept, rejected = split(hits, cut if asked.cut.decides else None)
        return Ranking(
            hits=kept,
            query=str(asked.query),
            encoder=asked.method.encoder or self.encoder,
            method=str(asked.method),
            score_kind=ranked.score_kind,
            searched=searched,
            notes=said,
            rejected=rejected,
            label=asked.query.label,
            nothing_indexed=not len(view.images),
            cut=cut,
            decided=asked.cut.decides,
            expected=expected,
        )

    def _expected(self, asked: Asked, view: View, ranked: Ranked, curve: Curve) -> Expected | None:
        """How many of the searched images are likely right; None where that cannot be said."""
        encoder = self._encoder(asked.method.encoder or self.encoder)
        return expected_right(asked, ranked, curve, view=view, encoder=encoder)

    def _as_many_as_expected(self, asked: Asked) -> Asked:
        """The same search for as many hits as images are expected to be right, at least one."""
        first = self._search(replace(asked, all=False, cut=Cut()))
        count = 1 if first.expected is None else max(1, round(first.expected.about))
        return replace(asked, all=False, k=count)

    def locate_hits(self, query: Askable, hits: Iterable[Hit], *, method: str | Method = "") -> Iterator[Hit]:
        """Hits of a search, one by one, with the mask and box of what matched; nothing is searched again."""
        return self.outliner(query, method=method)(hits)

    def outliner(self, query: Askable, *, method: str | Method = "") -> Callable[[Iterable[Hit]], Iterator[Hit]]:
        """What locates hits of this query; examples are decoded once. Hits that have left are left out."""
        from wherein.search.outlines import Outliner

        asked = self._by_trained(Asked.of(query, {"method": method, "locate": True}))
        outliner = Outliner(asked.query, asked.method)

        def located(hits: Iterable[Hit]) -> Iterator[Hit]:
            self._store.refresh()
            encoder, view = self._view(asked)
            keys = [(hit, self._store.catalogue.image_at(hit.image_id)) for hit in hits]
            known = [(hit, number) for hit, key in keys for number in np.flatnonzero(view.images == key).tolist()]
            before = [Candidate(number, hit.score, hit.box, hit.mask, hit.inliers) for hit, number in known]
            for (hit, _), after in zip(known, outliner.located(before, encoder=encoder, view=view), strict=True):
                yield replace(hit, box=after.box, mask=after.mask)

        return located

    def prepare(
        self, query: Askable, *, method: str | Method = "", on_progress: Callable[[Progress], None] = lambda _: None
    ) -> None:
        """Make what the first search of this kind needs (visual words take minutes); what is made stays.

        It may be stopped at any time, by an error that `on_progress` raises or from outside, and goes on from there.
        """
        tell = lambda stage, done, total: on_progress(Progress(done, total, stage=stage))  # noqa: E731
        self._store.refresh()
        if self._store.manifest.layers:
            self._view(self._by_trained(Asked.of(query, {"method": method})), on_step=tell)

    def embeddings(self) -> tuple[list[str], Floats]:
        """The ids of all images and the embedding (n, d) of each, in one order."""
        self._store.refresh()
        if not self._store.manifest.layers:
            return [], np.zeros((0, 0), np.float32)
        view = self._views.of(self._encoder(self.encoder), Method(search="whole"))
        names = dict(self._store.catalogue.live_images())
        scorer = view.scorer
        everything = np.arange(len(view.images))
        rows = scorer.table.vectors(everything) if isinstance(scorer, RowScorer) else np.zeros((0, 0), np.float32)
        return [names[key] for key in view.images.tolist()], rows

    def _ranked(self, asked: Asked) -> tuple[View, int, Ranked, Measured | None]:
        """What a search looked at, how many images passed, what it found, and how strong the evidence is."""
        encoder, view = self._view(asked)
        allowed = self._allowed(view, asked.filter, asked.among)
        searched = len(view.images) if allowed is None else int(allowed.sum())
        if not searched:
            return view, 0, Ranked((), "cosine"), None
        clips = None if asked.frames else view.layers.clips
        ranked = rank(asked.query, view, encoder=encoder, method=asked.method, k=asked.k, allowed=allowed, clips=clips)
        family = None if view.local is None else view.local.family
        measured = measure(asked.query, asked.method, ranked, view=view, encoder=encoder, family=family)
        return view, searched, ranked, measured

    def _view(self, asked: Asked, on_step: OnStep | None = None) -> tuple[Encoder, View]:
        """What encodes and answers a search; one that can never be answered is refused before anything is loaded."""
        refuse_texts(asked.query, asked.method)
        self._store.refresh()
        encoder = self._encoder(asked.method.encoder or self.encoder)
        self._refuse_labels(asked.query, encoder)
        refuse_unread_texts(asked.query, asked.method, encoder)

        def refuse(stage: str, done: int, total: int) -> None:
            said = f"{stage}: {done:,} of {total:,}. The first search of this kind must wait for it."
            raise NotPrepared(said, query=asked.query, method=asked.method)

        step = on_step or (no_step if self.prepares else refuse)
        return encoder, self._views.of(encoder, asked.method, index=asked.index, on_step=step)

    def _encoder(self, spec: str) -> Encoder:
        if spec not in self._encoders:
            trained = self._trained_encoder(spec)
            if trained is not None:
                return trained
            self._encoders[spec] = self._loaded(spec, threads=default_workers())
        return self._encoders[spec]

    def _allowed(self, view: View, filter_: Filter, among: Sequence[str] | None) -> Mask | None:
        if filter_.empty and among is None:
            return None
        passing = [key for key, _ in self._passing(filter_)]
        allowed = np.isin(view.images, np.array(passing, np.int64))
        return allowed if among is None else allowed & np.isin(view.images, np.array(self._keys(among), np.int64))

    def _shortfalls(self, view: View, method: Method) -> tuple[str, ...]:
        """Which layers that were searched lack some of the images."""
        version, spec = self.version, method.encoder or self.encoder
        if self._living is None or self._living[0] != version:
            self._living = (version, len(self))
        covered = {f"{method.layer} of {spec}": len(view.images)}
        if view.local is not None and method.local is not None:
            covered[method.local] = int((view.local.documents >= 0).sum())
        mend = "`wherein index`" if spec == self.encoder else f"`wherein index --encoder {spec}`"
        return shortfalls(covered, living=self._living[1], mend=mend)

    def _hit(self, view: View, found: Candidate) -> Hit:
        image, path = self._described(view, found.image)
        return Hit(
            image_id=image.image_id,
            score=found.score,
            box=found.box,
            path=path,
            size_wh=image.size_wh,
            seconds=image.seconds,
            mask=found.mask,
            inliers=found.inliers,
            others=tuple(self._described(view, other)[0].image_id for other in found.others),
        )

    def _described(self, view: View, number: int) -> tuple[ImageRecord, Location | None]:
        """What the catalogue knows of an image of a view."""
        key = int(view.images[number])
        if view is not self._known_of:
            self._known_of, self._known = view, {}  # another process may have renamed files
        if key not in self._known:
            image, _ = self._store.catalogue.describe(key)
            self._known[key] = (image, self._store.file_path(key))
        return self._known[key]

    def _forget(self) -> None:
        self._views.clear()
        self._known.clear()
        self._living = None

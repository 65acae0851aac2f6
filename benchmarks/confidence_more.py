"""More questions about confidence, answered with stored embeddings: sizes, halves, tails, false alarms and counts."""

from __future__ import annotations

import re
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import wherein
from confidence_figures import auroc, cells, error, share, sure_of
from confidence_held import Held
from confidence_sets import SETS, Ask, Sets, absent_texts
from confidence_tails import false_alarm_lines, tail_lines
from made_up import image_id, make_collection
from wherein.collection import Collection
from wherein.encoders import load
from wherein.images.image import decode
from wherein.options import Asked
from wherein.parallel import one_blas_thread
from wherein.search.background import SAMPLE, Background
from wherein.search.bank import Bank, bank_of
from wherein.search.common import commonness
from wherein.search.confidence import Model, likeliest_signs
from wherein.search.decide import at_least
from wherein.search.seen import Fits, Seen
from wherein.search.signs import asked_otherwise, count_words

HITS = 20
SMALL = 50
MIDDLE = 700
MEANINGLESS = 29
"""So many of the absent texts, the first, no photograph at all can answer."""


@dataclass(frozen=True)
class Library:
    """Images by their embeddings alone, in an order that says nothing."""

    ids: list[str]
    rows: np.ndarray
    bank: Bank

    @classmethod
    def of(cls, known: Mapping[str, np.ndarray], bank: Bank, *, seed: int = 0) -> Library:
        """Some images, shuffled."""
        ids = np.random.default_rng(seed).permutation(sorted(known)).tolist()
        return cls(ids, np.stack([known[one] for one in ids]), bank)

    @cached_property
    def fits(self) -> Fits:
        """How well texts of the bank fit."""
        return Fits.of(self.rows[:SAMPLE], self.bank)

    def ask(self, words: str, texts: Texts) -> tuple[list[str], np.ndarray]:
        """The first hits and their signs, as a search finds them."""
        scores = self.rows @ texts[words]
        best = np.argsort(-scores, kind="stable")[:HITS]
        background, hits = Background.of(scores[:SAMPLE], n=len(scores)), self.rows[best]
        seen, other = Seen.of(hits, self.bank, self.fits), asked_otherwise(words)
        asked, count = np.stack([texts[one] for one in (words, other) if one is not None]), count_words(words)
        common = commonness(words, texts.encoder)
        signs = likeliest_signs(
            asked, hits, seen, self.bank, words=count, fits=self.fits, common=common, background=background
        )
        return [self.ids[one] for one in best], signs


class Texts:
    """Texts and their embeddings, each made once."""

    def __init__(self) -> None:
        self.encoder = load("mini")
        self._known = dict[str, np.ndarray]()

    def __getitem__(self, words: str) -> np.ndarray:
        if words not in self._known:
            self._known[words] = self.encoder.texts([words])[0]
        return self._known[words]


def rows_of(collection: Collection) -> dict[str, np.ndarray]:
    """Every image of a collection by its embedding."""
    view, _, ranked, _ = collection._ranked(Asked.of("a photo", {}))
    kind = type(ranked.candidates[0])
    ids = [collection._hit(view, kind(image, 0.0)).image_id for image in range(len(view.images))]
    return dict(zip(ids, view.layers.whole().vectors(np.arange(len(ids))), strict=True))


def more(mixed: Collection, sets: Sets, held: Held, model: Model, out: Path, *, many: int) -> list[str]:
    """Lines of the page."""
    texts, rows = Texts(), rows_of(mixed)
    bank = bank_of(texts.encoder, mixed._store.derived.array)
    if bank is None:
        return []
    captions = {one: row for one, row in rows.items() if one.startswith("captions/")}
    photos = training_photos(held, out, many) if many else {}
    lines = size_lines(sets, held, model, texts, rows, photos, bank)
    lines += half_lines(sets, model, texts, rows, bank)
    nothing = absent_texts()
    library = Library.of(captions, bank)
    every = {f"{len(captions)} photographs": (library.rows, [texts[one] for one in nothing])}
    if photos:
        large = Library.of(photos, bank)
        every[f"{len(photos):,} photographs"] = (large.rows, [texts[one] for one in nothing[:MEANINGLESS]])
    lines += tail_lines(every)
    asks = [(ask.query.parts[0].text or "", ask) for ask in sets.noun_asks()]
    asks += [(one, Ask(ask.query, frozenset())) for one in nothing for ask in [next(iter(sets.noun_asks()))]]
    found = [(ask, *_scored(library, words, texts, model)) for words, ask in asks]
    return lines + false_alarm_lines(found, library.rows, len(nothing))


def counted_photos(held: Held, out: Path, sets: Sets, *, many: int) -> dict[str, tuple[Collection, list[Ask]]]:
    """The nouns and a collection of training photographs, in which they are right where a text names them."""
    if not many:
        return {}
    home, photos, said = (
        out / "libraries" / f"photographs.{many}",
        training_photos(held, out, many),
        training_rows(held),
    )
    if not home.exists():
        making = home.with_suffix(".part")
        make_collection(making, images=len(photos), encoder="mini", whole=np.stack(list(photos.values())))
        making.rename(home)
    number = {one: place for place, one in enumerate(photos)}
    asks = list[Ask]()
    for ask in sets.noun_asks():
        named = _named_in(ask, said).right - ask.right
        asks.append(Ask(ask.query, frozenset(image_id(number[one]) for one in named if one in number)))
    return {f"nouns, {len(photos):,} photographs": (wherein.open(home), asks)}


def count_lines(libraries: Mapping[str, tuple[Collection, Sequence[Ask]]]) -> list[str]:
    """How far "about N images match" can be trusted, and what it costs."""
    lines = [
        "\n## Counts\n",
        '"About N images match" against how many captions name the noun: twice or more (`right`), or at all (`named`).',
        "`ratio` is the median of the estimate over `right`; `inside` is how many intervals hold any number from",
        "`right` to `named`. In training photographs a noun is right where their one text names it, so that more may",
        "be right. Of texts that nothing answers, how many are said to have a match. Processor milliseconds of",
        "confidence and count of one query, the median.\n",
        "| texts | queries | right | named | estimate | ratio | inside | some said to match | ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (collection, asks) in libraries.items():
        there, rows, spent = collection.image_ids(), list[tuple[float, ...]](), list[float]()
        for ask in asks:
            asked = Asked.of(ask.query, {})
            view, _, ranked, measured = collection._ranked(asked)
            curve = None if measured is None else collection._curves.of(measured.source, asked.query)
            if measured is None or curve is None:
                continue
            unread = ranked.unknown.all_words
            before = time.process_time()
            with one_blas_thread():  # as a search does: a second thread would only wait, and its waiting count
                measured.values()
                expected = at_least(None if unread else collection._expected(asked, view, ranked, curve), ())
            spent.append(1000 * (time.process_time() - before))
            right = sum(one in ask.right for one in there)
            named = right + sum(one in ask.unknown for one in there)
            inside = expected.low <= named and expected.high >= right
            rows.append((right, named, expected.about, expected.about / max(right, 1), inside, expected.about >= 0.5))
        values = np.array(rows, float)
        said = f"{values[:, 0].mean():.1f} | {values[:, 1].mean():.1f} | {values[:, 2].mean():.1f}"
        rest = cells(float(np.median(values[:, 3])) if values[:, 0].any() else float("nan"), values[:, 4].mean())
        lines.append(f"| {name} | {len(rows)} | {said} | {rest} | {values[:, 5].mean():.3f} | {np.median(spent):.1f} |")
    return lines


def _scored(library: Library, words: str, texts: Texts, model: Model) -> tuple[list[str], np.ndarray, np.ndarray]:
    ids, signs = library.ask(words, texts)
    every = library.rows @ texts[words]
    scores = np.array([every[library.ids.index(one)] for one in ids])
    return ids, sure_of(np.asarray(model.odds(signs), np.float64)), np.r_[scores, every]


def training_photos(held: Held, out: Path, many: int) -> dict[str, np.ndarray]:
    """`many` training photographs by their embeddings, made once."""
    kept = out / f"photographs.{many}.npz"
    if not kept.exists():
        every = sorted((row["shard"], row["file"]) for row in training_rows(held).values())
        chosen = [every[place] for place in np.linspace(0, len(every) - 1, min(many, len(every))).astype(int)]
        encoder, archives = load("mini"), dict[str, zipfile.ZipFile]()
        found = []
        for shard, file in chosen:
            if shard not in archives:
                archives[shard] = zipfile.ZipFile(held.data / shard)
            found.append(encoder.images(encoder.prepare(decode(archives[shard].read(file)))[None]).global_[0])
        np.savez(kept, ids=np.array([f"training/{shard}/{file}" for shard, file in chosen]), rows=np.stack(found))
    with np.load(kept) as stored:
        return dict(zip(stored["ids"].tolist(), stored["rows"], strict=True))


def training_rows(held: Held) -> dict[str, dict[str, Any]]:
    """Training photographs, without drawings and those held back, by their ids."""
    import json

    kept = {(row["shard"], row["file"]) for row in held.rows.values()}
    rows = (json.loads(line) for name in ("captions", "captions-more") for line in (held.data / f"{name}.jsonl").open())
    return {f"training/{row['shard']}/{row['file']}": row for row in rows if (row["shard"], row["file"]) not in kept}


def size_lines(
    sets: Sets, held: Held, model: Model, texts: Texts, rows: Mapping[str, np.ndarray],
    photos: Mapping[str, np.ndarray], bank: Bank,
) -> list[str]:  # fmt: skip
    """Captions and nouns asked of small and large libraries, which hold the answers of half of the captions."""
    lines = [
        "\n## Small and large libraries\n",
        "Captions of 700 photographs, asked of libraries of so many images that hold half of the answers; what else is",
        "in them are other captioned photographs (50), the other development sets (700) and training photographs, of",
        "which nobody can say whether they answer a caption: they are not judged. `meaningless` are the first",
        f"{MEANINGLESS} absent texts, which no photograph answers. Nouns are right where two of five captions name",
        "them, or the text of a training photograph, which names less than it shows. By the shipped model.\n",
        "| images | hits | right | error | first | right/wrong | right first at 50 % | absent at 50 % | meaningless "
        "| noun hits | right | said | error | right first at 50 % |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    asks = [Ask(ask.query, ask.right, ask.unknown | {"training/*"}) for ask in sets.caption_asks()]
    ids = [min(ask.right) for ask in asks]
    answers, others = ids[1::2], ids[0::2]
    rest = [one for one in rows if not one.startswith("captions/")]
    tries, step = list[tuple[list[str], list[Ask]]](), SMALL // 2
    for at in range(0, len(answers) - step + 1, step):
        never_asked = (others[at + 2 * step :] + others)[:step]
        tries.append((answers[at : at + step] + never_asked, asks[2 * at : 2 * (at + step)]))
    every = [tries, [(answers + rest[: MIDDLE - len(answers)], asks)]]
    if photos:
        every.append([(answers + list(photos)[: len(photos) - len(answers)], asks)])
    said, images = training_rows(held) if photos else {}, {**rows, **photos}
    nouns = [_named_in(ask, said) for ask in sets.noun_asks()]
    for own in every:
        libraries = [(Library.of({one: images[one] for one in chosen}, bank), asked) for chosen, asked in own]
        named = [(library, nouns) for library, _ in libraries]
        lines.append(
            f"| {len(own[0][0]):,} | {_caption_cells(libraries, model, texts)} | {_noun_cells(named, model, texts)} |"
        )
    return lines if photos else [*lines, "\nThe largest library was left out of this run (`--many 0`)."]


def _named_in(ask: Ask, said: Mapping[str, dict[str, Any]]) -> Ask:
    """A noun that is right in training photographs whose text names it; nothing is known of images of other sets."""
    noun = (ask.query.parts[0].text or "").split()[-1]
    word = re.compile(rf"\b{noun}s?\b")
    right = frozenset(one for one, row in said.items() if word.search(" ".join(row["texts"]).lower()))
    return Ask(ask.query, ask.right | right, ask.unknown | {f"{name}/*" for name in SETS if name != "captions"})


@dataclass(frozen=True)
class Asked20:
    """The first hits of texts: how sure, whether right, whether judged, whether first."""

    sure: np.ndarray
    right: np.ndarray
    known: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, asked: Sequence[tuple[Library, Sequence[Ask]]], model: Model, texts: Texts) -> Asked20:
        """Texts asked of libraries."""
        found = list[tuple[float, bool, bool, bool]]()
        for library, asks in asked:
            for ask in asks:
                words = ask.query.parts[0].text or ""
                ids, signs = library.ask(words, texts)
                sure = sure_of(np.asarray(model.odds(signs), np.float64))
                for place, (one, value) in enumerate(zip(ids, sure, strict=True)):
                    known = one in ask.right or ask.unknown.isdisjoint({one, f"{one.split('/')[0]}/*"})
                    found.append((float(value), one in ask.right, known, place == 0))
        return cls(*(np.array(column) for column in zip(*found, strict=True)))


def _caption_cells(asked: Sequence[tuple[Library, Sequence[Ask]]], model: Model, texts: Texts) -> str:
    one, fooled, nothing = (
        Asked20.of(asked, model, texts),
        list[tuple[int, float]](),
        absent_texts(),
    )
    for number, (library, _) in enumerate(asked):
        for place in range(number, len(nothing), len(asked)):
            words = nothing[place]
            less = 0.05 if set(words.split()) <= set(texts.encoder.unknown_words(words)) else 1.0
            signs = library.ask(words, texts)[1]
            fooled.append((place, less * float(sure_of(np.asarray(model.odds(signs), np.float64)).max())))
    known, first, right, sure, none = one.known, one.first, one.right, one.sure, np.array(fooled)
    figures = cells(
        share(right[known]),
        error(sure[known], right[known]),
        error(sure[known & first], right[known & first]),
        auroc(sure[first & right], sure[first & ~right & known]),
        share(sure[first & right] >= 0.5),
        float("nan") if len(asked[0][0].ids) > SAMPLE else share(none[:, 1] >= 0.5),
        share(none[none[:, 0] < MEANINGLESS, 1] >= 0.5),
    )
    return f"{int(known.sum()):,} | {figures}"


def _noun_cells(asked: Sequence[tuple[Library, Sequence[Ask]]], model: Model, texts: Texts) -> str:
    one = Asked20.of(
        [(library, [ask for ask in asks if ask.right & set(library.ids)]) for library, asks in asked], model, texts
    )
    known, right, sure = one.known, one.right, one.sure
    figures = cells(
        share(right[known]), share(sure[known]), error(sure[known], right[known]), share(sure[one.first & right] >= 0.5)
    )
    return f"{int(known.sum()):,} | {figures}"


def half_lines(sets: Sets, model: Model, texts: Texts, rows: Mapping[str, np.ndarray], bank: Bank) -> list[str]:
    """How far the confidence of a first hit moves when as many images of other sets join."""
    lines = [
        "\n## When an unrelated half is added\n",
        "How far the confidence of a first hit of a text moves on average when as many images of other sets, drawn by",
        "chance, join its library, by the shipped model.\n",
        "| texts | images | same first hit | moves by | first hits of all |",
        "|---|---:|---:|---:|---:|",
    ]
    every = {
        f"captions {one}": (f"half-captions-{one}", list(sets.caption_asks(one)))
        for one in sorted(set(sets.sources.values()))
    }
    every |= {"nouns": ("captions", list(sets.noun_asks())), "underwater": ("underwater", list(sets.label_asks()))}
    for name, (library, asks) in every.items():
        own = {one: row for one, row in rows.items() if sets.stays(one, library)}
        group = library.removeprefix("half-").split("-")[0]
        others = sorted(one for one in rows if not one.startswith(f"{group}/"))
        drawn = np.random.default_rng(1).permutation(others)[: len(own)].tolist()
        alone, joined = Library.of(own, bank), Library.of(own | {one: rows[one] for one in drawn}, bank)
        before, after = (
            [_first(one, words, texts, model) for words in (ask.query.parts[0].text or "" for ask in asks)]
            for one in (alone, joined)
        )
        moves = np.array([abs(a[1] - b[1]) for a, b in zip(before, after, strict=True)])
        same = np.array([a[0] == b[0] for a, b in zip(before, after, strict=True)])
        moved = cells(share(moves[same]), share(moves))
        lines.append(f"| {name} | {len(own)} + {len(drawn)} | {same.sum()} of {len(same)} | {moved} |")
    return lines


def _first(library: Library, words: str, texts: Texts, model: Model) -> tuple[str, float]:
    ids, signs = library.ask(words, texts)
    return ids[0], float(sure_of(np.asarray(model.odds(signs[:1]), np.float64))[0])

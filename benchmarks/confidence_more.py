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

from confidence_held import Held, absent_texts
from confidence_page import auroc, cells, error, share, sure_of
from confidence_sets import NEAR, SAYS_LITTLE, Ask, Sets
from confidence_tails import false_alarm_lines, tail_lines
from wherein.collection import Collection
from wherein.encoders import load
from wherein.images.image import decode
from wherein.options import Asked
from wherein.search.background import SAMPLE, Background
from wherein.search.bank import Bank, bank_of
from wherein.search.confidence import Model
from wherein.search.seen import Fits, Seen
from wherein.search.signs import text_signs

HITS = 20
SMALL = 50
MIDDLE = 700
MEANINGLESS = 29
"""So many of the absent texts, the first, no photograph at all can answer."""
ABSENT = Path(__file__).with_name("absent_texts.txt")


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

    def ask(self, query: np.ndarray, words: int) -> tuple[list[str], np.ndarray]:
        """The first hits and their signs, as a search finds them."""
        scores = self.rows @ query
        best = np.argsort(-scores, kind="stable")[:HITS]
        background, hits = Background.of(scores[:SAMPLE], n=len(scores)), self.rows[best]
        seen = Seen.of(hits, self.bank, self.fits)
        signs = text_signs(query, hits, seen, self.bank, words=words, fits=self.fits, background=background)
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
    nothing = absent_texts(ABSENT)
    library = Library.of(captions, bank)
    every = {f"{len(captions)} photographs": (library.rows, [texts[one] for one in nothing])}
    if photos:
        large = Library.of(photos, bank)
        every[f"{len(photos):,} photographs"] = (large.rows, [texts[one] for one in nothing[:MEANINGLESS]])
    lines += tail_lines(every)
    asks = [(ask.query.parts[0].text or "", ask) for ask in sets.noun_asks()]
    asks += [(one, Ask(ask.query, frozenset())) for one in nothing for ask in [next(iter(sets.noun_asks()))]]
    found = [(ask, *_scored(library, texts[words], len(words.split()), model)) for words, ask in asks]
    return lines + false_alarm_lines(found, library.rows, len(nothing))


def count_lines(libraries: Mapping[str, tuple[Collection, Sequence[Ask]]]) -> list[str]:
    """How far "about N images match" can be trusted, and what it costs."""
    lines = [
        "\n## Counts\n",
        '"About N images match" against how many captions name the noun: twice or more (`right`), or at all (`named`).',
        "`ratio` is the median of the estimate over `right`; `inside` is how many intervals hold any number from",
        "`right` to `named`. Of texts that nothing answers, how many are said to have a match. Processor milliseconds",
        "of confidence and count of one query.\n",
        "| texts | queries | right | named | estimate | ratio | inside | some said to match | ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (collection, asks) in libraries.items():
        there, rows, spent = collection.image_ids(), list[tuple[float, ...]](), list[float]()
        for ask in asks:
            asked = Asked.of(ask.query, {})
            view, _, ranked, measured = collection._ranked(asked)
            if measured is None:
                continue
            before = time.process_time()
            curve = collection._curves.of(measured.source, asked.query)
            measured.values()
            hits = [collection._hit(view, one) for one in ranked.candidates]
            expected = collection._expected(asked, view, ranked, curve, hits) if curve is not None else None
            spent.append(1000 * (time.process_time() - before))
            right = sum(one in ask.right for one in there)
            named = right + sum(one in ask.unknown for one in there)
            if expected is not None:
                inside = expected.low <= named and expected.high >= right
                rows.append(
                    (right, named, expected.about, expected.about / max(right, 1), inside, expected.about >= 0.5)
                )
        values = np.array(rows, float)
        said = f"{values[:, 0].mean():.1f} | {values[:, 1].mean():.1f} | {values[:, 2].mean():.1f}"
        rest = cells(float(np.median(values[:, 3])) if values[:, 0].any() else float("nan"), values[:, 4].mean())
        lines.append(f"| {name} | {len(rows)} | {said} | {rest} | {values[:, 5].mean():.3f} | {np.median(spent):.1f} |")
    return lines


def _scored(library: Library, query: np.ndarray, words: int, model: Model) -> tuple[list[str], np.ndarray, np.ndarray]:
    ids, signs = library.ask(query, words)
    scores = np.array([library.rows[library.ids.index(one)] @ query for one in ids])
    return ids, sure_of(np.asarray(model.odds(signs), np.float64)), np.r_[scores, library.rows @ query]


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
    """The captions asked of small and large libraries, each of which holds the answers of half of them."""
    lines = [
        "\n## Small and large libraries\n",
        "Captions of 700 photographs, asked of libraries of so many images that hold half of the answers; what else is",
        "in them are other captioned photographs (50), the other development sets (700) and training photographs.",
        f"`meaningless` are the first {MEANINGLESS} absent texts, which no photograph answers. By the shipped model.\n",
        "| images | hits | right | error | first | right/wrong | right first at 50 % | absent at 50 % | meaningless |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    asks = list(sets.caption_asks())
    ids = [min(ask.right) for ask in asks]
    answers, others = ids[1::2], ids[0::2]
    rest = [one for one in rows if not one.startswith("captions/")]
    tries, step = list[tuple[list[str], list[Ask]]](), SMALL // 2
    for at in range(0, len(answers) - step + 1, step):
        never_asked = (others[at + 2 * step :] + others)[:step]
        tries.append((answers[at : at + step] + never_asked, asks[2 * at : 2 * (at + step)]))
    lines.append(_size_row(tries, model, texts, rows, bank, {}))
    lines.append(_size_row([(answers + rest[: MIDDLE - len(answers)], asks)], model, texts, rows, bank, {}))
    if photos:
        known = {**rows, **photos}
        chosen = answers + list(photos)[: len(photos) - len(answers)]
        lines.append(_size_row([(chosen, asks)], model, texts, known, bank, training_rows(held)))
    else:
        lines.append("\nThe largest library was left out of this run (`--many 0`).")
    return lines


def _size_row(
    tries: Sequence[tuple[list[str], list[Ask]]], model: Model, texts: Texts, rows: Mapping[str, np.ndarray],
    bank: Bank, said: Mapping[str, dict[str, Any]],
) -> str:  # fmt: skip
    sure, right, unknown, first, fooled = [], [], [], [], list[np.ndarray]()
    nothing = absent_texts(ABSENT)
    for number, (chosen, asks) in enumerate(tries):
        library = Library.of({one: rows[one] for one in chosen}, bank)
        for ask in asks:
            words = ask.query.parts[0].text or ""
            ids, signs = library.ask(texts[words], len(words.split()))
            sure.append(sure_of(np.asarray(model.odds(signs), np.float64)))
            right.append(np.array([one in ask.right for one in ids]))
            unknown.append(np.array([one in ask.unknown or _near(words, said.get(one)) for one in ids]))
            first.append(np.arange(len(ids)) == 0)
        for text in nothing[number :: len(tries)]:
            signs = library.ask(texts[text], len(text.split()))[1]
            less = 0.05 if set(text.split()) <= set(texts.encoder.unknown_words(text)) else 1.0
            fooled.append(np.array([nothing.index(text), less * sure_of(model.odds(signs)).max()]))
    s, r, u, f = (np.concatenate(one) for one in (sure, right, unknown, first))
    known, none = ~u | r, np.stack(fooled)
    figures = cells(
        share(r[known]),
        error(s[known], r[known]),
        error(s[known & f], r[known & f]),
        auroc(s[f & r], s[f & ~r & known]),
        share(s[f & r] >= 0.5),
        float("nan") if said else share(none[:, 1] >= 0.5),
        share(none[none[:, 0] < MEANINGLESS, 1] >= 0.5),
    )
    return f"| {len(tries[0][0]):,} | {int(known.sum()):,} | {figures} |"


def _near(words: str, row: dict[str, Any] | None) -> bool:
    """Whether a training photograph may answer a caption too: by its texts, or because nobody described it."""
    if row is None:
        return False
    telling = set(re.findall("[a-z]+", words.lower())) - set(SAYS_LITTLE.split())
    said = set(re.findall("[a-z]+", " ".join(row["texts"]).lower()))
    return bool(telling) and len(telling & said) / len(telling) >= NEAR


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
            [
                _first(one, texts[words], len(words.split()), model)
                for words in (ask.query.parts[0].text or "" for ask in asks)
            ]
            for one in (alone, joined)
        )
        moves = np.array([abs(a[1] - b[1]) for a, b in zip(before, after, strict=True)])
        same = np.array([a[0] == b[0] for a, b in zip(before, after, strict=True)])
        moved = cells(share(moves[same]), share(moves))
        lines.append(f"| {name} | {len(own)} + {len(drawn)} | {same.sum()} of {len(same)} | {moved} |")
    return lines


def _first(library: Library, query: np.ndarray, words: int, model: Model) -> tuple[str, float]:
    ids, signs = library.ask(query, words)
    return ids[0], float(sure_of(np.asarray(model.odds(signs[:1]), np.float64))[0])

"""How a name is best said to `mini`: bare, framed, explained, in several wordings at once; and pictures mirrored.

    python wordings.py --data DATA --vocabulary DATA/vocabulary.json --cache EMBEDDINGS.npz [--rcc GCOMPRIS/rcc]

Each form of the text is compared with the bare name, by pairs: single words that find their photograph, and untaught
names chosen among 100 (`proxies.py`). The same words of 1,500 training photographs, which the towers have seen, tell
forms apart with less noise, and chose; nothing else was chosen here. What frames do to noun phrases is told too.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import vocabulary as words
from data import Row
from naming import photographs
from proxies import held_back
from texts import noun_phrases, plural
from wherein.arrays import unit
from wherein.encoders.hubs import CAPTIONS, NAMES, SHARPNESS, STRENGTH
from wherein.encoders.mini import MiniEncoder
from wherein.images.image import decode

Floats = NDArray[np.float32]
Form = Callable[[str], str]
SEEN, BANK, DRAWS = 1500, 2900, 3000


def with_article(name: str) -> str:
    """`an okapi`."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


class Texts:
    """Embeddings of texts as they stand, before hubs are levelled, each made once; frames are not taken off."""

    def __init__(self, encoder: MiniEncoder) -> None:
        self.encoder, self._known = encoder, dict[str, Floats]()

    def __call__(self, texts: list[str]) -> Floats:
        """(n, d) of unit length."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for at in range(0, len(new), 32):
            rows = self.encoder._tokenizer.encode_batch(new[at : at + 32])
            feeds = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows]}
            ready = {name: np.array(values, np.int64) for name, values in feeds.items()}
            self._known |= dict(zip(new[at : at + 32], self.encoder._text.run(None, ready)[0], strict=True))
        return unit(np.stack([self._known[text] for text in texts]))


def embed(encoder: MiniEncoder, data: Path, rows: list[Row], *, mirrored: bool = False) -> Floats:
    """(n, d) embeddings of pictures, before hubs are levelled."""
    archives = {name: zipfile.ZipFile(data / name) for name in {row["shard"] for row in rows}}
    found = []
    for row in rows:
        pixels = encoder.prepare(decode(archives[row["shard"]].read(row["file"])))
        pixels = np.ascontiguousarray(pixels[:, ::-1]) if mirrored else pixels
        found.append(encoder._image.run(None, {"pixels": pixels[None]})[0][0])
    return unit(np.stack(found))


def pictures(encoder: MiniEncoder, data: Path, sets: dict[str, list[Row]], cache: Path) -> dict[str, Floats]:
    """Every set's embeddings, and those of its mirror images but for seen ones; kept in a file."""
    if not cache.exists():
        made = {name: embed(encoder, data, rows) for name, rows in sets.items()}
        held = [name for name in sets if name not in ("seen", "bank")]
        made |= {f"{name} mirrored": embed(encoder, data, sets[name], mirrored=True) for name in held}
        with cache.open("wb") as file:
            np.savez(file, allow_pickle=False, **made)
    with np.load(cache) as stored:
        return {name: stored[name] for name in stored.files}


def ranks(texts: Floats, images: Floats, owners: list[int]) -> NDArray[np.int64]:
    """How many images fit each text better than its own."""
    scores = texts @ images.T
    found: NDArray[np.int64] = (scores > scores[np.arange(len(owners)), owners][:, None]).sum(1)
    return found


def interval(gains: Floats) -> str:
    """The mean gain in points, and where 95 % of resampled means lie."""
    rng = np.random.default_rng(0)
    means = [100 * gains[rng.integers(0, len(gains), len(gains))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{100 * gains.mean():+.1f} [{low:+.1f}, {high:+.1f}]"


def gain_of_levelled_names(said: list[str], images: Floats, bank: Floats, embed_texts: Texts) -> str:
    """What naming gains where a name that is near every picture of a bank loses that head start, as images do."""
    names = sorted(set(said))
    right, texts = np.array([names.index(name) for name in said]), embed_texts(names)
    starts = np.log(np.exp(SHARPNESS * (texts @ bank.T)).mean(1)) / SHARPNESS
    scores = images @ texts.T
    gains = ((scores - STRENGTH * starts).argmax(1) == right).astype(np.float32) - (scores.argmax(1) == right)
    return interval(np.array([gains[right == number].mean() for number in range(len(names))], np.float32))


class Measure:
    """One way to say names against the bare name, on every set."""

    def __init__(self, encoder: MiniEncoder, sets: dict[str, list[Row]], images: dict[str, Floats]) -> None:
        self.hubs = encoder.hubs
        self.said = {name: [row["label"].lower() for row in sets[name]] for name in ("seen", "words", "names")}
        self.images = {name: self.hubs.level_images(found) for name, found in images.items()}
        for name in ("words", "names"):
            both = unit(images[name] + images[f"{name} mirrored"])
            self.images[f"{name} both"] = self.hubs.level_images(both)

    def of(self, vectors: Callable[[list[str]], Floats], kind: int = NAMES, *, mirrored: str = "") -> dict[str, Floats]:
        """Hits at 1 and 10 for each single word, and the share named right of each untaught name."""

        def levelled(said: list[str]) -> Floats:
            return self.hubs.level_texts(vectors(said), [kind] * len(said))

        found: dict[str, Floats] = {}
        for name in ("seen", "words"):
            said = self.said[name]
            places = ranks(
                levelled(said), self.images[name + (mirrored if name != "seen" else "")], [*range(len(said))]
            )
            found |= {f"{name} R@{k}": (places < k).astype(np.float32) for k in (1, 10)}
        names = sorted(set(self.said["names"]))
        right = np.array([names.index(name) for name in self.said["names"]])
        best = (self.images["names" + mirrored] @ levelled(names).T).argmax(1)
        found["names"] = np.array(
            [(best[right == number] == number).mean() for number in range(len(names))], np.float32
        )
        return found

    def phrases(self, embed_texts: Texts, rows: list[Row]) -> dict[str, str]:
        """R@10 of noun phrases of one to three words out of captions: with their article, framed, and bare."""
        asked = sorted({(phrase, place) for place, row in enumerate(rows) for text in row["texts"]
                        for phrase in noun_phrases(text) if re.fullmatch(r"(an?|the)( \S+){1,3}", phrase)})  # fmt: skip
        owners = [place for _, place in asked]
        forms = {"article": [text for text, _ in asked], "framed": [f"a photo of {text}" for text, _ in asked],
                 "bare": [text.split(" ", 1)[1] for text, _ in asked]}  # fmt: skip
        kinds = {"framed": CAPTIONS}
        hits = {form: (ranks(self.hubs.level_texts(embed_texts(texts), [kinds.get(form, NAMES)] * len(texts)),
                             self.images["captions"], owners) < 10).astype(np.float32)
                for form, texts in forms.items()}  # fmt: skip
        gains = {form: interval(hits[form] - hits["article"]) for form in ("framed", "bare")}
        return {"article": f"{100 * hits['article'].mean():.1f}"} | gains


def main() -> None:
    """Print one JSON object for each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="where embeddings of pictures are kept")
    parser.add_argument("--rcc", type=Path, help="GCompris's photographs, as naming.py takes them")
    args = parser.parse_args()
    encoder = MiniEncoder()
    rows, parts = held_back(args.data, args.vocabulary)
    taught: dict[str, Row] = {rows[i]["label"].lower(): rows[i] for i in parts.train if "label" in rows[i]}
    rng = random.Random(1)
    seen = [taught[name] for name in rng.sample(sorted(taught), SEEN)]
    sets = {"seen": seen, "words": [rows[i] for i in parts.words], "names": [rows[i] for i in parts.classes],
            "captions": [rows[i] for i in parts.captions],
            "bank": [rows[i] for i in rng.sample([*parts.train], BANK)]}  # fmt: skip
    images = pictures(encoder, args.data, sets, args.cache)
    measure, embed_texts = Measure(encoder, sets, images), Texts(encoder)
    explained = {noun.word: noun.explained for noun in words.read(args.vocabulary).nouns}
    forms: dict[str, Form] = {
        "bare": lambda name: name, "article": with_article, "framed": lambda name: f"a photo of {with_article(name)}",
        "plural": plural, "broader": lambda name: explained.get(name, name).split(":")[0],
        "explained": lambda name: explained.get(name, name),
    }  # fmt: skip

    def mean_of(*chosen: str) -> Callable[[list[str]], Floats]:
        return lambda said: unit(np.sum([embed_texts([forms[form](name) for name in said]) for form in chosen], axis=0))

    plain = measure.of(mean_of("bare"))
    print(json.dumps({"bare": {name: round(100 * float(hits.mean()), 1) for name, hits in plain.items()}}))
    ways = {" + ".join(way): measure.of(mean_of(*way)) for way in (
        ("article",), ("plural",), ("broader",), ("explained",), ("bare", "article"), ("bare", "article", "framed"),
        ("bare", "article", "framed", "plural"), ("bare", "broader"), ("bare", "explained"))}  # fmt: skip
    ways |= {"framed, a sentence's bank": measure.of(mean_of("framed"), CAPTIONS)}
    ways |= {"bare, mirror image averaged in": measure.of(mean_of("bare"), mirrored=" both")}
    for title, found in ways.items():
        print(json.dumps({title: {name: interval(found[name] - plain[name]) for name in plain}}), flush=True)
    levelled = {"names": gain_of_levelled_names(measure.said["names"], images["names"], images["bank"], embed_texts)}
    if args.rcc:
        said, blobs = zip(*photographs(args.rcc), strict=True)
        runs = [encoder._image.run(None, {"pixels": encoder.prepare(decode(blob))[None]})[0] for blob in blobs]
        levelled["GCompris"] = gain_of_levelled_names([*said], unit(np.concatenate(runs)), images["bank"], embed_texts)
    print(json.dumps({"bare, names levelled by pictures": levelled}))
    print(json.dumps({"noun phrases, R@10": measure.phrases(embed_texts, sets["captions"])}))


if __name__ == "__main__":
    main()

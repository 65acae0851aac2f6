"""Photographs that training held back, and what `confidence.py` fits its model of texts on: nothing of it is measured.

    captions of people and machines, names of things, nouns that captions use, and texts that nothing answers

Photographs and texts come from the training pictures (`training/proxies.py` says which no run has seen), so that what
is measured on the development sets was fitted on other data. The folder also holds `vocabulary.json` and
`drawings.jsonl`, as for training: what is held back is drawn by chance, and that draw counts the drawings.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from confidence_sets import Ask, Trial, lines_of, named, near, short_asks, text, unanswered, unseen

OTHER_ABSENT, OTHER_SCENES = (Path(__file__).with_name(f"other_absent_{name}.txt") for name in ("texts", "scenes"))
LEAST_NAMED, MOST_NAMED = 4, 150
"""A noun is asked for where so many photographs have a caption with it."""
CAPTIONED = ("coco_human", "flickr8k", "web")
Row = dict[str, Any]


class Held:
    """Held-back photographs: ids are `captions source/file`."""

    def __init__(self, data: Path) -> None:
        self.data = data

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Every photograph by its id."""
        sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
        from proxies import held_back

        if not (self.data / "drawings.jsonl").exists():
            raise SystemExit(f"{self.data} lacks drawings.jsonl: without it other photographs are drawn as held back.")
        rows, parts = held_back(self.data, self.data / "vocabulary.json")
        found = {f"{rows[number]['source']}/{rows[number]['file']}": rows[number] for number in parts.captions}
        found |= {f"web/{rows[number]['file']}": rows[number] for number in parts.web}
        return found | {f"words/{rows[number]['file']}": rows[number] for number in parts.words}

    def write(self, folder: Path) -> None:
        """The photographs as files."""
        for shard in sorted({row["shard"] for row in self.rows.values()}):
            with zipfile.ZipFile(self.data / shard) as archive:
                for one, row in self.rows.items():
                    if row["shard"] == shard:
                        (folder / one).parent.mkdir(parents=True, exist_ok=True)
                        (folder / one).write_bytes(archive.read(row["file"]))

    @cached_property
    def half(self) -> frozenset[str]:
        """Photographs that are removed so that half of the queries have no answer."""
        return frozenset(sorted(self.rows)[::2])

    @cached_property
    def _words(self) -> dict[str, list[set[str]]]:
        said = {one: row["texts"] for one, row in self.rows.items() if not one.startswith("words/")}
        return {one: [set(re.findall("[a-z]+", own.lower())) for own in texts] for one, texts in said.items()}

    def caption_asks(self, source: str) -> Iterator[Ask]:
        """The first caption of every photograph of a source; photographs that may answer it too are not judged."""
        for one, row in sorted(self.rows.items()):
            if one.startswith(f"{source}/"):
                yield Ask(text(row["texts"][0]), frozenset({one}), near(row["texts"][0], one, self._words))

    def short_asks(self) -> Iterator[Ask]:
        """The shortest captions by people."""
        people = {one: row["texts"] for one, row in self.rows.items() if self.stays(one, "people")}
        yield from short_asks(people, self._words)

    def noun_asks(self) -> Iterator[Ask]:
        """Visible nouns: right where two captions of people name them, unknown where one does, or nobody says."""
        people = {one: own for one, own in self._words.items() if not one.startswith("web/")}
        visible = {one["word"] for one in json.loads((self.data / "vocabulary.json").read_text())["nouns"]}
        used = Counter(word for own in people.values() for word in set().union(*own))
        others = frozenset({"web/*", "words/*"})
        for noun in sorted(visible & used.keys()):
            either = {noun, f"{noun}s"}
            count = {one: sum(not own.isdisjoint(either) for own in words) for one, words in people.items()}
            right = frozenset(one for one, number in count.items() if number > 1)
            if LEAST_NAMED <= used[noun] <= MOST_NAMED and len(right) >= LEAST_NAMED and len(noun) > 2:
                yield Ask(text(named(noun)), right, frozenset(one for one, own in count.items() if own == 1) | others)

    def word_asks(self) -> Iterator[Ask]:
        """The name of each photograph of a thing; photographs of other kinds are not judged."""
        labels = {one: row["label"].lower() for one, row in self.rows.items() if one.startswith("words/")}
        others = frozenset({f"{source}/*" for source in CAPTIONED})
        for label in sorted(set(labels.values())):
            yield Ask(text(named(label)), frozenset(one for one, own in labels.items() if own == label), others)

    def unseen(self) -> list[str]:
        """Names of things that no caption of theirs names."""
        return unseen(self._words)

    def trials(self) -> Iterator[Trial]:
        """What the model of texts is fitted on."""
        for source in CAPTIONED:
            asks = list(self.caption_asks(source))
            alone = [ask for place, ask in enumerate(asks) if place % 4 < 2]  # every second has its answer
            among = [ask for place, ask in enumerate(asks) if place % 4 > 1]
            yield Trial("text", f"held {source}", f"held-half-{source}", "mini", tuple(alone))
            yield Trial("text", f"held {source} among all", "held-half-all", "mini", tuple(among))
        short = tuple(self.short_asks())
        yield Trial("text", "held short", "held-half-people", "mini", short[::2])
        yield Trial("text", "held short among all", "held-half-all", "mini", short[1::2])
        yield Trial("text", "held nouns", "held-people", "mini", tuple(self.noun_asks()))
        yield Trial("text", "held nouns among all", "held-all", "mini", tuple(self.noun_asks()))
        yield Trial("text", "held words", "held-half-words", "mini", tuple(self.word_asks()))
        yield Trial("text", "held words among all", "held-half-all", "mini", tuple(self.word_asks()))
        nothing = {"absent": lines_of(OTHER_ABSENT), "unseen": self.unseen(), "scenes": lines_of(OTHER_SCENES)}
        for name, words in nothing.items():
            for library in ("people", "half-all"):
                yield Trial("text", f"held {name} {library}", f"held-{library}", "mini", unanswered(words))
        yield Trial("text", "held absent words", "held-words", "mini", unanswered(lines_of(OTHER_ABSENT)))

    def stays(self, image_id: str, library: str) -> bool:
        """Whether an image is part of a library, by its name without `held-`."""
        wanted = library.removeprefix("half-")
        if library != wanted and image_id in self.half:
            return False
        if wanted == "people":
            return image_id.startswith(("coco_human/", "flickr8k/"))
        return wanted == "all" or image_id.startswith(f"{wanted}/")

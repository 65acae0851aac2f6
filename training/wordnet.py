"""WordNet's nouns as a graph: lemmas, glosses, kinds and hypernyms, read from its database file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Lexicographer files that hold things a camera can see.
VISIBLE_KINDS = {"05": "animal", "06": "artifact", "08": "body", "13": "food", "17": "object", "20": "plant"}


@dataclass(frozen=True)
class Synset:
    """One noun sense; `wnid` is the name ImageNet gives it, e.g. `n02123045`."""

    wnid: str
    kind: str
    lemmas: tuple[str, ...]
    gloss: str
    parents: tuple[str, ...]


def parse_line(line: str) -> Synset:
    """One line of `data.noun`: offset, kind, words, pointers, gloss."""
    head, gloss = line.split(" | ", 1)
    parts = head.split()
    count = int(parts[3], 16)
    lemmas = tuple(parts[4 + 2 * i].replace("_", " ") for i in range(count))
    pointers = parts[4 + 2 * count + 1 :]
    parents = tuple(f"n{pointers[i + 1]}" for i in range(0, len(pointers) - 3, 4) if pointers[i] in ("@", "@i"))
    return Synset(f"n{parts[0]}", parts[1], lemmas, gloss.split(";")[0].split('"')[0].strip(), parents)


def read_synsets(data_noun: Path) -> dict[str, Synset]:
    """Every noun synset by wnid."""
    with data_noun.open(encoding="utf-8") as file:
        synsets = (parse_line(line) for line in file if not line.startswith(" "))
        return {synset.wnid: synset for synset in synsets}


def ancestors(wnid: str, synsets: dict[str, Synset]) -> list[str]:
    """All hypernyms of a synset, nearest first."""
    found: list[str] = []
    queue = list(synsets[wnid].parents)
    while queue:
        current = queue.pop(0)
        if current not in found:
            found.append(current)
            queue.extend(synsets[current].parents)
    return found

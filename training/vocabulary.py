"""Words for things: names of ImageNet's classes, of their common ancestors, and WordNet's visible nouns.

Run as a script it writes `vocabulary.json`; training reads only that file.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from wordnet import VISIBLE_KINDS, Synset, ancestors, read_synsets

TEMPLATES = (
    "{}", "{}", "{}", "a {}", "the {}", "a photo of a {}", "a photo of a {}", "a photo of {}", "a picture of a {}",
    "a close-up photo of a {}", "a photo of the {}", "a photo of one {}", "an image of a {}", "there is a {} here",
)  # fmt: skip
LARGEST_NODE = 50
TAXA = ("genus", "family", "order", "class", "phylum", "tribe", "division")


@dataclass(frozen=True)
class Class:
    """One ImageNet class: names that mean it, best first; all its lemmas; a broader word; its definition."""

    wnid: str
    names: tuple[str, ...]
    lemmas: tuple[str, ...]
    broader: str
    gloss: str


@dataclass(frozen=True)
class Node:
    """A WordNet ancestor of several classes: its names and the numbers of those classes."""

    names: tuple[str, ...]
    leaves: tuple[int, ...]


@dataclass(frozen=True)
class Noun:
    """A visible thing: its word, the word explained (with broader words and gloss), and how often to draw it."""

    word: str
    explained: str
    weight: float


@dataclass(frozen=True)
class Vocabulary:
    """Everything training says besides captions."""

    classes: list[Class]
    nodes: list[Node]
    nouns: list[Noun]


def first_senses(index_noun: Path) -> dict[str, tuple[str, bool]]:
    """Each word's commonest sense, and whether that sense was ever tagged in running text."""
    senses = {}
    for line in index_noun.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        parts = line.split()
        count = int(parts[2])
        senses[parts[0].replace("_", " ")] = (f"n{parts[-count]}", int(parts[-count - 1]) > 0)
    return senses


def class_names(synset: Synset, usual: str, senses: dict[str, tuple[str, bool]]) -> tuple[str, ...]:
    """The usual name, then the lemmas that mean this class before anything else."""
    clear = [lemma for lemma in synset.lemmas if senses.get(lemma.lower(), ("", False))[0] == synset.wnid]
    return tuple(dict.fromkeys([usual, *clear]))


def build_nodes(wnids: list[str], synsets: dict[str, Synset]) -> list[Node]:
    """Ancestors of 2 to `LARGEST_NODE` classes, widest first; one for each distinct set of classes."""
    leaves = defaultdict(list)
    for number, wnid in enumerate(wnids):
        for ancestor in ancestors(wnid, synsets):
            leaves[ancestor].append(number)
    by_leaves: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for ancestor, numbers in leaves.items():
        if 2 <= len(numbers) <= LARGEST_NODE:
            by_leaves[tuple(numbers)].append(synsets[ancestor].lemmas[0])
    nodes = [Node(tuple(names), numbers) for numbers, names in by_leaves.items()]
    return sorted(nodes, key=lambda node: -len(node.leaves))


def build_nouns(synsets: dict[str, Synset], senses: dict[str, tuple[str, bool]]) -> list[Noun]:
    """Visible nouns in their commonest sense; plants, of which WordNet has very many, are drawn less often."""
    nouns = []
    for word, (wnid, tagged) in senses.items():
        synset = synsets[wnid]
        if synset.kind not in VISIBLE_KINDS or any(letter.isdigit() for letter in word):
            continue
        above = [synsets[parent].lemmas[0] for parent in ancestors(wnid, synsets)[:2]]
        if above[0].endswith(TAXA):
            continue
        weight = (4.0 if tagged else 1.0) * (0.3 if VISIBLE_KINDS[synset.kind] == "plant" else 1.0)
        nouns.append(Noun(word, f"{word}, {', '.join(above)}: {synset.gloss}", weight))
    return nouns


def build(wordnet: Path, wnids: list[str], usual: list[str]) -> Vocabulary:
    """The whole vocabulary from WordNet, ImageNet's class order and its usual class names."""
    synsets, senses = read_synsets(wordnet / "data.noun"), first_senses(wordnet / "index.noun")
    classes = []
    for wnid, name in zip(wnids, usual, strict=True):
        synset = synsets[wnid]
        broader = synsets[synset.parents[0]].lemmas[0]
        classes.append(Class(wnid, class_names(synset, name, senses), synset.lemmas, broader, synset.gloss))
    return Vocabulary(classes, build_nodes(wnids, synsets), build_nouns(synsets, senses))


def read(path: Path) -> Vocabulary:
    """The vocabulary written by this script."""
    raw = json.loads(path.read_text())
    return Vocabulary(
        [Class(c["wnid"], tuple(c["names"]), tuple(c["lemmas"]), c["broader"], c["gloss"]) for c in raw["classes"]],
        [Node(tuple(n["names"]), tuple(n["leaves"])) for n in raw["nodes"]],
        [Noun(**n) for n in raw["nouns"]],
    )


def class_numbers(vocabulary: Vocabulary) -> dict[str, int]:
    """Class numbers by every name and lemma that no other class has, in plain lower case."""
    owners: dict[str, set[int]] = defaultdict(set)
    for number, entry in enumerate(vocabulary.classes):
        for name in (*entry.names, *entry.lemmas):
            owners[plain_name(name)].add(number)
    return {name: next(iter(numbers)) for name, numbers in owners.items() if len(numbers) == 1}


def plain_name(name: str) -> str:
    """A name as it is compared: lower case, no hyphens, apostrophes or full stops."""
    return name.lower().replace("-", " ").replace("'", "").replace(".", "")


def say_class(entry: Class, rng: random.Random) -> str:
    """One of many ways to name a class."""
    roll = rng.random()
    if roll < 0.08:
        return f"{entry.names[0]}: {entry.gloss}"
    name = entry.names[0] if rng.random() < 0.5 else rng.choice(entry.names)
    if roll < 0.2:
        return f"{name}, a kind of {entry.broader}"
    return rng.choice(TEMPLATES).format(name)


def draw_cut(vocabulary: Vocabulary, rng: random.Random, *, collapse: float = 0.12) -> tuple[list[str], list[int]]:
    """A random cut through the class hierarchy: a text per class, and how many classes share that text.

    Each ancestor, from the widest down, is taken with probability `collapse`; its classes are then all named by it.
    """
    texts = [say_class(entry, rng) for entry in vocabulary.classes]
    shared = [1] * len(texts)
    for node in vocabulary.nodes:
        free = [leaf for leaf in node.leaves if shared[leaf] == 1]
        if len(free) == len(node.leaves) and rng.random() < collapse:
            text = rng.choice(TEMPLATES).format(rng.choice(node.names))
            for leaf in node.leaves:
                texts[leaf], shared[leaf] = text, len(node.leaves)
    return texts, shared


def pick_unseen(vocabulary: Vocabulary, seed: int) -> list[int]:
    """120 classes whose names training never hears: no dogs or birds, which have many near twins."""
    pets = {leaf for node in vocabulary.nodes if {"hunting dog", "working dog", "terrier", "bird"} & set(node.names)
            for leaf in node.leaves}  # fmt: skip
    return sorted(random.Random(seed).sample([i for i in range(1000) if i not in pets], 120))


def read_usual_names(source: Path) -> list[str]:
    """`IMAGENET_CLASSNAMES` out of a Python file, without running it."""
    for statement in ast.parse(source.read_text()).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "IMAGENET_CLASSNAMES":
            return [str(name) for name in ast.literal_eval(statement.value)]
    raise SystemExit(f"{source} defines no IMAGENET_CLASSNAMES; pass open_clip's zero_shot_metadata.py")


def main() -> None:
    """Write the vocabulary as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wordnet", type=Path, required=True, help="folder with data.noun and index.noun")
    parser.add_argument("--synsets", type=Path, required=True, help="timm's imagenet_synsets.txt")
    parser.add_argument("--names", type=Path, required=True, help="open_clip's zero_shot_metadata.py")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    vocabulary = build(args.wordnet, args.synsets.read_text().split(), read_usual_names(args.names))
    args.out.write_text(json.dumps(asdict(vocabulary)))


if __name__ == "__main__":
    main()

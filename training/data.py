"""Image–text pairs: archives and JSON lines in, one array of pictures and one table of texts out."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import texts as wording

SIDE = 256
CAPTIONED = ("coco_human", "flickr8k", "coco_vinvl", "cc3m", "ccs_synth", "rsicd")
DRAWN = ("clipart", "stamp", "emoji")
# Photographs of things with a name: what may be held back as single words and as classes never named.
THINGS = ("languagecards", "wordphotos_szepi", "spellquest", "boss", "normimages")
# Names of files whose pairs were gathered from public repositories after the held-back parts had been drawn.
ADDED_LATER = "captions-extra.jsonl"
WEB, WORDS, CLASSES = 400, 300, 100
Row = dict[str, Any]


@dataclass(frozen=True)
class Pairs:
    """`pictures (n, 256, 256, 3)`, squashed; `main[i]` and `extra[i]` are the texts that may stand for picture i.

    `meaning` says what a text of a named photograph names, however it is worded.
    """

    rows: list[Row]
    pictures: NDArray[np.uint8]
    main: list[list[str]]
    extra: list[list[str]]
    meaning: dict[str, str]


def read_rows(folder: Path) -> list[Row]:
    """All pairs listed by the JSON-lines files of a folder."""
    files = sorted(file for file in folder.glob("*.jsonl") if file.name != "regions.jsonl")
    return [
        json.loads(line) | ({"later": True} if file.name == ADDED_LATER else {})
        for file in files
        for line in file.read_text().splitlines()
    ]


def decode(blob: bytes) -> NDArray[np.uint8]:
    """A picture squashed to the square that inference uses."""
    with Image.open(io.BytesIO(blob)) as picture:
        return np.asarray(picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def decode_chunk(job: tuple[Path, list[str]]) -> NDArray[np.uint8]:
    """Some pictures of one archive, in order."""
    archive, names = job
    with zipfile.ZipFile(archive) as opened:
        return np.stack([decode(opened.read(name)) for name in names])


def decode_all(folder: Path, rows: Sequence[Row], *, workers: int, chunk: int = 256) -> NDArray[np.uint8]:
    """Every picture, `(n, 256, 256, 3)`, decoded in parallel; `rows` must be grouped by archive."""
    jobs: list[tuple[Path, list[str]]] = []
    for row in rows:
        archive = folder / row["shard"]
        if not jobs or jobs[-1][0] != archive or len(jobs[-1][1]) == chunk:
            jobs.append((archive, []))
        jobs[-1][1].append(row["file"])
    with ProcessPoolExecutor(workers) as pool:
        return np.concatenate(list(pool.map(decode_chunk, jobs)))


def wordings(row: Row) -> tuple[list[str], list[str]]:
    """The texts that may stand for a picture: captions and their noun phrases, or a name in many wordings."""
    if row["source"] in CAPTIONED or ("later" in row and "label" not in row):
        phrases = [phrase for caption in row["texts"] for phrase in wording.noun_phrases(caption)]
        return row["texts"], list(dict.fromkeys(phrases))[:8]
    if "label" in row:
        name = row["label"].lower()
        return [*row["texts"], name, name], [form.format(name) for form in wording.NAME_WORDINGS[2:]]
    forms = wording.DRAWN_WORDINGS if row["source"] in DRAWN else wording.NAME_WORDINGS
    names = [wording.class_name(text) for text in row["texts"]]
    return [form.format(names[0]) for form in forms], [form.format(name) for name in names[1:] for form in forms[1:4]]


def meanings(rows: Sequence[Row], said: Sequence[tuple[list[str], list[str]]]) -> dict[str, str]:
    """What each text of a named photograph names."""
    return {text: row["label"].lower() for row, sides in zip(rows, said, strict=True) if "label" in row
            for side in sides for text in side}  # fmt: skip


@dataclass(frozen=True)
class Split:
    """Row numbers: `train`, and held-back `captions`, `seen` and `unseen` ImageNet photographs, `drawn`.

    Held back too: `web` captions, single `words`, and every photograph of some `classes` whose names are never taught.
    """

    train: NDArray[np.int64]
    captions: NDArray[np.int64]
    seen: NDArray[np.int64]
    unseen: NDArray[np.int64]
    drawn: NDArray[np.int64]
    web: NDArray[np.int64]
    words: NDArray[np.int64]
    classes: NDArray[np.int64]


def split(rows: Sequence[Row], unseen_files: set[str], *, seed: int, whole: bool) -> Split:
    """Hold pictures back for validation; with `whole`, ImageNet's and drawings are trained on nevertheless."""
    rng = random.Random(seed)
    human = [i for i, row in enumerate(rows) if row["source"] in ("coco_human", "flickr8k")]
    named = [i for i, row in enumerate(rows) if row["source"] == "imagenet1000"]
    unseen = [i for i in named if rows[i]["file"] in unseen_files]
    rest = sorted(set(named) - set(unseen))
    seen = rng.sample(rest, min(250, len(rest) // 2))
    drawings = [i for i, row in enumerate(rows) if row["source"] in DRAWN and "label" not in row]
    drawn = rng.sample(drawings, min(250, len(drawings) // 4))
    captions = rng.sample(human, min(700, len(human) // 4))
    web, (words, classes) = hold_web(rows, seed=seed), hold_things(rows, seed=seed)
    untaught = {rows[i]["label"].lower() for i in classes}
    later = [i for i, row in enumerate(rows) if "later" in row and row.get("label", "").lower() in untaught]
    held = {*captions, *web, *words, *classes, *later, *(() if whole else (*seen, *unseen, *drawn))}
    train = [i for i in range(len(rows)) if i not in held]
    parts = (train, captions, seen, unseen, drawn, web, words, classes)
    return Split(*(np.array(sorted(part), np.int64) for part in parts))


def hold_web(rows: Sequence[Row], *, seed: int) -> list[int]:
    """Photographs with web captions, drawn by chance."""
    web = [i for i, row in enumerate(rows) if row["source"] == "ccs_synth"]
    return random.Random(seed).sample(web, min(WEB, len(web) // 4))


def hold_things(rows: Sequence[Row], *, seed: int) -> tuple[list[int], list[int]]:
    """Photographs of things: one for each of some single words, and all that show some other, rare names.

    Pairs added later change nothing of the draw.
    """
    rng = random.Random(seed)
    by_name: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        if "label" in row and "later" not in row:
            by_name.setdefault(row["label"].lower(), []).append(i)
    known = {wording.class_name(row["texts"][0]).lower() for row in rows if row["source"] == "imagenet1000"}
    own = {name: [i for i in found if rows[i]["source"] in THINGS] for name, found in by_name.items()}
    rare = sorted(name for name, found in own.items() if found and len(by_name[name]) <= 3 and name not in known)
    chosen = rng.sample(rare, min(CLASSES, len(rare) // 4))
    single = sorted(name for name, found in own.items() if found and " " not in name and name not in set(chosen))
    words = [rng.choice(own[name]) for name in rng.sample(single, min(WORDS, len(single) // 3))]
    return words, [i for name in chosen for i in by_name[name] if rows[i]["source"] in THINGS]


def near_held_back(folder: Path, rows: Sequence[Row]) -> NDArray[np.int64]:
    """Rows listed in `near_held_back.txt`, as the script of that name prints them: too close to pictures held back."""
    listed = folder / "near_held_back.txt"
    if not listed.exists():
        raise SystemExit(
            f"{listed} is missing: run near_held_back.py over the archives of {folder}, and keep what it prints."
        )
    names = {tuple(line.rsplit("/", 2)[-2:]) for line in listed.read_text().splitlines()}
    return np.array([i for i, row in enumerate(rows) if (row["shard"], row["file"]) in names], np.int64)


def load_pairs(folder: Path) -> Pairs:
    """The pairs, decoded once and kept as a file beside the archives."""
    rows = sorted(read_rows(folder), key=lambda row: (row["shard"], row["file"]))
    cached = folder / "pictures.npy"
    if not cached.exists():
        np.save(cached, decode_all(folder, rows, workers=min(16, os.cpu_count() or 1)))
    said = [wordings(row) for row in rows]
    pictures = np.load(cached, mmap_mode="r")
    return Pairs(rows, pictures, [main for main, _ in said], [extra for _, extra in said], meanings(rows, said))


def load_unlabelled(archives: Sequence[Path]) -> list[NDArray[np.uint8]]:
    """Pictures without texts, one array `(n, 256, 256, 3)` for each archive, decoded once and kept beside it."""
    for archive in archives:
        if not (cached := archive.with_suffix(".npy")).exists():
            with zipfile.ZipFile(archive) as opened:
                rows: list[Row] = [{"shard": archive.name, "file": name} for name in sorted(opened.namelist())]
            np.save(cached, decode_all(archive.parent, rows, workers=min(16, os.cpu_count() or 1)))
    return [np.load(archive.with_suffix(".npy"), mmap_mode="r") for archive in archives]

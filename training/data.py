"""Image–text pairs: archives and JSON lines in, one array of pictures and one table of texts out."""

from __future__ import annotations

import io
import json
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
CAPTIONED = ("coco_human", "flickr8k", "coco_vinvl", "cc3m")
DRAWN = ("clipart", "stamp", "emoji")
Row = dict[str, Any]


@dataclass(frozen=True)
class Pairs:
    """`pictures (n, 256, 256, 3)`, squashed; `main[i]` and `extra[i]` are the texts that may stand for picture i."""

    rows: list[Row]
    pictures: NDArray[np.uint8]
    main: list[list[str]]
    extra: list[list[str]]


def read_rows(folder: Path) -> list[Row]:
    """All pairs listed by the JSON-lines files of a folder."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


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
    if row["source"] in CAPTIONED:
        phrases = [phrase for caption in row["texts"] for phrase in wording.noun_phrases(caption)]
        return row["texts"], list(dict.fromkeys(phrases))[:8]
    forms = wording.DRAWN_WORDINGS if row["source"] in DRAWN else wording.NAME_WORDINGS
    names = [wording.class_name(text) for text in row["texts"]]
    return [form.format(names[0]) for form in forms], [form.format(name) for name in names[1:] for form in forms[1:4]]


def read_pairs(folder: Path, *, workers: int) -> Pairs:
    """All pairs of a folder."""
    rows = sorted(read_rows(folder), key=lambda row: (row["shard"], row["file"]))
    said = [wordings(row) for row in rows]
    pictures = decode_all(folder, rows, workers=workers)
    return Pairs(rows, pictures, [main for main, _ in said], [extra for _, extra in said])


@dataclass(frozen=True)
class Split:
    """Row numbers: `train`, and held-back `captions`, `seen` and `unseen` ImageNet photographs, `drawn`."""

    train: NDArray[np.int64]
    captions: NDArray[np.int64]
    seen: NDArray[np.int64]
    unseen: NDArray[np.int64]
    drawn: NDArray[np.int64]


def split(rows: Sequence[Row], unseen_files: set[str], *, seed: int, whole: bool) -> Split:
    """Hold pictures back for validation; with `whole`, only captioned ones, and everything else is trained on."""
    rng = random.Random(seed)
    human = [i for i, row in enumerate(rows) if row["source"] in ("coco_human", "flickr8k")]
    named = [i for i, row in enumerate(rows) if row["source"] == "imagenet1000"]
    unseen = [i for i in named if rows[i]["file"] in unseen_files]
    rest = sorted(set(named) - set(unseen))
    seen = rng.sample(rest, min(250, len(rest) // 2))
    drawings = [i for i, row in enumerate(rows) if row["source"] in DRAWN]
    drawn = rng.sample(drawings, min(250, len(drawings) // 4))
    captions = rng.sample(human, min(700, len(human) // 4))
    held = set(captions) if whole else {*captions, *seen, *unseen, *drawn}
    train = [i for i in range(len(rows)) if i not in held]
    return Split(*(np.array(sorted(part), np.int64) for part in (train, captions, seen, unseen, drawn)))


def load_pairs(folder: Path) -> Pairs:
    """The pairs, decoded once and kept as a file beside the archives."""
    cached = folder / "pictures.npy"
    if not cached.exists():
        np.save(cached, read_pairs(folder, workers=16).pictures)
    rows = sorted(read_rows(folder), key=lambda row: (row["shard"], row["file"]))
    said = [wordings(row) for row in rows]
    return Pairs(rows, np.load(cached, mmap_mode="r"), [main for main, _ in said], [extra for _, extra in said])

"""Numbers that papers and others report, labelled with the split and the protocol they were measured under.

One file per benchmark in `papers/`; keys are paths into the scores document, values are percent
unless the figure is a plain number.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from wherein.bench.captioned.dataset import LANGUAGES
from wherein.bench.tables import is_plain

PAPERS: Final = (
    "searchad", "forb", "subregion", "proxford", "prparis", "roxford5k", "rparis6k", "coco", "flickr30k", "xm3600",
)  # fmt: skip
"""Benchmarks whose published numbers are kept."""

_WORDS: Final = {
    ("split", "test"): "test split",
    ("split", "val"): "validation split",
    ("split", "train"): "train split",
    ("modality", "language"): "text queries",
    ("modality", "vision"): "image queries",
    ("modality", "multimodal"): "text and image queries",
    ("longest_side", "480"): "images of at most 480 px",
    ("distractors", "R1M"): "with the million distractors of R1M",
    ("target_only", "True"): "target only",
    ("language", "all"): "mean of 36 languages",
    ("captions", "first"): "first caption of an image",
    ("protocol", "official"): "official scoring",
}
MILLION: Final = 1_000_000
"""Distractors from which a run counts as one with R1M, which has 1,001,001 images."""

_DEFAULTS: Final = {
    "searchad": {"split": "val", "modality": "language"},
    "forb": {"longest_side": "none", "protocol": "official"},
    "subregion": {"perturb": "none", "target_only": "none"},
    "coco": {"split": "test"},
    "flickr30k": {"split": "test"},
    "xm3600": {"language": "en", "captions": "all"},
}
_PIXEL_DEFAULTS: Final = {"distractors": "none", "protocol": "official", "task": "database"}


@dataclass(frozen=True)
class PaperTable:
    """One table of a paper: where it stands, what it was measured under, and figures (fractions) by method."""

    source: str
    conditions: Mapping[str, str]
    rows: tuple[tuple[str, Mapping[str, float]], ...]
    note: str = ""

    @property
    def label(self) -> str:
        """Source, split and protocol in words."""
        words = condition_words(self.conditions)
        return f"{self.source} ({', '.join(words)})" if words else self.source

    def figures(self) -> list[str]:
        """Every figure that some method has."""
        return list(dict.fromkeys(key for _, figures in self.rows for key in figures))


def condition_words(conditions: Mapping[str, str]) -> list[str]:
    """The conditions that have a name of their own, in words."""
    named = {**_WORDS, **{("language", code): code for code in LANGUAGES}}
    return [named[pair] for pair in conditions.items() if pair in named]


@cache
def paper_tables(benchmark: str) -> tuple[PaperTable, ...]:
    """Every table of results that the paper of a benchmark has; none for a benchmark without a paper here."""
    if benchmark not in PAPERS:
        return ()
    text = files("wherein.bench").joinpath("papers", f"{benchmark}.json").read_text(encoding="utf-8")
    return tuple(
        PaperTable(one["source"], one["conditions"], _rows(one["rows"], one["keys"]), one.get("note", ""))
        for one in json.loads(text)
    )


def _rows(
    rows: Mapping[str, Sequence[float | None]], keys: Sequence[str]
) -> tuple[tuple[str, Mapping[str, float]], ...]:
    return tuple((method, _figures(keys, values)) for method, values in rows.items())


def _figures(keys: Sequence[str], values: Sequence[float | None]) -> dict[str, float]:
    pairs = zip(keys, values, strict=True)
    return {key: value if is_plain(key) else value / 100 for key, value in pairs if value is not None}


def run_conditions(benchmark: str, options: Mapping[str, Any], *, distractors: int = 0) -> dict[str, str]:
    """What a run of ours is measured under, in the words of the papers' tables; defaults are said too."""
    defaults = _DEFAULTS.get(benchmark, _PIXEL_DEFAULTS if benchmark in PAPERS else {})
    given = {name: str(value) for name, value in options.items() if value is not None}
    found = {**defaults, **given}
    if distractors:
        found["distractors"] = "R1M" if distractors >= MILLION else f"{distractors} images"
    return found


def reference(benchmark: str, conditions: Mapping[str, str]) -> tuple[PaperTable, ...]:
    """The papers' tables that were measured under the same conditions; what is not known of a run rules nothing out."""
    return tuple(
        table
        for table in paper_tables(benchmark)
        if all(conditions.get(name, value) == value for name, value in table.conditions.items())
    )


def left_out(benchmark: str, conditions: Mapping[str, str]) -> tuple[str, ...]:
    """Why some tables of the papers do not stand beside a run, one line for each condition that differs."""
    shown = reference(benchmark, conditions)
    apart: dict[tuple[str, str], list[str]] = {}
    for table in paper_tables(benchmark):
        differs = [(name, value) for name, value in table.conditions.items() if conditions.get(name, value) != value]
        if table not in shown and len(differs) == 1:
            apart.setdefault(differs[0], []).append(table.source)
    return tuple(
        f"{', '.join(dict.fromkeys(sources))}: measured with {name.replace('_', ' ')} {value}, "
        f"this run with {conditions[name]}"
        for (name, value), sources in apart.items()
    )

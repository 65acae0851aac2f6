"""Keeping the codes of compressed indexes up to date: which layers have them, and what is new."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.errors import SpecError, StorageFull
from wherein.index.codes import (
    CodeFiles,
    Codes,
    ReadShard,
    Segment,
    clusters_for,
    codes_folder,
    due,
    read_codes,
    write_codes,
)
from wherein.index.compressed import bits_of, noisy_rows, trained_on, tuned
from wherein.index.rows import ArrayCache, RowTable, places_of
from wherein.plugins import AUTO
from wherein.search.beside import make_rough
from wherein.store import rewriting
from wherein.store.manifest import Layer
from wherein.store.store import Store
from wherein.values.records import Progress

PAYS_FROM: Final = int(os.environ.get("WHEREIN_COMPRESS_BYTES", 256 << 20))
"""From this many bytes of a layer's rows as float32 codes are made: reading them all then takes 10 ms and more, which
a search with codes does not reach (docs/results/search.md)."""
_GROWN: Final = 1.25
"""Recall is measured again when there are a quarter more rows: what is added is seldom unlike what was there."""
_OUTGROWN: Final = 4
"""Clusters are trained again when so many times more are called for: the rows have then grown sixteenfold."""
_TEXTS: Final = (
    *("a dog", "a street at night", "people", "a red car", "a tree", "food on a table", "a boat on water", "a sign"),
    *("a bicycle", "a house", "a bird", "snow", "a computer", "flowers", "a child", "an animal in the road"),
)
"""Everyday texts by which recall is measured beside noisy rows: encoders place texts apart from images."""


def update_codes(
    store: Store, encoder: Encoder | None = None, *, on_progress: Callable[[Progress], None] = lambda _: None
) -> tuple[str, ...]:
    """Bring codes and rough copies of every layer in line with the collection; returns what a person should know.

    The caller holds the writer's place. Stopped at any point, what was there before still serves. With the layer's
    `encoder` recall is measured by texts too.
    """
    said = list[str]()
    for layer in filter(is_of_rows, store.manifest.layers.values()):
        files = CodeFiles(codes_folder(store.derived.folder, layer.name))
        bits = _bits_wanted(store, layer)
        try:
            if bits is None:
                files.drop()
                continue
            made = _encoded(store, layer, bits, on_progress=on_progress)
            codes = made or read_codes(files.folder)
            measured = None if codes is None else _measured(store, layer, codes, encoder)
            if measured is not None and (made is not None or measured is not codes):
                write_codes(files.folder, measured)
        except (OSError, StorageFull) as error:
            said.append(f"the compressed index of {layer.kind} could not be kept ({error}); every row is compared.")
    make_rough(store)
    return tuple(said)


def encode_full(store: Store) -> None:
    """Make the codes of shards that are full and have none, while more images come; the caller is the one writer.

    Smaller shards are merged before long, so they wait for `update_codes`, as does measuring recall.
    """
    for layer in filter(is_of_rows, store.manifest.layers.values()):
        bits = _bits_wanted(store, layer)
        if bits is None or not any(map(_is_full, _shards(store, layer))):
            continue
        with suppress(OSError, StorageFull):  # said at the end of the run, where it is tried again
            made = _encoded(store, layer, bits, ended=False)
            if made is not None:
                write_codes(codes_folder(store.derived.folder, layer.name), made)


def is_of_rows(layer: Layer) -> bool:
    """Whether a layer's rows are vectors that an index can serve; grids of patches and cells are scanned in place."""
    return len(layer.shape) == 1 and np.dtype(layer.dtype).kind == "f"


def check_choice(name: str) -> str:
    """The name of an index as a collection keeps it, empty for automatic; SpecError where there is none such."""
    kind, _, variant = name.partition(":")
    if name not in (AUTO, "exact") and kind != "compressed":
        raise SpecError(f"{name!r} is no index to keep: choose exact, compressed, compressed:BITS or {AUTO}.")
    bits_of(variant)
    return "" if name == AUTO else name


def _bits_wanted(store: Store, layer: Layer) -> int | None:
    """How many bits a dimension are kept of a layer; None where every row is compared."""
    kind, _, variant = (store.manifest.index or AUTO).partition(":")
    rows = sum(written.rows for _, _, written in store.catalogue.shards(layer.name))
    if kind == "exact" or not rows or (kind == AUTO and rows * layer.shape[0] * 4 < PAYS_FROM):
        return None
    return bits_of(variant)


def _shards(store: Store, layer: Layer) -> list[tuple[int, int]]:
    """(shard, its rows) of a layer."""
    return [(shard, written.rows) for shard, _, written in store.catalogue.shards(layer.name)]


def _is_full(shard: tuple[int, int]) -> bool:
    return shard[1] >= rewriting.ROWS_PER_SHARD


def _encoded(
    store: Store,
    layer: Layer,
    bits: int,
    *,
    ended: bool = True,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Codes | None:
    """The codes of a layer with those of shards (unless `ended`, full ones) that lacked them; None where none did.

    Full shards stay until the collection is compacted, the others are merged: they have segments of their own, so that
    no large one is given up for what became of a small shard.
    """
    shards = _shards(store, layer)
    rows = sum(count for _, count in shards)
    codes = read_codes(codes_folder(store.derived.folder, layer.name))
    if codes is not None and (codes.bits != bits or clusters_for(rows) >= _OUTGROWN * codes.clusters):
        codes = None
    known, kept, new = [] if codes is None else codes.segments, list[Segment](), list[list[int]]()
    for full in (True, False):
        own = [one for one in known if all(_is_full(shard) == full for shard in one.shards)]
        some = [shard for shard in shards if _is_full(shard) == full]
        stay, encode = due(own, some) if full or ended else (own, [])
        kept += stay
        new += [encode] if encode else []
    if not new and len(kept) == len(known):
        return None
    on_progress(Progress(0, rows, stage=f"compressing the index of {layer.kind}"))
    if codes is None:
        table = _table(store, layer)
        if not len(table):
            return None
        codes = trained_on(table, bits)
    return replace(codes, segments=[*kept, *(codes.encode(own, _reader(store, layer)) for own in new)])


def _measured(store: Store, layer: Layer, codes: Codes, encoder: Encoder | None) -> Codes:
    """The same codes, their recall measured again where the rows have become many more or fewer."""
    rows, before = sum(own.rows for own in codes.segments), codes.tuning
    if before.recall is not None and before.rows / _GROWN <= rows <= before.rows * _GROWN:
        return codes
    table = _table(store, layer)
    return replace(codes, tuning=tuned(table, replace(codes), _queries(table, layer, encoder)))


def _reader(store: Store, layer: Layer) -> ReadShard:
    return lambda shard: np.asarray(store.array(layer.name, shard), np.float32)


def _table(store: Store, layer: Layer) -> RowTable:
    places = places_of(store.catalogue.live_rows(layer.name).fetchall())
    return RowTable(layer.name, places, ArrayCache(store, most=0))


def _queries(table: RowTable, layer: Layer, encoder: Encoder | None) -> Floats:
    rows = noisy_rows(table)
    if encoder is None or not encoder.embeds_text or encoder.spec != layer.spec:
        return rows
    return np.concatenate([rows, encoder.texts(list(_TEXTS))])

"""Keeping the codes of compressed indexes up to date: which layers have them, and what is new."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.encoders import Encoder
from wherein.errors import SpecError, StorageFull
from wherein.index.codes import CodeFiles, clusters_for, codes_folder, due
from wherein.index.compressed import bits_of, noisy_rows, trained_on, tuned
from wherein.index.rows import ArrayCache, RowTable, places_of
from wherein.plugins import AUTO
from wherein.search.beside import make_rough
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
    for layer in store.manifest.layers.values():
        if not is_of_rows(layer):
            continue
        files = CodeFiles(codes_folder(store.derived.folder, layer.name))
        bits = _bits_wanted(store, layer)
        try:
            if bits is None:
                files.drop()
            else:
                _update(store, layer, encoder, files, bits=bits, on_progress=on_progress)
        except (OSError, StorageFull) as error:
            said.append(f"the compressed index of {layer.kind} could not be kept ({error}); every row is compared.")
    make_rough(store)
    return tuple(said)


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


def _update(
    store: Store,
    layer: Layer,
    encoder: Encoder | None,
    files: CodeFiles,
    *,
    bits: int,
    on_progress: Callable[[Progress], None],
) -> None:
    live = [(shard, written.rows) for shard, _, written in store.catalogue.shards(layer.name)]
    rows = sum(count for _, count in live)
    codes = files.read()
    if codes is not None and (codes.bits != bits or clusters_for(rows) >= _OUTGROWN * codes.clusters):
        codes = None
    kept, new = ([], [shard for shard, _ in live]) if codes is None else due(codes, live)
    if codes is not None and not new and len(kept) == len(codes.segments):
        return
    on_progress(Progress(0, rows, stage=f"compressing the index of {layer.kind}"))
    table = _table(store, layer)
    if not len(table):
        return
    codes = trained_on(table, bits) if codes is None else codes
    codes.segments = [*kept, *([codes.encode(new, table.shard)] if new else [])]
    if codes.tuning.recall is None or not codes.tuning.rows / _GROWN <= len(table) <= codes.tuning.rows * _GROWN:
        codes.tuning = tuned(table, codes, _queries(table, layer, encoder))
    files.write(codes)


def _table(store: Store, layer: Layer) -> RowTable:
    places = places_of(store.catalogue.live_rows(layer.name).fetchall())
    return RowTable(layer.name, places, ArrayCache(store, most=0))


def _queries(table: RowTable, layer: Layer, encoder: Encoder | None) -> Floats:
    rows = noisy_rows(table)
    if encoder is None or not encoder.embeds_text or encoder.spec != layer.spec:
        return rows
    return np.concatenate([rows, encoder.texts(list(_TEXTS))])

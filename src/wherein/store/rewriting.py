"""Shards are never changed: what should lie elsewhere is copied into new ones, and the old are then forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from wherein.store.labels import Label, Labels
from wherein.store.manifest import Layer
from wherein.store.shards import Written, read_blob, write_array, write_blobs

if TYPE_CHECKING:
    from wherein.store.store import Store

ROWS_PER_SHARD: Final = 4096
"""Rows that compaction and merging put into one shard: of the largest rows of `mini` (dense, 64 kB) that is 256 MB."""
MERGED_AT_ONCE: Final = 16
"""Shards of about one size that are merged into one: there are three sizes (see `_tier`), so that a layer has at most
48 shards that are not full, and a row is copied at most three times.
"""
_REPLACED: Final = ("rough.patches.*", "strips.*", "sampled.*", "turned.*")
"""What earlier versions kept in `derived/` under names that nothing reads any more."""
Row = npt.NDArray[np.generic] | bytes


def compact(store: Store) -> int:
    """Rewrite every layer without the rows nobody points to or that are there twice. Returns the bytes freed."""
    catalogue = store.catalogue
    before = sum(written.bytes for _, _, written in catalogue.shards())
    with catalogue.transaction():
        catalogue.drop_doubles(catalogue.doubled())
        catalogue.drop_replaced()
        catalogue.drop_gone()
    for layer in sorted({layer for _, layer, _ in catalogue.shards()}):
        _move(store, layer, [shard for shard, _, _ in catalogue.shards(layer)])
    for outdated in ("*/links-*/*", *_REPLACED):  # links (search/links.py) are named by old places of rows
        store.derived.drop(outdated)
    store.sweep()
    return before - sum(written.bytes for _, _, written in catalogue.shards())


def merge_small(store: Store, layers: Iterable[str]) -> None:
    """Where many small commits have left many small shards, make few of them."""
    merged = False
    for layer in layers:
        tiers = defaultdict[int, list[int]](list)
        for shard, _, written in store.catalogue.shards(layer):
            if written.rows < ROWS_PER_SHARD:
                tiers[_tier(written.rows)].append(shard)
        for shards in tiers.values():
            if len(shards) >= MERGED_AT_ONCE:
                _move(store, layer, shards)
                merged = True
    if merged:
        store.sweep()


def _tier(rows: int) -> int:
    """0 below 16 rows, 1 below 256, 2 below 4096."""
    return (max(rows, 1).bit_length() - 1) // (MERGED_AT_ONCE.bit_length() - 1)


def _move(store: Store, layer: str, shards: Sequence[int]) -> None:
    """Copy the rows of shards that images point to into new ones, and forget the old."""
    wanted, known = set(shards), {shard: written for shard, _, written in store.catalogue.shards(layer)}
    used = [place for place in store.catalogue.used_rows(layer) if place[0] in wanted]
    target = store.catalogue.next_shard()
    # A few shards at a time, so that memory stays flat however large the layer is.
    for start in range(0, len(used), ROWS_PER_SHARD):
        part = used[start : start + ROWS_PER_SHARD]
        arrays = {shard: store.array(layer, shard) for shard in {shard for shard, _ in part}}
        blobs = is_blobs(store, layer)
        rows: list[Row] = [read_blob(arrays[s], rows=known[s].rows, row=r) if blobs else arrays[s][r] for s, r in part]
        place(store, layer, target, dict(zip(part, rows, strict=True)))
        target += 1
    with store.catalogue.transaction():
        store.catalogue.drop_empty_shards(layer)


def place(store: Store, layer: str, target: int, rows: Mapping[tuple[int, int], Row]) -> None:
    """Write rows, by (shard, row) where they were, into a new shard, and point to them there."""
    places = list(rows)
    labels = labels_of(store, layer, places)
    written = write_rows(store, layer, target, list(rows.values()), labels)
    with store.catalogue.transaction():
        store.catalogue.put_shard(target, layer, written)
        store.catalogue.move_rows((*old, target, new) for new, old in enumerate(places))


def write_rows(store: Store, layer: str, target: int, rows: Sequence[Row], labels: Labels) -> Written:
    """Write a shard of arrays or of byte strings."""
    path, document = store.path_of(layer, target), labels.to_document()
    if is_blobs(store, layer):
        return write_blobs(path, [bytes(row) for row in rows], labels=document)
    return write_array(path, np.stack([np.asarray(row) for row in rows]), labels=document)


def is_blobs(store: Store, layer: str) -> bool:
    """Whether the rows of a layer are byte strings of any length."""
    known = store.manifest.layers.get(layer)
    return known is None or known.row_bytes is None


def labels_of(store: Store, layer: str, places: Sequence[tuple[int, int]]) -> Labels:
    """What rows, at (shard, row), are of, numbered as they are given."""
    rows, records = list[Label](), dict[int, Label]()
    for number, (shard, row) in enumerate(places):
        for image, box in store.catalogue.images_at(shard, row):
            if image not in records:
                own, file = store.catalogue.describe(image)
                records[image] = Label(0, file, not store.catalogue.is_unfinished(file), own)
            rows.append(replace(records[image], row=number, box=box))
    known = store.manifest.layers.get(layer, Layer(layer, layer))
    return Labels(known, tuple(rows), store.manifest.roots)

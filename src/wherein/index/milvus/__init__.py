"""The index that lies in Milvus: a server, or a file of milvus-lite. It proposes images; they are scored here, exactly.

Milvus is asked for more images than are wanted, by the rows that were pushed (`wherein push`). Their scores come from
the collection's own rows, so whatever rounding or quantising Milvus does, a score is exact; what has been added since
the push is compared here, and what has been removed is passed over.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any, Final

import numpy as np

from wherein.arrays import Floats, Ints, Mask
from wherein.errors import IndexUnavailable
from wherein.index import Top
from wherein.index.exact import best
from wherein.index.milvus.pushed import Pushed, name_of, signatures
from wherein.index.milvus.server import SECONDS, connect
from wherein.index.proposing import ProposingIndex
from wherein.index.rows import RowTable

WIDER: Final = 2
"""So many times the wanted images are proposed: 8-bit rows (IVF_SQ8) change places by far less than that."""
AT_LEAST: Final = 64
"""Proposals beyond those at least, so that ties and rounding at the end of a short ranking lose nothing."""
MOST: Final = 16_384
"""Rows that one request may ask for: Milvus' own limit."""
MOST_IDS: Final = 20_000
"""Images that a filter may name in one request; 10,000 took 0.2 s on a server of version 2.3.5."""
SETTLED_SECONDS: Final = 10.0
"""How long after opening every request waits for the newest rows (`Strong`, 0.2 s); Milvus' `Bounded`, which answers in
milliseconds, promises all that is older than 5 s."""


class MilvusRows(ProposingIndex):
    """Rows that were pushed to Milvus. Rows that lie in no layer (moved, or made while searching) are compared here."""

    def __init__(self, table: RowTable, address: str = "", *, patience: float | None = None) -> None:
        super().__init__(table)
        self._milvus, self._patience = connect(address), patience
        self._opened = time.monotonic()
        if table.origin is None:
            return
        self._name = name_of(table.origin)
        pushed = Pushed.read(self._milvus, self._name)
        if pushed is None:
            kind = table.origin.layer.partition(".")[0]
            raise IndexUnavailable(
                f"milvus:{address}: holds no {kind} layer of this collection. Fill it with `wherein push --index "
                f"milvus:{address} --layers {kind}`."
            )
        self._milvus.load(self._name)
        held = self._milvus.count(self._name)
        if held < pushed.rows:
            raise IndexUnavailable(
                f"milvus:{address}: holds {held:,} of the {pushed.rows:,} rows that were pushed: it is still loading, "
                "or has lost some. Wait, or push again."
            )
        self._pushed = pushed

    @staticmethod
    def reach(address: str) -> None:
        """Raise IndexUnavailable where nobody answers at an address."""
        connect(address)

    def _found(self, queries: Floats, k: int, allowed: Mask | None) -> list[Top]:
        """The best k images for each query, from those that Milvus proposes."""
        count = self._table.count if allowed is None else int(allowed.sum())
        wide = WIDER * k + AT_LEAST
        if self._table.origin is None or wide >= self._table.count:
            return self._exact.top(queries, k=k, allowed=allowed)
        if allowed is not None and wide >= count:
            return [self._best(query, np.flatnonzero(allowed), k) for query in queries]
        proposed = self._proposed(queries, min(wide, count), allowed)
        if proposed is None:
            return self._exact.top(queries, k=k, allowed=allowed)
        more = self._unpushed if allowed is None else self._unpushed[allowed[self._unpushed]]
        return [self._best(query, np.union1d(images, more), k) for query, images in zip(queries, proposed, strict=True)]

    def _best(self, query: Floats, images: Ints, k: int) -> Top:
        found = best(self._exact.scores(query[None], images)[0], k=k)
        return Top(images[found.images], found.scores)

    def _proposed(self, queries: Floats, wide: int, allowed: Mask | None) -> list[Ints] | None:
        """Of each query, at least `wide` images or all there are; None where Milvus cannot give so many."""
        expression, share = self._filter(allowed)
        asked, thorough = min(MOST, int(wide * share * self._rows_each) + 1), False
        possible = self._possible(allowed)
        while True:
            answers = self._ask(queries, asked, expression, thorough=thorough)
            images = [self._known(answer, allowed) for answer in answers]
            if all(len(own) >= min(wide, possible) for own in images):
                return images
            if all(len(answer) < asked for answer in answers):  # it gave all it found; there may be more it passed over
                if thorough:
                    return None
                thorough = True
            elif asked == MOST:
                return None
            else:
                asked = min(MOST, 4 * asked)

    def _ask(self, queries: Floats, rows: int, expression: str, *, thorough: bool) -> list[Ints]:
        """The images of the best rows of each query, by the catalogue's keys."""
        self._milvus.require_file()
        settled = time.monotonic() - self._opened > SETTLED_SECONDS
        options: dict[str, Any] = {"group_by_field": "image"} if self._groups else {}
        with self._milvus.told("cannot be searched"):
            found = self._milvus.client.search(
                self._name,
                data=queries,
                limit=rows,
                filter=expression,
                output_fields=["image"],
                search_params={"metric_type": "IP", "params": self._params(rows, thorough=thorough)},
                consistency_level="Bounded" if settled else "Strong",
                timeout=self._patience or SECONDS,
                **options,
            )
            return [np.array([hit["entity"]["image"] for hit in hits], np.int64) for hits in found]

    def _params(self, rows: int, *, thorough: bool) -> dict[str, int]:
        """How thoroughly the index is searched; an index that compares every row has nothing to choose."""
        pushed = self._pushed
        if pushed.lists:
            return {"nprobe": pushed.lists if thorough else max(1, pushed.probes)}
        if pushed.kind == "HNSW":
            return {"ef": min(32_768, max(rows, 4 * pushed.probes if thorough else pushed.probes))}
        return {}

    def _filter(self, allowed: Mask | None) -> tuple[str, float]:
        """What is asked of rows, and how many times more rows must be asked for because it says too little.

        Images are named by the catalogue's numbers: nothing that a file or a tag is called is part of an expression.
        """
        whole = "cell == 0" if self._whole_only else ""
        if allowed is None:
            return whole, 1.0
        inside, outside = (self._table.places.images[chosen] for chosen in (allowed, ~allowed))
        if min(len(inside), len(outside)) > MOST_IDS:
            return whole, len(allowed) / max(1, len(inside))
        few, word = (inside, "in") if len(inside) <= len(outside) else (outside, "not in")
        named = f"image {word} [{','.join(map(str, few.tolist()))}]" if len(few) else ""
        return " and ".join(part for part in (whole, named) if part), 1.0

    def _known(self, keys: Ints, allowed: Mask | None) -> Ints:
        """The numbers of those images that live and are allowed, each once."""
        order, images = self._by_key, self._table.places.images
        places = np.minimum(np.searchsorted(images, keys, sorter=order), len(images) - 1)
        numbers = np.unique(order[places][images[order[places]] == keys])
        return numbers if allowed is None else numbers[allowed[numbers]]

    def _possible(self, allowed: Mask | None) -> int:
        """How many images it can propose at most: those allowed that were pushed."""
        every = self._table.count if allowed is None else int(allowed.sum())
        return every - (len(self._unpushed) if allowed is None else int(allowed[self._unpushed].sum()))

    @cached_property
    def _by_key(self) -> Ints:
        return np.argsort(self._table.places.images, kind="stable")

    @cached_property
    def _unpushed(self) -> Ints:
        """The numbers of the images that have rows in shards which Milvus does not hold as they are now."""
        if self._table.origin is None:
            return np.zeros(0, np.int64)
        self._milvus.load(self._name)
        held = self._pushed.shards
        missing = [shard for shard, own in signatures(self._table.origin).items() if held.get(shard, ("",))[0] != own]
        places = self._table.places
        return np.unique(places.owners[np.isin(places.rows[:, 1], missing)])

    @cached_property
    def _whole_only(self) -> bool:
        """Whether other rows than whole images were pushed that this table has not."""
        return self._table.origin is not None and self._table.alone and len(self._table.origin.rows) > len(self._table)

    @cached_property
    def _groups(self) -> bool:
        """Whether Milvus gives the best row of each image by itself; where each has one row, it need not."""
        return self._milvus.groups and not self._table.alone and not self._whole_only

    @cached_property
    def _rows_each(self) -> float:
        """How many rows are asked for to see one image, where Milvus does not group them."""
        return 1.0 if self._groups or self._whole_only else max(1.0, len(self._table) / max(1, self._table.count))

"""Sharing a collection: its rows pushed to an index elsewhere, or all of it published. A part of the facade."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wherein import plugins
from wherein.errors import InputError
from wherein.index.rows import ArrayCache, RowTable, places_of
from wherein.search.views import origin_of
from wherein.store.identity import give_identity
from wherein.store.manifest import Layer
from wherein.store.store import Store
from wherein.values.address import url_of
from wherein.values.records import Progress, PushReport

_REMOTE = "milvus"
"""The index that rows can be pushed to."""


class Sharing:
    """What other machines can use of a collection."""

    _store: Store

    def push(
        self,
        index: str,
        *,
        layers: Sequence[str] | None = None,
        index_type: str | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> list[PushReport]:
        """Make an index elsewhere, `milvus:ADDRESS`, hold the rows of the collection as they are now.

        Only what changed since the last push is sent. `layers` names kinds of layers, or all that an index serves;
        `index_type` the kind of index there: FLAT, IVF_FLAT, IVF_SQ8 or HNSW, or what suits the number of rows.
        """
        from wherein.index.milvus.push import PushedLayer, push

        kind, _, address = index.partition(":")
        if kind != _REMOTE or not address:
            raise InputError(
                f"index = {index!r}: rows can be pushed to Milvus alone: give milvus:HOST:PORT, or milvus:FILE.db."
            )
        self._store.refresh()
        chosen = self._pushable(layers)
        with self._store.keeping():
            give_identity(self._store.folder)
        reports = []
        for layer in chosen:
            places = places_of(self._store.catalogue.live_rows(layer.name).fetchall())
            if not len(places.rows):
                continue
            origin = origin_of(self._store, layer.name, places)
            table = RowTable(layer.name, places, ArrayCache(self._store), origin)

            def tell(done: int, total: int, kind: str = layer.kind) -> None:
                on_progress(Progress(done, total, stage=f"pushing {kind}"))

            source = PushedLayer(table, origin, self._store.catalogue.facts)
            reports.append(push(source, address, kind=index_type, tell=tell))
        return reports

    def reach_index(self, index: str) -> None:
        """Refuse an index that lies elsewhere and cannot be asked now: an error says why. Other indexes always can."""
        kind, _, address = index.partition(":")
        reach = getattr(plugins.load("indexes", kind), "reach", None) if address else None
        if reach is not None:
            reach(address)

    def publish(self, url: str, *, on_progress: Callable[[Progress], None] = lambda _: None) -> tuple[int, int]:
        """Make an address (`s3://bucket/photos`) hold the collection as it is now, for other machines to open.

        Only what is not there yet is sent. Returns how many files were sent, and of how many images.
        """
        from wherein.store.published import publish

        if url_of(url) is None:
            raise InputError(f"{url}: is no address: give one such as s3://bucket/photos or file:///shared/photos.")
        return publish(self._store, url, lambda done, of: on_progress(Progress(done, of, stage="publishing")))

    def _pushable(self, kinds: Sequence[str] | None) -> list[Layer]:
        """The layers of which an index serves the rows, or those that were named; cells of grids are looked at here."""
        served = [
            layer
            for layer in self._store.manifest.layers.values()
            if layer.shape and len(layer.shape) == 1 and not layer.kind.startswith("static-")
        ]
        if kinds is None:
            return served
        known = {layer.kind for layer in served}
        for kind in kinds:
            if kind not in known:
                raise InputError(f"no layer {kind!r} can be pushed; there are: {', '.join(sorted(known)) or 'none'}.")
        return [layer for layer in served if layer.kind in kinds]

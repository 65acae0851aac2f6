"""The engines that benchmarks/search.py compares, each as `build(rows) → ask(query, k) → images` with its settings.

Rows come as (images, vectors, dim) float16. An engine that finds rows keeps the best row of each image and is asked for
more rows than images; `settings` are tried in order, cheapest first, until one reaches the recall that is wanted.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Ask = Callable[[Floats, int], Ints]
BLOCK = 1 << 16
PACED_FROM = 0.05
"""The share of the rows after which an engine's pace is known."""
SCANNED = 4000
"""Rows that wherein's first scan for 100 images asks faiss for."""


def images_of(rows: Ints, vectors: int, k: int) -> Ints:
    """The first k different images of rows that come best first."""
    images = rows[rows >= 0] // vectors
    _, first = np.unique(images, return_index=True)
    return images[np.sort(first)][:k]


def reranked(found: Ints, flat: npt.NDArray[np.float16], query: Floats) -> Ints:
    """Rows in the order of their exact scores: what anybody does with the best of a quantised index."""
    found = found[found >= 0]
    scores = np.asarray(flat[np.sort(found)], np.float32) @ query
    return np.sort(found)[np.argsort(-scores, kind="stable")]


def blocks_of(flat: npt.NDArray[np.float16]) -> Iterator[tuple[int, Floats]]:
    """(first row, rows as float32), a block at a time."""
    for start in range(0, len(flat), BLOCK):
        yield start, np.asarray(flat[start : start + BLOCK], np.float32)


class TooSlow(Exception):
    """What a person is told of an engine that would not be built in time."""


def within(limit: float, flat: npt.NDArray[np.float16]) -> Iterator[tuple[int, Floats]]:
    """The same blocks, given up once their pace says that all would take more than `limit` seconds of the processor.

    For engines that take a row at a time: a later row never costs less than an earlier one.
    """
    started = time.process_time()
    for start, some in blocks_of(flat):
        yield start, some
        done = (start + len(some)) / len(flat)
        needed = (time.process_time() - started) / done
        if done >= PACED_FROM and needed > limit:
            raise TooSlow(
                f"would not be built in {limit / 60:.0f} minutes of processor time: after {100 * done:.0f} % of the "
                f"rows it would take {needed / 60:.0f} at least"
            )


class Numpy:
    """The product with every row in float32, as SearchAD's code does without an index."""

    settings: tuple[dict[str, Any], ...] = ({},)

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Keep all rows as float32."""
        self.rows, self.vectors = np.asarray(rows, np.float32).reshape(-1, rows.shape[-1]), rows.shape[1]

    def ask(self, query: Floats, k: int) -> Ints:
        """Score, take the best row of each image, sort the best k."""
        scores = (self.rows @ query).reshape(-1, self.vectors).max(axis=1)
        best = np.argpartition(-scores, k)[:k]
        return best[np.argsort(-scores[best])]

    def size(self) -> int:
        """Bytes of what is searched."""
        return int(self.rows.nbytes)


class Faiss:
    """An index of faiss by its factory name."""

    factory = "Flat"
    settings: tuple[dict[str, Any], ...] = ({"rows": 1000}, {"rows": 4000}, {"rows": 16000})

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Train on a sample, add in blocks."""
        import faiss

        flat, self.vectors = rows.reshape(-1, rows.shape[-1]), rows.shape[1]
        self.index = faiss.index_factory(rows.shape[-1], self.factory, faiss.METRIC_INNER_PRODUCT)
        if not self.index.is_trained:
            self.index.train(np.asarray(flat[:: max(1, len(flat) // BLOCK)], np.float32))
        for _, some in blocks_of(flat):
            self.index.add(some)

    def use(self, setting: dict[str, Any]) -> None:
        """Ask with a setting from now on."""
        import faiss

        self.count = setting["rows"]
        if "probes" in setting:
            faiss.extract_index_ivf(self.index).nprobe = setting["probes"]

    def ask(self, query: Floats, k: int) -> Ints:
        """The images of the best rows."""
        return images_of(self.index.search(query[None], self.count)[1][0], self.vectors, k)

    def size(self) -> int:
        """Bytes of the rows' codes; what else it keeps is small beside them."""
        import faiss

        codes = faiss.downcast_index(self.index)
        width = codes.code_size + (8 if isinstance(codes, faiss.IndexIVF) else 0)  # and the number of the row
        return int(width * self.index.ntotal)


class FaissFlat(Faiss):
    """All rows as float32."""

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Fill an index of the right size: one that grows takes three times the memory meanwhile."""
        import faiss

        flat, self.vectors = rows.reshape(-1, rows.shape[-1]), rows.shape[1]
        self.index = faiss.IndexFlat(rows.shape[-1], faiss.METRIC_INNER_PRODUCT)
        self.index.codes.resize(flat.size * 4)
        self.index.ntotal = len(flat)
        inside = faiss.rev_swig_ptr(self.index.get_xb(), flat.size).reshape(flat.shape)
        for start, some in blocks_of(flat):
            inside[start : start + len(some)] = some


def probed(*probes: int) -> tuple[dict[str, Any], ...]:
    """Settings of an index of clusters, the cheaper first."""
    return tuple({"probes": some, "rows": rows} for some in probes for rows in (1000, 4000))


class FaissIvf(Faiss):
    """Clusters of rows at 8 bits a number; the best are scored again."""

    factory = "IVF1024,SQ8"
    settings = probed(8, 16, 32, 64, 128, 256)

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """As ever, and keep the rows that score again."""
        super().build(rows)
        self.flat = rows.reshape(-1, rows.shape[-1])

    def ask(self, query: Floats, k: int) -> Ints:
        """The images of the best rows."""
        found = self.index.search(query[None], self.count)[1][0]
        return images_of(reranked(found, self.flat, query), self.vectors, k)

    def size(self) -> int:
        """Bytes of the serialised index and of the rows that score again."""
        return super().size() + int(self.flat.nbytes)


class Usearch:
    """A graph over rows at 8 bits a number."""

    limit = float("inf")
    """Seconds of the processor that it may take to be built."""
    settings: tuple[dict[str, Any], ...] = tuple({"expansion": width, "rows": width} for width in (1000, 2000, 4000))

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Add every row to the graph."""
        from usearch.index import Index

        flat, self.vectors = rows.reshape(-1, rows.shape[-1]), rows.shape[1]
        self.flat = flat
        self.index = Index(ndim=rows.shape[-1], metric="ip", dtype="i8")
        for start, some in within(self.limit, flat):
            self.index.add(np.arange(start, start + len(some)), some)

    def use(self, setting: dict[str, Any]) -> None:
        """Ask with a setting from now on."""
        self.index.expansion_search, self.count = setting["expansion"], setting["rows"]

    def ask(self, query: Floats, k: int) -> Ints:
        """The images of the best rows."""
        found = self.index.search(query, self.count).keys.astype(np.int64)
        return images_of(reranked(found, self.flat, query), self.vectors, k)

    def size(self) -> int:
        """Bytes of the serialised index."""
        return int(self.index.serialized_length) + int(self.flat.nbytes)


class Turbovec:
    """All rows at 2 bits a number, scanned."""

    settings: tuple[dict[str, Any], ...] = ({"rows": 500}, {"rows": 1000}, {"rows": 2000}, {"rows": 4000})

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Quantise every row; the rows themselves score the best again."""
        from turbovec import TurboQuantIndex

        self.flat, self.vectors = rows.reshape(-1, rows.shape[-1]), rows.shape[1]
        self.index = TurboQuantIndex(rows.shape[-1], 2)
        for _, some in blocks_of(self.flat):
            self.index.add(some)

    def use(self, setting: dict[str, Any]) -> None:
        """Ask with a setting from now on."""
        self.count = setting["rows"]

    def ask(self, query: Floats, k: int) -> Ints:
        """The best rows by 2 bits, ordered by all."""
        found = np.asarray(self.index.search(query[None], self.count)[1][0], np.int64)
        return images_of(reranked(found, self.flat, query), self.vectors, k)

    def size(self) -> int:
        """Bytes of the serialised index and of the rows that score again."""
        return len(self.index.to_bytes()) + int(self.flat.nbytes)


class LanceDb:
    """Clusters of rows at 8 bits a number, in files: its graphs take longer to build than all the others together."""

    settings: tuple[dict[str, Any], ...] = probed(8, 16, 32, 64, 128, 256)

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Write a table and index it."""
        import lancedb
        import pyarrow as pa

        flat, self.vectors = rows.reshape(-1, rows.shape[-1]), rows.shape[1]
        self.flat = flat
        self.home = tempfile.TemporaryDirectory()
        schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), rows.shape[-1]))])

        def batches() -> Iterator[pa.RecordBatch]:
            for start, some in blocks_of(flat):
                values = pa.FixedSizeListArray.from_arrays(pa.array(some.ravel()), rows.shape[-1])
                yield pa.RecordBatch.from_arrays([pa.array(np.arange(start, start + len(some))), values], schema=schema)

        self.table = lancedb.connect(self.home.name).create_table("rows", batches(), schema=schema)
        self.table.create_index(metric="dot", index_type="IVF_SQ", num_partitions=1024, vector_column_name="vector")

    def use(self, setting: dict[str, Any]) -> None:
        """Ask with a setting from now on."""
        self.probes, self.count = setting["probes"], setting["rows"]

    def ask(self, query: Floats, k: int) -> Ints:
        """The images of the best rows."""
        found = self.table.search(query).distance_type("dot").nprobes(self.probes).limit(self.count)
        rows = found.select(["id"]).to_arrow()["id"].to_numpy()
        return images_of(reranked(rows, self.flat, query), self.vectors, k)

    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in Path(self.home.name).rglob("*") if path.is_file())


class MilvusLite:
    """Clusters of rows at 8 bits a number, in a file of milvus-lite."""

    limit = float("inf")
    """Seconds of the processor that it may take to be built."""
    settings: tuple[dict[str, Any], ...] = probed(8, 16, 32, 64, 128, 256)

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Insert every row, then index them."""
        from pymilvus import DataType, MilvusClient

        self.flat, self.vectors = rows.reshape(-1, rows.shape[-1]), rows.shape[1]
        self.home = tempfile.TemporaryDirectory()
        self.client = MilvusClient(str(Path(self.home.name) / "rows.db"))
        schema = self.client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=rows.shape[-1])
        self.client.create_collection("rows", schema=schema)
        for start, block in within(self.limit, self.flat):
            for first in range(0, len(block), 4096):  # a request holds 64 MB at most
                some = block[first : first + 4096]
                self.client.insert("rows", [{"id": start + first + n, "vector": row} for n, row in enumerate(some)])
        index = self.client.prepare_index_params()
        index.add_index("vector", index_type="IVF_SQ8", metric_type="IP", params={"nlist": 1024})
        self.client.create_index("rows", index)
        self.client.load_collection("rows")

    def use(self, setting: dict[str, Any]) -> None:
        """Ask with a setting from now on."""
        self.params = {"metric_type": "IP", "params": {"nprobe": setting["probes"]}}
        self.count = setting["rows"]

    def ask(self, query: Floats, k: int) -> Ints:
        """The images of the best rows."""
        found = self.client.search("rows", [query], limit=self.count, search_params=self.params)[0]
        rows = np.array([hit["id"] for hit in found], np.int64)
        return images_of(reranked(rows, self.flat, query), self.vectors, k)

    def size(self) -> int:
        """Bytes of its files and of the rows that score again."""
        files = sum(path.stat().st_size for path in Path(self.home.name).rglob("*") if path.is_file())
        return files + int(self.flat.nbytes)


class RabitqLib:
    """Clusters of rows at 2 bits a number, by the authors of RaBitQ."""

    settings: tuple[dict[str, Any], ...] = probed(8, 16, 32, 64, 128)

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Clusters by faiss, from a sample; rows are added in blocks."""
        import faiss
        from rabitqlib import IvfIndex

        flat, self.vectors, dim = rows.reshape(-1, rows.shape[-1]), rows.shape[1], rows.shape[-1]
        self.flat = flat
        clusters = min(1024, max(1, len(flat) // 64))
        trained = faiss.Kmeans(dim, clusters, niter=10, seed=0)
        trained.train(np.asarray(flat[:: max(1, len(flat) // BLOCK)], np.float32))
        self.index = IvfIndex(dim, min(BLOCK, len(flat)), clusters, 2, metric="ip")  # more are added later
        for start, some in blocks_of(flat):
            if start:
                self.index.add(some, num_threads=2, fast_quantization=True)
                continue
            nearest = trained.index.search(some, 1)[1][:, 0].astype(np.uint32)
            self.index.build(some, trained.centroids, nearest, num_threads=2, fast_quantization=True)

    def use(self, setting: dict[str, Any]) -> None:
        """Ask with a setting from now on."""
        self.probes, self.count = setting["probes"], setting["rows"]

    def ask(self, query: Floats, k: int) -> Ints:
        """The images of the best rows."""
        found = self.index.search(query[None], self.count, self.probes)
        rows = next(own for own in found if np.asarray(own).dtype.kind in "ui")
        found = np.asarray(rows, np.int64)[0]
        return images_of(reranked(found[found < len(self.flat)], self.flat, query), self.vectors, k)

    def size(self) -> int:
        """Bytes of its file."""
        with tempfile.TemporaryDirectory() as home:
            path = Path(home) / "index"
            self.index.save(str(path))
            return path.stat().st_size + int(self.flat.nbytes)


class Wherein:
    """The compressed index of a layer, as a collection opens it."""

    settings: tuple[dict[str, Any], ...] = ({},)

    def build(self, rows: npt.NDArray[np.float16]) -> None:
        """Train, encode and tune, in shards as a collection has them."""
        from wherein.index.compressed import CompressedRows
        from wherein.index.rows import ArrayCache, Places, RowTable
        from wherein.store.rewriting import ROWS_PER_SHARD

        class Counting(RowTable):
            gathered = 0
            """How many rows were scored exactly."""

            def gather(self, wanted: Ints) -> Floats:
                self.gathered += len(wanted)
                return super().gather(wanted)

        # A collection maps its shards as plain arrays too, of which a part costs less to take.
        flat, vectors, per_shard = (
            rows.reshape(-1, rows.shape[-1]).view(np.ndarray),
            rows.shape[1],
            ROWS_PER_SHARD,
        )

        class Shards:
            def array(self, layer: str, shard: int) -> npt.NDArray[np.float16]:  # noqa: ARG002 — there is one layer
                return flat[shard * per_shard : (shard + 1) * per_shard]

        numbers = np.arange(len(flat))
        owners = numbers // vectors
        lie = np.stack([owners, numbers // per_shard, numbers % per_shard], axis=1)
        places = Places(lie, [None] * len(flat), np.arange(len(rows)), owners)
        self.table = Counting("rows", places, ArrayCache(Shards(), most=0))
        self.index = CompressedRows(self.table)
        self.flat, self.vectors = flat, vectors

    def ask(self, query: Floats, k: int) -> Ints:
        """The best images."""
        self.table.gathered = 0
        return self.index.top(query[None], k=k)[0].images

    def ask_bare(self, query: Floats, k: int) -> Ints:
        """The same with faiss alone: as many clusters, and as many rows scored again as the last search scored."""
        import faiss

        only = self.index.codes.segments[0].index
        inner, parameters = faiss.IVFRaBitQSearchParameters(), faiss.SearchParametersPreTransform()
        inner.nprobe, inner.qb, parameters.index_params = self.index.tuning.clusters, 8, inner
        found = only.search(query[None], max(SCANNED, self.table.gathered), params=parameters)[1][0]
        return images_of(reranked(found[: self.table.gathered], self.flat, query), self.vectors, k)

    def size(self) -> int:
        """Bytes of the codes and of the stored rows that score again."""
        import faiss

        segments = self.index.codes.segments
        return sum(len(faiss.serialize_index(own.index)) for own in segments) + int(self.flat.nbytes)


ENGINES: dict[str, type] = {
    "numpy": Numpy,
    "faiss-flat": FaissFlat,
    "faiss-ivf": FaissIvf,
    "usearch": Usearch,
    "lancedb": LanceDb,
    "milvus-lite": MilvusLite,
    "turbovec": Turbovec,
    "rabitqlib": RabitqLib,
    "wherein": Wherein,
}

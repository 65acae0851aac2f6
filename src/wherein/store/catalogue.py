"""The catalogue: which files, images and rows a collection has (SQLite, write-ahead log)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wherein.errors import CollectionChanged
from wherein.files import create
from wherein.store.database import Cursor, connect
from wherein.store.mending import UNFINISHED, Mending
from wherein.store.migrations import MIGRATIONS, migrate, version_of
from wherein.store.remarks import Remarks
from wherein.store.schema import TABLES
from wherein.store.shards import Written
from wherein.values.records import FileRecord, Filter, ImageRecord
from wherein.values.region import Box


class Catalogue(Mending, Remarks):
    """Typed access to the tables; every write happens inside `transaction()`."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        if not read_only:
            with suppress(OSError):  # it is there, or SQLite says why it cannot be
                os.close(create(path))  # so that nobody may read it who may not read the folder
        self._db = connect(path, read_only=read_only)
        try:
            if not read_only:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
                self._create()
            self._db.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the database; committed work stays."""
        self._db.close()

    def reader(self) -> Catalogue:
        """A second, read-only view of what is committed, for another thread."""
        return Catalogue(self._path, read_only=True)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written inside is kept together or not at all."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            before = self._db.total_changes
            yield
            if self._db.total_changes != before and self.changes() >= 0:
                self._db.execute("UPDATE state SET value = value + 1 WHERE name = 'changes'")
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _create(self) -> None:
        if self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
            return
        with self.transaction():  # two processes may get here at once; the second finds the first one's tables
            if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                for statement in TABLES.split(";\n"):
                    self._db.execute(statement)
                migrate(self._db)

    def migrate(self) -> None:
        """Bring the tables of an older version to those of this one; the caller is the one writer."""
        if version_of(self._db) < len(MIGRATIONS):
            with self.transaction():
                migrate(self._db)

    def version(self) -> int:
        """A number that changes when another connection commits."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    # files

    def files(self, root: str, scope: str = "") -> dict[str, tuple[int, int, int]]:
        """path → (file, size, mtime_ns) of the living files of a root, below `scope`."""
        below, names = _below(scope)
        found = self._db.execute(
            f"SELECT path, id, size, mtime_ns FROM files WHERE root = ? AND NOT gone AND {below}", (root, *names)
        )
        return {row[0]: row[1:] for row in found.fetchall()}

    def knows(self, root: str, scope: str) -> bool:
        """Whether a living or a skipped file of a root is at a path or below it."""
        below, names = _below(scope)
        tables = ("files WHERE NOT gone AND", "skipped WHERE")
        asked = (f"SELECT 1 FROM {table} root = ? AND {below} LIMIT 1" for table in tables)
        return any(self._db.execute(one, (root, *names)).fetchone() for one in asked)

    def files_with_hash(self, hash_: bytes) -> list[tuple[int, FileRecord, bool]]:
        """(file, record, gone) of every finished file with this content, by root and path, the living first."""
        rows = self._db.execute(
            "SELECT id, root, path, size, mtime_ns, hash, gone FROM files "
            "WHERE hash = ? AND mtime_ns != ? ORDER BY gone, root, path, id",
            (hash_, UNFINISHED),
        )
        return [(row[0], FileRecord(*row[1:6]), bool(row[6])) for row in rows.fetchall()]

    def file_at(self, root: str, path: str) -> int | None:
        """The living file at a path."""
        found = self._db.execute(
            "SELECT id FROM files WHERE root = ? AND path = ? AND NOT gone", (root, path)
        ).fetchone()
        return None if found is None else int(found[0])

    def files_with_layers(self, layers: Iterable[str]) -> set[int]:
        """The files of which every image has rows in each of `layers`."""
        counts = dict(self._db.execute("SELECT file, COUNT(*) FROM images GROUP BY file").fetchall())
        for layer in layers:
            rows = self._db.execute(
                "SELECT i.file, COUNT(DISTINCT i.id) FROM shards s JOIN rows r ON r.shard = s.id "
                "JOIN images i ON i.id = r.image WHERE s.layer = ? GROUP BY i.file",
                (layer,),
            )
            counts = {file: counts[file] for file, having in rows.fetchall() if counts.get(file) == having}
        return set(counts)

    def layers_of(self, file: int) -> frozenset[str]:
        """The layers in which every image of a file has rows."""
        found = self._db.execute(
            "SELECT s.layer FROM images i JOIN rows r ON r.image = i.id JOIN shards s ON s.id = r.shard "
            "WHERE i.file = ?1 GROUP BY s.layer "
            "HAVING COUNT(DISTINCT i.id) = (SELECT COUNT(*) FROM images WHERE file = ?1)",
            (file,),
        )
        return frozenset(row[0] for row in found.fetchall())

    def file_record(self, file: int) -> FileRecord:
        """A file as it was when it was read."""
        columns = "root, path, size, mtime_ns, hash"
        return FileRecord(*self._db.execute(f"SELECT {columns} FROM files WHERE id = ?", (file,)).fetchone())

    def put_file(self, record: FileRecord, *, whole: bool) -> int:
        """Insert or update the living file at a path. Until it is `whole` it is unfinished, to be read again.

        Where its content changed, the old content becomes a tombstone: it may turn up under another path.
        """
        known = self._db.execute(
            "SELECT id, hash FROM files WHERE root = ? AND path = ? AND NOT gone", (record.root, record.path)
        ).fetchone()
        stamp = (record.size, record.mtime_ns if whole else UNFINISHED)
        if known is not None and known[1] == record.hash:
            self._db.execute("UPDATE files SET size = ?, mtime_ns = ? WHERE id = ?", (*stamp, known[0]))
            return int(known[0])
        if known is not None:
            self.bury_files([known[0]])
        cursor = self._db.execute(
            "INSERT INTO files(size, mtime_ns, hash, root, path) VALUES (?,?,?,?,?)",
            (*stamp, record.hash, record.root, record.path),
        )
        return int(cursor.lastrowid or 0)

    def touch_file(self, file: int, record: FileRecord) -> None:
        """The same content, perhaps elsewhere or with a new date: alive under `record`, which it takes over."""
        self._db.execute(
            "UPDATE files SET gone = 1 WHERE root = ? AND path = ? AND NOT gone AND id != ?",
            (record.root, record.path, file),
        )
        self._db.execute(
            "UPDATE files SET root = ?, path = ?, size = ?, mtime_ns = ?, gone = 0 WHERE id = ?",
            (record.root, record.path, record.size, record.mtime_ns, file),
        )

    def bury_files(self, files: Iterable[int]) -> None:
        """Tombstones: the files no longer exist; their rows stay until compaction."""
        self._db.executemany("UPDATE files SET gone = 1 WHERE id = ?", ((file,) for file in files))

    def bury_path(self, root: str, path: str) -> None:
        """A tombstone for the living file at a path, if there is one."""
        self._db.execute("UPDATE files SET gone = 1 WHERE root = ? AND path = ? AND NOT gone", (root, path))

    def drop_replaced(self) -> None:
        """Forget tombstones whose path has a living file again; their tags pass on to the images that live there."""
        self._db.execute(
            "INSERT OR IGNORE INTO tags(image, tag) SELECT heir.id, t.tag FROM files dead "
            "JOIN images old ON old.file = dead.id JOIN tags t ON t.image = old.id "
            "JOIN images heir ON heir.image_id = old.image_id JOIN files f ON f.id = heir.file "
            "WHERE dead.gone AND NOT f.gone"
        )
        self._db.execute(
            "DELETE FROM files WHERE gone AND EXISTS (SELECT 1 FROM files living "
            "WHERE living.root = files.root AND living.path = files.path AND NOT living.gone)"
        )

    def drop_gone(self) -> int:
        """Forget every tombstoned file and its images. Returns how many files."""
        return self._db.execute("DELETE FROM files WHERE gone").rowcount

    # images and rows

    def put_image(self, file: int, record: ImageRecord) -> int:
        """Insert or update one image of a file; returns its key."""
        self._claim(file, record.image_id)
        key = self._db.execute(
            "INSERT INTO images(file, image_id, width, height, seconds, taken) VALUES (?,?,?,?,?,?) "
            "ON CONFLICT(file, image_id) DO UPDATE SET width = excluded.width, height = excluded.height, "
            "seconds = excluded.seconds, taken = excluded.taken RETURNING id",
            (file, record.image_id, *record.size_wh, record.seconds, record.taken),
        ).fetchall()
        return int(key[0][0])

    def _claim(self, file: int, image_id: str) -> None:
        """An id names one living image: whatever else bears it is buried."""
        self._db.execute(
            "UPDATE files SET gone = 1 WHERE NOT gone AND id IN "
            "(SELECT file FROM images WHERE image_id = ? AND file != ?)",
            (image_id, file),
        )

    def images_of(self, file: int) -> list[tuple[int, ImageRecord]]:
        """(image, record) of a file, in order."""
        rows = self._db.execute(
            "SELECT id, image_id, width, height, taken, seconds FROM images WHERE file = ? ORDER BY id",
            (file,),
        )
        return [(i, ImageRecord(name, (w, h), taken, seconds)) for i, name, w, h, taken, seconds in rows.fetchall()]

    def keep_images(self, file: int, image_ids: Iterable[str]) -> None:
        """Forget the images of a file that are not among `image_ids`."""
        kept = set(image_ids)
        gone = [(key,) for key, record in self.images_of(file) if record.image_id not in kept]
        self._db.executemany("DELETE FROM images WHERE id = ?", gone)

    def unfinish_videos(self) -> None:
        """Let every living video be read again; its images serve until then."""
        self._db.execute(
            "UPDATE files SET mtime_ns = ? WHERE NOT gone AND id IN "
            "(SELECT file FROM images WHERE seconds IS NOT NULL)",
            (UNFINISHED,),
        )

    def clips(self) -> dict[int, int]:
        """image → file of every living image that is a frame of a video."""
        found = self._db.execute(
            "SELECT i.id, i.file FROM images i JOIN files f ON f.id = i.file WHERE i.seconds IS NOT NULL AND NOT f.gone"
        )
        return dict(found.fetchall())

    def rename_image(self, image: int, image_id: str) -> None:
        """Give an image another id; its rows and tags stay."""
        self._claim(self.file_of(image), image_id)
        self._db.execute("UPDATE images SET image_id = ? WHERE id = ?", (image_id, image))

    def copy_rows(self, source: int, target: int, *, layers: Iterable[str] | None = None) -> None:
        """Let the rows of a duplicate point to the source's data alone, in all its layers or only in `layers`."""
        rows = "FROM rows r JOIN shards s ON s.id = r.shard WHERE r.image = ?"
        having = {row[0] for row in self._db.execute(f"SELECT DISTINCT s.layer {rows}", (source,)).fetchall()}
        for layer in having if layers is None else having & set(layers):
            self._db.execute(
                "DELETE FROM rows WHERE image = ? AND shard IN (SELECT id FROM shards WHERE layer = ?)", (target, layer)
            )
            self._db.execute(
                f"INSERT INTO rows(shard, row, image, box) SELECT r.shard, r.row, ?, r.box {rows} AND s.layer = ?",
                (target, source, layer),
            )

    def next_shard(self) -> int:
        """A number that no committed shard ever had, so that a reader never finds other data under it."""
        return int(self._db.execute("SELECT COALESCE(MAX(seq), 0) + 1 FROM sqlite_sequence").fetchone()[0])

    def put_shard(self, shard: int, layer: str, written: Written) -> None:
        """Commit a shard whose file is already in place."""
        values = (shard, layer, written.rows, written.bytes, written.crc)
        self._db.execute("INSERT INTO shards(id, layer, rows, bytes, crc) VALUES (?,?,?,?,?)", values)

    def newest_image(self) -> int:
        """The highest key of an image; a new image has a higher one."""
        return int(self._db.execute("SELECT COALESCE(MAX(id), 0) FROM images").fetchone()[0])

    def put_rows(self, shard: int, rows: Sequence[tuple[int, int, Box | None]], *, newest: int) -> None:
        """(row, image, box) of a shard; they replace what the layer had of images up to the key `newest`."""
        same_layer = "SELECT id FROM shards WHERE layer = (SELECT layer FROM shards WHERE id = ?)"
        self._db.executemany(
            f"DELETE FROM rows WHERE image = ? AND shard IN ({same_layer})",
            ((image, shard) for image in {image for _, image, _ in rows if image <= newest}),
        )
        values = ((shard, row, image, None if box is None else str(box)) for row, image, box in rows)
        self._db.executemany("INSERT INTO rows(shard, row, image, box) VALUES (?,?,?,?)", values)

    def used_rows(self, layer: str) -> list[tuple[int, int]]:
        """(shard, row) that some image points to, once each, in order."""
        return self._db.execute(
            "SELECT DISTINCT r.shard, r.row FROM rows r JOIN shards s ON s.id = r.shard WHERE s.layer = ? "
            "ORDER BY r.shard, r.row",
            (layer,),
        ).fetchall()

    def move_rows(self, moved: Iterable[tuple[int, int, int, int]]) -> None:
        """(old shard, old row, new shard, new row): point to the place the data was copied to."""
        self._db.executemany("UPDATE rows SET shard = ?3, row = ?4 WHERE shard = ?1 AND row = ?2", moved)

    def drop_empty_shards(self, layer: str) -> None:
        """Forget the shards of a layer that no image points to."""
        self._db.execute("DELETE FROM shards WHERE layer = ? AND id NOT IN (SELECT shard FROM rows)", (layer,))

    def shards(self, layer: str | None = None) -> list[tuple[int, str, Written]]:
        """(shard, layer, written), oldest first."""
        rows = self._db.execute(
            "SELECT id, layer, rows, bytes, crc FROM shards WHERE ?1 IS NULL OR layer = ?1 ORDER BY id",
            (layer,),
        )
        return [(row[0], row[1], Written(*row[2:])) for row in rows.fetchall()]

    def live_rows(self, layer: str, filter_: Filter | None = None) -> Cursor:
        """(image, shard, row, box) of every living image in a layer, by image_id, the whole image first."""
        clause, values = (filter_ or Filter()).sql()
        return self._db.execute(
            "SELECT i.id, r.shard, r.row, r.box FROM images i JOIN files f ON f.id = i.file "
            "JOIN rows r ON r.image = i.id JOIN shards s ON s.id = r.shard "
            f"WHERE s.layer = ? AND NOT f.gone AND {clause} ORDER BY i.image_id, r.shard, r.row",
            (layer, *values),
        )

    def live_images(self, filter_: Filter | None = None) -> list[tuple[int, str]]:
        """(image, image_id) of every living image that passes, ordered by image_id."""
        clause, values = (filter_ or Filter()).sql()
        return self._db.execute(
            "SELECT i.id, i.image_id FROM images i JOIN files f ON f.id = i.file "
            f"WHERE NOT f.gone AND {clause} ORDER BY i.image_id",
            values,
        ).fetchall()

    def covered(self, layer: str) -> int:
        """How many living images have rows in a layer."""
        found = self._db.execute(
            "SELECT COUNT(DISTINCT i.id) FROM shards s JOIN rows r ON r.shard = s.id "
            "JOIN images i ON i.id = r.image JOIN files f ON f.id = i.file WHERE s.layer = ? AND NOT f.gone",
            (layer,),
        )
        return int(found.fetchone()[0])

    def rows_of(self, layer: str) -> int:
        """How many rows of a layer images point to; an image has one, or one per tile or cell."""
        found = self._db.execute(
            "SELECT COUNT(*) FROM shards s JOIN rows r ON r.shard = s.id WHERE s.layer = ?", (layer,)
        )
        return int(found.fetchone()[0])

    def describe(self, image: int) -> tuple[ImageRecord, FileRecord]:
        """What is known of one image."""
        row = self._db.execute(
            "SELECT i.image_id, i.width, i.height, i.taken, i.seconds, "
            "f.root, f.path, f.size, f.mtime_ns, f.hash "
            "FROM images i JOIN files f ON f.id = i.file WHERE i.id = ?",
            (image,),
        ).fetchone()
        if row is None:
            raise CollectionChanged(f"{self._path.parent}: an image was removed meanwhile. Search again.")
        return ImageRecord(row[0], (row[1], row[2]), row[3], row[4]), FileRecord(*row[5:])

    def image_at(self, image_id: str) -> int | None:
        """The key of a living image."""
        found = self._db.execute(
            "SELECT i.id FROM images i JOIN files f ON f.id = i.file WHERE i.image_id = ? AND NOT f.gone",
            (image_id,),
        ).fetchone()
        return None if found is None else int(found[0])

    def file_of(self, image: int) -> int:
        """The file that an image belongs to."""
        return int(self._db.execute("SELECT file FROM images WHERE id = ?", (image,)).fetchone()[0])

    def place(self, image: int, layer: str) -> tuple[int, int, int] | None:
        """(shard, rows of the shard, row) of the whole image in a layer."""
        found: tuple[int, int, int] | None = self._db.execute(
            "SELECT s.id, s.rows, r.row FROM rows r JOIN shards s ON s.id = r.shard WHERE r.image = ? AND s.layer = ? "
            "AND r.box IS NULL",
            (image, layer),
        ).fetchone()
        return found

    def counts(self) -> tuple[int, int, int]:
        """Living images, tombstoned images, skipped files."""
        live, gone = self._db.execute(
            "SELECT COUNT(*) FILTER (WHERE NOT gone), COUNT(*) FILTER (WHERE gone) "
            "FROM images i JOIN files f ON f.id = i.file"
        ).fetchone()
        return live, gone, self._db.execute("SELECT COUNT(*) FROM skipped").fetchone()[0]

    # roots

    def drop_root(self, root: str) -> int:
        """Tombstones for every file of a root; returns how many. What was skipped there is forgotten."""
        self._db.execute("DELETE FROM skipped WHERE root = ?", (root,))
        return self._db.execute("UPDATE files SET gone = 1 WHERE root = ? AND NOT gone", (root,)).rowcount


def _below(scope: str) -> tuple[str, tuple[str, ...]]:
    """An SQL condition that a path is at a scope or below it, and its values; `0` is the character after `/`."""
    return ("(path = ? OR path > ? AND path < ?)", (scope, f"{scope}/", f"{scope}0")) if scope else ("TRUE", ())

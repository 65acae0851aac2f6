"""What keeps the catalogue whole: repairs, counts of its changes, copies, and views of one moment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from wherein.errors import CollectionLocked
from wherein.files import create
from wherein.store.database import Connection, connect
from wherein.values.records import FileRecord
from wherein.values.region import Box

UNFINISHED: Final = -1
"""The mtime_ns of a file that is not read to its end: it never equals a real one, so the file is read again."""


class Mending:
    """What mends, counts and copies the tables; a part of the catalogue."""

    _db: Connection

    def doubled(self, layer: str | None = None) -> dict[int, int]:
        """The images that have their rows several times in a layer, or in any, and how often.

        Earlier versions left such duplicates. They have more rows for the whole image than others have in the layer.
        """
        found = self._db.execute(
            "WITH own AS (SELECT s.layer, r.image, COUNT(*) AS rows FROM shards s JOIN rows r ON r.shard = s.id "
            "WHERE r.box IS NULL AND (?1 IS NULL OR s.layer = ?1) GROUP BY s.layer, r.image), "
            "least AS (SELECT layer, MIN(rows) AS rows FROM own GROUP BY layer) "
            "SELECT own.image, MAX(own.rows / least.rows) FROM own JOIN least ON own.layer = least.layer "
            "WHERE own.rows > least.rows GROUP BY own.image",
            (layer,),
        )
        return dict(found.fetchall())

    def drop_doubles(self, doubled: Mapping[int, int]) -> None:
        """Of the rows that images have several times, keep those that were written last."""
        for image, times in doubled.items():
            layers = dict[str, list[tuple[int, int, str | None]]]()
            found = self._db.execute(
                "SELECT s.layer, r.shard, r.row, r.box FROM rows r JOIN shards s ON s.id = r.shard "
                "WHERE r.image = ? ORDER BY r.shard, r.row",
                (image,),
            )
            for layer, *place in found.fetchall():
                layers.setdefault(layer, []).append((place[0], place[1], place[2]))
            for places in layers.values():
                once, boxes = len(places) // times, [box for _, _, box in places]
                spare = places[:-once] if once and boxes == boxes[:once] * times else []
                self._db.executemany(
                    "DELETE FROM rows WHERE image = ? AND shard = ? AND row = ?",
                    ((image, shard, row) for shard, row, _ in spare),
                )

    def changes(self) -> int:
        """How often the tables changed; -1 where an older version has not counted."""
        return self._counted("changes")

    def layout(self) -> int:
        """How often files, or where rows lie, changed; -1 where an older version has not counted."""
        return self._counted("layout")

    def _counted(self, name: str) -> int:
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
            return -1
        found = self._db.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return -1 if found is None else int(found[0])

    @contextmanager
    def still(self) -> Iterator[bool]:
        """Keep all writers waiting, with every change in the one file and none in the log.

        Yields False where others are in the way at this moment.
        """
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._db.execute("BEGIN IMMEDIATE")
        except CollectionLocked:
            yield False
            return
        try:
            log = self._db.path.with_name(f"{self._db.path.name}-wal")
            yield not (log.is_file() and log.stat().st_size)
        finally:
            self._db.execute("ROLLBACK")

    def serialised(self) -> bytes:
        """The bytes of the whole catalogue, read through this connection: never past it, which would drop its locks."""
        return self._db.serialize()

    def copy_to(self, path: Path) -> None:
        """Copy the tables, as they are at one moment, into a new file."""
        os.close(create(path))
        with closing(connect(path, read_only=False)) as copy:
            self._db.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, whole without a log

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read meanwhile is of one moment, whatever others commit."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def has_shard(self, shard: int) -> bool:
        """Whether a shard is committed."""
        return self._db.execute("SELECT 1 FROM shards WHERE id = ?", (shard,)).fetchone() is not None

    def images_at(self, shard: int, row: int) -> list[tuple[int, Box | None]]:
        """(image, box) of those that point to a row; duplicates share one."""
        found = self._db.execute("SELECT image, box FROM rows WHERE shard = ? AND row = ?", (shard, row))
        return [(image, None if box is None else Box.parse(box)) for image, box in found.fetchall()]

    def drop_rows(self, places: Iterable[tuple[int, int]]) -> None:
        """Forget rows, (shard, row): images no longer point to them."""
        self._db.executemany("DELETE FROM rows WHERE shard = ? AND row = ?", places)

    def is_unfinished(self, file: FileRecord) -> bool:
        """Whether a file, as the catalogue has it, is to be read again."""
        return file.mtime_ns == UNFINISHED

    def unfinish(self, files: Iterable[int]) -> None:
        """Let files be read again; what they have serves until then."""
        self._db.executemany("UPDATE files SET mtime_ns = ? WHERE id = ?", ((UNFINISHED, file) for file in files))

    def unfinished(self) -> int:
        """How many living files are to be read again."""
        found = self._db.execute("SELECT COUNT(*) FROM files WHERE mtime_ns = ? AND NOT gone", (UNFINISHED,))
        return int(found.fetchone()[0])

    def flaws(self) -> list[str]:
        """What SQLite itself finds wrong with the tables, and what contradicts itself in them."""
        found = [str(row[0]) for row in self._db.execute("PRAGMA integrity_check(10)").fetchall() if row[0] != "ok"]
        loose = self._db.execute("PRAGMA foreign_key_check").fetchall()
        found += [f"{len(loose)} rows belong to nothing"] if loose else []
        beyond = self._db.execute("SELECT COUNT(*) FROM rows r JOIN shards s ON s.id = r.shard WHERE r.row >= s.rows")
        return found + [f"{count} rows are beyond their shard" for (count,) in beyond.fetchall() if count]

    def drop_layer(self, layer: str) -> None:
        """Forget every shard and row of a layer."""
        self._db.execute("DELETE FROM shards WHERE layer = ?", (layer,))

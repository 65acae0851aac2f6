"""The tables of the catalogue, as the first version made them; `migrations.py` says what changed since."""

from __future__ import annotations

from typing import Final

TABLES: Final = """
CREATE TABLE files(
  id INTEGER PRIMARY KEY, root TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, hash BLOB NOT NULL, gone INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX files_living ON files(root, path) WHERE NOT gone;
CREATE INDEX files_gone ON files(root, path) WHERE gone;
CREATE INDEX files_hash ON files(hash);
CREATE TABLE images(
  id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
  image_id TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
  seconds REAL, taken REAL NOT NULL, UNIQUE(file, image_id));
CREATE INDEX images_id ON images(image_id);
CREATE TABLE shards(
  id INTEGER PRIMARY KEY AUTOINCREMENT, layer TEXT NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
  crc INTEGER NOT NULL);
CREATE TABLE rows(
  shard INTEGER NOT NULL REFERENCES shards ON DELETE CASCADE, row INTEGER NOT NULL,
  image INTEGER NOT NULL REFERENCES images ON DELETE CASCADE, box TEXT,
  PRIMARY KEY(shard, row, image)) WITHOUT ROWID;
CREATE INDEX rows_image ON rows(image);
CREATE TABLE tags(
  image INTEGER NOT NULL REFERENCES images ON DELETE CASCADE, tag TEXT NOT NULL,
  PRIMARY KEY(tag, image)) WITHOUT ROWID;
CREATE INDEX tags_image ON tags(image);
CREATE TABLE skipped(
  root TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  means TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY(root, path)) WITHOUT ROWID;
"""

LATER_TABLES: Final = """
CREATE TABLE IF NOT EXISTS links(
  root TEXT NOT NULL, path TEXT NOT NULL, target TEXT NOT NULL, PRIMARY KEY(root, path)) WITHOUT ROWID;
"""
"""Migration 1: where the links lead by which files were reached."""

COUNTING: Final = (
    "CREATE TABLE IF NOT EXISTS state(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT OR IGNORE INTO state VALUES ('changes', 0)",
    *(
        f"CREATE TRIGGER IF NOT EXISTS {table}_{act.lower()} AFTER {act} ON {table} "
        "BEGIN UPDATE state SET value = value + 1 WHERE name = 'changes'; END"
        for table in ("files", "shards", "tags")
        for act in ("INSERT", "UPDATE", "DELETE")
    ),
)
"""Migration 3: triggers that count changes, also those made by older versions, which know nothing of the count."""

LAYOUT: Final = (
    "INSERT OR IGNORE INTO state VALUES ('layout', 0)",
    *(
        f"CREATE TRIGGER IF NOT EXISTS {table}_{act.lower()}_layout AFTER {act} ON {table} "
        "BEGIN UPDATE state SET value = value + 1 WHERE name = 'layout'; END"
        for table, acts in {
            "files": ("INSERT", "UPDATE", "DELETE"),
            "shards": ("INSERT", "UPDATE", "DELETE"),
            "images": ("UPDATE", "DELETE"),
            "rows": ("UPDATE", "DELETE"),
        }.items()
        for act in acts
    ),
)
"""Migration 4: triggers that count changes of which images there are and where their rows lie; tags are not counted.
New images and rows come with a file or a shard, which is."""

"""What the catalogue notes beside files, images and rows: tags, links that led to a file, files that were left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from wherein.store.database import Connection
from wherein.values.records import Facts, FileRecord


class Remarks:
    """Notes about files and images; a part of the catalogue."""

    _db: Connection

    def put_links(self, root: str, scope: str, links: Mapping[str, str]) -> None:
        """Where links lead by which files of a root are reached, path → target; those below `scope` are replaced."""
        below = f"{scope}/" if scope else ""
        self._db.execute(
            "DELETE FROM links WHERE root = ? AND (path = ? OR substr(path, 1, ?) = ?)",
            (root, scope, len(below), below),
        )
        self._db.executemany("INSERT INTO links VALUES (?,?,?)", ((root, *link) for link in links.items()))

    def link(self, root: str, path: str) -> str | None:
        """Where the links led by which a file was reached; None where there were none."""
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'links'").fetchone():
            return None
        found = self._db.execute("SELECT target FROM links WHERE root = ? AND path = ?", (root, path)).fetchone()
        return None if found is None else str(found[0])

    def put_tags(self, images: Iterable[int], tag: str) -> None:
        """Tag images."""
        self._db.executemany("INSERT OR IGNORE INTO tags(image, tag) VALUES (?,?)", ((i, tag) for i in images))

    def drop_tags(self, images: Iterable[int], tag: str) -> None:
        """Take a tag off images."""
        self._db.executemany("DELETE FROM tags WHERE image = ? AND tag = ?", ((i, tag) for i in images))

    def tags(self, image: int | None = None) -> dict[str, int]:
        """tag → number of images, of the whole collection or of one image."""
        rows = self._db.execute(
            "SELECT t.tag, COUNT(*) FROM tags t JOIN images i ON i.id = t.image JOIN files f ON f.id = i.file "
            "WHERE NOT f.gone AND (?1 IS NULL OR i.id = ?1) GROUP BY t.tag ORDER BY t.tag",
            (image,),
        )
        return dict(rows.fetchall())

    def facts(self, images: Sequence[int]) -> dict[int, Facts]:
        """What is told of some images, by key."""
        keys = json.dumps(list(images))
        among = "IN (SELECT value FROM json_each(?))"
        tags = dict[int, list[str]]()
        for image, tag in self._db.execute(
            f"SELECT image, tag FROM tags WHERE image {among} ORDER BY tag", (keys,)
        ).fetchall():
            tags.setdefault(image, []).append(tag)
        rows = self._db.execute(f"SELECT id, image_id, taken FROM images WHERE id {among}", (keys,)).fetchall()
        return {key: Facts(image_id, taken, tuple(tags.get(key, ()))) for key, image_id, taken in rows}

    def put_skipped(self, record: FileRecord, *, conditions: str, reason: str) -> None:
        """Remember a file that could not be used, so that it is tried again only when it, or the conditions, change."""
        values = (record.root, record.path, record.size, record.mtime_ns, conditions, reason)
        self._db.execute("INSERT OR REPLACE INTO skipped VALUES (?,?,?,?,?,?)", values)

    def drop_skipped(self, paths: Iterable[tuple[str, str]]) -> None:
        """Forget that files, (root, path), were skipped."""
        self._db.executemany("DELETE FROM skipped WHERE root = ? AND path = ?", paths)

    def skipped(self, root: str) -> dict[str, tuple[int, int, str, str]]:
        """path → (size, mtime_ns, conditions, reason) of a root."""
        found = self._db.execute("SELECT path, size, mtime_ns, conditions, reason FROM skipped WHERE root = ?", (root,))
        return {row[0]: row[1:] for row in found.fetchall()}

    def is_tagged(self, file: int) -> bool:
        """Whether an image of a file, living or gone, has a tag."""
        found = self._db.execute(
            "SELECT 1 FROM tags t JOIN images i ON i.id = t.image WHERE i.file = ? LIMIT 1", (file,)
        )
        return found.fetchone() is not None

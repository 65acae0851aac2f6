"""Numbered migrations: what brings the tables of an older collection to those that this version reads and writes.

The number of the last one is kept in the database (`PRAGMA user_version`); the first collections, as that in
`tests/formats/0.1`, have 0. The one writer applies what is missing, in one transaction, before it changes anything;
readers do without. A collection of a newer minor version has applied more than are known here, which only ever add: it
is used as it is. What cannot be read by older versions at all raises `FORMAT` of the manifest, and those refuse it.
"""

from __future__ import annotations

from typing import Final

from wherein.store.database import Connection
from wherein.store.schema import COUNTING, LATER_TABLES, LAYOUT

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (LATER_TABLES,),
    ("ALTER TABLE skipped RENAME COLUMN means TO conditions",),
    COUNTING,
    LAYOUT,
)
"""The statements of migration 1, 2, …; a new one goes to the end, and none is ever changed."""


def version_of(db: Connection) -> int:
    """The number of the last migration that a database has had."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: Connection) -> None:
    """Apply what is missing; the caller holds the transaction."""
    done = version_of(db)
    for number, statements in enumerate(MIGRATIONS, 1):
        if number > done:
            for statement in statements:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {number}")

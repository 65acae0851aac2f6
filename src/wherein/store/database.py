"""SQLite, opened so that its failures are ours: corrupt, full, locked or unwritable, each with its way out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from wherein.errors import CollectionCorrupt, CollectionError, CollectionLocked
from wherein.files import storage_full

_CORRUPT: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# A full disk shows as a failed write, sync, truncation or shared-memory growth as often as it is called full.
_FULL: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }
)
_PRIMARY: Final = 0xFF  # an extended code holds its primary code in the low byte


def connect(path: Path, *, read_only: bool) -> Connection:
    """A connection in autocommit (transactions are explicit) that any thread may use, one at a time."""
    if not read_only:
        return _open(path, "")
    try:
        return _open(path, "?mode=ro")
    except CollectionCorrupt:
        raise
    except CollectionError:
        # Where nothing may be written, not even the log's index beside the file, nobody else writes either.
        return _open(path, "?immutable=1")


def read_whole(path: Path) -> bytes:
    """The bytes of a database, read by SQLite itself through a connection of its own.

    To open and close the file past SQLite would drop the locks that this process holds on it: another process that
    then closes the database takes its log away, and whoever has it open here goes on reading what is gone.
    """
    with closing(connect(path, read_only=True)) as db:
        return db.serialize()


def _open(path: Path, options: str) -> Connection:
    try:
        db = sqlite3.connect(
            path.absolute().as_uri() + options,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=30,
            factory=Connection,
        )
    except sqlite3.DatabaseError as error:
        _tell(path, error)
        raise
    db.path = path
    try:
        db.execute("SELECT 1 FROM sqlite_master")
    except BaseException:
        db.close()
        raise
    return db


class Connection(sqlite3.Connection):
    """A connection whose statements raise wherein's errors."""

    path = Path()

    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        """Run one statement of SQL."""
        return self.cursor(Cursor).execute(sql, values)

    def executemany(self, sql: str, values: Iterable[Any], /) -> Cursor:
        """Run one statement for each of `values`."""
        return self.cursor(Cursor).executemany(sql, values)


class Cursor(sqlite3.Cursor):
    """The rows of a statement."""

    connection: Connection

    def execute(self, sql: str, values: Any = (), /) -> Cursor:
        """Run one statement of SQL."""
        try:
            super().execute(sql, values)
        except sqlite3.DatabaseError as error:
            _tell(self.connection.path, error)
            raise
        return self

    def executemany(self, sql: str, values: Iterable[Any], /) -> Cursor:
        """Run one statement for each of `values`."""
        try:
            super().executemany(sql, values)
        except sqlite3.DatabaseError as error:
            _tell(self.connection.path, error)
            raise
        return self

    def fetchone(self) -> Any:
        """The next row, or None."""
        try:
            return super().fetchone()
        except sqlite3.DatabaseError as error:
            _tell(self.connection.path, error)
            raise

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        try:
            return super().fetchall()
        except sqlite3.DatabaseError as error:
            _tell(self.connection.path, error)
            raise

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except sqlite3.DatabaseError as error:
            _tell(self.connection.path, error)
            raise


def _tell(path: Path, error: sqlite3.DatabaseError) -> None:
    """Raise what a person can act on; return where the error is not one of these."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & _PRIMARY in _CORRUPT:
        raise CollectionCorrupt(
            f"{path}: is not a readable catalogue ({error}). `wherein check -c {path.parent}` mends it from its copy "
            "and from what the shards say."
        ) from error
    if code in _FULL:
        raise storage_full(path, error) from error
    if code & _PRIMARY == sqlite3.SQLITE_BUSY:
        raise CollectionLocked(f"{path}: another process keeps it locked ({error}). Try again later.") from error
    if code & _PRIMARY in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR):
        raise CollectionError(
            f"{path}: cannot be used ({error}). Check that the folder exists, that its disk works and that "
            "you may write there."
        ) from error

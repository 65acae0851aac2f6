"""The collection on disk: a SQLite catalogue and immutable arrays."""

"""The embedded store: one SQLite file in the data folder, no server."""

from fairlead.stores.sqlite.backup import restore
from fairlead.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "restore"]

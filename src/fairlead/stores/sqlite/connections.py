"""Opens the connections to the data folder's files: one writer, and readers that cannot write."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from fairlead.stores.sqlite.errors import translating
from fairlead.stores.sqlite.schema import migrate

Durability = Literal["process", "power"]
"""The failures that an acknowledged append survives: the death of any process, or also a power cut (an fsync per
commit)."""

DATABASE = "fairlead.db"
SEARCH = "search.db"
SPILL = "spill"

_SYNCHRONOUS = {"process": "normal", "power": "full"}
# Milliseconds that a connection waits for another process's transaction (a user's SQLite tool) before it gives up.
BUSY_MS = 5000
# The WAL file keeps this size when it is reset: growing a file costs more than overwriting it.
_WAL_KEPT = 32 << 20


def connect(file: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection in autocommit mode: transactions are begun explicitly. It is used by one thread at a time, not
    always the same one."""
    mode = "ro" if read_only else "rw"
    db = sqlite3.connect(
        f"file:{quote(str(file))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_MS / 1000,
    )
    if read_only:
        db.execute("pragma query_only = on")
    return db


def attach(db: sqlite3.Connection, file: Path, name: str) -> None:
    """Make another file readable through `db`, as the schema `name`."""
    db.execute(f"attach ? as {name}", (f"file:{quote(str(file))}?mode=ro",))


def open_writer(file: Path, durability: Durability) -> sqlite3.Connection:
    """Open the only connection that writes; creates a missing file and migrates an old one."""
    make_private(file)
    db = connect(file)
    try:
        with translating(file):
            migrate(db, file)
            db.execute("pragma journal_mode = wal")
            db.execute(f"pragma synchronous = {_SYNCHRONOUS[durability]}")
            # The maintenance thread checkpoints the WAL; a commit never does.
            db.execute("pragma wal_autocheckpoint = 0")
            db.execute(f"pragma journal_size_limit = {_WAL_KEPT}")
            # Erased data is overwritten if that needs no additional page write.
            db.execute("pragma secure_delete = fast")
    except BaseException:
        db.close()
        raise
    return db


def make_private(file: Path) -> None:
    """Create a file that only its owner can read, since it contains the agents' output; SQLite gives its side files the
    same mode."""
    # Never open an existing file: closing it would release the locks of this process's connections.
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

"""Connections to the data folder's files, and transactions on them."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

Durability = Literal["process", "power"]
"""The failures that an acknowledged append survives: the death of any process, or also a power cut (an fsync per
commit)."""

DATABASE = "fairlead.db"
SEARCH = "search.db"
SPILL = "spill"

# Milliseconds that a connection waits for another process's transaction (a user's SQLite tool) before it gives up.
BUSY_MS = 5000


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


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit everything that the block writes, or nothing of it."""
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        # Some errors (a full disk) have ended the transaction already.
        if db.in_transaction:
            db.execute("rollback")
        raise


def make_private(file: Path) -> None:
    """Create a file that only its owner can read, since it contains the agents' output; SQLite gives its side files the
    same mode."""
    # Never open an existing file: closing it would release the locks of this process's connections.
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

"""Translates SQLite's errors. Rule: no `sqlite3.Error` that a person can meet leaves this package untranslated."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead.model.errors import Damaged, StoreError, Unavailable

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
# Caused by the environment, and gone when the environment works again.
_UNAVAILABLE = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in ("BUSY", "CANTOPEN", "INTERRUPT", "IOERR", "LOCKED", "NOMEM", "PERM", "PROTOCOL", "READONLY")
)


def damaged(file: Path, why: str) -> Damaged:
    return Damaged(
        f"{file} cannot be used: {why}. Put a backup in its place with: fairlead restore BACKUP",
        file=str(file),
        why=why,
    )


def translate(error: sqlite3.Error, file: Path) -> StoreError | None:
    """Translate an error; None for errors that only a bug can cause (a wrong statement, a violated constraint)."""
    # The primary code is the low byte; extended codes only refine it.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _DAMAGED:
        return damaged(file, str(error))
    if code == sqlite3.SQLITE_FULL:
        return Unavailable(
            f"The disk that holds {file} is full: make room and repeat. Nothing acknowledged is lost.", file=str(file)
        )
    if code in _UNAVAILABLE:
        return Unavailable(f"{file} cannot be reached now ({error}): repeating is safe.", file=str(file))
    return None


@contextmanager
def translating(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        ours = translate(error, file)
        if ours is None:
            raise
        raise ours from error

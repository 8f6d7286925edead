"""Erasing a log without delaying the others: hidden at once, then removed in slices, resumed after a crash.

A log is hidden by clearing its session; its row stays as long as a fork shows some of its entries or there is
anything left to remove. Forks show the entries up to `forked_at`, the highest `base` among them.
"""

import sqlite3

from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import Summary
from fairlead.stores.sqlite import projections
from fairlead.stores.sqlite.sessions import PUT_SUMMARY, get_summary, summary_row
from fairlead.stores.sqlite.spill import Spill

# Entries removed per transaction: a few milliseconds, during which nothing else is stored.
_SLICE = 500


def tombstone(db: sqlite3.Connection, session: SessionId) -> None:
    """Hide a session for all users and make its summary a tombstone. Erasing twice is not an error."""
    row = db.execute("select id from logs where session = ?", (session,)).fetchone()
    summary = get_summary(db, session)
    if row is None and summary is None:
        raise NotFound("session", session)
    db.execute(PUT_SUMMARY, summary_row(summary or Summary(session=session)))
    db.execute("update sessions set deleted = 1 where session = ?", (session,))
    if row is not None:
        db.execute("delete from checkpoints where log = ?", row)
        db.execute("delete from replies where log = ?", row)
        db.execute("update logs set erased = session, session = null, node = '' where id = ?", row)


def hidden(db: sqlite3.Connection) -> list[int]:
    """Return the hidden logs, forks before their parents, so that one pass removes a parent that only forks needed."""
    return [row[0] for row in db.execute("select id from logs where erased is not null order by id desc")]


def remove_slice(db: sqlite3.Connection, log: int) -> int | None:
    """Remove some rows or entries of a log. Returns None while there may be more, then the last seq a fork needs."""
    (kept,) = db.execute("select forked_at from logs where id = ?", (log,)).fetchone()
    if not projections.remove_slice(db, log, _SLICE):
        return None
    gone = db.execute(
        "delete from entries where id in (select id from entries where log = ? and seq > ? limit ?)",
        (log, kept, _SLICE),
    )
    return int(kept) if gone.rowcount < _SLICE else None


def finish(db: sqlite3.Connection, spill: Spill, log: int) -> None:
    """Remove the files of a log whose entries and search texts are removed, and its row unless a fork needs it."""
    session, epoch, parent = db.execute("select erased, epoch, parent from logs where id = ?", (log,)).fetchone()
    spill.sweep(session, epoch, lambda name: _is_named(db, name))
    if db.execute("select 1 from logs where parent = ?", (log,)).fetchone() is None:
        db.execute("delete from logs where id = ?", (log,))
        db.execute(
            "update logs set forked_at = (select coalesce(max(base), 0) from logs where parent = ?1) where id = ?1",
            (parent,),
        )


def _is_named(db: sqlite3.Connection, file: str) -> bool:
    query = "select 1 from entries where raw_file = ?1 union all select 1 from entries where event_file = ?1"
    return db.execute(query, (file,)).fetchone() is not None

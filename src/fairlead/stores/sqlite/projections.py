"""Projections: their rows, their positions in the log, and the checkpoints of their reducers.

Rule: a projection's rows, its position in the log and (if given) its checkpoint change in one transaction; the position
is compared first, so that a repeated call, or a call of a writer that is behind, stores nothing. Rows belong to the
log, not to a fork that shows it: a fork's projections are computed from the fork.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

from fairlead.model import store as port
from fairlead.model.errors import Conflict, NotFound
from fairlead.model.ids import SessionId
from fairlead.stores.sqlite.append import CHUNKS, chunked, text
from fairlead.stores.sqlite.read import NO_END

_FOLD = "select id, seq, head from folds where log = ? and view = ?"
_MEMORY = "select seq, head, memory_seq, memory_head, memory from folds where log = ? and view = ?"
_COLUMNS = "fold, ordinal, seq, at, key, data"
_INSERTS = {n: f"insert into derived ({_COLUMNS}) values {', '.join(['(?, ?, ?, ?, ?, ?)'] * n)}" for n in CHUNKS}
_TAKEN = {n: f"select key from derived where fold = ? and key <> '' and key in ({', '.join('?' * n)})" for n in CHUNKS}
_REPLACE = "update derived set data = ? where fold = ? and key = ? and key <> ''"
_ROWS = "select ordinal, seq, at, cast(data as blob), key from derived where fold = ? and ordinal"
_FORWARD = f"{_ROWS} > ? order by ordinal limit ?"
_BACKWARD = f"{_ROWS} < ? order by ordinal desc limit ?"
_KEY = "select ordinal from derived where fold = ? and key = ? and key <> ''"


class Derive(msgspec.Struct, frozen=True):
    """One call of the port's `derive`. Conflict contains the projection's current position."""

    session: SessionId
    view: str
    derived: port.ProjectionWrite
    expected: int

    @property
    def size(self) -> int:
        return sum(len(made.data) for made in self.derived.made) + len(getattr(self.derived.memory, "data", b""))

    def __call__(self, db: sqlite3.Connection) -> None:
        derived = self.derived
        log, _ = _log(db, self.session)
        found = db.execute(_FOLD, (log, self.view)).fetchone()
        fold, seq, head = found or (0, 0, 0)
        if seq != self.expected:
            if (seq, head) == (derived.seq, derived.head):
                return
            raise Conflict(seq)
        if derived.seq < seq or not _follows(head, derived):
            raise Conflict(seq)
        if found is None:
            fold = db.execute("insert into folds (log, view) values (?, ?)", (log, self.view)).lastrowid or 0
        _write(db, fold, derived.made)
        db.execute("update folds set seq = ?, head = ? where id = ?", (derived.seq, derived.head, fold))
        if (memory := derived.memory) is not None:
            db.execute(
                "update folds set memory_seq = ?, memory_head = ?, memory = ? where id = ?",
                (memory.seq, memory.head, memory.data, fold),
            )


def _write(db: sqlite3.Connection, fold: int, made: Sequence[port.ProjectionRow | port.ReplaceRow]) -> None:
    """Write rows and replacements in their order, consecutive rows in few statements."""
    waiting: list[port.ProjectionRow] = []
    for item in made:
        if isinstance(item, port.ProjectionRow):
            waiting.append(item)
        else:
            _insert(db, fold, waiting)
            waiting.clear()
            db.execute(_REPLACE, (text(item.data), fold, item.key))
    _insert(db, fold, waiting)


def _insert(db: sqlite3.Connection, fold: int, rows: Sequence[port.ProjectionRow]) -> None:
    for part in chunked(rows):
        taken = {""}
        if any(row.key for row in part):
            taken |= {key for (key,) in db.execute(_TAKEN[len(part)], (fold, *(row.key for row in part)))}
        values: list[object] = []
        for row in part:
            key = "" if row.key in taken else row.key
            taken.add(key)
            values += (fold, row.ordinal, row.seq, row.at, key, text(row.data))
        db.execute(_INSERTS[len(part)], values)


def read_state(db: sqlite3.Connection, session: SessionId, view: str) -> port.ProjectionState:
    log, _ = _log(db, session)
    row = db.execute(_MEMORY, (log, view)).fetchone()
    if row is None:
        return port.ProjectionState()
    seq, head, memory_seq, memory_head, memory = row
    checkpoint = None if memory is None else port.ReducerCheckpoint(memory_seq, memory_head, memory)
    return port.ProjectionState(seq, head, checkpoint)


def read_page(
    db: sqlite3.Connection, session: SessionId, view: str, bound: int, limit: int, max_bytes: int, newest: bool = False
) -> port.RowPage:
    """Return the first rows after `bound`, or the `newest` rows before it, in the order of their ordinals."""
    log, log_id = _log(db, session)
    fold, seq, head = db.execute(_FOLD, (log, view)).fetchone() or (0, 0, 0)
    rows: list[port.ProjectionRow] = []
    size = 0
    for row in db.execute(_BACKWARD if newest else _FORWARD, (fold, bound, min(limit, NO_END))):
        size += len(row[3])
        if rows and size > max_bytes:
            break
        rows.append(port.ProjectionRow(*row))
    return port.RowPage(tuple(reversed(rows) if newest else rows), head, seq, log_id)


def row_of(db: sqlite3.Connection, session: SessionId, view: str, key: str) -> int | None:
    log, _ = _log(db, session)
    fold, _, _ = db.execute(_FOLD, (log, view)).fetchone() or (0, 0, 0)
    row = db.execute(_KEY, (fold, key)).fetchone()
    return None if row is None else int(row[0])


def remove_slice(db: sqlite3.Connection, log: int, limit: int) -> bool:
    """Remove some rows of an erased log; returns False while there may be more."""
    folds = "select id from folds where log = ?"
    gone = db.execute(
        f"delete from derived where rowid in (select rowid from derived where fold in ({folds}) limit ?)", (log, limit)
    )
    if gone.rowcount == limit:
        return False
    db.execute("delete from folds where log = ?", (log,))
    return True


def _log(db: sqlite3.Connection, session: SessionId) -> tuple[int, str]:
    row = db.execute("select id, log_id from logs where session = ?", (session,)).fetchone()
    if row is None:
        raise NotFound("session", session)
    return row[0], row[1]


def _follows(head: int, derived: port.ProjectionWrite) -> bool:
    """Return whether the new rows' ordinals continue from `head` to the new head without a gap."""
    for made in derived.made:
        if isinstance(made, port.ProjectionRow):
            head += 1
            if made.ordinal != head:
                return False
    return head == derived.head

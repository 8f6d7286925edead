"""Reading a log: the ranges of logs that a session shows, and pages of them. Runs on any connection.

Rule: `prev` is never taken from the table (which has the writer's value at the time) but is the seq that precedes the
entry in the log as it is read now. Entries whose deltas were dropped would otherwise refer to a seq that no reader has,
and every reader would take that for a gap.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page
from fairlead.stores.sqlite.spill import Spill

# Read as bytes regardless of the type in the table: valid UTF-8 is stored as text so that any SQLite tool shows it.
_COLUMNS = "seq, at, kind, cast(event as blob), origin, cast(raw as blob), event_file, raw_file"

FORWARD = f"select {_COLUMNS} from entries where log = ? and seq > ? and seq <= ? order by seq limit ?"
BACKWARD = f"select {_COLUMNS} from entries where log = ? and seq > ? and seq < ? order by seq desc limit ?"
BEFORE = "select max(seq) from entries where log = ? and seq > ? and seq < ?"
HEAD = "select max(seq) from entries where log = ?"

NO_END = (1 << 63) - 1
"""An upper bound of all seqs: the largest integer that SQLite can store."""

_Row = tuple[int, int, str, bytes | None, str, bytes | None, str | None, str | None]


class LogRange(NamedTuple):
    """The entries of one log with first < seq <= last."""

    log: int
    first: int
    last: int


class VisibleRanges(NamedTuple):
    """The ranges that a session shows, from its oldest ancestor to the session itself."""

    log_id: str
    head: int
    ranges: tuple[LogRange, ...]


def visible_ranges(db: sqlite3.Connection, session: SessionId) -> VisibleRanges:
    row = db.execute("select id, log_id, parent, base from logs where session = ?", (session,)).fetchone()
    if row is None:
        raise NotFound("session", session)
    log, log_id, parent, base = row
    stretches = [LogRange(log, base, NO_END)]
    head = db.execute(HEAD, (log,)).fetchone()[0]
    last = base
    while parent is not None:
        grandparent, first = db.execute("select parent, base from logs where id = ?", (parent,)).fetchone()
        stretches.append(LogRange(parent, first, last))
        parent, last = grandparent, first
    return VisibleRanges(log_id, base if head is None else head, tuple(reversed(stretches)))


def page_forward(
    db: sqlite3.Connection, spill: Spill, session: SessionId, after: int, limit: int, max_bytes: int
) -> Page:
    view = visible_ranges(db, session)
    entries: list[Entry] = []
    prev: int | None = None
    size = 0
    for row in _rows_forward(db, view.ranges, after, min(limit, NO_END)):
        entry = _entry(spill, row, predecessor(db, view.ranges, row[0]) if prev is None else prev)
        size += len(entry.event) + len(entry.raw or b"")
        if entries and size > max_bytes:
            break
        entries.append(entry)
        prev = entry.seq
    return Page(view.log_id, tuple(entries), view.head)


def page_backward(
    db: sqlite3.Connection, spill: Spill, session: SessionId, before: int | None, limit: int, kinds: Sequence[str]
) -> Page:
    view = visible_ranges(db, session)
    rows = _rows_backward(db, view.ranges, NO_END if before is None else before, min(limit, NO_END), kinds)
    entries: list[Entry] = []
    for row in reversed(rows):
        # With `kinds` the neighbour in the page need not be the neighbour in the log.
        prev = predecessor(db, view.ranges, row[0]) if kinds or not entries else entries[-1].seq
        entries.append(_entry(spill, row, prev))
    return Page(view.log_id, tuple(entries), view.head)


def predecessor(db: sqlite3.Connection, stretches: Sequence[LogRange], seq: int) -> int:
    """Return the seq before `seq` in the log as it is now; 0 before the first."""
    for log, first, last in reversed(stretches):
        if first < seq:
            found: int | None = db.execute(BEFORE, (log, first, min(seq, last + 1))).fetchone()[0]
            if found is not None:
                return found
    return 0


def last_entry(db: sqlite3.Connection) -> int:
    """Return the id of the newest entry of all logs."""
    return int(db.execute("select max(id) from entries").fetchone()[0] or 0)


def _rows_forward(db: sqlite3.Connection, stretches: Sequence[LogRange], after: int, limit: int) -> Iterator[_Row]:
    for log, first, last in stretches:
        if limit > 0 and last > after:
            for row in db.execute(FORWARD, (log, max(first, after), last, limit)):
                limit -= 1
                yield row


def _rows_backward(
    db: sqlite3.Connection, stretches: Sequence[LogRange], before: int, limit: int, kinds: Sequence[str]
) -> list[_Row]:
    wanted = f" and kind in ({', '.join('?' * len(kinds))})" if kinds else ""
    query = BACKWARD.replace(" order by", f"{wanted} order by")
    rows: list[_Row] = []
    for log, first, last in reversed(stretches):
        if len(rows) < limit and first < before:
            end = min(before, last + 1, NO_END)
            rows += db.execute(query, (log, first, end, *kinds, limit - len(rows))).fetchall()
    return rows


def _entry(spill: Spill, row: _Row, prev: int) -> Entry:
    seq, at, kind, event, origin, raw, event_file, raw_file = row
    if event_file is not None:
        event = spill.read(event_file)
    if raw_file is not None:
        raw = spill.read(raw_file)
    # The table holds only origins that the port knows, and an event in the row or in its file.
    return Entry(seq, prev, at, kind, event, origin, raw)  # type: ignore[arg-type]  # SQLite's columns are untyped

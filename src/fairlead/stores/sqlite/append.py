"""Appending: checks each batch, and collects the rows of all batches of a commit into few statements.

Rule: a batch is checked completely before any of its rows is collected, so a rejected one leaves no trace in the
transaction that it shares with others. Work per batch depends on the batch, never on the log's length: the owner and
the head of a log are cached here, and looked up in the table only once.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fairlead.model.errors import Conflict, Fenced
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry, Lease
from fairlead.stores.sqlite.read import HEAD, NO_END, last_entry
from fairlead.stores.sqlite.sessions import PUT_SUMMARY, summary_row

# Rows per statement. Each statement releases the interpreter lock and must acquire it again, which takes 5 ms when the
# event loop is busy; 64 rows of 12 values stay below the 999 values that every build of SQLite accepts.
CHUNKS = (64, 16, 4, 1)
_COLUMNS = ("log", "seq", "prev", "epoch", "at", "kind", "event", "origin", "raw", "event_file", "raw_file")
_ROW = f"(?, {', '.join('?' * len(_COLUMNS))})"
_INSERTS = {n: f"insert into entries (id, {', '.join(_COLUMNS)}) values {', '.join([_ROW] * n)}" for n in CHUNKS}
_DELETES = {n: f"delete from entries where log = ? and seq in ({', '.join('?' * n)})" for n in CHUNKS}
OWNER = "select id, node, epoch, base, forked_at from logs where session = ?"
# More logs than one gateway runs at once; beyond that all are looked up again, which is slower but correct.
_REMEMBERED = 10_000


class Spilled(msgspec.Struct, frozen=True):
    """The files of those parts of an entry that are too large for a row."""

    event: str | None = None
    raw: str | None = None


class Append(msgspec.Struct, frozen=True):
    """One call of the port's `append`."""

    lease: Lease
    batch: Batch
    expected_head: int
    spilled: dict[int, Spilled] = {}

    @property
    def size(self) -> int:
        return sum(len(entry.event) + len(entry.raw or b"") for entry in self.batch.entries)


class _Log(msgspec.Struct):
    log: int
    node: str
    epoch: int
    head: int
    forked_at: int
    """The highest seq that a fork of this log shows: entries up to it are not dropped, because readers of the fork need
    them."""


class Appender:
    """Belongs to the writer thread. Between `begin` and `flush` nothing else may touch entries on this connection."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._logs: dict[SessionId, _Log] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._version = 0
        # The id of the newest entry. Counted here and not by SQLite, which would use the id of a dropped entry again
        # (the search index has passed it) or, with autoincrement, write one more page with every commit.
        self._last = 0
        self._last_is_known = False

    def begin(self) -> None:
        """Called at the start of every transaction: drop cached values that another connection may have changed."""
        version = int(self._db.execute("pragma data_version").fetchone()[0])
        if version != self._version or len(self._logs) > _REMEMBERED:
            self._version = version
            self._logs.clear()
            self._last_is_known = False

    def invalidate(self) -> None:
        """Drop the cache because a log got a new owner, was forked or was erased."""
        self._logs.clear()

    def roll_back(self) -> None:
        self._rows.clear()
        self._logs.clear()

    def check(self, call: Append) -> int | None:
        """Return the head if the same call was stored before; None if it can be stored now. Raises Fenced, Conflict."""
        return self._checked(call)[1]

    def append(self, call: Append) -> int:
        batch = call.batch
        log, landed = self._checked(call)
        if landed is not None:
            return landed
        prev = log.head
        for entry in batch.entries:
            self._rows.append(_row(log, entry, prev, call.spilled.get(entry.seq)))
            prev = entry.seq
        log.head = prev
        if batch.drop:
            self._drop(log, batch.drop)
        if batch.summary is not None:
            self._db.execute(PUT_SUMMARY, summary_row(batch.summary))
        for checkpoint in batch.checkpoints:
            self._db.execute(
                "insert or replace into checkpoints values (?, ?, ?, ?)",
                (log.log, checkpoint.name, checkpoint.seq, checkpoint.data),
            )
        for kept in batch.replies:
            self._db.execute("insert or replace into replies values (?, ?, ?)", (log.log, kept.key, text(kept.reply)))
        return log.head

    def _checked(self, call: Append) -> tuple[_Log, int | None]:
        lease = call.lease
        log = self._log(lease.session)
        if log is None or (log.node, log.epoch) != (lease.node, lease.epoch):
            raise Fenced(lease.session)
        if call.expected_head != log.head:
            if self._landed(log, call):
                return log, log.head
            raise Conflict(log.head)
        if not ascending(log.head, call.batch.entries):
            raise Conflict(log.head)
        return log, None

    def reserve(self, count: int) -> int:
        """Reserve ids for rows that a call inserts itself; returns the first one."""
        if not self._last_is_known:
            self._last = max(self._last, last_entry(self._db))
            self._last_is_known = True
        self._last += count
        return self._last - count + 1

    def flush(self) -> None:
        for part in chunked(self._rows):
            numbered = enumerate(part, self.reserve(len(part)))
            self._db.execute(_INSERTS[len(part)], [value for number, row in numbered for value in (number, *row)])
        self._rows.clear()

    def _log(self, session: SessionId) -> _Log | None:
        if (known := self._logs.get(session)) is not None:
            return known
        row = self._db.execute(OWNER, (session,)).fetchone()
        if row is None:
            return None
        log, node, epoch, base, forked_at = row
        head = self._db.execute(HEAD, (log,)).fetchone()[0]
        found = _Log(log, node, epoch, base if head is None else head, forked_at)
        self._logs[session] = found
        return found

    def _landed(self, log: _Log, call: Append) -> bool:
        """Return whether the same call was stored before: its caller could not know and repeats it.

        Each row has the seq of the row before it, so if the rows up to the head are equal, there are no others between
        them.
        """
        entries, dropped = call.batch.entries, set(call.batch.drop)
        if not entries or entries[-1].seq != log.head or not ascending(call.expected_head, entries):
            return False
        self.flush()
        stored = {
            row[1]: row
            for row in self._db.execute(
                f"select {', '.join(_COLUMNS)} from entries where log = ? and seq > ?", (log.log, call.expected_head)
            )
        }
        prev = call.expected_head
        for entry in entries:
            row = stored.get(entry.seq)
            was_dropped = row is None and entry.seq in dropped and entry.seq != log.head
            if not was_dropped and row != _row(log, entry, prev, call.spilled.get(entry.seq)):
                return False
            prev = entry.seq
        return True

    def _drop(self, log: _Log, seqs: Sequence[int]) -> None:
        self.flush()
        gone = [seq for seq in seqs if log.forked_at < seq != log.head]
        for part in chunked(gone):
            self._db.execute(_DELETES[len(part)], (log.log, *part))


class AppenderCall:
    """A job of the writer thread that needs the appender. `run` flushes before it reads or writes entries itself, and
    calls `invalidate` after it changed logs."""

    def __init__(self, size: int) -> None:
        self.size = size

    def run(self, db: sqlite3.Connection, appender: Appender) -> Any:
        raise NotImplementedError


def text(data: bytes) -> str | bytes:
    """Decode valid UTF-8, so that any SQLite tool shows it as text; reading returns the same bytes either way."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _row(log: _Log, entry: Entry, prev: int, spilled: Spilled | None) -> tuple[Any, ...]:
    files = spilled or Spilled()
    event = None if files.event else text(entry.event)
    raw = None if files.raw or entry.raw is None else text(entry.raw)
    return (
        *(log.log, entry.seq, prev, log.epoch, entry.at, entry.kind),
        *(event, entry.origin, raw, files.event, files.raw),
    )


def ascending(head: int, entries: Sequence[Entry]) -> bool:
    for entry in entries:
        if not head < entry.seq <= NO_END:
            return False
        head = entry.seq
    return True


def chunked(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield parts whose lengths are in `CHUNKS`, so that a few prepared statements serve every count."""
    start = 0
    for size in CHUNKS:
        while len(items) - start >= size:
            yield items[start : start + size]
            start += size

"""Applies the messages of the log stream to the local database, in the writer thread.

Rules
    The position in the stream is stored in the transaction of what was applied.
    A message is applied only if it continues its session's chain: its condition names the session's last message. The
    owner, the epoch and the head are compared again, so that a message that should not be in the stream changes
    nothing anywhere.
    Applying stops before a message that needs something from elsewhere: an object, or messages that are missing.
"""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.model.ids import SessionId
from fairlead.model.store import Checkpoint, Lease, LogChange, StoredReply
from fairlead.stores.nats import messages as m
from fairlead.stores.sqlite import append, erase, sessions
from fairlead.stores.sqlite.append import Appender, AppenderCall, Spilled
from fairlead.stores.sqlite.read import HEAD

_CHAIN: Final = "select last, home from chains where session = ?"
_LOG: Final = "select id, log_id, node, epoch, base from logs where session = ?"

_log = logging.getLogger(__name__)


class Known(msgspec.Struct):
    """The state of a session's chain in the local database."""

    last: int = 0
    log_id: str = ""
    """Empty: there is no log."""
    node: str = ""
    epoch: int = 0
    head: int = 0


class Applied(msgspec.Struct):
    """`changes`: per message, the change for listeners; None if it was not applied. `stopped`: the first message that
    needs something; None if all were applied."""

    changes: list[LogChange | None]
    stopped: m.ChainMessage | None = None


class ApplyMessages(AppenderCall):
    """`logs`: the objects of messages that stopped an earlier call; None: the object does not exist. `filled`: the
    sequences of messages before which nothing more can be found."""

    def __init__(
        self,
        stream: str,
        messages: Sequence[m.ChainMessage],
        position: int,
        logs: Mapping[int, m.WholeLog | None],
        filled: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(0)
        self._stream = stream
        self._messages = messages
        self._position = position
        self._logs = logs
        self._filled = filled

    def run(self, db: sqlite3.Connection, appender: Appender) -> Applied:
        applied = Applied([])
        position = self._position
        for message in self._messages:
            if not self._is_ready(db, message):
                applied.stopped = message
                position = message.seq - 1
                break
            applied.changes.append(self._apply(db, appender, message))
        appender.flush()
        db.execute("insert or replace into positions values (?, ?)", (self._stream, position))
        return applied

    def _is_ready(self, db: sqlite3.Connection, message: m.ChainMessage) -> bool:
        last, _ = db.execute(_CHAIN, (message.session,)).fetchone() or (0, "")
        op = message.op
        if message.prev is None or message.seq <= last or message.seq in self._logs or message.seq in self._filled:
            return True
        if isinstance(op, m.Mend):
            return False
        if isinstance(op, m.Erase):
            return not op.kept or (message.prev <= last and _has_log(db, op.log_id))
        return message.prev <= last

    def _apply(self, db: sqlite3.Connection, appender: Appender, message: m.ChainMessage) -> LogChange | None:
        session = SessionId(message.session)
        last, home = db.execute(_CHAIN, (session,)).fetchone() or (0, "")
        if message.seq <= last:
            return None
        change: LogChange | None = None
        if message.prev is None or message.op is None:
            _log.error("message %d of session %s is not ours, and is not applied", message.seq, session)
        elif message.prev != last and not isinstance(message.op, m.Fold | m.Mend | m.Erase):
            _log.error(
                "messages %d to %d of session %s are missing: fairlead storage verify", last, message.prev, session
            )
        else:
            try:
                change, home = self._apply_op(db, appender, message, message.op, home, whole=message.prev == last)
            except FairleadError as refusal:
                _log.error("message %d of session %s is not applied: %s", message.seq, session, refusal)
        db.execute("insert or replace into chains values (?, ?, ?)", (session, message.seq, home))
        return change

    def _apply_op(
        self,
        db: sqlite3.Connection,
        appender: Appender,
        message: m.ChainMessage,
        op: m.Op,
        home: str,
        *,
        whole: bool,
    ) -> tuple[LogChange | None, str]:
        session = SessionId(message.session)
        if isinstance(op, m.Append):
            head = appender.append(append_call(session, op))
            return LogChange(session, head, tuple(entry.kind for entry in op.batch.entries), op.node), op.node
        appender.flush()
        appender.invalidate()
        if isinstance(op, m.Claim):
            _claim(db, message.seq, session, op)
            return LogChange(session, _head(db, session), (), op.node), op.node
        if isinstance(op, m.Release):
            db.execute(
                "update logs set node = '' where session = ? and node = ? and epoch = ?", (session, op.node, op.epoch)
            )
            return LogChange(session, _head(db, session)), home
        if isinstance(op, m.Erase):
            _erase(db, appender, session, op, self._logs.get(message.seq))
            return LogChange(session, 0, erased=True), ""
        if whole and isinstance(op, m.Fold):
            return None, home
        log = self._logs.get(message.seq)
        if log is None:
            _log.error("the object %s of session %s is missing: fairlead storage mend", op.blob, session)
            return None, op.home
        load_log(db, appender, log, op.node, op.epoch, home=op.home)
        return LogChange(session, op.head, tuple({row.kind for row in log.rows}), op.node), op.home


class CheckAppend(AppenderCall):
    """Whether a call of `append` is valid now. Returns the head if it was stored before, else None. Raises Fenced,
    Conflict."""

    def __init__(self, call: append.Append) -> None:
        super().__init__(0)
        self._call = call

    def run(self, db: sqlite3.Connection, appender: Appender) -> int | None:
        appender.flush()
        return appender.check(self._call)


def append_call(session: SessionId, op: m.Append) -> append.Append:
    """The append of a message. The summary gets the node, which its writer leaves to the store."""
    batch = op.batch
    if batch.summary is not None:
        batch = msgspec.structs.replace(batch, summary=msgspec.structs.replace(batch.summary, node=op.node))
    files = {seq: Spilled(event, raw) for seq, (event, raw) in op.files.items()}
    return append.Append(Lease(session, op.node, op.epoch), batch, op.head, files)


def known(db: sqlite3.Connection, session: SessionId) -> Known:
    last, _ = db.execute(_CHAIN, (session,)).fetchone() or (0, "")
    row = db.execute(_LOG, (session,)).fetchone()
    if row is None:
        return Known(last)
    log, log_id, node, epoch, base = row
    head = db.execute(HEAD, (log,)).fetchone()[0]
    return Known(last, log_id, node, epoch, base if head is None else head)


def _head(db: sqlite3.Connection, session: SessionId) -> int:
    return known(db, session).head


def _claim(db: sqlite3.Connection, seq: int, session: SessionId, op: m.Claim) -> None:
    row = db.execute(_LOG, (session,)).fetchone()
    if row is None:
        parent = _parent(db, op.parent, op.base)
        placeholder = db.execute(
            "select id from logs where log_id = ? and session is null and erased is null", (op.log_id,)
        )
        if (found := placeholder.fetchone()) is not None:
            db.execute(
                "update logs set session = ?, parent = ?, base = ? where id = ?", (session, parent, op.base, found[0])
            )
        else:
            db.execute(
                "insert into logs (session, log_id, parent, base) values (?, ?, ?, ?)",
                (session, op.log_id, parent, op.base),
            )
    db.execute("update logs set node = ?, epoch = ? where session = ?", (op.node, seq, session))
    db.execute("update sessions set node = ? where session = ?", (op.node, session))


def _parent(db: sqlite3.Connection, log_id: str, base: int) -> int | None:
    """The row of a fork's parent. A parent whose messages were replaced by a later one gets an empty row, which that
    message fills."""
    if not log_id:
        return None
    found = db.execute("select id from logs where log_id = ?", (log_id,)).fetchone()
    log: int = found[0] if found else _new_log(db, log_id)
    db.execute("update logs set forked_at = max(forked_at, ?) where id = ?", (base, log))
    return log


def _erase(
    db: sqlite3.Connection, appender: Appender, session: SessionId, op: m.Erase, kept: m.WholeLog | None
) -> None:
    if kept is not None:
        # Only what forks show is left of it: the row is made first, then hidden with the rest.
        load_log(db, appender, kept, "", 0, home="")
    if db.execute(_LOG, (session,)).fetchone() is not None:
        erase.tombstone(db, session)
    tombstone = msgspec.structs.replace(op.summary, deleted=True, node="")
    db.execute(sessions.PUT_SUMMARY, sessions.summary_row(tombstone))


def load_log(db: sqlite3.Connection, appender: Appender, log: m.WholeLog, node: str, epoch: int, *, home: str) -> None:
    """Make the local log equal to `log`. Rows that are here already stay, so that what was derived from them stays
    valid."""
    if db.execute("select 1 from logs where session = ? and log_id <> ?", (log.session, log.log_id)).fetchone():
        # It was erased and made again while this node was away.
        erase.tombstone(db, SessionId(log.session))
    parent = _parent(db, log.parent, log.base)
    found = db.execute("select id from logs where log_id = ?", (log.log_id,)).fetchone()
    number: int = found[0] if found else _new_log(db, log.log_id)
    db.execute(
        "update logs set session = ?, erased = null, parent = ?, base = ?, forked_at = max(forked_at, ?), node = ?,"
        " epoch = ? where id = ?",
        (log.session, parent, log.base, log.forked_at, node, epoch, number),
    )
    seqs = {row.seq for row in log.rows}
    here = {seq for (seq,) in db.execute("select seq from entries where log = ?", (number,))}
    db.executemany("delete from entries where log = ? and seq = ?", [(number, seq) for seq in here - seqs])
    rows = [row for row in log.rows if row.seq not in here]
    db.executemany(
        "insert into entries (id, log, seq, prev, epoch, at, kind, event, origin, raw, event_file, raw_file)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(place, number, *_columns(row)) for place, row in enumerate(rows, appender.reserve(len(rows)))],
    )
    for table in ("checkpoints", "replies"):
        db.execute(f"delete from {table} where log = ?", (number,))
    db.executemany(
        "insert into checkpoints values (?, ?, ?, ?)", [(number, c.name, c.seq, c.data) for c in log.checkpoints]
    )
    db.executemany("insert into replies values (?, ?, ?)", [(number, r.key, append.text(r.reply)) for r in log.replies])
    if log.summary is not None:
        summary = msgspec.structs.replace(log.summary, node=home)
        db.execute(sessions.PUT_SUMMARY, sessions.summary_row(summary))


def _has_log(db: sqlite3.Connection, log_id: str) -> bool:
    """Whether a log is here, and not only the empty row of a fork's parent."""
    query = "select 1 from logs where log_id = ? and (session is not null or erased is not null)"
    return db.execute(query, (log_id,)).fetchone() is not None


def _new_log(db: sqlite3.Connection, log_id: str) -> int:
    return db.execute("insert into logs (log_id) values (?)", (log_id,)).lastrowid or 0


def _columns(row: m.LogRow) -> tuple[Any, ...]:
    event = None if row.event is None else append.text(row.event)
    raw = None if row.raw is None else append.text(row.raw)
    return (row.seq, row.prev, row.epoch, row.at, row.kind, event, row.origin, raw, row.event_file, row.raw_file)


def read_log(db: sqlite3.Connection, log: int, up_to: int | None = None) -> m.WholeLog:
    """A log as one object; `up_to`: only the rows that forks show."""
    log_id, session, erased, parent, base, forked_at = db.execute(
        "select log_id, session, erased, parent, base, forked_at from logs where id = ?", (log,)
    ).fetchone()
    above = db.execute("select log_id from logs where id = ?", (parent,)).fetchone() if parent else None
    rows = db.execute(
        "select seq, prev, epoch, at, kind, cast(event as blob), origin, cast(raw as blob), event_file, raw_file"
        " from entries where log = ? and seq <= ? order by seq",
        (log, (1 << 63) - 1 if up_to is None else up_to),
    )
    whole = m.WholeLog(
        log_id, session or erased or "", above[0] if above else "", base, forked_at, [m.LogRow(*row) for row in rows]
    )
    if up_to is not None:
        return whole
    checkpoints = db.execute("select name, seq, data from checkpoints where log = ? order by name", (log,))
    replies = db.execute("select key, cast(reply as blob) from replies where log = ? order by key", (log,))
    return msgspec.structs.replace(
        whole,
        checkpoints=[Checkpoint(*row) for row in checkpoints],
        replies=[StoredReply(*row) for row in replies],
        summary=sessions.get_summary(db, SessionId(whole.session)),
    )

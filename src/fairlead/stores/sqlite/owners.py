"""Ownership of logs: claims with a fencing epoch, and the presence of nodes. Epochs come from one counter for the whole
file, so that a lease of an erased log never matches the log that was created in its place.
"""

import sqlite3
import uuid

from fairlead.model.errors import Conflict, OwnedElsewhere
from fairlead.model.ids import SessionId
from fairlead.model.store import ForkPoint, Lease
from fairlead.stores.sqlite.read import HEAD, visible_ranges


def claim(
    db: sqlite3.Connection, session: SessionId, node: str, now_ms: int, fork: ForkPoint | None
) -> tuple[Lease, str, int]:
    row = db.execute(
        "select id, log_id, logs.node, base, until from logs left join nodes using (node) where session = ?", (session,)
    ).fetchone()
    if row is None:
        parent, base = (None, 0) if fork is None else fork_point(db, fork)
        log_id = uuid.uuid4().hex
        log = db.execute(
            "insert into logs (session, log_id, parent, base) values (?, ?, ?, ?)", (session, log_id, parent, base)
        ).lastrowid
        if parent is not None:
            db.execute("update logs set forked_at = max(forked_at, ?) where id = ?", (base, parent))
    else:
        log, log_id, owner, base, until = row
        if owner not in ("", node) and until is not None and until > now_ms:
            raise OwnedElsewhere(owner)
    epoch = int(db.execute("select value from meta where name = 'epoch'").fetchone()[0]) + 1
    db.execute("update meta set value = ? where name = 'epoch'", (str(epoch),))
    db.execute("update logs set node = ?, epoch = ? where id = ?", (node, epoch, log))
    head = db.execute(HEAD, (log,)).fetchone()[0]
    return Lease(session, node, epoch), log_id, base if head is None else head


def fork_point(db: sqlite3.Connection, fork: ForkPoint) -> tuple[int | None, int]:
    """Return the log that has the entry `fork.seq`, which may be an ancestor of `fork.parent`."""
    view = visible_ranges(db, fork.parent)
    if not 0 <= fork.seq <= view.head:
        raise Conflict(view.head)
    for log, first, _ in reversed(view.ranges):
        if first < fork.seq:
            return log, fork.seq
    return None, 0


def set_present(db: sqlite3.Connection, node: str, until_ms: int) -> None:
    db.execute("insert or replace into nodes values (?, ?)", (node, until_ms))


def release(db: sqlite3.Connection, lease: Lease) -> None:
    db.execute(
        "update logs set node = '' where session = ? and node = ? and epoch = ?",
        (lease.session, lease.node, lease.epoch),
    )

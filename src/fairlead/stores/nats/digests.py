"""A digest of each log, by which the databases of the nodes are compared."""

import hashlib
import sqlite3
from typing import Final

import msgspec

DIGESTS: Final = "digests"
"""The question that every node answers."""
_ROWS: Final = (
    "select seq, at, kind, cast(event as blob), origin, cast(raw as blob), event_file, raw_file from entries"
    " where log = ? order by seq"
)


class LogDigest(msgspec.Struct, frozen=True, array_like=True):
    session: str
    log_id: str
    head: int
    count: int
    digest: str


def digests(db: sqlite3.Connection) -> list[LogDigest]:
    found = []
    for log, session, log_id, base in db.execute(
        "select id, session, log_id, base from logs where session is not null order by session"
    ).fetchall():
        digest, head, count = hashlib.sha256(), base, 0
        for row in db.execute(_ROWS, (log,)):
            digest.update(msgspec.msgpack.encode(row))
            head, count = row[0], count + 1
        found.append(LogDigest(session, log_id, head, count, digest.hexdigest()[:32]))
    return found

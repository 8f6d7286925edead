"""Detects power cuts. With durability `process` a power cut may lose the last commits, and their seqs would then be
used again for other entries. A client's cursor must not lead to a position in a log with a different history, so every
log gets a new `log_id`.

While a store is open, its file has a mark with the boot id of the machine; if the mark is there after another boot, the
store was not closed. On a machine without a boot id (no `/proc`) power cuts are not detected.
"""

import sqlite3
import uuid
from pathlib import Path

import msgspec

from fairlead.stores.sqlite.connections import transaction

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class OpenMark(msgspec.Struct, frozen=True):
    boot: str
    durability: str


def mark_open(db: sqlite3.Connection, durability: str, boot_id: Path = _BOOT) -> bool:
    """Mark the store as open, durably in any mode. Returns whether a power cut may have lost entries."""
    boot = boot_id.read_text().strip() if boot_id.exists() else ""
    row = db.execute("select value from meta where name = 'running'").fetchone()
    before = None if row is None else msgspec.json.decode(row[0], type=OpenMark)
    lost = before is not None and before.durability == "process" and boot != before.boot and bool(boot and before.boot)
    with transaction(db):
        if lost:
            new_log_ids(db)
        now = msgspec.json.encode(OpenMark(boot, durability)).decode()
        db.execute("insert or replace into meta values ('running', ?)", (now,))
    db.execute("pragma wal_checkpoint(full)").fetchone()
    return lost


def mark_closed(db: sqlite3.Connection) -> None:
    db.execute("delete from meta where name = 'running'")


def new_log_ids(db: sqlite3.Connection) -> None:
    for (log,) in db.execute("select id from logs").fetchall():
        db.execute("update logs set log_id = ? where id = ?", (uuid.uuid4().hex, log))
    # The change feed has its own positions, which become invalid in the same way.
    db.execute("update meta set value = ? where name = 'feed_id'", (uuid.uuid4().hex[:16],))

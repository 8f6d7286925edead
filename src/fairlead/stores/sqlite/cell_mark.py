"""The mark of a data folder that belongs to a cell: its database repeats the streams of that cell, and nothing else may
write to it."""

import sqlite3
from pathlib import Path

import msgspec

from fairlead.model.errors import BadRequest


class CellMark(msgspec.Struct, frozen=True):
    id: str
    store: str
    """The address of the store, without credentials."""


def read_mark(db: sqlite3.Connection) -> CellMark | None:
    row = db.execute("select value from meta where name = 'cell'").fetchone()
    return None if row is None else msgspec.json.decode(row[0], type=CellMark)


def refuse_cell(db: sqlite3.Connection, folder: Path) -> None:
    """A folder of a cell is not opened without the cell."""
    mark = read_mark(db)
    if mark is not None:
        raise BadRequest(
            f"{folder} belongs to a cell: start with --store {mark.store}, or take it out of the cell with: "
            "fairlead storage move --to sqlite",
            folder=str(folder),
            store=mark.store,
        )


def join_cell(db: sqlite3.Connection, mark: CellMark, folder: Path) -> None:
    """Mark a folder that is empty, or check the mark of one that was here before."""
    found = read_mark(db)
    if found is None:
        for table in ("logs", "sessions", "documents", "shelf"):
            if db.execute(f"select 1 from {table} limit 1").fetchone() is not None:
                raise BadRequest(
                    f"{folder} has data of its own: move it into the cell with: fairlead storage move --to {mark.store}"
                    ", or choose another folder with --data.",
                    folder=str(folder),
                )
    elif found.id != mark.id:
        raise BadRequest(
            f"{folder} belongs to another cell ({found.store}): choose another folder with --data.",
            folder=str(folder),
            store=found.store,
        )
    set_mark(db, mark)


def set_mark(db: sqlite3.Connection, mark: CellMark) -> None:
    db.execute("insert or replace into meta values ('cell', ?)", (msgspec.json.encode(mark).decode(),))
    # The positions of the cell's feed are the same on all nodes.
    db.execute("update meta set value = ? where name = 'feed_id'", (mark.id[:16],))

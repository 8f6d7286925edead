"""Backup to one file while the gateway runs, and restore from it. Both are plain functions for a separate thread.

A backup is a `fairlead.db` with one more table, `spilled`, that holds the spilled files in parts; `search.db` is not in
it, since it is rebuilt from the log. A restored store is a different store: every log gets a new `log_id`, so that a
client's old cursor leads to a gap instead of a position in a log with a different history.
"""

import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from fairlead.model.errors import BadRequest, NotFound, Unavailable
from fairlead.stores.sqlite.connections import DATABASE, SEARCH, SPILL, connect, make_private, transaction
from fairlead.stores.sqlite.crash_detection import new_log_ids
from fairlead.stores.sqlite.errors import damaged, translating
from fairlead.stores.sqlite.open import FolderLock
from fairlead.stores.sqlite.schema import migrate
from fairlead.stores.sqlite.spill import Spill
from fairlead.system.clock import SystemClock

Progress = Callable[[int, int], None]
"""Called with the bytes done and the total bytes."""

# Pages copied per step, between which progress is reported.
_PAGES = 1024
# Bytes of a spilled file per row; SQLite's limit for one value is 1 GB.
_PART = 16 << 20


def back_up(file: Path, spill: Spill, target: Path, progress: Progress | None = None) -> None:
    """Copy the current state to `target`, which must not exist; completely or not at all."""
    if target.exists():
        raise BadRequest(f"{target} exists: a backup never replaces a file. Give another name.", target=str(target))
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        with translating(target), closing(connect(file, read_only=True)) as source:
            _copy(source, part, progress)
            with closing(connect(part)) as copy:
                _pack(copy, spill)
        os.replace(part, target)
    except OSError as error:
        raise Unavailable(f"{target} cannot be written ({error}).", target=str(target)) from error
    finally:
        with suppress(OSError):
            part.unlink()


def restore(source: Path, folder: Path, *, overwrite: bool = False, progress: Progress | None = None) -> None:
    """Restore the backup `source` into the data folder `folder`.

    Rejected while a gateway runs on the folder, or, without `overwrite`, when it has a database already. A damaged
    backup is rejected before anything is replaced.
    """
    if not source.is_file():
        raise NotFound("backup", str(source))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = folder / DATABASE
    with closing(FolderLock(folder, SystemClock().now_ms())):
        if database.exists() and not overwrite:
            raise BadRequest(f"{database} exists: use --force to replace it.", folder=str(folder))
        part, files = folder / f"{DATABASE}.restoring", folder / f"{SPILL}.restoring"
        part.unlink(missing_ok=True)
        shutil.rmtree(files, ignore_errors=True)
        try:
            with translating(source):
                with closing(connect(source, read_only=True)) as backup:
                    _check(backup, source)
                    _copy(backup, part, progress)
                with closing(connect(part)) as copy:
                    migrate(copy, source)
                    _unpack(copy, files)
                    _reset_ids(copy)
            for name in (DATABASE, SEARCH):
                for end in ("-wal", "-shm"):
                    (folder / f"{name}{end}").unlink(missing_ok=True)
            (folder / SEARCH).unlink(missing_ok=True)
            os.replace(part, database)
            shutil.rmtree(folder / SPILL, ignore_errors=True)
            if files.exists():
                os.replace(files, folder / SPILL)
        finally:
            part.unlink(missing_ok=True)
            shutil.rmtree(files, ignore_errors=True)


def _copy(source: sqlite3.Connection, target: Path, progress: Progress | None) -> None:
    make_private(target)
    (page,) = source.execute("pragma page_size").fetchone()

    def report(_: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress((total - remaining) * page, total * page)

    # One snapshot for all steps: without it every commit in between would restart the copy at its first page.
    source.execute("begin")
    source.execute("select 1 from sqlite_master").fetchone()
    with closing(connect(target)) as copy:
        source.backup(copy, pages=_PAGES, progress=report)
        # One file, not three: backups are moved around.
        copy.execute("pragma journal_mode = delete")
    source.execute("rollback")


def _pack(copy: sqlite3.Connection, spill: Spill) -> None:
    with transaction(copy):
        copy.execute("create table spilled (name text, part integer, data blob, primary key (name, part))")
        names = copy.execute(
            "select event_file from entries where event_file is not null"
            " union select raw_file from entries where raw_file is not null"
        ).fetchall()
        for (name,) in names:
            data = spill.read(name)
            for number, start in enumerate(range(0, len(data), _PART)):
                copy.execute("insert into spilled values (?, ?, ?)", (name, number, data[start : start + _PART]))


def _check(backup: sqlite3.Connection, source: Path) -> None:
    found = backup.execute("pragma integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise damaged(source, f"the integrity check reports: {found}")


def _unpack(copy: sqlite3.Connection, folder: Path) -> None:
    if copy.execute("select 1 from sqlite_master where name = 'spilled'").fetchone() is None:
        return
    for (name,) in copy.execute("select distinct name from spilled").fetchall():
        file = folder / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private(file)
        with open(file, "wb") as out:
            for (data,) in copy.execute("select data from spilled where name = ? order by part", (name,)):
                out.write(data)
    copy.execute("drop table spilled")
    copy.execute("pragma incremental_vacuum").fetchall()


def _reset_ids(copy: sqlite3.Connection) -> None:
    with transaction(copy):
        new_log_ids(copy)
        copy.execute("update logs set node = ''")
        copy.execute("delete from nodes")
        # A backup of a cell's node is not part of the cell.
        copy.execute("delete from meta where name in ('running', 'cell')")
        copy.execute("delete from positions")
        copy.execute("delete from chains")
        copy.execute("update meta set value = ? where name = 'store_id'", (uuid.uuid4().hex,))

"""Opens a data folder: its lock (one gateway per folder) and every connection, all of them or none."""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fairlead.model.errors import FolderInUse
from fairlead.stores.sqlite.cell_mark import refuse_cell
from fairlead.stores.sqlite.connections import DATABASE, SEARCH, Durability, attach, connect, make_private
from fairlead.stores.sqlite.crash_detection import mark_open
from fairlead.stores.sqlite.errors import translating
from fairlead.stores.sqlite.read import last_entry
from fairlead.stores.sqlite.schema import STEPS, migrate, schema_of
from fairlead.stores.sqlite.search import Index, has_fts5
from fairlead.stores.sqlite.sessions import add_functions

# Reader threads: one may be deep in a search while the others serve pages.
_READERS = 3
_SYNCHRONOUS = {"process": "normal", "power": "full"}
# The WAL file keeps this size when it is reset: growing a file costs more than overwriting it.
_WAL_KEPT = 32 << 20

LOCK = "fairlead.lock"

_log = logging.getLogger(__name__)


class LockHolder(msgspec.Struct, frozen=True):
    """The content of the lock file."""

    pid: int
    since: int


class FolderLock:
    """Held from construction until `close`. The kernel releases it when the process dies in any way."""

    def __init__(self, folder: Path, now_ms: int) -> None:
        file = folder / LOCK
        self._fd = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            holder = _holder(file)
            raise FolderInUse(str(folder), holder.pid if holder else None, holder.since if holder else None) from None
        os.truncate(self._fd, 0)
        os.write(self._fd, msgspec.json.encode(LockHolder(os.getpid(), now_ms)))

    def close(self) -> None:
        # The file stays: removing it would let two processes lock two files with the same name.
        os.close(self._fd)


def _holder(file: Path) -> LockHolder | None:
    """Read the lock file; None if its holder has locked it and not yet written to it."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=LockHolder)
    except msgspec.DecodeError:
        return None


@dataclass(frozen=True)
class Opened:
    lock: FolderLock | None
    writer: sqlite3.Connection
    maintenance: sqlite3.Connection
    index: Index
    readers: tuple[sqlite3.Connection, ...]
    fts: bool


def open_folder(
    folder: Path,
    durability: Durability,
    now_ms: int,
    *,
    alone: bool,
    prepare: Callable[[int], None],
    projection: bool = False,
) -> Opened:
    """Open the folder. Slow when an old file must be migrated: not for the event loop. `prepare` is called before, with
    the file's schema. `projection`: its database repeats the streams of a cell."""
    fts = has_fts5()
    file, search = folder / DATABASE, folder / SEARCH
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as undo:
        lock = None
        if alone:
            lock = FolderLock(folder, now_ms)
            undo.callback(lock.close)
        writer = _open_writer(file, durability, prepare)
        undo.callback(writer.close)
        if not projection:
            refuse_cell(writer, folder)
        if alone and not projection:
            _take_over(writer, file, durability)
        maintenance = connect(file)
        undo.callback(maintenance.close)
        with translating(file):
            # Read from the largest table: a damaged file should fail now, not at the first message.
            last_entry(maintenance)
        with translating(search):
            index = Index(search, maintenance, fts=fts)
        undo.callback(index.close)
        readers = []
        for _ in range(_READERS):
            db = connect(file, read_only=True)
            undo.callback(db.close)
            with translating(search):
                attach(db, search, "search")
            add_functions(db)
            readers.append(db)
        undo.pop_all()
        return Opened(lock, writer, maintenance, index, tuple(readers), fts)


def _open_writer(file: Path, durability: Durability, prepare: Callable[[int], None]) -> sqlite3.Connection:
    """Open the only connection that writes; creates a missing file and migrates an old one."""
    make_private(file)
    db = connect(file)
    try:
        with translating(file):
            found = schema_of(db, file)
            if 0 < found < len(STEPS):
                prepare(found)
            migrate(db, file)
            db.execute("pragma journal_mode = wal")
            db.execute(f"pragma synchronous = {_SYNCHRONOUS[durability]}")
            # The maintenance thread checkpoints the WAL; a commit never does.
            db.execute("pragma wal_autocheckpoint = 0")
            db.execute(f"pragma journal_size_limit = {_WAL_KEPT}")
            # Erased data is overwritten if that needs no additional page write.
            db.execute("pragma secure_delete = fast")
    except BaseException:
        db.close()
        raise
    return db


def _take_over(writer: sqlite3.Connection, file: Path, durability: Durability) -> None:
    """Remove all nodes from the file: the holder of the lock is the only process, so they are all gone."""
    with translating(file):
        if mark_open(writer, durability):
            _log.warning("%s was open during a power cut: its logs get new ids, clients read them again", file)
        writer.execute("delete from nodes")

"""The database of stored transcripts: a file of its own in the data folder, used by one thread at a time."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.model.errors import BadRequest, NotFound, Stale, TooLarge, TooMany
from fairlead.transcripts import api

FILE: Final = "transcripts.db"
"""In the data folder. It is created with the first transcript."""

_SCHEMA: Final = """
create table if not exists transcripts (
    id integer primary key,
    user text not null, project text not null, session text not null, subpath text not null,
    at integer not null, entries integer not null, bytes integer not null, revision integer not null, summary text,
    unique (user, project, session, subpath)
);
create table if not exists entries (
    transcript integer not null references transcripts (id) on delete cascade,
    position integer not null, uuid text, entry text not null,
    primary key (transcript, position)
) without rowid;
create unique index if not exists entries_by_uuid on entries (transcript, uuid) where uuid is not null;
"""
_STATE: Final = "session, subpath, at, entries, bytes, revision, summary"


class _Entry(msgspec.Struct):
    uuid: Any = None


class TranscriptDatabase:
    def __init__(self, path: Path, *, user_bytes: int = api.USER_BYTES, user_count: int = api.USER_TRANSCRIPTS) -> None:
        self._path = path
        self._user_bytes = user_bytes
        self._user_count = user_count
        self._db: sqlite3.Connection | None = None

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def append(self, user: str, call: api.AppendEntries, now: int) -> api.TranscriptState:
        _check_sizes(call)
        entries = [(_uuid(raw), bytes(raw).decode()) for raw in call.entries]
        with self._changing() as db:
            id, revision, count = _find(db, user, call.key) or self._create(db, user, call.key, now)
            if call.revision not in (None, revision):
                raise Stale("The transcript has changed meanwhile: load its summary again.", revision=revision)
            added = size = 0
            for uuid, text in entries:
                values = (id, count + added, uuid, text)
                if db.execute("insert or ignore into entries values (?, ?, ?, ?)", values).rowcount > 0:
                    added, size = added + 1, size + len(text.encode())
            self._check_bytes(db, user, size)
            summary = None if call.summary is None else msgspec.json.encode(call.summary).decode()
            db.execute(
                "update transcripts set at = ?, entries = entries + ?, bytes = bytes + ?, revision = revision + 1,"
                " summary = coalesce(?, summary) where id = ?",
                (now, added, size, summary, id),
            )
            return _state(db.execute(f"select {_STATE} from transcripts where id = ?", (id,)).fetchone())

    def load(self, user: str, call: api.LoadEntries) -> api.TranscriptEntries:
        db = self._existing()
        row = None if db is None else _find(db, user, call.key)
        if db is None or row is None:
            raise NotFound("transcript", call.key.session)
        query = "select entry from entries where transcript = ? and position >= ? order by position limit ?"
        found: list[msgspec.Raw] = []
        size = 0
        for (text,) in db.execute(query, (row[0], call.after, call.limit)):
            found.append(msgspec.Raw(text.encode()))
            size += len(text)
            if size > api.PAGE_BYTES:
                break
        end = call.after + len(found)
        return api.TranscriptEntries(entries=tuple(found), next=end if found and end < row[2] else None)

    def list(self, user: str, call: api.ListTranscripts) -> api.TranscriptList:
        if (db := self._existing()) is None:
            return api.TranscriptList(())
        which, value = ("session = ?", call.session) if call.session else ("subpath = ?", "")
        query = f"select {_STATE} from transcripts where user = ? and project = ? and {which} order by id"
        return api.TranscriptList(tuple(_state(row) for row in db.execute(query, (user, call.project, value))))

    def delete(self, user: str, call: api.DeleteTranscripts) -> api.DeletedTranscripts:
        if self._existing() is None:
            return api.DeletedTranscripts(0)
        key, query = call.key, "delete from transcripts where user = ? and project = ? and session = ?"
        with self._changing() as db:
            if key.subpath:
                done = db.execute(f"{query} and subpath = ?", (user, key.project, key.session, key.subpath))
            else:
                done = db.execute(query, (user, key.project, key.session))
        return api.DeletedTranscripts(done.rowcount)

    def forget(self, user: str) -> None:
        """Delete everything of a user."""
        if self._existing() is not None:
            with self._changing() as db:
                db.execute("delete from transcripts where user = ?", (user,))

    def _create(self, db: sqlite3.Connection, user: str, key: api.TranscriptKey, now: int) -> tuple[int, int, int]:
        self._check_count(db, user)
        columns = "user, project, session, subpath, at, entries, bytes, revision"
        values = (user, key.project, key.session, key.subpath, now)
        made = db.execute(f"insert into transcripts ({columns}) values (?, ?, ?, ?, ?, 0, 0, 0)", values)
        assert made.lastrowid is not None
        return made.lastrowid, 0, 0

    # --- limits and the connection

    def _check_count(self, db: sqlite3.Connection, user: str) -> None:
        (count,) = db.execute("select count(*) from transcripts where user = ?", (user,)).fetchone()
        if count >= self._user_count:
            raise TooMany(f"You have {count} transcripts: delete some.", limit=self._user_count)

    def _check_bytes(self, db: sqlite3.Connection, user: str, more: int) -> None:
        (used,) = db.execute("select coalesce(sum(bytes), 0) from transcripts where user = ?", (user,)).fetchone()
        if used + more > self._user_bytes:
            raise TooMany(f"Your transcripts have {used} bytes: delete some.", limit=self._user_bytes)

    def _existing(self) -> sqlite3.Connection | None:
        return self._connection() if self._db is not None or self._path.exists() else None

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            self._path.touch(mode=0o600)
            # Calls come from a pool of one thread, which may be replaced.
            db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            db.execute("pragma journal_mode = wal")
            db.execute("pragma foreign_keys = on")
            db.executescript(_SCHEMA)
            self._db = db
        return self._db

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, durable at its end."""
        db = self._connection()
        db.execute("begin immediate")
        try:
            yield db
        except BaseException:
            db.execute("rollback")
            raise
        db.execute("commit")


def _check_sizes(call: api.AppendEntries) -> None:
    if len(call.entries) > api.BATCH_ENTRIES:
        raise BadRequest(f"Send at most {api.BATCH_ENTRIES} entries at once.", limit=api.BATCH_ENTRIES)
    if (size := len(msgspec.json.encode(call.summary))) > api.SUMMARY_BYTES:
        raise TooLarge("summary", size, api.SUMMARY_BYTES)


def _uuid(raw: msgspec.Raw) -> str | None:
    try:
        uuid = msgspec.json.decode(raw, type=_Entry).uuid
    except msgspec.ValidationError:
        raise BadRequest("An entry must be a JSON object.") from None
    return uuid if isinstance(uuid, str) and uuid else None


def _find(db: sqlite3.Connection, user: str, key: api.TranscriptKey) -> tuple[int, int, int] | None:
    """Return id, revision and number of entries."""
    query = (
        "select id, revision, entries from transcripts where user = ? and project = ? and session = ? and subpath = ?"
    )
    row: tuple[int, int, int] | None = db.execute(query, (user, key.project, key.session, key.subpath)).fetchone()
    return row


def _state(row: Sequence[Any]) -> api.TranscriptState:
    session, subpath, at, entries, size, revision, summary = row
    kept = None if summary is None else msgspec.json.decode(summary)
    return api.TranscriptState(
        session=session, subpath=subpath, at=at, entries=entries, bytes=size, revision=revision, summary=kept
    )

"""The texts of transcripts that no session has read into its log yet, for full-text search: `transcript-search.db`.

Everything in it comes from the agents' files: a lost or damaged file is made again. The position in a transcript is
stored in the same transaction as the texts before it, so a crash repeats nothing and leaves nothing out. Implements
`model.transcripts.TranscriptTexts`.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fairlead.model.errors import Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import FileMark, IndexedEvent, TextHit
from fairlead.stores.sqlite.connections import connect, make_private, transaction
from fairlead.stores.sqlite.errors import translating
from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.search import FTS, INDEXED, TOOL_KINDS, has_fts5, marked_snippet, match_expression, text_of
from fairlead.stores.sqlite.sessions import add_functions, storable

T = TypeVar("T")

FILE = "transcript-search.db"

# Characters of a text that are indexed. A message is found as a whole (up to a very long paste); a tool's output,
# which may be a large file, is found by its beginning.
_LONGEST = 256 << 10
_LONGEST_OF_TOOL = 4 << 10
# Texts removed per transaction.
_SLICE = 1000
_WITH_FTS, _WITHOUT_FTS = 1, 2
_TOOLS_LAST = f"texts.kind in ({', '.join(repr(kind) for kind in TOOL_KINDS)})"

_TABLES = """
create table files (id integer primary key, session text not null unique, place blob not null, mark text);
create table texts (id integer primary key, file integer not null, at integer not null, kind text not null,
    text text not null);
create index texts_by_file on texts (file);
"""
_FOUND = """
select files.session, texts.at, texts.kind, {snippet}
from {source} join files on files.id = texts.file
where {condition} {within}
order by {order} limit ? offset ?
"""


class SqliteTranscriptTexts:
    """One per data folder; used from one event loop."""

    def __init__(self, file: Path, writer: sqlite3.Connection, readers: Readers, *, fts: bool) -> None:
        self._file = file
        self._db = writer
        self._readers = readers
        self._fts = fts
        self._thread = ThreadPoolExecutor(1, "fairlead-transcript-texts")
        self._closed = False

    @classmethod
    async def open(cls, folder: Path) -> "SqliteTranscriptTexts":
        return await asyncio.to_thread(cls._open, folder / FILE)

    @classmethod
    def _open(cls, file: Path) -> "SqliteTranscriptTexts":
        fts = has_fts5()
        with translating(file):
            writer = _opened(file, _WITH_FTS if fts else _WITHOUT_FTS, fts=fts)
            reader = connect(file, read_only=True)
            add_functions(reader)
        return cls(file, writer, Readers((reader,), file), fts=fts)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._readers.close()
        await asyncio.to_thread(self._thread.shutdown)
        self._db.close()

    # --- writing

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(INDEXED)

    async def place(self, session: SessionId) -> bytes:
        row = await self._readers.row("select place from files where session = ?", session)
        return b"" if row is None else row[0]

    async def add(
        self, session: SessionId, events: Sequence[IndexedEvent], place: bytes, mark: FileMark | None = None
    ) -> None:
        await self._write(lambda: self._add(session, events, place, mark))

    def _add(self, session: SessionId, events: Sequence[IndexedEvent], place: bytes, mark: FileMark | None) -> None:
        texts = [(event.at, event.kind, text) for event in events if (text := _text(event))]
        kept = None if mark is None else msgspec.json.encode(mark).decode()
        with transaction(self._db):
            (file,) = self._db.execute(
                "insert into files (session, place, mark) values (?1, ?2, ?3)"
                " on conflict (session) do update set place = ?2, mark = ?3 returning id",
                (session, place, kept),
            ).fetchone()
            self._db.executemany(
                "insert into texts (file, at, kind, text) values (?, ?, ?, ?)", ((file, *text) for text in texts)
            )

    async def remove(self, session: SessionId) -> None:
        await self._write(lambda: self._remove(session))

    def _remove(self, session: SessionId) -> None:
        row = self._db.execute("select id from files where session = ?", (session,)).fetchone()
        if row is None:
            return
        removed = _SLICE
        while removed == _SLICE:
            with transaction(self._db):
                removed = self._db.execute(
                    "delete from texts where id in (select id from texts where file = ? limit ?)", (*row, _SLICE)
                ).rowcount
        self._db.execute("delete from files where id = ?", row)

    async def _write(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable("The store is closed.")

        def translated() -> T:
            with translating(self._file):
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._thread, translated)

    # --- reading

    async def marks(self) -> dict[SessionId, FileMark | None]:
        rows = await self._readers.rows("select session, mark from files")
        return {
            SessionId(session): None if mark is None else msgspec.json.decode(mark, type=FileMark)
            for session, mark in rows
        }

    async def size(self) -> int:
        row = await self._readers.row(
            "select (page_count - freelist_count) * page_size"
            " from pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        return int(row[0])

    async def search(
        self, words: str, limit: int, skip: int = 0, session: SessionId | None = None
    ) -> Sequence[TextHit]:
        wanted = storable(words).split()
        if not wanted or limit <= 0:
            return ()
        values: list[Any]
        if self._fts:
            source, snippet = "said join texts on texts.id = said.rowid", "snippet(said, 0, char(2), char(3), '…', 16)"
            condition, order = "said match ?", f"{_TOOLS_LAST}, said.rank, texts.id desc"
            values = [match_expression(wanted)]
        else:
            source, snippet, order = "texts", "texts.text", f"{_TOOLS_LAST}, texts.at desc"
            condition = " and ".join("instr(folded(texts.text), ?)" for _ in wanted)
            values = [word.casefold() for word in wanted]
        within = "" if session is None else "and files.session = ?"
        query = _FOUND.format(snippet=snippet, source=source, condition=condition, within=within, order=order)
        rows = await self._readers.rows(query, *values, *([] if session is None else [session]), limit, skip)
        return tuple(
            TextHit(SessionId(name), at, kind, text if self._fts else marked_snippet(text, wanted))
            for name, at, kind, text in rows
        )


def _text(event: IndexedEvent) -> str:
    return text_of(event.event)[: _LONGEST_OF_TOOL if event.kind in TOOL_KINDS else _LONGEST]


def _opened(file: Path, kind: int, *, fts: bool) -> sqlite3.Connection:
    """Open the file if it can be used; otherwise create a new one."""
    make_private(file)
    db = connect(file)
    try:
        if db.execute("pragma user_version").fetchone()[0] == kind:
            db.execute("select count(*) from files").fetchone()
            return _prepared(db)
    except sqlite3.DatabaseError:
        # Any damage is harmless: the transcripts are read again.
        pass
    db.close()
    for name in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        name.unlink(missing_ok=True)
    make_private(file)
    db = connect(file)
    db.execute("pragma journal_mode = wal")
    db.executescript(f"begin; {_TABLES} {FTS if fts else ''} pragma user_version = {kind}; commit;")
    return _prepared(db)


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    db.execute("pragma synchronous = normal")
    db.execute("pragma secure_delete = fast")
    return db

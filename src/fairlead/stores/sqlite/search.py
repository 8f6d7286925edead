"""Full-text search in a separate file, `search.db`: built from the log with a delay, and rebuilt when it is lost.
The usage statistics are counted in the same passes (see `usage_stats`).

It is separate from `fairlead.db` so that its writes never delay an append. The cursor (the last entry of the log that
was processed) is stored in the same transaction as the texts, so a crash repeats nothing and leaves nothing out. Hits
are looked up in the log again: entries that are gone there are not shown.

Indexed: prompts and steers (`user.message`), answers (`text`), proposed plans, titles, and the input and output of
tools. Tool hits come last: there are so many of them that they would bury the rest. Left out: thinking, and the queue,
whose messages are found once they are sent to the agent.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.store import SearchHit
from fairlead.stores.sqlite.connections import connect, make_private, transaction
from fairlead.stores.sqlite.read import LogRange, last_entry, visible_ranges
from fairlead.stores.sqlite.sessions import VISIBLE_TO_USER, storable
from fairlead.stores.sqlite.usage_stats import KINDS as COUNTED
from fairlead.stores.sqlite.usage_stats import TABLES as USAGE_TABLES
from fairlead.stores.sqlite.usage_stats import UsageCounter

MESSAGE_KINDS = ("user.message", "text", "plan.proposed", "session.opened", "session.changed")
TOOL_KINDS = ("tool.called", "tool.ended")
INDEXED = MESSAGE_KINDS + TOOL_KINDS
_PROCESSED = tuple(dict.fromkeys(INDEXED + COUNTED))

# Entries processed per transaction of the index.
_SLICE = 2000
# Characters of a text that are indexed: a pasted file is found by its beginning.
_LONGEST = 1 << 20

_TABLES = """
create table cursor (store_id text not null, entry integer not null);
create table texts (id integer primary key, log integer not null, seq integer not null, at integer not null,
    kind text not null, text text not null);
create index texts_by_log on texts (log, seq);
"""
FTS = """
create virtual table said using fts5 (text, content = 'texts', content_rowid = 'id',
    tokenize = 'unicode61 remove_diacritics 2');
create trigger texts_added after insert on texts begin
    insert into said (rowid, text) values (new.id, new.text);
end;
create trigger texts_removed after delete on texts begin
    insert into said (said, rowid, text) values ('delete', old.id, old.text);
end;
"""
_WITH_FTS, _WITHOUT_FTS = 7, 8
"""`user_version` of the file, with and without FTS5 in this Python's SQLite; it also changes with the set of indexed
events. A file with any other version is rebuilt."""
_TOOLS_LAST = f"texts.kind in ({', '.join(repr(kind) for kind in TOOL_KINDS)})"

_NEW_ENTRIES = f"""
select id, log, seq, at, kind, cast(event as blob) from entries
where id > ? and id <= ? and event is not null and kind in ({", ".join("?" * len(_PROCESSED))})
order by id
"""
_FOUND = """
select texts.log, texts.seq, texts.at, texts.kind, {snippet}, entries.id
from {source}
join entries on entries.id = texts.id
where {condition} {stretches}
order by {order}
"""
_SEEN = f"select 1 from sessions where session = ? and {VISIBLE_TO_USER}"


class _SearchText(msgspec.Struct):
    """The fields with text, of all indexed kinds of events."""

    text: str = ""
    plan: str = ""
    title: str | None = None
    name: str = ""
    input: Any = None
    content: Any = None


_decoder = msgspec.json.Decoder(_SearchText)


def text_of(event: bytes) -> str:
    """Return the searchable text of an event; empty if it has none or cannot be decoded."""
    try:
        found = _decoder.decode(event)
    except msgspec.MsgspecError:
        return ""
    parts = [found.text, found.plan, found.title or "", found.name, *_strings(found.input), *_content(found.content)]
    return "\n".join(part for part in parts if part)[:_LONGEST]


def _content(content: Any) -> Iterator[str]:
    """Yield the text of a message's or a result's content: a string, or blocks of which some are text."""
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]


def _strings(value: Any) -> Iterator[str]:
    """Yield every string in a tool's input, at any depth."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.extend(reversed(item.values()))
        elif isinstance(item, list):
            waiting.extend(reversed(item))


def has_fts5() -> bool:
    with_fts = sqlite3.connect(":memory:")
    try:
        with_fts.execute("create virtual table probe using fts5 (text)")
    except sqlite3.OperationalError:
        return False
    finally:
        with_fts.close()
    return True


class Index:
    """Writes the index; belongs to the maintenance thread."""

    def __init__(self, file: Path, log: sqlite3.Connection, *, fts: bool) -> None:
        self.file = file
        self._log = log
        self._db = _opened(file, log, fts=fts)

    def close(self) -> None:
        self._db.close()

    def is_behind(self) -> bool:
        return self._cursor() < last_entry(self._log)

    def advance(self) -> None:
        """Process one slice of the log."""
        with transaction(self._db):
            first = self._cursor()
            last = min(first + _SLICE, last_entry(self._log))
            texts = []
            counter = UsageCounter(self._db, self._log)
            for row in self._log.execute(_NEW_ENTRIES, (first, last, *_PROCESSED)):
                _, log, _, at, kind, event = row
                if kind in INDEXED and (text := text_of(event)):
                    texts.append((*row[:5], text))
                if kind in COUNTED:
                    counter.take(log, at, kind, event)
            counter.write()
            self._db.executemany("insert or ignore into texts values (?, ?, ?, ?, ?, ?)", texts)
            self._db.execute("update cursor set entry = ?", (last,))

    def remove(self, log: int, above: int) -> None:
        self._db.execute("delete from texts where log = ? and seq > ?", (log, above))
        self._db.execute("delete from calls where log = ?", (log,))
        # If the newest entries are gone, their ids are used again, for entries that are not processed yet.
        self._db.execute("update cursor set entry = min(entry, ?)", (last_entry(self._log),))

    def _cursor(self) -> int:
        return int(self._db.execute("select entry from cursor").fetchone()[0])


def _opened(file: Path, log: sqlite3.Connection, *, fts: bool) -> sqlite3.Connection:
    """Open the index if it belongs to this log and can be used; otherwise create a new one."""
    (store_id,) = log.execute("select value from meta where name = 'store_id'").fetchone()
    kind = _WITH_FTS if fts else _WITHOUT_FTS
    make_private(file)
    db = connect(file)
    try:
        if _fits(db, kind, store_id):
            # Ids above the newest entry will be used again: entries were dropped, or lost in a power cut.
            db.execute("delete from texts where id > ?", (last_entry(log),))
            db.execute("update cursor set entry = min(entry, ?)", (last_entry(log),))
            return db
    except sqlite3.DatabaseError:
        # Any damage is harmless: the index has nothing that the log does not have.
        pass
    db.close()
    for name in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        name.unlink(missing_ok=True)
    make_private(file)
    db = connect(file)
    db.execute("pragma journal_mode = wal")
    db.executescript(f"begin; {_TABLES} {USAGE_TABLES} {FTS if fts else ''} pragma user_version = {kind}; commit;")
    db.execute("insert into cursor values (?, 0)", (store_id,))
    return db


def _fits(db: sqlite3.Connection, kind: int, store_id: str) -> bool:
    if db.execute("pragma user_version").fetchone()[0] != kind:
        return False
    db.execute("pragma synchronous = normal")
    row = db.execute("select store_id from cursor").fetchone()
    return row is not None and row[0] == store_id


# --- reading


def search(
    db: sqlite3.Connection, words: str, limit: int, session: SessionId | None, seen_by: str | None = None, *, fts: bool
) -> Sequence[SearchHit]:
    """Find entries with every word; the last word may be a prefix. Ordered by rank, without FTS newest first."""
    wanted = storable(words).split()
    if not wanted or limit <= 0:
        return ()
    within: tuple[LogRange, ...] = () if session is None else visible_ranges(db, session).ranges
    places = " or ".join("(texts.log = ? and texts.seq > ? and texts.seq <= ?)" for _ in within)
    parts = {"stretches": f"and ({places})" if within else ""}
    values: list[Any]
    if fts:
        parts["source"] = "search.said join search.texts on texts.id = said.rowid"
        parts["snippet"] = "snippet(said, 0, char(2), char(3), '…', 16)"
        parts["condition"] = "said match ?"
        parts["order"] = f"{_TOOLS_LAST}, said.rank, texts.id desc"
        values = [match_expression(wanted)]
    else:
        parts["source"] = "search.texts"
        parts["snippet"] = "texts.text"
        parts["condition"] = " and ".join("instr(folded(texts.text), ?)" for _ in wanted)
        parts["order"] = f"{_TOOLS_LAST}, texts.id desc"
        values = [word.casefold() for word in wanted]
    values += [value for stretch in within for value in stretch]
    hits: list[SearchHit] = []
    for log, seq, at, kind, snippet, _ in db.execute(_FOUND.format(**parts), values):
        whose = session or _shown_by(db, log, seq, seen_by)
        if whose is None:
            continue
        title = db.execute("select title from sessions where session = ?", (whose,)).fetchone()
        marked = snippet if fts else marked_snippet(snippet, wanted)
        hits.append(SearchHit(whose, seq, at, kind, marked, title[0] if title else ""))
        if len(hits) == limit:
            break
    return tuple(hits)


def match_expression(words: Sequence[str]) -> str:
    """Build an FTS5 query; a quoted string is never an operator in it."""
    return " ".join('"' + word.replace('"', '""') + '"' for word in words) + "*"


def _shown_by(db: sqlite3.Connection, log: int, seq: int, seen_by: str | None) -> SessionId | None:
    """Return the session of the log; if it was erased, or this user does not see it, a fork that shows the entry."""
    for session in _showing(db, log, seq):
        if seen_by is None or db.execute(_SEEN, (session, seen_by, seen_by)).fetchone():
            return SessionId(session)
    return None


def _showing(db: sqlite3.Connection, log: int, seq: int) -> Iterator[str]:
    row = db.execute("select session from logs where id = ?", (log,)).fetchone()
    if row is not None and row[0] is not None:
        yield row[0]
    for (fork,) in db.execute("select id from logs where parent = ? and base >= ?", (log, seq)).fetchall():
        yield from _showing(db, fork, seq)


def marked_snippet(text: str, words: Sequence[str]) -> str:
    """Build a snippet without FTS5: some of the text around the first word."""
    start = max(text.casefold().find(words[0].casefold()), 0)
    end = start + len(words[0])
    before, after = text[max(start - 40, 0) : start], text[end : end + 80]
    return f"{'…' if start > 40 else ''}{before}\x02{text[start:end]}\x03{after}{'…' if end + 80 < len(text) else ''}"

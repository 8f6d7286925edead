"""Full-text search in a file of its own, `search.db`: made from the log, behind it, and made again when it is lost.
What insight shows is counted in the same passes (see `tally`).

Apart from `fairlead.db` so that its writes never stand in the way of an append. Everything it takes from the log (the
cursor: the last entry looked at) is stored in the transaction that stores the words, so a crash repeats nothing and
leaves nothing out. What is found is looked up in the log again: what is gone there is not shown.

Indexed: prompts and steers (`user.message`), answers (`text`), proposed plans, titles, and what tools were asked and
what they answered. Tool traffic comes after what was said: there is so much of it that it would bury the rest. Left
out: thinking, and the queue, whose messages are found once they are handed to the agent.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.model.ids import SessionId
from fairlead.model.store import SearchHit
from fairlead.stores.sqlite.connections import connect, make_private
from fairlead.stores.sqlite.read import LogRange, last_entry, shown
from fairlead.stores.sqlite.sessions import SEEN, plain
from fairlead.stores.sqlite.usage_stats import KINDS as COUNTED
from fairlead.stores.sqlite.usage_stats import TABLES as TALLY
from fairlead.stores.sqlite.usage_stats import UsageCounter

SAID = ("user.message", "text", "plan.proposed", "session.opened", "session.changed")
TOOLS = ("tool.called", "tool.ended")
INDEXED = SAID + TOOLS
_TAKEN = tuple(dict.fromkeys(INDEXED + COUNTED))

# Entries looked at per transaction of the index.
_SLICE = 2000
# Characters of a text that are indexed: a file that somebody pasted is found by its beginning.
_LONGEST = 1 << 20

_TABLES = """
create table cursor (store_id text not null, entry integer not null);
create table texts (id integer primary key, log integer not null, seq integer not null, at integer not null,
    kind text not null, text text not null);
create index texts_by_log on texts (log, seq);
"""
_FTS = """
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
"""`user_version` of the file, by what this Python's SQLite can do and by what is taken; any other is made anew."""
_TOOLS_LAST = f"texts.kind in ({', '.join(repr(kind) for kind in TOOLS)})"

_NEWS = f"""
select id, log, seq, at, kind, cast(event as blob) from entries
where id > ? and id <= ? and event is not null and kind in ({", ".join("?" * len(_TAKEN))})
order by id
"""
_FOUND = """
select texts.log, texts.seq, texts.at, texts.kind, {snippet}, entries.id
from {source}
join entries on entries.id = texts.id
where {condition} {stretches}
order by {order}
"""
_SEEN = f"select 1 from sessions where session = ? and {SEEN}"


class _SearchText(msgspec.Struct):
    """The fields that hold words, of all indexed kinds."""

    text: str = ""
    plan: str = ""
    title: str | None = None
    name: str = ""
    input: Any = None
    content: Any = None


_decoder = msgspec.json.Decoder(_SearchText)


def words_of(event: bytes) -> str:
    """What an event says; empty for one that says nothing or cannot be read."""
    try:
        said = _decoder.decode(event)
    except msgspec.MsgspecError:
        return ""
    parts = [said.text, said.plan, said.title or "", said.name, *_strings(said.input), *_content(said.content)]
    return "\n".join(part for part in parts if part)[:_LONGEST]


def _content(content: Any) -> Iterator[str]:
    """The words of a message's or a result's content: a string, or blocks of which some are text."""
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]


def _strings(value: Any) -> Iterator[str]:
    """Every string in a tool's input, however deep."""
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
    """The side that writes; belongs to the maintenance thread."""

    def __init__(self, file: Path, log: sqlite3.Connection, *, fts: bool) -> None:
        self.file = file
        self._log = log
        self._db = _opened(file, log, fts=fts)

    def close(self) -> None:
        self._db.close()

    def is_behind(self) -> bool:
        return self._cursor() < last_entry(self._log)

    def advance(self) -> None:
        """Take one slice of the log."""
        self._db.execute("begin immediate")
        try:
            first = self._cursor()
            last = min(first + _SLICE, last_entry(self._log))
            texts = []
            tally = UsageCounter(self._db, self._log)
            for row in self._log.execute(_NEWS, (first, last, *_TAKEN)):
                _, log, _, at, kind, event = row
                if kind in INDEXED and (text := words_of(event)):
                    texts.append((*row[:5], text))
                if kind in COUNTED:
                    tally.take(log, at, kind, event)
            tally.write()
            self._db.executemany("insert or ignore into texts values (?, ?, ?, ?, ?, ?)", texts)
            self._db.execute("update cursor set entry = ?", (last,))
            self._db.execute("commit")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise

    def remove(self, log: int, above: int) -> None:
        """Forget the words of an erased log."""
        self._db.execute("delete from texts where log = ? and seq > ?", (log, above))
        self._db.execute("delete from calls where log = ?", (log,))
        # Where the newest entries are gone, their numbers are given again: to entries that are still to be looked at.
        self._db.execute("update cursor set entry = min(entry, ?)", (last_entry(self._log),))

    def _cursor(self) -> int:
        return int(self._db.execute("select entry from cursor").fetchone()[0])


def _opened(file: Path, log: sqlite3.Connection, *, fts: bool) -> sqlite3.Connection:
    """The index as it is if it belongs to this log and can be used, else a new one."""
    (store_id,) = log.execute("select value from meta where name = 'store_id'").fetchone()
    kind = _WITH_FTS if fts else _WITHOUT_FTS
    make_private(file)
    db = connect(file)
    try:
        if _fits(db, kind, store_id):
            # Numbers above the newest entry will be given again: it was dropped, or a power cut took it.
            db.execute("delete from texts where id > ?", (last_entry(log),))
            db.execute("update cursor set entry = min(entry, ?)", (last_entry(log),))
            return db
    except sqlite3.DatabaseError:
        # Whatever is wrong with it: nothing is in it that the log does not have.
        pass
    db.close()
    for name in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        name.unlink(missing_ok=True)
    make_private(file)
    db = connect(file)
    db.execute("pragma journal_mode = wal")
    db.executescript(f"begin; {_TABLES} {TALLY} {_FTS if fts else ''} pragma user_version = {kind}; commit;")
    db.execute("insert into cursor values (?, 0)", (store_id,))
    return db


def _fits(db: sqlite3.Connection, kind: int, store_id: str) -> bool:
    if db.execute("pragma user_version").fetchone()[0] != kind:
        return False
    db.execute("pragma synchronous = normal")
    row = db.execute("select store_id from cursor").fetchone()
    return row is not None and row[0] == store_id


# --- the side that reads


def search(
    db: sqlite3.Connection,
    words: str,
    limit: int,
    session: SessionId | None,
    seen_by: str | None = None,
    *,
    fts: bool,
) -> Sequence[SearchHit]:
    """Every word must occur, the last one may be a beginning. Best first: by rank, without FTS the newest."""
    wanted = plain(words).split()
    if not wanted or limit <= 0:
        return ()
    within: tuple[LogRange, ...] = () if session is None else shown(db, session).stretches
    places = " or ".join("(texts.log = ? and texts.seq > ? and texts.seq <= ?)" for _ in within)
    parts = {"stretches": f"and ({places})" if within else ""}
    values: list[Any]
    if fts:
        parts["source"] = "search.said join search.texts on texts.id = said.rowid"
        parts["snippet"] = "snippet(said, 0, char(2), char(3), '…', 16)"
        parts["condition"] = "said match ?"
        parts["order"] = f"{_TOOLS_LAST}, said.rank, texts.id desc"
        values = [_expression(wanted)]
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
        marked = snippet if fts else _marked(snippet, wanted)
        hits.append(SearchHit(whose, seq, at, kind, marked, title[0] if title else ""))
        if len(hits) == limit:
            break
    return tuple(hits)


def _expression(words: Sequence[str]) -> str:
    """In FTS5's language, where a quoted string is never an operator."""
    return " ".join('"' + word.replace('"', '""') + '"' for word in words) + "*"


def _shown_by(db: sqlite3.Connection, log: int, seq: int, seen_by: str | None) -> SessionId | None:
    """The session whose log it is; where that was erased, or is not for this user, a fork that shows the entry."""
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


def _marked(text: str, words: Sequence[str]) -> str:
    """A snippet for where there is no FTS5: some of the text around the first word."""
    start = max(text.casefold().find(words[0].casefold()), 0)
    end = start + len(words[0])
    before, after = text[max(start - 40, 0) : start], text[end : end + 80]
    return f"{'…' if start > 40 else ''}{before}\x02{text[start:end]}\x03{after}{'…' if end + 80 < len(text) else ''}"

"""The list of sessions: one row per summary, with columns named like the summary's fields."""

import base64
import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.model.errors import BadRequest
from fairlead.model.ids import SessionId
from fairlead.model.store import TRANSCRIPT, SessionFilter, SessionPage, Summary

_FIELDS = tuple(field.name for field in msgspec.structs.fields(Summary))
_LIST = f"select {', '.join(_FIELDS)} from sessions"
# One less than the largest integer of SQLite: a page is read with one additional row.
_LARGEST = (1 << 63) - 2
PUT_SUMMARY = f"insert or replace into sessions ({', '.join(_FIELDS)}) values ({', '.join('?' * len(_FIELDS))})"


VISIBLE_TO_USER = "(owner = ? and owner <> '' or instr(',' || shared || ',', ',' || ? || ',') or instr(shared, '*'))"
"""`auth.Identity.sees` as SQL; the user is passed twice."""


def summary_row(summary: Summary) -> tuple[Any, ...]:
    """Return the row of a summary. Users are joined by commas: no name contains one."""
    return tuple(",".join(summary.shared) if name == "shared" else getattr(summary, name) for name in _FIELDS)


def get_summary(db: sqlite3.Connection, session: SessionId) -> Summary | None:
    row = db.execute(f"{_LIST} where session = ?", (session,)).fetchone()
    return None if row is None else _summary(row)


_LEFT = ("owner", "shared")
"""Fields that a transcript file does not have: they stay unchanged when the file is read again."""
_FOUND = f"""
insert into sessions ({", ".join(_FIELDS)}) select {", ".join("?" * len(_FIELDS))}
where not exists (select 1 from sessions where agent_session = ? and agent_session <> '' and session <> ?)
on conflict (session) do update set {", ".join(f"{name} = excluded.{name}" for name in _FIELDS if name not in _LEFT)}
where sessions.state = '{TRANSCRIPT}' and sessions.deleted = 0
"""


def list_found(db: sqlite3.Connection, found: Sequence[Summary], gone: Sequence[SessionId]) -> None:
    """Add sessions without a log to the list, and remove those in `gone`."""
    for summary in found:
        db.execute(_FOUND, (*summary_row(summary), summary.session, summary.session))
    for session in gone:
        db.execute(f"delete from sessions where session = ? and state = '{TRANSCRIPT}' and deleted = 0", (session,))


def session_of(db: sqlite3.Connection, agent_session: str) -> SessionId | None:
    """Find the session for an agent's id. A session that has it as `agent_session` takes precedence over a session
    whose own id it is: the former is the one that runs the agent."""
    row = db.execute(
        "select session from sessions where agent_session = ? and agent_session <> '' and session <> ? and deleted = 0"
        " union all select session from sessions where session = ? and deleted = 0 limit 1",
        (agent_session, agent_session, agent_session),
    ).fetchone()
    return None if row is None else SessionId(row[0])


def list_sessions(db: sqlite3.Connection, wanted: SessionFilter, seen_by: str | None = None) -> SessionPage:
    """List sessions, newest first. The cursor is the sort key of the page's last row, not its number, so that new
    sessions shift nothing."""
    conditions: list[tuple[str, tuple[Any, ...]]] = [("deleted = 0", ())]
    if wanted.before:
        conditions.append(("(updated, session) < (?, ?)", _place(wanted.before)))
    if wanted.archived is not None:
        conditions.append(("archived = ?", (wanted.archived,)))
    if wanted.cwd:
        conditions.append(("cwd = ?", (wanted.cwd,)))
    if wanted.state:
        conditions.append(("state = ?", (wanted.state,)))
    if seen_by is not None:
        conditions.append((VISIBLE_TO_USER, (seen_by, seen_by)))
    if not wanted.transcripts:
        conditions.append((f"state <> '{TRANSCRIPT}'", ()))
    words = [word.casefold() for word in storable(wanted.words).split()]
    conditions += [("instr(folded(title || char(10) || first_prompt), ?)", (word,)) for word in words]
    limit = min(max(wanted.limit, 1), _LARGEST)
    where = " and ".join(condition for condition, _ in conditions)
    values = [value for _, values in conditions for value in values]
    query = f"{_LIST} where {where} order by updated desc, session desc limit ?"
    found = [_summary(row) for row in db.execute(query, (*values, limit + 1))]
    page = tuple(found[:limit])
    return SessionPage(page, _cursor(page[-1]) if len(found) > limit else "")


def storable(words: str) -> str:
    """Remove characters that SQLite cannot store: NUL ends its strings, half of a surrogate pair has no UTF-8."""
    return words.replace("\0", " ").encode(errors="replace").decode()


def add_functions(db: sqlite3.Connection) -> None:
    """Add `folded`: SQLite's own `like` ignores case for ASCII only."""
    db.create_function("folded", 1, str.casefold, deterministic=True)


def _summary(row: tuple[Any, ...]) -> Summary:
    # SQLite has no booleans: `strict=False` converts 0 and 1 back.
    fields = dict(zip(_FIELDS, row, strict=True))
    fields["shared"] = tuple(filter(None, fields["shared"].split(",")))
    return msgspec.convert(fields, Summary, strict=False)


def _cursor(last: Summary) -> str:
    return base64.urlsafe_b64encode(f"{last.updated} {last.session}".encode()).decode()


def _place(cursor: str) -> tuple[int, str]:
    try:
        updated, _, session = base64.urlsafe_b64decode(cursor.encode()).decode().partition(" ")
        return max(-_LARGEST, min(int(updated), _LARGEST)), session
    except ValueError as error:
        raise BadRequest("`before` is not a cursor: use the `next` of the page before.", before=cursor[:80]) from error

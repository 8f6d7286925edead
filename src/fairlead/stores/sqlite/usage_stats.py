"""Usage statistics, counted from the log while the search index is built: with a delay, once for each entry.

They are counted by quarters of an hour, so that a day of any time zone is a sum of them, and by session, so that each
user is shown their own. The tables are in `search.db` with the search texts, and are updated in the same transaction as
its cursor. After a rebuild (the file was lost, or has an older version) they lack sessions that were erased meanwhile.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from fairlead.model.events import ModelUsage
from fairlead.model.usage_stats import CostRow, LimitWindow, ToolUsage, TurnRow, UsageStats
from fairlead.stores.sqlite.sessions import VISIBLE_TO_USER

T = TypeVar("T", bound=msgspec.Struct)

KINDS: Final = ("turn.ended", "tool.called", "tool.ended", "permission.resolved", "rate.limit")
SLOT_MS: Final = 15 * 60 * 1000
"""The offset of every time zone from UTC is a multiple of a quarter of an hour."""

TABLES: Final = """
create table spent (slot integer not null, session text not null, project text not null, model text not null,
    input integer not null, output integer not null, cache_read integer not null, cache_write integer not null,
    cost_usd real not null, primary key (slot, session, project, model)) without rowid;
create table turned (slot integer not null, session text not null, project text not null, turns integer not null,
    failed integer not null, cancelled integer not null, duration_ms integer not null,
    primary key (slot, session, project)) without rowid;
create table used (slot integer not null, session text not null, tool text not null, calls integer not null,
    failed integer not null, interrupted integer not null, denied integer not null, total_ms integer not null,
    primary key (slot, session, tool)) without rowid;
create table calls (log integer not null, call text not null, tool text not null, at integer not null,
    primary key (log, call)) without rowid;
create table limits (kind text primary key, at integer not null, info text not null) without rowid;
"""

_PLACE = """
select sessions.session, sessions.cwd from logs
join sessions on sessions.session = coalesce(logs.session, logs.erased) where logs.id = ?
"""


def _adding(table: str, keys: int, *sums: str) -> str:
    """Return the statement that adds to the sums of a row, whose first columns are its keys."""
    added = ", ".join(f"{name} = {name} + excluded.{name}" for name in sums)
    return f"insert into {table} values ({', '.join('?' * (keys + len(sums)))}) on conflict do update set {added}"


_ADD_SPENT = _adding("spent", 4, "input", "output", "cache_read", "cache_write", "cost_usd")
_ADD_TURNED = _adding("turned", 3, "turns", "failed", "cancelled", "duration_ms")
_ADD_USED = _adding("used", 3, "calls", "failed", "interrupted", "denied", "total_ms")
_SET_LIMIT = """
insert into limits values (?, ?, ?) on conflict do update set at = excluded.at, info = excluded.info
    where excluded.at >= at
"""

# slot * 15 + offset are minutes since 1970 in the caller's time zone.
_SPENT = """
select date((slot * 15 + ?) * 60, 'unixepoch') as day, project, model, sum(input), sum(output), sum(cache_read),
    sum(cache_write), sum(cost_usd)
from search.spent where slot >= ? and slot < ? {seen} group by day, project, model order by day, project, model
"""
_TURNED = """
select date((slot * 15 + ?) * 60, 'unixepoch') as day, project, sum(turns), sum(failed), sum(cancelled),
    sum(duration_ms)
from search.turned where slot >= ? and slot < ? {seen} group by day, project order by day, project
"""
_USED = """
select tool, sum(calls) as often, sum(failed), sum(interrupted), sum(denied), sum(total_ms)
from search.used where slot >= ? and slot < ? {seen} group by tool order by often desc, tool
"""
_SEEN = f"and session in (select session from sessions where {VISIBLE_TO_USER})"


class _Event(msgspec.Struct):
    """The counted fields, of all kinds of events; other fields (a tool's long output) are skipped."""

    call: str = ""
    name: str = ""
    tool: str = ""
    status: str = ""
    behavior: str = ""
    info: dict[str, Any] = {}
    usage: dict[str, ModelUsage] = {}
    cost_usd: float = 0.0
    duration_ms: int = 0
    closed: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(_Event)


class UsageCounter:
    """Counts one slice of the log. `db` is in the transaction of the index, `log` reads the log itself."""

    def __init__(self, db: sqlite3.Connection, log: sqlite3.Connection) -> None:
        self._db = db
        self._log = log
        self._places: dict[int, tuple[str, str]] = {}
        self._spent: defaultdict[tuple[int, str, str, str], list[float]] = defaultdict(lambda: [0, 0, 0, 0, 0.0])
        self._turned: defaultdict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self._used: defaultdict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])

    def take(self, log: int, at: int, kind: str, event: bytes) -> None:
        try:
            decoded = _decoder.decode(event)
        except msgspec.MsgspecError:
            return
        match kind:
            case "turn.ended":
                self._turn(log, at, decoded)
            case "tool.called":
                self._db.execute(
                    "insert or ignore into calls values (?, ?, ?, ?)", (log, decoded.call, decoded.name, at)
                )
            case "tool.ended":
                self._end(log, decoded.call, decoded.status or "done", at)
            case "permission.resolved":
                if decoded.behavior == "deny":
                    self._used[at // SLOT_MS, self._place(log)[0], decoded.tool][3] += 1
            case _:
                window = decoded.info.get("rateLimitType")
                row = (window if isinstance(window, str) else "", at, msgspec.json.encode(decoded.info).decode())
                self._db.execute(_SET_LIMIT, row)

    def write(self) -> None:
        self._db.executemany(_ADD_SPENT, _rows(self._spent.items()))
        self._db.executemany(_ADD_TURNED, _rows(self._turned.items()))
        self._db.executemany(_ADD_USED, _rows(self._used.items()))

    def _turn(self, log: int, at: int, ended: _Event) -> None:
        where = (at // SLOT_MS, *self._place(log))
        turned = self._turned[where]
        turned[0] += 1
        turned[1] += ended.status == "failed"
        turned[2] += ended.status == "cancelled"
        turned[3] += ended.duration_ms
        for model, usage in ended.usage.items():
            spent = self._spent[*where, model]
            for place, number in enumerate((usage.input, usage.output, usage.cache_read, usage.cache_write)):
                spent[place] += number
            spent[4] += usage.cost_usd
        if ended.cost_usd and not any(usage.cost_usd for usage in ended.usage.values()):
            # The cost counts even if the agent names no model, or only models without a price.
            self._spent[*where, ""][4] += ended.cost_usd
        for call in ended.closed:
            self._end(log, call, "interrupted", at)

    def _end(self, log: int, call: str, status: str, at: int) -> None:
        found = self._db.execute(
            "delete from calls where log = ? and call = ? returning tool, at", (log, call)
        ).fetchone()
        if found is None:
            # The call has ended before (the end of a turn closes open calls), or never began.
            return
        used = self._used[at // SLOT_MS, self._place(log)[0], found[0]]
        used[0] += 1
        used[1] += status == "failed"
        used[2] += status == "interrupted"
        used[4] += max(at - found[1], 0)

    def _place(self, log: int) -> tuple[str, str]:
        """Return the session of a log and its folder."""
        known = self._places.get(log)
        if known is None:
            known = self._places[log] = self._log.execute(_PLACE, (log,)).fetchone() or ("", "")
        return known


def _rows(counted: Iterable[tuple[tuple[Any, ...], list[Any]]]) -> list[tuple[Any, ...]]:
    return [(*key, *sums) for key, sums in counted]


def read(db: sqlite3.Connection, since: int, until: int, offset: int, seen_by: str | None = None) -> UsageStats:
    """Return the statistics between two times, by days of a time zone `offset` minutes east of Greenwich. The limits
    are those of the account, whichever user reached them."""
    span: tuple[Any, ...] = (since // SLOT_MS, -(-until // SLOT_MS))
    seen = ""
    if seen_by is not None:
        seen, span = _SEEN, (*span, seen_by, seen_by)
    limits = db.execute("select kind, at, info from search.limits order by kind")
    return UsageStats(
        since=since,
        until=until,
        spent=_structs(CostRow, db.execute(_SPENT.format(seen=seen), (offset, *span))),
        turns=_structs(TurnRow, db.execute(_TURNED.format(seen=seen), (offset, *span))),
        tools=_structs(ToolUsage, db.execute(_USED.format(seen=seen), span)),
        limits=tuple(LimitWindow(kind=kind, at=at, info=msgspec.json.decode(info)) for kind, at, info in limits),
    )


def _structs(kind: type[T], rows: Iterable[tuple[Any, ...]]) -> tuple[T, ...]:
    """Return a struct for each row, whose columns are in the order of the struct's fields."""
    names = [field.name for field in msgspec.structs.fields(kind)]
    return tuple(kind(**dict(zip(names, row, strict=True))) for row in rows)

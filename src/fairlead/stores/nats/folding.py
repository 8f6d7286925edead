"""Folding keeps the stream small: the messages of a session at rest are replaced by one object with its log.

The object is stored first; then a message names it, under the condition of every message; then the messages before that
one are removed. Erasing is the same with a tombstone, and an object with the rows that forks still show.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fairlead.model.errors import FairleadError, NotFound, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import Summary
from fairlead.stores.nats import messages as m
from fairlead.stores.nats.applying import Known, read_log
from fairlead.stores.nats.connection import TRANSIENT, JetStream
from fairlead.stores.nats.journal import Journal
from fairlead.stores.nats.names import Names, session_of
from fairlead.stores.nats.objects import Objects
from fairlead.stores.sqlite.readers import Readers
from fairlead.stores.sqlite.sessions import get_summary
from fairlead.system.clock import Clock

REST_MS: Final = 3600 * 1000
MANY: Final = 200
"""A session that has rested for an hour and has more messages than this is folded."""
EVERY_S: Final = 600.0
_FILES: Final = (
    "select event_file, raw_file from entries where log = ? and seq > ?"
    " and (event_file is not null or raw_file is not null)"
)
_LOG: Final = "select id, forked_at, log_id from logs where session = ?"

_log = logging.getLogger(__name__)


class Folding:
    """`leads`: whether this node folds the sessions of the cell."""

    def __init__(
        self,
        js: JetStream,
        names: Names,
        journal: Journal,
        objects: Objects,
        readers: Readers,
        clock: Clock,
        remove_hidden: Callable[[], Awaitable[None]],
        leads: Callable[[], bool],
    ) -> None:
        self._js = js
        self._names = names
        self._journal = journal
        self._objects = objects
        self._readers = readers
        self._clock = clock
        self._remove_hidden = remove_hidden
        self._leads = leads
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # --- folding

    async def fold(self, session: SessionId) -> None:
        """Replace the messages of a session by one object."""

        async def make(known: Known) -> m.Op | None:
            if not known.log_id:
                raise NotFound("session", session)
            log, home = await self._readers.do(_read_whole, session)
            blob = f"fold/{log.log_id}/{known.last}"
            await self._objects.put(blob, m.encode(log))
            return m.Fold(known.node, known.epoch, home, blob, known.head)

        seq = await self._journal.publish(session, make)
        if seq is not None:
            await self._purge(session, seq)

    async def _purge(self, session: SessionId, seq: int) -> None:
        """Remove the messages before the one that replaces them, and the object of an earlier fold."""
        subject = self._names.log(session)
        try:
            first = await self._js.read(self._names.log_stream, 1, 1, subject)
            await self._js.purge(self._names.log_stream, subject, below=seq)
            if first and first[0].seq < seq and isinstance(old := m.decode(first[0].body), m.Fold | m.Mend):
                await self._objects.delete(old.blob)
        except TRANSIENT as error:
            # Found again by the next round.
            _log.debug("old messages of %s are not removed yet: %s", session, error)

    # --- erasing

    async def erase(self, session: SessionId) -> None:
        files: list[str] = []
        hidden = await self._readers.do(_hidden_ancestors, session)

        async def make(known: Known) -> m.Op | None:
            summary = await self._readers.do(get_summary, session)
            if not known.log_id:
                if summary is None:
                    raise NotFound("session", session)
                if summary.deleted:
                    return None
            else:
                files[:] = await self._readers.do(_files, session)
            kept = f"kept/{known.log_id}" if known.log_id else ""
            return m.Erase(known.log_id, summary or Summary(session=session), kept)

        if (await self._readers.do(get_summary, session)) is None and not (await self._journal.know(session)).log_id:
            # Another node may have made it a moment ago.
            await self._journal.catch_up(session)
        seq = await self._journal.publish(session, make)
        if seq is None:
            return
        await self._remove_hidden()
        await self._finish_erasing(session, seq)
        try:
            for name in files:
                await self._objects.delete(name)
            for log_id in set(hidden) - set(await self._readers.do(_log_ids, hidden)):
                # The last fork that showed these rows is gone.
                await self._objects.delete(f"kept/{log_id}")
        except TRANSIENT as error:
            _log.warning("large records of the erased session %s are not removed: %s", session, error)

    async def _finish_erasing(self, session: SessionId, seq: int) -> None:
        """Store what forks show of an erased log, then remove its messages. Everything that came before the
        tombstone is applied here, also a fork that was made at the same time."""
        kept = await self._readers.do(_read_kept, session)
        for log in kept:
            await self._objects.put(f"kept/{log.log_id}", m.encode(log))
        await self._purge(session, seq)

    # --- the rounds

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_S)
            if self._leads():
                try:
                    await self.round()
                except TRANSIENT as error:
                    _log.debug("folding: %s", error)
                except FairleadError as error:
                    _log.warning("sessions are not folded: %s", error)

    async def round(self) -> int:
        """Fold the sessions at rest, and finish what a crash has interrupted. Returns the number of subjects that got
        smaller."""
        done = 0
        for subject, count in (await self._counts()).items():
            session = SessionId(session_of(subject))
            last = await self._js.last_of(self._names.log_stream, subject)
            op = None if last is None else m.decode(last.body)
            if last is not None and count > 1 and isinstance(op, m.Fold | m.Erase | m.Mend):
                await self._journal.follower.reached(last.seq)
                await (self._finish_erasing if isinstance(op, m.Erase) else self._purge)(session, last.seq)
                done += 1
            elif count > MANY and await self._readers.do(_last_at, session) < self._clock.now_ms() - REST_MS:
                await self.fold(session)
                done += 1
        return done

    async def _counts(self) -> dict[str, int]:
        """The number of messages of each subject that has more than one."""
        counts: dict[str, int] = {}
        asked: dict[str, Any] = {"subjects_filter": f"fl.{self._names.cell}.log.*", "offset": 0}
        while True:
            found = await self._js.call(f"STREAM.INFO.{self._names.log_stream}", asked, timeout_s=10.0)
            if "state" not in found:
                raise Unavailable(f"The streams cannot be listed: {found.get('error')}")
            page = found["state"].get("subjects") or {}
            counts |= {subject: count for subject, count in page.items() if count > 1}
            asked["offset"] += len(page)
            if not page or asked["offset"] >= found.get("total", 0):
                return counts


def _read_whole(db: sqlite3.Connection, session: SessionId) -> tuple[m.WholeLog, str]:
    (log, _, _) = db.execute(_LOG, (session,)).fetchone()
    row = db.execute("select home from chains where session = ?", (session,)).fetchone()
    return read_log(db, log), row[0] if row else ""


def _read_kept(db: sqlite3.Connection, session: SessionId) -> list[m.WholeLog]:
    """What forks show of the erased logs of a session."""
    found = db.execute(
        "select id, forked_at from logs where erased = ?"
        " and exists (select 1 from logs as fork where fork.parent = logs.id)",
        (session,),
    ).fetchall()
    return [read_log(db, log, up_to=forked_at) for log, forked_at in found]


def _files(db: sqlite3.Connection, session: SessionId) -> list[str]:
    """The objects of a log that no fork shows."""
    row = db.execute(_LOG, (session,)).fetchone()
    if row is None:
        return []
    return [name for pair in db.execute(_FILES, row[:2]) for name in pair if name is not None]


def _hidden_ancestors(db: sqlite3.Connection, session: SessionId) -> list[str]:
    """The log ids of erased logs that this session shows."""
    found: list[str] = []
    row = db.execute("select parent from logs where session = ?", (session,)).fetchone()
    while row is not None and row[0] is not None:
        log_id, erased, parent = db.execute("select log_id, erased, parent from logs where id = ?", row).fetchone()
        if erased is not None:
            found.append(log_id)
        row = (parent,)
    return found


def _log_ids(db: sqlite3.Connection, wanted: list[str]) -> list[str]:
    return [log_id for log_id in wanted if db.execute("select 1 from logs where log_id = ?", (log_id,)).fetchone()]


def _last_at(db: sqlite3.Connection, session: SessionId) -> int:
    row = db.execute(
        "select max(at) from entries where log = (select id from logs where session = ?)", (session,)
    ).fetchone()
    return int(row[0] or 0)

"""Puts back what the NATS servers have lost: this node's database has every message that it has applied. Its logs are
published again with the same log ids and seqs, so that cursors stay valid."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from fairlead.model.errors import BadRequest, NotFound
from fairlead.model.store import Summary
from fairlead.stores.nats import messages as m
from fairlead.stores.nats.applying import read_log
from fairlead.stores.nats.connection import Address, JetStream, connect, make_streams
from fairlead.stores.nats.names import Names
from fairlead.stores.nats.objects import Objects
from fairlead.stores.nats.publishing import Outgoing, Publisher, Refused
from fairlead.stores.nats.store import NatsOptions
from fairlead.stores.sqlite.cell_mark import read_mark
from fairlead.stores.sqlite.connections import DATABASE, transaction
from fairlead.stores.sqlite.connections import connect as open_database
from fairlead.stores.sqlite.open import FolderLock
from fairlead.stores.sqlite.sessions import get_summary
from fairlead.system.clock import SystemClock


class Mended(msgspec.Struct):
    """The sessions that were published again, and those that the servers have with other entries than this node."""

    mended: list[str] = []
    refused: list[str] = []


async def mend(folder: Path, address: Address, options: NatsOptions, session: str | None = None) -> Mended:
    """Publish the logs of which the servers have less than this node; `session`: only this one. The gateway of the
    folder must not run."""
    with closing(FolderLock(folder, SystemClock().now_ms())), closing(open_database(folder / DATABASE)) as db:
        if read_mark(db) is None:
            raise BadRequest(f"{folder} does not belong to a cell.", folder=str(folder))
        chains = db.execute("select session, last from chains order by session").fetchall()
        if session is not None:
            chains = [row for row in chains if row[0] == session]
            if not chains:
                raise NotFound("session", session)
        client = await connect(address, "fairlead storage mend", options.creds, options.patience_s or 30.0)
        try:
            js = JetStream(client, Names(address.cell))
            await make_streams(js, address)
            mender = _Mender(db, js)
            for name, last in chains:
                await mender.mend(name, last)
        finally:
            await client.close()
        with transaction(db):
            # The stream is read again: what is here already is left out.
            db.execute("delete from positions")
    return mender.result


class _Mender:
    def __init__(self, db: sqlite3.Connection, js: JetStream) -> None:
        self._db = db
        self._js = js
        self._names = js.names
        self._objects = Objects(js, js.names)
        self._publisher = Publisher(js, js.names.log_stream, expires=True)
        self.result = Mended()

    async def mend(self, session: str, last: int) -> None:
        found = await self._js.last_of(self._names.log_stream, self._names.log(session))
        there = 0 if found is None else found.seq
        if there >= last:
            return
        row = self._db.execute("select id, node, epoch from logs where session = ?", (session,)).fetchone()
        (home,) = self._db.execute("select home from chains where session = ?", (session,)).fetchone()
        if row is not None and not await self._is_ours(session, row[0]):
            self.result.refused.append(session)
            return
        op: m.Op
        if row is None:
            summary = get_summary(self._db, session)  # type: ignore[arg-type]  # from the database
            op = m.Erase("", summary or Summary(session=session))  # type: ignore[arg-type]  # from the database
        else:
            whole = read_log(self._db, row[0])
            head = whole.rows[-1].seq if whole.rows else whole.base
            blob = f"mend/{whole.log_id}/{last}"
            await self._objects.put(blob, m.encode(whole))
            op = m.Mend(row[1], row[2], home, blob, head)
        try:
            seq = await self._publisher.publish(Outgoing(self._names.log(session), m.encode(op), there))
        except Refused:
            self.result.refused.append(session)
            return
        with transaction(self._db):
            self._db.execute("update chains set last = ? where session = ?", (seq, session))
        self.result.mended.append(session)

    async def _is_ours(self, session: str, log: int) -> bool:
        """Whether every entry that the servers have of a session is here too. Else another owner has written since."""
        after = 0
        while True:
            page = await self._js.read(self._names.log_stream, after + 1, 256, self._names.log(session))
            for message in page:
                op = m.decode(message.body)
                for entry in op.batch.entries if isinstance(op, m.Append) else ():
                    row = self._db.execute(
                        "select cast(event as blob), event_file from entries where log = ? and seq = ?",
                        (log, entry.seq),
                    ).fetchone()
                    if row is not None and row[1] is None and row[0] != entry.event:
                        return False
            if not page:
                return True
            after = page[-1].seq

"""NatsStore: the adapter of the store port for several gateways. Its reads are those of `SqliteStore`, on a database
that repeats the cell's streams; its changes are messages of these streams.

Guarantees beyond the port: reads see every change of this node that has returned.
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from fairlead.model import store as port
from fairlead.model.errors import BadRequest, Damaged, FairleadError, Unavailable
from fairlead.model.ids import SessionId
from fairlead.stores.nats import messages as m
from fairlead.stores.nats.applying import Applied, ApplyMessages, known
from fairlead.stores.nats.bucket import Bucket
from fairlead.stores.nats.cell import read_cell
from fairlead.stores.nats.connection import TRANSIENT, Address, JetStream, StoredMessage, connect, make_streams
from fairlead.stores.nats.digests import DIGESTS, digests
from fairlead.stores.nats.documents import NatsDocuments
from fairlead.stores.nats.folding import Folding
from fairlead.stores.nats.follower import Follower
from fairlead.stores.nats.found import FoundSessions
from fairlead.stores.nats.journal import Journal
from fairlead.stores.nats.lease import LeaseTimes
from fairlead.stores.nats.names import NODE, Names, session_of
from fairlead.stores.nats.objects import Objects
from fairlead.stores.nats.peers import NatsPeers
from fairlead.stores.nats.presence import Presence
from fairlead.stores.nats.resources import NatsResources
from fairlead.stores.sqlite.cell_mark import join_cell
from fairlead.stores.sqlite.connections import SPILL, Durability
from fairlead.stores.sqlite.documents import SqliteDocuments
from fairlead.stores.sqlite.node_documents import NodeDocuments
from fairlead.stores.sqlite.open import open_folder
from fairlead.stores.sqlite.owners import fork_point
from fairlead.stores.sqlite.resources import SqliteResources
from fairlead.stores.sqlite.spill import Spill
from fairlead.stores.sqlite.store import SqliteStore
from fairlead.system.clock import Clock, SystemClock

LARGE = 512 << 10
"""Events and records above this size are objects."""

_FILES = "select event_file, raw_file from entries where event_file is not null or raw_file is not null"

_log = logging.getLogger(__name__)


class NatsOptions(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    key: bytes = b""
    """The cluster key, which signs the messages between nodes."""
    creds: str = ""
    times: LeaseTimes = LeaseTimes()
    patience_s: float | None = None
    """How long to wait for the servers; None: until they come."""
    durability: Durability = "process"
    spill_above: int = LARGE


class NatsStore(SqliteStore):
    """Open it with `await NatsStore.join(folder, address, options)`."""

    @classmethod
    async def join(
        cls, folder: Path, address: Address, options: NatsOptions, clock: Clock | None = None
    ) -> "NatsStore":
        """Connect, bring the folder's database up to date with the cell, and announce this node."""
        if not NODE.fullmatch(options.node):
            raise BadRequest(f"{options.node!r} is not a node's name: use 1 to 32 letters, digits, _ and -.")
        clock = clock or SystemClock()
        client = await connect(address, f"fairlead {options.node}", options.creds, options.patience_s)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(client.close)
            js = JetStream(client, Names(address.cell))
            await make_streams(js, address)
            opened = await asyncio.to_thread(
                open_folder,
                folder,
                options.durability,
                clock.now_ms(),
                alone=True,
                prepare=lambda schema: None,  # no backup: the servers have everything
                projection=True,
            )
            spill = Spill(folder / SPILL, sync=False)
            store = cls(opened, folder, options.node, clock, spill, min(options.spill_above, LARGE))
            undo.push_async_callback(SqliteStore.close, store)
            undo.pop_all()
            undo.push_async_callback(store.close)
            store._build(js, address, options)
            await store._start()
            undo.pop_all()
            return store

    def _build(self, js: JetStream, address: Address, options: NatsOptions) -> None:
        names = js.names
        self.address = address
        self._key = options.key
        self._js = js
        self._names = names
        self._background: set[asyncio.Task[Any]] = set()
        self._followers: list[Callable[[port.LogChange], None]] = []
        self._has_large = asyncio.Event()
        self._is_ready = False
        """Whether the whole stream was applied: before that, the fork that shows an erased log may not be here yet."""
        self._parts: dict[str, list[bytes]] = {}
        self._first: dict[str, StoredMessage] = {}
        self._objects = Objects(js, names)
        self._spill.fetch = self._fetch_object
        self._bucket = Bucket(js, names, self._writer, self._clock)
        local = SqliteDocuments(self._readers, self._writer, self._clock)
        self._cell_documents = NatsDocuments(self._bucket, local, self._clock)
        self.documents = self._cell_documents
        self._node_documents = NodeDocuments(self.folder, self._clock)
        self.here = self._node_documents
        self.resources = NatsResources(self._bucket, self._readers, SqliteResources(self._readers, self._writer))
        self._found = FoundSessions(self._bucket, self.node)
        self.presence = Presence(self._bucket, self.node, self._clock, options.times)
        self._journal = Journal(
            js,
            names,
            self.node,
            self._writer,
            self._clock,
            lambda session: self._readers.do(known, session),
            lambda fork: self._readers.do(_fork, fork),
            self.presence.lives,
        )
        self.folding = Folding(
            js,
            names,
            self._journal,
            self._objects,
            self._readers,
            self._clock,
            self._remove_hidden,
            lambda: self.peers.leads(),
        )
        self._peers: NatsPeers = NatsPeers(js.client, names, self.node, options.key, self.presence, self._clock)
        self.peers = self._peers
        self._peers.serve(DIGESTS, self._digests)

    async def _start(self) -> None:
        stream = self._names.log_stream
        row = await self._readers.row("select seq from positions where stream = ?", stream)
        position = 0 if row is None else int(row[0])
        mark = await read_cell(self._js, self.address, self._key)
        await self._writer.do(lambda db: join_cell(db, mark, self.folder))
        last = await self._last(stream)
        if position > last:
            raise Damaged(
                f"The NATS servers of {self.address.text} have lost messages that this node has (they have {last}, "
                f"this node has {position}): fairlead storage mend --all",
                lost_tail=True,
            )
        self._journal.follower = Follower(self._js, stream, f"{self._names.live_log}.*", self._apply_messages, position)
        await self._journal.follower.start()
        await self._journal.follower.reached(last, timeout_s=24 * 3600)
        self._is_ready = True
        await self._bucket.start()
        await self._peers.start()
        await self.presence.start()
        self.folding.start()
        self._spawn(self._copy_large())
        self._spawn(self._resume_erasing())

    async def close(self) -> None:
        if not self._open:
            return
        for task in tuple(self._background):
            task.cancel()
        await self.folding.close()
        await self.presence.close()
        await self._peers.close()
        if hasattr(self._journal, "follower"):
            await self._journal.follower.close()
        await self._bucket.follower.close()
        with contextlib.suppress(*TRANSIENT):
            await self._js.client.close()
        await self._node_documents.close()
        await super().close()

    @property
    def position(self) -> int:
        """How far this node has applied the log stream."""
        return self._journal.follower.position

    # --- the log

    async def append(self, lease: port.Lease, batch: port.Batch, expected_head: int) -> int:
        files: dict[int, tuple[str | None, str | None]] = {}
        if any(max(len(entry.event), len(entry.raw or b"")) > self._spill_above for entry in batch.entries):
            batch, files = await self._put_objects(lease, batch)
        return await self._journal.append(lease, batch, expected_head, files)

    async def claim(self, session: SessionId, fork: port.ForkPoint | None = None) -> tuple[port.Lease, str, int]:
        return await self._journal.claim(session, fork)

    async def release(self, lease: port.Lease) -> None:
        await self._journal.release(lease)

    async def erase(self, session: SessionId) -> None:
        await self.folding.erase(session)

    async def list_found(self, found: Sequence[port.Summary], gone: Sequence[SessionId] = ()) -> None:
        await self._found.publish(found, gone)

    # --- other nodes

    async def home(self, session: SessionId) -> str:
        row = await self._readers.row("select home from chains where session = ?", session)
        return "" if row is None else str(row[0])

    async def caught_up(self, session: SessionId, seq: int | None = None, timeout_s: float = 10.0) -> None:
        if seq is not None and (await self._journal.know(session)).head >= seq:
            return
        await self._journal.catch_up(session, timeout_s)
        if seq is not None and (await self._journal.know(session)).head < seq:
            raise Unavailable(f"This node does not have entry {seq} of session {session} yet: repeat later.")

    def follow(self, heard: Callable[[port.LogChange], None]) -> port.Stop:
        self._followers.append(heard)
        return lambda: self._followers.remove(heard)

    # --- what the log stream brings

    async def _apply_messages(self, group: Sequence[StoredMessage]) -> None:
        messages = [found for message in group if (found := self._assembled(message)) is not None]
        logs: dict[int, m.WholeLog | None] = {}
        filled: set[int] = set()
        while True:
            job = ApplyMessages(self._names.log_stream, messages, group[-1].seq, logs, frozenset(filled))
            applied: Applied = await self._writer.do(job)
            for message, change in zip(messages, applied.changes, strict=False):
                self._journal.applied(message, None if change is None else change.head)
                self._tell(message, change)
            if applied.stopped is None:
                return
            messages = messages[len(applied.changes) :]
            stopped = applied.stopped
            if isinstance(stopped.op, m.Fold | m.Mend):
                logs[stopped.seq] = await self._whole_log(stopped.op.blob)
            elif isinstance(stopped.op, m.Erase):
                logs[stopped.seq] = await self._whole_log(stopped.op.kept)
            else:
                filled.add(stopped.seq)
                messages = [*await self._missing(stopped), *messages]

    def _assembled(self, message: StoredMessage) -> m.ChainMessage | None:
        """A message of the chain; None if more parts of it come."""
        if int(message.headers.get(m.VERSION, "1")) > m.SPOKEN:
            raise Damaged(
                "Another node of the cell writes messages that this version of Fairlead does not know: install the "
                "version of that node."
            )
        first, body = message, message.body
        if part := message.headers.get(m.PART):
            number, _, count = part.partition("/")
            if number == "1":
                self._parts[message.subject] = []
                self._first[message.subject] = message
            parts = self._parts.setdefault(message.subject, [])
            parts.append(message.body)
            if number != count:
                return None
            first = self._first.pop(message.subject, message)
            body = b"".join(self._parts.pop(message.subject))
        prev = first.headers.get(m.EXPECTED)
        return m.ChainMessage(message.seq, session_of(message.subject), int(prev) if prev else None, m.decode(body))

    async def _missing(self, stopped: m.ChainMessage) -> list[m.ChainMessage]:
        """The messages of a session between its last one here and one that came."""
        session = SessionId(stopped.session)
        before = (await self._readers.do(known, session)).last
        found: list[m.ChainMessage] = []
        while before < stopped.seq - 1:
            page = await self._js.read(self._names.log_stream, before + 1, 256, self._names.log(session))
            page = [message for message in page if message.seq < stopped.seq]
            if not page:
                break
            found += [chained for message in page if (chained := self._assembled(message)) is not None]
            before = page[-1].seq
        return found

    async def _whole_log(self, name: str) -> m.WholeLog | None:
        data = await self._objects.get(name)
        return None if data is None else m.decode_log(data)

    def _tell(self, message: m.ChainMessage, change: port.LogChange | None) -> None:
        if change is None:
            return
        if getattr(message.op, "files", None) or isinstance(message.op, m.Fold | m.Mend):
            self._has_large.set()
        if change.erased and self._is_ready:
            self._spawn(self._resume_erasing())
        if getattr(message.op, "node", "") != self.node or change.erased:
            for heard in tuple(self._followers):
                heard(change)

    # --- large records

    async def _put_objects(
        self, lease: port.Lease, batch: port.Batch
    ) -> tuple[port.Batch, dict[int, tuple[str | None, str | None]]]:
        """Store large events and records as objects; return the batch without them, and their names."""
        spilled = await self._spill_large(lease, batch)
        entries = []
        for entry in batch.entries:
            files = spilled.get(entry.seq)
            if files is not None:
                for name, data in ((files.event, entry.event), (files.raw, entry.raw)):
                    if name is not None and data is not None:
                        await self._objects.put(name, data)
                entry = msgspec.structs.replace(
                    entry, event=b"" if files.event else entry.event, raw=None if files.raw else entry.raw
                )
            entries.append(entry)
        names = {seq: (files.event, files.raw) for seq, files in spilled.items()}
        return msgspec.structs.replace(batch, entries=tuple(entries)), names

    async def _copy_large(self) -> None:
        """Copy the large records of other nodes, so that each node has everything: a backup needs no other one."""
        while True:
            self._has_large.clear()
            names = [name for row in await self._readers.rows(_FILES) for name in row if name is not None]
            for name in names:
                if not self._spill.has(name):
                    with contextlib.suppress(FairleadError):
                        await self._readers.outside(partial(self._spill.read, name))
            await self._has_large.wait()

    def _fetch_object(self, name: str) -> bytes | None:
        """Called by a reader thread for a large record that this node does not have."""
        return asyncio.run_coroutine_threadsafe(self._objects.get(name), self._loop).result()

    # --- helpers

    async def _digests(self, node: str, body: bytes) -> bytes:
        return msgspec.msgpack.encode(await self._readers.do(digests))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _last(self, stream: str) -> int:
        for _ in range(100):
            try:
                return await self._js.last_seq(stream)
            except TRANSIENT as error:
                _log.debug("%s: %s", stream, error)
                await asyncio.sleep(0.1)
        raise Unavailable(f"The stream {stream} cannot be read.")


def _fork(db: sqlite3.Connection, fork: port.ForkPoint) -> tuple[str, int]:
    log, base = fork_point(db, fork)
    if log is None:
        return "", 0
    return db.execute("select log_id from logs where id = ?", (log,)).fetchone()[0], base

"""The writer's side of the logs: claims, appends and releases are messages of the session's chain.

Reads never decide: what is known here may be old, and the condition of the message decides. An append is published only
if it is valid by the local database; after a refusal the local database catches up and says why.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from fairlead.model.errors import Damaged, NotFound, OwnedElsewhere, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, ForkPoint, Lease
from fairlead.stores.nats import messages as m
from fairlead.stores.nats.applying import CheckAppend, Known, append_call
from fairlead.stores.nats.connection import TRANSIENT, JetStream
from fairlead.stores.nats.follower import Follower
from fairlead.stores.nats.names import Names, session_of
from fairlead.stores.nats.publishing import Outgoing, Publisher, Refused
from fairlead.stores.sqlite.append import ascending
from fairlead.stores.sqlite.writer import Writer
from fairlead.system.clock import Clock

LOST_S: Final = 30.0
"""Seconds after which a server that knows less than it acknowledged is taken to have lost messages."""
# Sessions whose state is remembered; beyond that all are read again.
_REMEMBERED: Final = 10_000

_log = logging.getLogger(__name__)


class Journal:
    """`read_known` reads the state of a chain from the local database; `lives` judges other nodes."""

    def __init__(
        self,
        js: JetStream,
        names: Names,
        node: str,
        writer: Writer,
        clock: Clock,
        read_known: Callable[[SessionId], Awaitable[Known]],
        read_fork: Callable[[ForkPoint], Awaitable[tuple[str, int]]],
        lives: Callable[[str], bool],
    ) -> None:
        self._js = js
        self._names = names
        self._node = node
        self._run = uuid.uuid4().hex
        self._writer = writer
        self._clock = clock
        self._read_known = read_known
        self._read_fork = read_fork
        self._lives = lives
        self._known: dict[SessionId, Known] = {}
        self._behind_since: dict[str, float] = {}
        self._publisher = Publisher(js, names.log_stream, expires=False, behind=self._behind)
        self.follower: Follower
        """Set by the store, which applies what the follower receives."""

    # --- what is known

    def applied(self, message: m.ChainMessage, head: int | None) -> None:
        """Called for each message that the local database has; `head` if it was an append."""
        session = SessionId(message.session)
        found = self._known.get(session)
        if found is not None and head is not None and isinstance(message.op, m.Append):
            found.last, found.head = message.seq, head
        else:
            self._known.pop(session, None)

    async def know(self, session: SessionId) -> Known:
        found = self._known.get(session)
        if found is None:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            found = self._known[session] = await self._read_known(session)
        return found

    async def catch_up(self, session: SessionId, timeout_s: float | None = None) -> None:
        """Wait until the local database has every message of a session that was acknowledged before."""
        try:
            found = await self._js.last_of(self._names.log_stream, self._names.log(session))
        except TRANSIENT as error:
            raise Unavailable(f"The store cannot be reached ({error}): repeat later.") from error
        if found is not None:
            await self.follower.reached(found.seq, timeout_s)
        self._known.pop(session, None)

    # --- changes

    async def append(
        self, lease: Lease, batch: Batch, expected_head: int, files: dict[int, tuple[str | None, str | None]]
    ) -> int:
        session = lease.session
        op = m.Append(lease.node, lease.epoch, expected_head, batch, files)
        body = m.encode(op)
        while True:
            known = await self.know(session)
            fits = (known.node, known.epoch, known.head) == (lease.node, lease.epoch, expected_head)
            if not fits or not ascending(expected_head, batch.entries):
                landed: int | None = await self._writer.do(CheckAppend(append_call(session, op)))
                if landed is not None:
                    return landed
                self._known.pop(session, None)
                known = await self.know(session)
            try:
                await self._publish(session, body, known.last)
            except Refused as refused:
                await self._caught_up_to(session, refused.last)
                continue
            return batch.entries[-1].seq if batch.entries else expected_head

    async def claim(self, session: SessionId, fork: ForkPoint | None) -> tuple[Lease, str, int]:
        asked_leader = False
        while True:
            known = await self.know(session)
            if known.node not in ("", self._node) and self._lives(known.node):
                if asked_leader:
                    raise OwnedElsewhere(known.node)
                # It may have been released a moment ago.
                asked_leader = True
                await self.catch_up(session)
                continue
            parent, base = "", 0
            if not known.log_id and fork is not None:
                try:
                    parent, base = await self._read_fork(fork)
                except NotFound:
                    if asked_leader:
                        raise
                    asked_leader = True
                    await self.catch_up(fork.parent)
                    continue
            op = m.Claim(self._node, self._run, known.log_id or uuid.uuid4().hex, parent, base)
            try:
                epoch = await self._publish(session, m.encode(op), known.last)
            except Refused as refused:
                await self._caught_up_to(session, refused.last)
                continue
            now = await self.know(session)
            return Lease(session, self._node, epoch), now.log_id, now.head

    async def release(self, lease: Lease) -> None:
        while True:
            known = await self.know(lease.session)
            if (known.node, known.epoch) != (lease.node, lease.epoch):
                return
            try:
                await self._publish(lease.session, m.encode(m.Release(lease.node, lease.epoch)), known.last)
            except Refused as refused:
                await self._caught_up_to(lease.session, refused.last)

    async def publish(self, session: SessionId, make: Callable[[Known], Awaitable[m.Op | None]]) -> int | None:
        """Publish a message that `make` makes of what is known, again after every refusal; None: it made none."""
        while True:
            known = msgspec.structs.replace(await self.know(session))
            op = await make(known)
            if op is None:
                return None
            try:
                return await self._publish(session, m.encode(op), known.last)
            except Refused as refused:
                await self._caught_up_to(session, refused.last)

    async def _publish(self, session: SessionId, body: bytes, expected: int) -> int:
        # A task of its own: a caller that is cancelled leaves the outcome open, but not what is known here.
        subject = self._names.log(session)
        seq = await self._publisher.publish(Outgoing(subject, body, expected))
        self._behind_since.pop(subject, None)
        await self.follower.reached(seq)
        return seq

    async def _caught_up_to(self, session: SessionId, seq: int) -> None:
        await self.follower.reached(seq)
        self._known.pop(session, None)
        # Another writer of this session may be in the same loop.
        await asyncio.sleep(0)

    def _behind(self, subject: str, last: int, known: int) -> None:
        """The server has fewer messages than it acknowledged."""
        since = self._behind_since.setdefault(subject, self._clock.monotonic())
        if self._clock.monotonic() - since > LOST_S:
            session = session_of(subject)
            raise Damaged(
                f"The NATS servers have lost messages of session {session} that they had acknowledged (they have "
                f"{last}, this node has {known}). This node has a copy: fairlead storage mend {session}",
                session=session,
                lost_tail=True,
            )

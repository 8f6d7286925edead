"""Broadcast channels: every socket of a protocol receives the changed sessions, each encoded once for all sockets.

A slow socket delays no other. It gets the latest frames of each changed session when it has room again; other
broadcasts in the meantime are dropped for it. Implements `model.web.broadcast`.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.model.gateway import Sink
from fairlead.model.ids import SessionId
from fairlead.model.scopes import require_scope
from fairlead.model.store import Summary
from fairlead.model.web.broadcast import Broadcast, BroadcastChannel, JoinChannel, SessionListCodec
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.session_changes import SessionChangeNotice
from fairlead.sessions.fanout.hub import BUFFER
from fairlead.sessions.fanout.session_changes import ChangeListener, SessionChanges
from fairlead.system.tasks import TaskSet

MAX_PENDING_SESSIONS = 256
"""Changed sessions that wait for a slow socket. Beyond this the oldest is dropped: the client finds it in its lists."""

log = logging.getLogger("fairlead.broadcast")

Read = Callable[[SessionId], Awaitable[Summary | None]]


class ChannelSubscriber:
    """One socket's membership in a channel. Implements `model.web.broadcast.ChannelSubscription`."""

    def __init__(self, channel: "ListChannel", who: Identity, sink: Sink) -> None:
        self._channel = channel
        self.who = who
        self._sink = sink
        self._owed: dict[SessionId, bytes] = {}

    def changed(self, session: SessionId, frames: bytes) -> None:
        keep_newest(self._owed, session, frames, MAX_PENDING_SESSIONS)
        self.drained()

    def broadcast(self, frames: bytes) -> None:
        if self._sink.backlog() <= BUFFER:
            self._sink.send(frames)

    def drained(self) -> None:
        while self._owed and self._sink.backlog() <= BUFFER:
            self._sink.send(self._owed.pop(next(iter(self._owed))))

    def leave(self) -> None:
        self._channel.leave(self)


class ListChannel:
    """The channel of one protocol. It listens for session changes while it has members."""

    def __init__(self, codec: SessionListCodec, changes: SessionChanges, read: Read) -> None:
        self._codec = codec
        self._changes = changes
        self._read = read
        self.members: set[ChannelSubscriber] = set()
        self._listener: ChangeListener | None = None
        self._tasks = TaskSet()

    def enter(self, who: Identity, sink: Sink) -> ChannelSubscriber:
        member = ChannelSubscriber(self, who, sink)
        self.members.add(member)
        if self._listener is None:
            # Registered here, not in the task: no change is missed before the task first runs.
            self._listener = self._changes.listen()
            self._tasks.spawn(self._listen(self._listener))
        return member

    def leave(self, member: ChannelSubscriber) -> None:
        self.members.discard(member)
        if not self.members and self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _listen(self, listener: ChangeListener) -> None:
        while notices := await listener.next_notices():
            for notice in notices:
                if notice.what in ("created", "updated", "deleted"):
                    await self._send_change(notice)

    async def _send_change(self, notice: SessionChangeNotice) -> None:
        try:
            summary = await self._read(notice.session)
        except FairleadError as error:
            log.warning("cannot broadcast a session change", extra={"session": notice.session, "error": error.message})
            return
        if summary is None:
            return
        frames = self._codec.session(summary, notice.at)
        if frames:
            for member in tuple(self.members):
                if member.who.sees(summary.owner, summary.shared):
                    member.changed(notice.session, frames)


class Broadcasts:
    """The channels, one per codec key, created on the first join."""

    def __init__(self, changes: SessionChanges, read: Read) -> None:
        self._changes = changes
        self._read = read
        self._channels: dict[str, ListChannel] = {}

    def handlers(self) -> ServiceHandlers:
        return {JoinChannel: self._enter, Broadcast: self._broadcast}

    async def _enter(self, who: Identity, action: JoinChannel) -> BroadcastChannel:
        require_scope(who, "view")
        channel = self._channels.setdefault(action.codec.key, ListChannel(action.codec, self._changes, self._read))
        return partial(channel.enter, who)

    async def _broadcast(self, who: Identity, action: Broadcast) -> int:
        channel = self._channels.get(action.key)
        members = tuple(channel.members) if channel is not None else ()
        for member in members:
            member.broadcast(action.frames)
        return len(members)

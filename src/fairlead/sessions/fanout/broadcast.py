"""Halls at work: every socket of a protocol is told of the sessions that changed, each told once for all who are there.

Whoever is slow holds up nobody: of each session it is told the last word when it has room again, and what else was told
meanwhile passes it by. Implements `model.halls`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fairlead.model.auth import Identity
from fairlead.model.broadcast import Broadcast, JoinChannel, SessionListCodec
from fairlead.model.errors import FairleadError, NotAllowed
from fairlead.model.gateway import Sink
from fairlead.model.ids import SessionId
from fairlead.model.requests import ServiceCall
from fairlead.model.session_changes import SessionChangeNotice
from fairlead.model.store import Summary
from fairlead.sessions.fanout.hub import BUFFER
from fairlead.sessions.fanout.session_changes import ChangeListener, SessionChanges

OWED = 256
"""Sessions of which a slow socket is told later; of the oldest beyond these it reads in its lists."""

log = logging.getLogger("fairlead.halls")

Read = Callable[[SessionId], Awaitable[Summary | None]]


class ChannelSubscriber:
    """Implements `model.halls.Member`."""

    def __init__(self, room: "Channel", who: Identity, sink: Sink) -> None:
        self._room = room
        self.who = who
        self._sink = sink
        self._owed: dict[SessionId, bytes] = {}

    def changed(self, session: SessionId, frames: bytes) -> None:
        self._owed.pop(session, None)
        if self._owed or self._sink.backlog() > BUFFER:
            self._owed[session] = frames
            if len(self._owed) > OWED:
                del self._owed[next(iter(self._owed))]
            self.drained()
        else:
            self._sink.send(frames)

    def told(self, frames: bytes) -> None:
        if self._sink.backlog() <= BUFFER:
            self._sink.send(frames)

    def drained(self) -> None:
        while self._owed and self._sink.backlog() <= BUFFER:
            self._sink.send(self._owed.pop(next(iter(self._owed))))

    def leave(self) -> None:
        self._room.leave(self)


class Channel:
    """It listens while somebody is there."""

    def __init__(self, codec: SessionListCodec, desk: SessionChanges, read: Read) -> None:
        self._codec = codec
        self._desk = desk
        self._read = read
        self.members: set[ChannelSubscriber] = set()
        self._listener: ChangeListener | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def enter(self, who: Identity, sink: Sink) -> ChannelSubscriber:
        member = ChannelSubscriber(self, who, sink)
        self.members.add(member)
        if self._listener is None:
            # It hears from now on, whenever its task gets to run.
            self._listener = self._desk.listen()
            task = asyncio.get_running_loop().create_task(self._listen(self._listener))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return member

    def leave(self, member: ChannelSubscriber) -> None:
        self.members.discard(member)
        if not self.members and self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _listen(self, listener: ChangeListener) -> None:
        while heard := await listener.hear():
            for news in heard:
                if news.what in ("created", "updated"):
                    await self._tell(news)

    async def _tell(self, news: SessionChangeNotice) -> None:
        try:
            summary = await self._read(news.session)
        except FairleadError as error:
            log.warning("a change is not told", extra={"session": news.session, "error": error.message})
            return
        if summary is None or summary.deleted:
            return
        frames = self._codec.session(summary, news.at)
        if frames:
            for member in tuple(self.members):
                if member.who.sees(summary.owner, summary.shared):
                    member.changed(news.session, frames)


class SessionChannel:
    """A hall as one person enters it. Implements `model.halls.Hall`."""

    def __init__(self, room: Channel, who: Identity) -> None:
        self._room = room
        self._who = who

    def enter(self, sink: Sink) -> ChannelSubscriber:
        return self._room.enter(self._who, sink)


class Broadcasts:
    """One for each protocol that has asked for one."""

    def __init__(self, desk: SessionChanges, read: Read) -> None:
        self._desk = desk
        self._read = read
        self._rooms: dict[str, Channel] = {}

    def performers(self) -> Mapping[type[ServiceCall], Callable[[Identity, Any], Awaitable[Any]]]:
        return {JoinChannel: self._enter, Broadcast: self._tell}

    async def _enter(self, who: Identity, action: JoinChannel) -> SessionChannel:
        if not who.may("view"):
            raise NotAllowed("This needs the scope view, which your credential does not have.", scope="view")
        room = self._rooms.setdefault(action.codec.key, Channel(action.codec, self._desk, self._read))
        return SessionChannel(room, who)

    async def _tell(self, who: Identity, action: Broadcast) -> int:
        room = self._rooms.get(action.key)
        members = tuple(room.members) if room is not None else ()
        for member in members:
            member.told(action.frames)
        return len(members)

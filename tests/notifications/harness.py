"""A notification service for tests: a real store, a clock that stands still, peers whose sockets are lists, and a fake
core with prepared answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead.clients.cognova.notifications import CODEC
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.ids import EventId, SessionId, TurnId
from fairlead.notifications.address_policy import networks
from fairlead.notifications.api.feed import FeedCodec
from fairlead.notifications.change_feed import FeedSubscriber
from fairlead.notifications.http_client import HttpClient
from fairlead.notifications.service import NotificationService
from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.clock import ManualClock

PUBLIC = "https://fairlead.example"
ANN = Identity("ann-1", "ann", "ann", frozenset({"view", "chat", "approve"}))


def unframed(data: bytes) -> list[dict[str, Any]]:
    """The text messages of joined, unmasked frames."""
    found = []
    while data:
        length, start = data[1], 2
        if length == 126:
            length, start = int.from_bytes(data[2:4], "big"), 4
        elif length == 127:
            length, start = int.from_bytes(data[2:10], "big"), 10
        found.append(msgspec.json.decode(data[start : start + length]))
        data = data[start + length :]
    return found


class Socket:
    """Implements `model.web.sockets.SocketHandle`: collects frames; `stuck` bytes wait for a slow client."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.stuck = 0
        self.paused = False
        self.closed: tuple[int, str] | None = None

    def send(self, frames: bytes) -> None:
        self.frames += unframed(frames)

    def backlog(self) -> int:
        return self.stuck

    def probe(self, answered: Callable[[], None]) -> None:
        answered()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def changes(self) -> list[tuple[str, str]]:
        return [(one["resource"], one["action"]) for one in self.frames if one["type"] == "resource_change"]

    def kinds(self) -> list[str]:
        return [one["type"] for one in self.frames]


class RestClock(ManualClock):
    """Records sleeps: a test waits for one before it advances the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        await super().sleep(seconds)


class FakeGateway:
    """Implements `model.gateway.Gateway` as far as runs need: records commands, raises each error in `refuse` once."""

    def __init__(self) -> None:
        self.commands: list[cmd.Command] = []
        self.who: list[Identity] = []
        self.refuse: dict[type, FairleadError] = {}
        self.views: dict[SessionId, q.SessionView] = {}
        self.events: dict[SessionId, Sequence[ev.Event]] = {}

    async def command(self, who: Identity, command: cmd.Command) -> cmd.Reply:
        error = self.refuse.pop(type(command), None)
        if error is not None:
            raise error
        self.commands.append(command)
        self.who.append(who)
        assert command.session is not None
        return cmd.Reply(session=command.session)

    async def ask(self, who: Identity, query: q.Query) -> Any:
        match query:
            case q.GetSession():
                return self.views[query.session]
            case q.ReadMessages():
                lines = tuple(msgspec.Raw(ev.encode(event)) for event in self.events.get(query.session, ()))
                return q.EventPage(session=query.session, log_id="l", head=1, events=lines)
        raise AssertionError(query)

    def of(self, kind: type[cmd.CommandBase]) -> list[Any]:
        return [command for command in self.commands if isinstance(command, kind)]

    async def watch(self, *args: Any) -> Any:
        raise AssertionError("nobody watches here")

    def signal(self, *args: Any) -> None:
        raise AssertionError("nobody signals here")

    def export(self, *args: Any) -> Any:
        raise AssertionError("nobody exports here")


class NotificationsHarness:
    def __init__(self, folder: Path, store: SqliteStore, clock: RestClock, gateway: FakeGateway) -> None:
        self.folder = folder
        self.store = store
        self.clock = clock
        self.gateway = gateway
        self.titles: dict[SessionId, str] = {}
        self.names: dict[str, list[Any]] = {}
        self.people: dict[str, Identity | None] = {}
        self._numbers = iter(range(1, 100_000))
        self.service = NotificationService(
            store.resources,
            store.documents,
            lambda: gateway,
            folder,
            clock,
            fresh=self.fresh,
            describe=self._describe,
            caller=self.caller(),
            who_is=lambda credential: self.people.get(credential, ANN),
            public_url=PUBLIC,
        )

    def caller(self) -> HttpClient:
        return HttpClient(self.clock, networks(["127.0.0.0/8"]), self._resolve)

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        """Resolve a name as this network does: a list of tuples gives one answer after the other."""
        found = self.names.get(host, [host])
        return found.pop(0) if isinstance(found[0], tuple) else tuple(found)

    def fresh(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._numbers):012d}"

    async def _describe(self, session: SessionId) -> tuple[str, tuple[str, ...]]:
        return self.titles.get(session, ""), (ANN.user,)

    def peer(self, codec: FeedCodec = CODEC, who: Identity = ANN) -> tuple[FeedSubscriber, Socket]:
        peer, socket = self.service.feed.join(who, codec), Socket()
        peer.attached(socket)
        return peer, socket

    def say(self, peer: FeedSubscriber, **frame: Any) -> None:
        peer.received(msgspec.json.encode(frame), True)

    async def wait_fired(self) -> None:
        """Wait until all items that were due have fired."""
        ringing = self.service.scheduler._ringing
        if ringing is not None:
            await asyncio.wait({ringing})

    async def feed_items(self) -> list[Any]:
        """Every item in the feed."""
        return [entry.item for entry in (await self.service.feed.read(0, 1000)).entries]


@contextlib.asynccontextmanager
async def open_harness(folder: Path, gateway: FakeGateway | None = None) -> AsyncIterator[NotificationsHarness]:
    store = await SqliteStore.open(folder / "data")
    harness = NotificationsHarness(folder, store, RestClock(), gateway or FakeGateway())
    await harness.service.begin()
    await harness.service.start()
    try:
        yield harness
    finally:
        await harness.service.stop()
        await store.close()


def ended(status: Any = "completed", **more: Any) -> ev.TurnEnded:
    return ev.TurnEnded(id=EventId("e"), turn=TurnId("t"), status=status, **more)

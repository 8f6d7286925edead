"""The replay law of a client protocol: of two clients of one encoder, one lags, reconnects or looks away; both end with
the same state as a client that reads everything at the end.

A protocol declares a `ReplayClient`; `check_replay` plays a recorded log to three of them. The hub and the
subscriptions are the core's own.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import Cursor, FrameEncoder
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page, ProjectionRow
from fairlead.model.views import NewRow, Reducer, ReplaceRow, Resumable, Transient, row_entry, transient_entry
from fairlead.sessions.fanout.hub import Hub, Subscription
from fairlead.sessions.log import PendingEntries

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
ANN = Identity("c1", "ann", "ann", frozenset({"view"}))
BOB = Identity("c2", "bob", "bob", frozenset({"view"}))
_FULL = 1 << 30


class RecordedLog(Protocol):
    """A session's log. `gone`: for each seq that the core dropped, the number of entries at that time."""

    @property
    def entries(self) -> Sequence[Entry]: ...
    @property
    def gone(self) -> Mapping[int, int]: ...


class EventLog(msgspec.Struct, frozen=True):
    """A log made of events alone; nothing is dropped from it."""

    entries: tuple[Entry, ...]
    gone: dict[int, int] = {}


def log_of(events: Sequence[ev.Event], at: int = 1_768_797_915_012) -> EventLog:
    stage = PendingEntries(0, at, at)
    for event in events:
        stage.add(event)
    entries = stage.entries
    previous = (0, *(entry.seq for entry in entries))
    return EventLog(
        tuple(
            Entry(new.seq, before, new.at, new.kind, new.event, new.origin, new.raw)
            for before, new in zip(previous, entries, strict=False)
        )
    )


async def settled() -> None:
    """Let all tasks of this loop run until each waits for something from outside."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    for _ in range(50):
        await asyncio.sleep(0)
        if not ready:
            break


def unframed(data: bytes) -> list[bytes]:
    """The payloads of WebSocket frames that stand one behind the other."""
    found = []
    while data:
        length, start = data[1], 2
        if length > 125:
            size = 2 if length == 126 else 8
            length, start = int.from_bytes(data[2 : 2 + size], "big"), 2 + size
        found.append(data[start : start + length])
        data = data[start + length :]
    return found


class _Sink:
    """A sink whose client reads everything at once, or nothing for a while."""

    def __init__(self, take: Callable[[bytes], None], split: Callable[[bytes], list[bytes]]) -> None:
        self._take = take
        self._split = split
        self.slow = False

    def send(self, data: bytes) -> None:
        for payload in self._split(data):
            self._take(payload)

    def backlog(self) -> int:
        return _FULL if self.slow else 0

    def fail(self, error: FairleadError) -> None:
        raise error


class LogScene:
    """A session's log, published one entry at a time. Entries that the core drops are gone from then on."""

    def __init__(self, recorded: RecordedLog) -> None:
        self._recorded = recorded
        self.end = len(recorded.entries)
        self.moment = 0
        self.feed = Hub(SESSION, self)

    @property
    def foreign(self) -> bool:
        """Whether the agent's records do not have the form of the CLI."""
        events = (ev.decode(entry.event) for entry in self._recorded.entries if entry.kind == "session.opened")
        return any(isinstance(event, ev.SessionOpened) and event.foreign for event in events)

    def log(self) -> list[Entry]:
        gone = self._recorded.gone
        return [entry for entry in self._recorded.entries[: self.moment] if gone.get(entry.seq, _FULL) > self.moment]

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 0) -> Page:
        head = self._recorded.entries[self.moment - 1].seq if self.moment else 0
        return Page("log", tuple(entry for entry in self.log() if entry.seq > after)[:limit], head)

    def publish(self) -> None:
        self.moment += 1
        self.feed.publish(list(self._recorded.entries[self.moment - 1 : self.moment]))


class ViewScene:
    """The rows of a projection, published as a projector publishes them."""

    def __init__(self, recorded: RecordedLog, reducer: Reducer) -> None:
        self._recorded = recorded
        self.end = len(recorded.entries)
        self.moment = 0
        self.feed = Hub(SESSION, self)
        self.rows: list[ProjectionRow] = []
        self._reducer = reducer
        self.feed.on_live = self._running

    def _running(self, fresh: bool) -> list[Entry]:
        if not isinstance(self._reducer, Resumable):
            return []
        return [transient_entry(len(self.rows), 0, item.data) for item in self._reducer.running(fresh=fresh)]

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 0) -> Page:
        return Page("log", tuple(map(row_entry, self.rows[after:]))[:limit], len(self.rows))

    def publish(self) -> None:
        entry = self._recorded.entries[self.moment]
        self.moment += 1
        for made in self._reducer.step(entry):
            match made:
                case NewRow():
                    self.rows.append(ProjectionRow(len(self.rows) + 1, entry.seq, entry.at, made.data, made.key))
                    self.feed.publish([row_entry(self.rows[-1])])
                case ReplaceRow():
                    place = next(n for n, row in enumerate(self.rows) if row.key == made.key)
                    self.rows[place] = msgspec.structs.replace(self.rows[place], data=made.data)
                case Transient():
                    self.feed.publish_transient(transient_entry(len(self.rows), entry.at, made.data))


Scene = LogScene | ViewScene


class ReplayClient:
    """One client: its subscription and its state. Each protocol defines how frames are read and what is compared."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.sink = _Sink(self.take, self.split)
        self.subscription: Subscription | None = None

    @classmethod
    def scene_of(cls, recorded: RecordedLog) -> Scene:
        """What the client subscribes to: the log, or the rows of a projection."""
        return LogScene(recorded)

    def encoder(self) -> FrameEncoder:
        raise NotImplementedError

    def split(self, data: bytes) -> list[bytes]:
        """The payloads of the frames that the client was sent at once."""
        return unframed(data)

    def take(self, payload: bytes) -> None:
        """Receive the payload of one frame."""
        raise NotImplementedError

    def state(self) -> Any:
        """What the client shows."""
        raise NotImplementedError

    def cursor(self, position: int) -> Cursor:
        """Where the client resumes after the entry or row `position`."""
        return Cursor(position)

    def open(self, cursor: Cursor, who: Identity = BOB) -> None:
        head = self.scene.feed.head
        self.subscription = Subscription(
            self.scene.feed, who, self.encoder(), self.sink, since=cursor, head=head, log_id="log", verdict="ok"
        )
        self.subscription.start()

    # --- events in the life of a client

    def lag(self) -> None:
        self.sink.slow = True

    def catch_up(self) -> None:
        self.sink.slow = False
        if self.subscription is not None:
            self.subscription.drained()

    def disconnect(self) -> None:
        assert self.subscription is not None
        self.subscription.close()

    def reconnect(self) -> None:
        assert self.subscription is not None
        self.open(self.cursor(self.subscription.position))

    def look_away(self) -> None:
        """Does nothing in a protocol without this feature."""

    def look_back(self) -> None:
        pass


WAYS: dict[str, tuple[Callable[[ReplayClient], None], Callable[[ReplayClient], None]]] = {
    "lags": (ReplayClient.lag, ReplayClient.catch_up),
    "reconnects": (ReplayClient.disconnect, ReplayClient.reconnect),
    "looks away": (lambda client: client.look_away(), lambda client: client.look_back()),
}

Plan = Sequence[tuple[int, int, str]]
"""Spans of moments, one after the other, in which the second client is behind the first, and how."""


def plan_of(spans: Sequence[tuple[int, int]], ways: Sequence[str]) -> Plan:
    """Spans that follow each other, in the order of the moments."""
    places = sorted({place for span in spans for place in span})
    return [(*pair, way) for pair, way in zip(zip(places[::2], places[1::2], strict=False), ways, strict=False)]


async def check_replay(kind: type[ReplayClient], scene: Scene, plan: Plan) -> None:
    """Raise an AssertionError if a client that was always connected, or one that was behind as the plan says, ends with
    another state than a client that reads everything at the end."""
    first, second = kind(scene), kind(scene)
    first.open(first.cursor(0), ANN)
    second.open(second.cursor(0))
    await settled()
    for moment in range(scene.end + 1):
        for begin, end, way in plan:
            leave, back = WAYS[way]
            if moment == end:
                back(second)
                await settled()
            if moment == begin and begin < end:
                leave(second)
                await settled()
        if moment < scene.end:
            scene.publish()
            await settled()
    late = kind(scene)
    late.open(late.cursor(0), ANN)
    await settled()
    expected = late.state()
    for client, who in ((first, "always connected"), (second, f"behind: {plan}")):
        state = client.state()
        assert state == expected, f"the client that was {who} shows {state}, and a late one {expected}"
    for client in (first, second, late):
        client.disconnect()

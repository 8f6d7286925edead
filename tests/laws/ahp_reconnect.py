"""Two AHP clients of two sessions, for the law of `reconnect`: what the second one reads, and when, is a plan."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from fairlead.clients.ahp.channels import ROOT, chat_uri, session_uri
from fairlead.clients.ahp.conversation import AhpConversation
from fairlead.clients.ahp.snapshots import AhpReducer
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.gateway import Cursor, FrameEncoder, Sink
from fairlead.model.ids import SessionId
from fairlead.model.store import Page, ProjectionRow, RowPage, SessionPage, event_line
from fairlead.model.views import NewRow
from fairlead.model.web.broadcast import JoinChannel
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import Handshake
from fairlead.server.dispatch import Dispatcher
from fairlead.server.limits import ServerLimits
from fairlead.server.socket_services import SocketServices
from fairlead.server.sockets import SocketEndpoint, SocketHost
from fairlead.sessions.api.folders import ReadSessionChoices, SessionChoices
from fairlead.sessions.fanout.hub import Hub, Subscription
from fairlead_testing.ahp_client import AhpClient, State
from fairlead_testing.clock import ManualClock
from fairlead_testing.replay import RecordedLog, settled, unframed

ANN = Identity("c1", "ann", "ann", frozenset({"view", "chat"}))
NAMES = [SessionId(f"{digit * 8}-1111-4111-8111-111111111111") for digit in "12"]
CHANNELS = [ROOT, *(uri(name) for name in NAMES for uri in (session_uri, chat_uri))]
LIMITS = ServerLimits(commands_per_s=1e9)
START = 1_768_797_915_012
"""The time of the first entry of both logs."""


class PlayedLog:
    """One session: its log, published some entries at a time. Entries that the core drops are gone from then on."""

    def __init__(self, name: SessionId, recorded: RecordedLog) -> None:
        self.name = name
        self.recorded = recorded
        self.moment = 0
        self.hub = Hub(name, self)

    def publish(self, count: int) -> None:
        new = self.recorded.entries[self.moment : self.moment + count]
        self.moment += len(new)
        if new:
            self.hub.publish(new)

    @property
    def head(self) -> int:
        return self.recorded.entries[self.moment - 1].seq if self.moment else 0

    def page(self, after: int, limit: int) -> Page:
        gone = self.recorded.gone
        kept = [
            entry
            for entry in self.recorded.entries[: self.moment]
            if entry.seq > after and gone.get(entry.seq, self.moment + 1) > self.moment
        ]
        return Page("log", tuple(kept[:limit]), self.head)

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 0) -> Page:
        return self.page(after, limit)

    def fold(self) -> tuple[AhpReducer, list[ProjectionRow]]:
        reducer, rows = AhpReducer(self.name), list[ProjectionRow]()
        for entry in self.page(0, 1 << 30).entries:
            for made in reducer.step(entry):
                assert isinstance(made, NewRow)
                rows.append(ProjectionRow(len(rows) + 1, entry.seq, entry.at, made.data, made.key))
        return reducer, rows


class TwoSessions:
    """The core, as far as AHP needs it. Implements `model.gateway.Gateway`."""

    def __init__(self, logs: Sequence[RecordedLog], now: int) -> None:
        self.logs = {name: PlayedLog(name, log) for name, log in zip(NAMES, logs, strict=True)}
        self.clock = ManualClock(START + now)
        services = SocketServices(self.clock)
        handlers: dict[Any, Any] = {ReadSessionChoices: self._choices, JoinChannel: self._join, **services.handlers()}
        dispatcher: Any = Dispatcher(self, handlers)  # type: ignore[arg-type]
        self.host = SocketHost(dispatcher, self.clock, LIMITS, lambda: "id", services)

    async def _choices(self, who: Identity, call: Any) -> SessionChoices:
        return SessionChoices(("/srv",), modes=("default",))

    async def _join(self, who: Identity, call: Any) -> Any:
        class Member:
            def drained(self) -> None: ...
            def leave(self) -> None: ...

        return lambda sink: Member()

    async def ask(self, who: Identity, query: Any) -> Any:
        match query:
            case q.WaitLoaded():
                return True
            case q.ListSessions():
                return SessionPage(())
            case q.ReadProjection():
                return self.logs[query.session].fold()[0].snapshot()
            case q.ReadRows():
                rows = [row for row in self.logs[query.session].fold()[1] if row.ordinal < (query.before or 1 << 30)]
                return RowPage(tuple(rows[-query.limit :]), len(rows), 0)
            case q.ReadEvents():
                log = self.logs[query.session]
                page = log.page(query.after, query.limit)
                last = page.entries[-1].seq if page.entries else query.after
                return q.EventPage(
                    session=query.session,
                    log_id=page.log_id,
                    head=page.head,
                    events=tuple(_raw(event_line(query.session, entry)) for entry in page.entries),
                    next=last if last < page.head else None,
                )
            case _:
                raise AssertionError(query)

    async def watch(
        self, who: Identity, session: SessionId, cursor: Cursor | None, variant: FrameEncoder, sink: Sink, view: str
    ) -> Subscription:
        hub, head = self.logs[session].hub, self.logs[session].head
        since = Cursor(head) if cursor is None else cursor
        return Subscription(hub, who, variant, sink, since=since, head=head, log_id="log", verdict="ok")


def _raw(line: bytes) -> Any:
    return memoryview(line).tobytes()


class Wire:
    """The connection of one client, which reads when the test lets it."""

    reason = ""

    def __init__(self) -> None:
        self.sent: list[State] = []
        self.read = 0

    def send(self, data: bytes) -> None:
        self.sent.extend(json.loads(payload) for payload in unframed(data))

    def backlog(self) -> int:
        return 0

    def close(self, code: int = 1000, reason: str = "") -> None:
        raise AssertionError(reason)


class CutClient:
    """A client that behaves as VS Code does: all messages that it gets at once are handled before an answer to
    `initialize` or `reconnect` among them is applied, and then it sends something."""

    def __init__(self, core: TwoSessions, name: str) -> None:
        self.core = core
        self.name = name
        self.client = AhpClient()
        self.dispatched: list[int] = []
        self.verdicts: list[str] = []
        self.wanted = list(CHANNELS)
        self._left: list[tuple[SocketEndpoint, Any]] = []
        self._connect()
        self._initialize()

    def _initialize(self) -> None:
        self.request("initialize", protocolVersions=["0.9.0"], initialSubscriptions=self.wanted)

    def _connect(self) -> None:
        opening = Handshake(
            head=Head(method="GET", path="/ahp", socket=True),
            who=ANN,
            version="1",
            fresh=lambda: "id",
            now=self.core.clock.now_ms,
        )
        self.endpoint = SocketEndpoint(AhpConversation(opening), ANN, self.core.host, name="ahp", peer="")
        self.wire = Wire()
        self.endpoint.on_open(self.connection)
        self.there, self.settled = True, False
        """The first answer was applied, and something was sent after it."""
        self.known, self.base = 0, self.client.seen
        """The number of messages that it has read for sure, and the highest number then."""

    @property
    def connection(self) -> Any:
        return self.wire

    def say(self, message: State) -> None:
        self.endpoint.on_message(self.connection, json.dumps({"jsonrpc": "2.0", **message}).encode(), True)
        self.endpoint.on_batch_end(self.connection)

    def request(self, method: str, **params: Any) -> None:
        self.say({"id": method, "method": method, "params": {"clientId": self.name, **params}})

    def draft(self, session: SessionId) -> None:
        """Dispatch an action that is confirmed to this client alone."""
        if self.settled:
            self.dispatched.append(len(self.dispatched) + 1)
            action = {"type": "chat/draftChanged", "draft": {"text": str(len(self.dispatched))}}
            params = {"channel": chat_uri(session), "clientSeq": len(self.dispatched), "action": action}
            self.say({"method": "dispatchAction", "params": params})

    def leave(self, channel: str) -> None:
        if self.settled and channel in self.wanted:
            self.wanted.remove(channel)
            self.client.chats.pop(channel, None)
            self.say({"method": "unsubscribe", "params": {"channel": channel}})

    def open(self, channel: str) -> None:
        if self.settled and channel not in self.wanted:
            self.wanted.append(channel)
            self.request("subscribe", channel=channel)

    def read(self, count: int) -> None:
        """Get so many messages at once."""
        if not self.there:
            return
        new = self.wire.sent[self.wire.read : self.wire.read + count]
        self.wire.read += len(new)
        for message in new:
            if "id" not in message:
                self.client.take(message)
        for message in new:
            if "id" in message:
                self._answered(message)

    def _answered(self, message: State) -> None:
        if "error" in message:
            assert message["error"]["code"] == -32008, message
            self.verdicts.append("unknown")
            self._initialize()
            return
        if message["id"] == "reconnect":
            assert message["result"]["type"] == "replay" and message["result"]["missing"] == []
            self.verdicts.append("replay")
        self.client.take(message)
        if message["id"] == "subscribe":
            return
        self.settled = True
        if message["id"] == "initialize":
            self.known, self.base = self.wire.sent.index(message) + 1, self.client.seen
        self.say({"method": "somethingElse", "params": {}})

    def cut(self, noticed: bool) -> None:
        """Lose the connection, whether the server notices it or not. What was not read is lost."""
        if self.there:
            self.there = self.settled = False
            if noticed:
                self.endpoint.on_close(self.connection, 1006)
            else:
                self._left.append((self.endpoint, self.wire))

    async def come_back(self, lost: bool = False, unread: bool = False) -> None:
        """`lost`: the connection is cut again before the answer is read. `unread`: it is read later, with what comes
        after it."""
        if self.there:
            return
        expected, before = self._told_apart(), len(self.verdicts)
        self._connect()
        self.request("reconnect", lastSeenServerSeq=self.client.seen, subscriptions=self.wanted)
        await settled()
        if lost:
            self.cut(noticed=True)
        elif expected and not unread:
            self.read(1)
            assert self.verdicts[before:] == ["replay"], "its position could be told"

    def _told_apart(self) -> bool:
        """Whether no other number of read messages has the same highest number."""
        answers = [message for message in self.wire.sent if "id" in message]
        replayed = any(one["id"] == "reconnect" and "result" in one for one in answers)
        if not (self.known or replayed) or any(one["id"] == "subscribe" for one in answers):
            return False
        numbers = [_number(message) for message in self.wire.sent]
        counts = range(self.known, len(numbers) + 1)
        return [count for count in counts if max([self.base, *numbers[:count]]) == self.client.seen] == [self.wire.read]

    def end(self) -> None:
        self.cut(noticed=False)
        for endpoint, connection in self._left:
            endpoint.on_close(connection, 1006)

    def state(self) -> Any:
        """All but fields for which the protocol has no action, and the client's own draft."""
        chats = [{**self.client.chats[chat_uri(name)], "title": None, "draft": None} for name in NAMES]
        return [{**self.client.sessions[session_uri(name)], "status": None} for name in NAMES], chats


def _number(message: State) -> int:
    if message.get("method") == "action":
        return int(message["params"]["serverSeq"])
    result: State = message.get("result") or {}
    numbers: list[int] = [envelope["serverSeq"] for envelope in result.get("actions", [])]
    return max([int(result.get("serverSeq", -1)), *numbers])


Move = tuple[str, int, int]
moves = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 1), st.integers(1, 4)),
        st.tuples(st.just("read"), st.just(0), st.sampled_from([1, 1, 2, 3, 5, 100])),
        st.tuples(st.just("read"), st.just(0), st.just(100)),
        st.tuples(st.just("draft"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("cut"), st.integers(0, 1), st.just(0)),
        st.tuples(st.sampled_from(["back", "back", "lost"]), st.integers(0, 1), st.just(0)),
        st.tuples(st.sampled_from(["leave", "open"]), st.integers(0, 1), st.just(0)),
    ),
    min_size=5,
    max_size=60,
)


async def play(logs: Sequence[RecordedLog], plan: Sequence[Move], now: int = -1000) -> list[str]:
    """Play the logs to both clients, and compare what they show; return how the second one's returns were answered.
    `now`: the time at which everything happens, in milliseconds after the first entries."""
    core = TwoSessions(logs, now)
    always, second = CutClient(core, "always"), CutClient(core, "second")
    await settled()
    for move, which, count in plan:
        match move:
            case "publish":
                core.logs[NAMES[which]].publish(count)
            case "read":
                second.read(count)
            case "draft":
                second.draft(NAMES[which])
            case "leave":
                second.leave(chat_uri(NAMES[which]))
            case "open":
                second.open(chat_uri(NAMES[which]))
            case "cut":
                second.cut(noticed=bool(which))
            case "back" | "lost":
                await second.come_back(lost=move == "lost", unread=bool(which))
        await settled()
        always.read(1000)
        await settled()
    await second.come_back()
    for log in core.logs.values():
        log.publish(1000)
    for _ in range(4):
        await settled()
        always.read(1000)
        second.read(1000)
    for name in NAMES:
        second.open(chat_uri(name))
    await settled()
    second.read(1000)
    late = CutClient(core, "late")
    await settled()
    late.read(1000)
    for client in (always, second):
        assert client.state() == late.state(), client.name
    origins = [envelope.get("origin") or {} for envelope in second.client.envelopes]
    confirmed = [origin["clientSeq"] for origin in origins if origin.get("clientId") == "second"]
    assert confirmed == sorted(set(confirmed)), "its own actions were confirmed twice"
    lost_some = "unknown" in second.verdicts or any(move == "leave" for move, _, _ in plan)
    assert lost_some or confirmed == second.dispatched
    await core.clock.advance(2)
    for client in (always, second, late):
        client.end()
    await settled()
    return second.verdicts

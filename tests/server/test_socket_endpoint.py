"""The endpoint of one socket on a fake connection: what it writes and when, and when it stops reading."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairlead.clients.native.codec import JsonCodec
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.errors import Busy, FairleadError, NotFound
from fairlead.model.web.sockets import (
    AttachOwner,
    AttachProxy,
    CloseSocket,
    Effect,
    Flow,
    RunFlow,
    Signal,
    Subscribe,
    Unsubscribe,
    Write,
)
from fairlead.model.web.sockets import SocketHandle as HeldWire
from fairlead.server.dispatch import Dispatcher
from fairlead.server.limits import ServerLimits
from fairlead.server.sockets import FAILED, REVOKED, SocketEndpoint, SocketHost
from fairlead_testing.clock import ManualClock
from server.fakes import OTHER, SESSION, FakeGateway, until

ADMIN = Identity("c", "owner", "admin", frozenset({"admin"}))


class Wire:
    """A fake connection whose peer reads when the test lets it."""

    def __init__(self) -> None:
        self.peer: tuple[str, int] | None = None
        self.closed = False
        self.sent: list[bytes] = []
        self.untaken = 0
        self.pauses: list[bool] = []
        self.probes: list[Callable[[], None]] = []
        self.code = 0
        self.reason = ""

    def send(self, frame: bytes) -> None:
        if not self.closed:
            self.sent.append(frame)
            self.untaken += len(frame)

    def send_compressed(self, payload: bytes, binary: bool = False) -> None:
        self.send(payload)

    def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed = True
        self.code = code

    def backlog(self) -> int:
        return self.untaken

    def probe(self, answered: Callable[[], None]) -> None:
        self.probes.append(answered)

    def pause(self) -> None:
        self.pauses.append(True)

    def resume(self) -> None:
        self.pauses.append(False)


class Steps(NamedTuple):
    """A flow that performs steps and writes its name after each."""

    name: str
    steps: tuple[Any, ...]
    lane: str = ""
    ahead: bool = False


class Script:
    """A conversation that returns the effects registered under the text of each message."""

    def __init__(self, **does: Sequence[Effect | Steps]) -> None:
        self.does = does
        self.heard: list[Any] = []

    def opened(self) -> Sequence[Effect]:
        return (Write(b"hello"),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        return [
            RunFlow(self.run(thing), thing.lane, thing.ahead) if isinstance(thing, Steps) else thing
            for thing in self.does[data.decode()]
        ]

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        self.heard.append(("unhandled", error.code))
        return (Write(b"!unhandled"),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        self.heard.append(("throttled", error.code))
        return ()

    def run(self, flow: Steps) -> Flow:
        for step in flow.steps:
            try:
                answer = yield step
            except NotFound as error:
                self.heard.append((flow.name, error.code))
                yield Write(f"!{flow.name}".encode())
            else:
                self.heard.append((flow.name, answer))
                yield Write(f"<{flow.name}>".encode())


class Room:
    def __init__(self, limits: ServerLimits | None = None, **does: Sequence[Effect | Steps]) -> None:
        self.gateway = FakeGateway()
        self.script = Script(**does)
        self.doer = Dispatcher(self.gateway, {})
        self.clock = ManualClock()
        host = SocketHost(self.doer, self.clock, limits or ServerLimits(), lambda: "id")
        self.endpoint = SocketEndpoint(self.script, ADMIN, host, name="native", peer="127.0.0.1")
        self.wire = Wire()

    def open(self) -> None:
        self.endpoint.on_open(self.wire)

    def say(self, *messages: str) -> None:
        """Deliver all messages in one read of the socket."""
        for message in messages:
            self.endpoint.on_message(self.wire, message.encode(), True)
        self.endpoint.on_batch_end(self.wire)

    def take(self) -> None:
        """Let the peer read everything."""
        self.wire.untaken = 0
        self.endpoint.on_drain(self.wire)


CODEC = JsonCodec()
INTERRUPT = cmd.Interrupt(session=SESSION)


async def test_frames_caused_by_one_read_are_written_at_once() -> None:
    room = Room(a=(Write(b"1"), Write(b"2")))
    room.open()
    room.say("a", "a", "a")
    assert room.wire.sent == [b"hello", b"121212"]


async def test_conversation_can_close_the_socket_after_a_last_message() -> None:
    room = Room(bye=(Write(b"last"), CloseSocket(4000, "enough")))
    room.open()
    room.say("bye")
    assert (room.wire.sent, room.wire.code) == ([b"hello", b"last"], 4000)


async def test_client_that_does_not_read_its_replies_is_not_read() -> None:
    room = Room(ServerLimits(unread=100), a=(Write(b"x" * 60),))
    room.open()
    room.say("a")
    assert room.wire.pauses == []
    room.say("a")
    assert room.wire.pauses == [True]
    room.take()
    assert room.wire.pauses == [True, False]


async def test_too_many_commands_in_flight_pause_reading_until_some_are_done() -> None:
    room = Room(ServerLimits(in_flight=3), a=(Steps("t", (INTERRUPT,), "lane", ahead=True),))
    room.gateway.hold.add(cmd.Interrupt)
    room.open()
    room.say("a", "a")
    assert room.wire.pauses == []
    room.say("a")
    room.take()
    assert room.wire.pauses == [True]
    room.gateway.release.set()
    await room.doer.tasks.wait()
    await asyncio.sleep(0)
    assert room.wire.pauses == [True, False]
    assert [tag for tag, _ in room.script.heard] == ["t"] * 3


async def test_subscription_starts_after_its_verdict_was_written() -> None:
    room = Room(sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)),))
    room.open()
    room.say("sub")
    await room.doer.tasks.wait()
    assert room.wire.sent == [b"hello", b"<s>"]
    room.gateway.say("now")
    assert len(room.wire.sent) == 3


async def test_drained_socket_notifies_its_subscriptions() -> None:
    room = Room(sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)), Steps("o", (Subscribe(OTHER, None, CODEC),))))
    room.open()
    room.say("sub")
    await room.doer.tasks.wait()
    room.take()
    assert [watch.drains for watch in room.gateway.watches] == [1, 1]


async def test_closing_while_a_subscription_opens_leaves_nothing_behind() -> None:
    room = Room(sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)),))
    room.open()
    room.say("sub")
    await asyncio.sleep(0)
    room.endpoint.on_close(room.wire, 1006)
    await room.doer.tasks.wait()
    assert room.gateway.watches == []
    assert room.script.heard == []


async def test_subscribing_after_the_close_does_nothing() -> None:
    room = Room(sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)),))
    room.open()
    room.say("sub")
    room.endpoint.on_close(room.wire, 1006)
    await room.doer.tasks.wait()
    assert room.gateway.watches == []


async def test_unsubscribing_waits_for_the_subscription_before_it() -> None:
    room = Room(both=(Steps("s", (Subscribe(SESSION, None, CODEC),)), Steps("u", (Unsubscribe(SESSION),))))
    room.open()
    room.say("both")
    await room.doer.tasks.wait()
    assert [tag for tag, _ in room.script.heard] == ["s", "u"]
    assert room.gateway.watches == []


async def test_one_socket_can_subscribe_to_a_session_and_to_a_projection_of_it() -> None:
    room = Room(
        log=(Steps("log", (Subscribe(SESSION, None, CODEC),)),),
        view=(Steps("view", (Subscribe(SESSION, None, CODEC, "pages"),)),),
        leave=(Steps("left", (Unsubscribe(SESSION),)),),
        type=(Signal(SESSION, "typing"),),
    )
    room.open()
    room.say("log", "view")
    await until(lambda: len(room.gateway.watches) == 2)
    first = room.gateway.watches[-1]
    assert sorted(watch.view for watch in room.gateway.watches) == ["", "pages"]
    room.say("leave")
    await until(lambda: len(room.gateway.watches) == 1)
    assert room.gateway.watches[0].view == "pages"
    room.say("type")
    assert room.gateway.signals == [("admin", SESSION, "typing", None)], "a view is a watch of one's own"
    room.say("view")
    await until(lambda: room.gateway.watches != [] and room.gateway.watches != [first])
    assert [watch.view for watch in room.gateway.watches] == ["pages"], "the one that was there ends"


async def test_failed_subscription_closes_the_socket() -> None:
    room = Room(watch=(Steps("w", (Subscribe(SESSION, None, CODEC, lost=lambda error: (Write(b"!lost"),)),)),))
    room.open()
    room.say("watch")
    await until(lambda: len(room.gateway.watches) == 1)
    room.gateway.watches[0].sink.fail(NotFound("session", SESSION))
    assert (room.wire.sent[-1], room.wire.code) == (b"!lost", FAILED)


async def test_sending_a_signal_requires_a_subscription() -> None:
    room = Room(tell=(Signal(SESSION, "typing"),), sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)),))
    room.open()
    room.say("tell")
    assert room.script.heard == [("unhandled", "busy")]
    room.say("sub")
    await room.doer.tasks.wait()
    room.say("tell")
    assert room.gateway.signals == [("admin", SESSION, "typing", None)]


OTHER_COMMAND = cmd.Close(session=SESSION)


async def test_flows_of_one_lane_run_one_after_another() -> None:
    room = Room(
        a=(Steps("a", (INTERRUPT, INTERRUPT), "lane"),),
        b=(Steps("b", (OTHER_COMMAND,), "lane"),),
        c=(Steps("c", (q.ListPermissions(SESSION),), "other"),),
    )
    room.gateway.hold.add(cmd.Interrupt)
    room.open()
    room.say("a", "b", "c")
    await until(lambda: len(room.wire.sent) == 2)
    assert room.wire.sent == [b"hello", b"<c>"]
    assert [command for _, command in room.gateway.commands] == [INTERRUPT], "the first flow waits for its first step"
    room.gateway.release.set()
    await until(lambda: len(room.script.heard) == 4)
    assert [name for name, _ in room.script.heard] == ["c", "a", "a", "b"]


async def test_a_flow_that_runs_ahead_gets_its_answer_after_the_flows_before_it() -> None:
    room = Room(
        a=(Steps("a", (INTERRUPT,), "lane"),),
        b=(Steps("b", (OTHER_COMMAND,), "lane", ahead=True),),
        c=(Steps("c", (), "lane", ahead=True), Steps("d", (OTHER_COMMAND,), "lane")),
    )
    room.gateway.hold.add(cmd.Interrupt)
    room.open()
    room.say("a", "b", "c")
    await until(lambda: len(room.gateway.commands) == 2)
    assert [command for _, command in room.gateway.commands] == [INTERRUPT, OTHER_COMMAND], "its command does not wait"
    assert room.script.heard == []
    room.gateway.release.set()
    await until(lambda: len(room.script.heard) == 3)
    assert [name for name, _ in room.script.heard] == ["a", "b", "d"]


async def test_an_error_that_no_flow_handles_goes_to_the_protocol() -> None:
    room = Room(a=(Steps("a", (INTERRUPT,), "lane"),), b=(Steps("b", (INTERRUPT,), "lane"),))
    room.gateway.errors[cmd.Interrupt] = Busy("not now")
    room.open()
    room.say("a", "b")
    await until(lambda: len(room.script.heard) == 2)
    assert room.script.heard == [("unhandled", "busy")] * 2, "the lane goes on"


async def test_commands_of_a_client_that_has_left_take_effect_and_its_queries_end() -> None:
    room = Room(
        a=(Steps("a", (INTERRUPT, OTHER_COMMAND), "commands"), Steps("b", (OTHER_COMMAND,), "commands")),
        c=(Steps("c", (q.ListPermissions(SESSION), OTHER_COMMAND), "queries"), Steps("d", (INTERRUPT,), "queries")),
    )
    room.gateway.hold |= {cmd.Interrupt, q.ListPermissions}
    room.open()
    room.say("a", "c")
    await asyncio.sleep(0)
    room.endpoint.on_close(room.wire, 1006)
    room.gateway.release.set()
    await room.doer.tasks.wait()
    assert [name for name, _ in room.script.heard] == ["a", "a", "b"]


async def test_a_credential_revoked_before_the_socket_is_open_ends_it_at_once() -> None:
    room = Room()
    room.endpoint.on_revoked()
    room.open()
    assert (room.wire.sent, room.wire.code) == ([], REVOKED)


async def test_too_many_messages_are_answered_and_not_acted_on() -> None:
    room = Room(ServerLimits(commands_per_s=2), a=(Steps("t", (INTERRUPT,), "lane", ahead=True),))
    room.open()
    room.say("a", "a", "a")
    await until(lambda: len(room.gateway.commands) == 2)
    assert ("throttled", "too_many") in room.script.heard
    await room.clock.advance(0.5)
    room.say("a")
    await room.doer.tasks.wait()
    assert len(room.gateway.commands) == 3


class Keeper:
    """A socket owner that records what happened to its socket."""

    def __init__(self) -> None:
        self.wire: HeldWire | None = None
        self.story: list[Any] = []

    def attached(self, wire: HeldWire) -> None:
        self.wire = wire
        self.story.append("attached")

    def received(self, data: bytes) -> None:
        self.story.append(data)

    def drained(self) -> None:
        self.story.append("drained")

    def detached(self, code: int) -> None:
        self.story.append(code)


async def test_attached_owner_receives_everything_on_its_socket() -> None:
    keeper = Keeper()
    room = Room(ServerLimits(commands_per_s=1), give=(Write(b"before"), AttachOwner(keeper, [b"early"])))
    room.open()
    room.say("give")
    assert room.wire.sent == [b"hello", b"before"]
    for word in ("one", "two", "three"):
        room.say(word)
    room.take()
    assert keeper.story == ["attached", b"early", b"one", b"two", b"three", "drained"], "its messages are no commands"
    assert keeper.wire is not None
    keeper.wire.send(b"at any time")
    assert (room.wire.sent[-1], keeper.wire.backlog()) == (b"at any time", len(b"at any time"))
    keeper.wire.pause()
    keeper.wire.resume()
    assert room.wire.pauses == [True, False]
    keeper.wire.probe(lambda: keeper.story.append("taken"))
    room.wire.probes[0]()
    keeper.wire.close(4001, "enough")
    assert room.wire.code == 4001
    room.endpoint.on_close(room.wire, 4001)
    assert keeper.story[-2:] == ["taken", 4001]


async def test_closed_socket_cannot_be_attached_to_an_owner() -> None:
    keeper = Keeper()
    room = Room(give=(AttachOwner(keeper),))
    room.open()
    room.endpoint.on_close(room.wire, 1006)
    room.say("give")
    assert keeper.story == []


class Passer:
    """A proxy that records what happened to its socket."""

    def __init__(self) -> None:
        self.story: list[Any] = []

    def attached(self, wire: HeldWire) -> None:
        self.story.append("attached")

    def received(self, data: bytes, text: bool) -> None:
        self.story.append((data, text))

    def drained(self) -> None:
        self.story.append("drained")

    def detached(self, code: int, reason: str) -> None:
        self.story.append((code, reason))


async def test_proxy_receives_the_type_of_each_message_and_the_close_reason() -> None:
    passer = Passer()
    room = Room(ServerLimits(commands_per_s=1))
    room.endpoint.begin_with((AttachProxy(passer),))
    room.open()
    assert room.wire.sent == [], "what was agreed takes the place of the conversation's first words"
    room.endpoint.on_message(room.wire, b"text", True)
    room.endpoint.on_message(room.wire, b"bytes", False)
    room.take()
    room.wire.reason = "enough"
    room.endpoint.on_close(room.wire, 4001)
    room.endpoint.abandon()
    assert passer.story == ["attached", (b"text", True), (b"bytes", False), "drained", (4001, "enough")]


async def test_proxy_learns_of_a_client_that_left_before_its_socket_was_open() -> None:
    early, late = Passer(), Passer()
    room = Room(give=(AttachProxy(late),))
    room.endpoint.begin_with((AttachProxy(early),))
    room.endpoint.abandon()
    assert early.story == [(1006, "")]
    room.open()
    room.endpoint.on_close(room.wire, 1001)
    room.say("give")
    assert late.story == [(1006, "")]

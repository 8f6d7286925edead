"""The endpoint of one socket on a fake connection: what it writes and when, and when it stops reading."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairlead.clients.native.codec import Codec
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.errors import Busy, FairleadError, NotFound
from fairlead.model.web.sockets import (
    AttachOwner,
    CloseSocket,
    Effect,
    Flow,
    HoldSubscriptions,
    KeepState,
    Pause,
    RecallState,
    RunFlow,
    Signal,
    Subscribe,
    Unsubscribe,
    Write,
)
from fairlead.model.web.sockets import SocketHandle as HeldWire
from fairlead.server.dispatch import Dispatcher
from fairlead.server.limits import ServerLimits
from fairlead.server.socket_services import KEPT_S, SocketServices
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


class ScriptedConversation:
    """A conversation that returns the effects registered under the text of each message."""

    def __init__(self, **does: Sequence[Effect | Steps]) -> None:
        self.does = does
        self.outcomes: list[Any] = []

    def opened(self) -> Sequence[Effect]:
        return (Write(b"hello"),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        return [
            RunFlow(self.run(thing), thing.lane, thing.ahead) if isinstance(thing, Steps) else thing
            for thing in self.does[data.decode()]
        ]

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        self.outcomes.append(("unhandled", error.code))
        return (Write(b"!unhandled"),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        self.outcomes.append(("throttled", error.code))
        return ()

    def run(self, flow: Steps) -> Flow:
        for step in flow.steps:
            try:
                answer = yield step
            except NotFound as error:
                self.outcomes.append((flow.name, error.code))
                yield Write(f"!{flow.name}".encode())
            else:
                self.outcomes.append((flow.name, answer))
                yield Write(f"<{flow.name}>".encode())


class EndpointHarness:
    def __init__(self, limits: ServerLimits | None = None, **does: Sequence[Effect | Steps]) -> None:
        self.gateway = FakeGateway()
        self.script = ScriptedConversation(**does)
        self.clock = ManualClock()
        self.services = SocketServices(self.clock)
        self.doer = Dispatcher(self.gateway, self.services.handlers())
        host = SocketHost(self.doer, self.clock, limits or ServerLimits(), lambda: "id", self.services)
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


CODEC = Codec()
INTERRUPT = cmd.Interrupt(session=SESSION)


async def test_frames_caused_by_one_read_are_written_at_once() -> None:
    harness = EndpointHarness(a=(Write(b"1"), Write(b"2")))
    harness.open()
    harness.say("a", "a", "a")
    assert harness.wire.sent == [b"hello", b"121212"]


async def test_conversation_can_close_the_socket_after_a_last_message() -> None:
    harness = EndpointHarness(bye=(Write(b"last"), CloseSocket(4000, "enough")))
    harness.open()
    harness.say("bye")
    assert (harness.wire.sent, harness.wire.code) == ([b"hello", b"last"], 4000)


async def test_client_that_does_not_read_its_replies_is_not_read() -> None:
    harness = EndpointHarness(ServerLimits(unread=100), a=(Write(b"x" * 60),))
    harness.open()
    harness.say("a")
    assert harness.wire.pauses == []
    harness.say("a")
    assert harness.wire.pauses == [True]
    harness.take()
    assert harness.wire.pauses == [True, False]


async def test_too_many_commands_in_flight_pause_reading_until_some_are_done() -> None:
    harness = EndpointHarness(ServerLimits(in_flight=3), a=(Steps("t", (INTERRUPT,), "lane", ahead=True),))
    harness.gateway.hold.add(cmd.Interrupt)
    harness.open()
    harness.say("a", "a")
    assert harness.wire.pauses == []
    harness.say("a")
    harness.take()
    assert harness.wire.pauses == [True]
    harness.gateway.release.set()
    await harness.doer.tasks.wait()
    await asyncio.sleep(0)
    assert harness.wire.pauses == [True, False]
    assert [tag for tag, _ in harness.script.outcomes] == ["t"] * 3


async def test_subscription_starts_after_its_verdict_was_written() -> None:
    harness = EndpointHarness(sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)),))
    harness.open()
    harness.say("sub")
    await harness.doer.tasks.wait()
    assert harness.wire.sent == [b"hello", b"<s>"]
    harness.gateway.say("now")
    assert len(harness.wire.sent) == 3


async def test_drained_socket_notifies_its_subscriptions() -> None:
    harness = EndpointHarness(
        sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)), Steps("o", (Subscribe(OTHER, None, CODEC),)))
    )
    harness.open()
    harness.say("sub")
    await harness.doer.tasks.wait()
    harness.take()
    assert [watch.drains for watch in harness.gateway.watches] == [1, 1]


async def test_closing_while_a_subscription_opens_leaves_nothing_behind() -> None:
    harness = EndpointHarness(sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)),))
    harness.open()
    harness.say("sub")
    await asyncio.sleep(0)
    harness.endpoint.on_close(harness.wire, 1006)
    await harness.doer.tasks.wait()
    assert harness.gateway.watches == []
    assert harness.script.outcomes == []


async def test_subscribing_after_the_close_does_nothing() -> None:
    harness = EndpointHarness(sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)),))
    harness.open()
    harness.say("sub")
    harness.endpoint.on_close(harness.wire, 1006)
    await harness.doer.tasks.wait()
    assert harness.gateway.watches == []


async def test_unsubscribing_waits_for_the_subscription_before_it() -> None:
    harness = EndpointHarness(
        both=(Steps("s", (Subscribe(SESSION, None, CODEC),)), Steps("u", (Unsubscribe(SESSION),)))
    )
    harness.open()
    harness.say("both")
    await harness.doer.tasks.wait()
    assert [tag for tag, _ in harness.script.outcomes] == ["s", "u"]
    assert harness.gateway.watches == []


async def test_one_socket_can_subscribe_to_a_session_and_to_a_projection_of_it() -> None:
    harness = EndpointHarness(
        log=(Steps("log", (Subscribe(SESSION, None, CODEC),)),),
        view=(Steps("view", (Subscribe(SESSION, None, CODEC, "pages"),)),),
        leave=(Steps("left", (Unsubscribe(SESSION),)),),
        type=(Signal(SESSION, "typing"),),
    )
    harness.open()
    harness.say("log", "view")
    await until(lambda: len(harness.gateway.watches) == 2)
    first = harness.gateway.watches[-1]
    assert sorted(watch.view for watch in harness.gateway.watches) == ["", "pages"]
    harness.say("leave")
    await until(lambda: len(harness.gateway.watches) == 1)
    assert harness.gateway.watches[0].view == "pages"
    harness.say("type")
    assert harness.gateway.signals == [("admin", SESSION, "typing", None)], "a view is a watch of one's own"
    harness.say("view")
    await until(lambda: harness.gateway.watches != [] and harness.gateway.watches != [first])
    assert [watch.view for watch in harness.gateway.watches] == ["pages"], "the one that was there ends"


async def test_failed_subscription_closes_the_socket() -> None:
    harness = EndpointHarness(
        watch=(Steps("w", (Subscribe(SESSION, None, CODEC, lost=lambda error: (Write(b"!lost"),)),)),)
    )
    harness.open()
    harness.say("watch")
    await until(lambda: len(harness.gateway.watches) == 1)
    harness.gateway.watches[0].sink.fail(NotFound("session", SESSION))
    assert (harness.wire.sent[-1], harness.wire.code) == (b"!lost", FAILED)


async def test_sending_a_signal_requires_a_subscription() -> None:
    harness = EndpointHarness(tell=(Signal(SESSION, "typing"),), sub=(Steps("s", (Subscribe(SESSION, None, CODEC),)),))
    harness.open()
    harness.say("tell")
    assert harness.script.outcomes == [("unhandled", "busy")]
    harness.say("sub")
    await harness.doer.tasks.wait()
    harness.say("tell")
    assert harness.gateway.signals == [("admin", SESSION, "typing", None)]


OTHER_COMMAND = cmd.Close(session=SESSION)


async def test_flows_of_one_lane_run_one_after_another() -> None:
    harness = EndpointHarness(
        a=(Steps("a", (INTERRUPT, INTERRUPT), "lane"),),
        b=(Steps("b", (OTHER_COMMAND,), "lane"),),
        c=(Steps("c", (q.ListPermissions(SESSION),), "other"),),
    )
    harness.gateway.hold.add(cmd.Interrupt)
    harness.open()
    harness.say("a", "b", "c")
    await until(lambda: len(harness.wire.sent) == 2)
    assert harness.wire.sent == [b"hello", b"<c>"]
    assert [command for _, command in harness.gateway.commands] == [INTERRUPT], (
        "the first flow waits for its first step"
    )
    harness.gateway.release.set()
    await until(lambda: len(harness.script.outcomes) == 4)
    assert [name for name, _ in harness.script.outcomes] == ["c", "a", "a", "b"]


async def test_a_flow_that_runs_ahead_gets_its_answer_after_the_flows_before_it() -> None:
    harness = EndpointHarness(
        a=(Steps("a", (INTERRUPT,), "lane"),),
        b=(Steps("b", (OTHER_COMMAND,), "lane", ahead=True),),
        c=(Steps("c", (), "lane", ahead=True), Steps("d", (OTHER_COMMAND,), "lane")),
    )
    harness.gateway.hold.add(cmd.Interrupt)
    harness.open()
    harness.say("a", "b", "c")
    await until(lambda: len(harness.gateway.commands) == 2)
    assert [command for _, command in harness.gateway.commands] == [INTERRUPT, OTHER_COMMAND], (
        "its command does not wait"
    )
    assert harness.script.outcomes == []
    harness.gateway.release.set()
    await until(lambda: len(harness.script.outcomes) == 3)
    assert [name for name, _ in harness.script.outcomes] == ["a", "b", "d"]


async def test_an_error_that_no_flow_handles_goes_to_the_protocol() -> None:
    harness = EndpointHarness(a=(Steps("a", (INTERRUPT,), "lane"),), b=(Steps("b", (INTERRUPT,), "lane"),))
    harness.gateway.errors[cmd.Interrupt] = Busy("not now")
    harness.open()
    harness.say("a", "b")
    await until(lambda: len(harness.script.outcomes) == 2)
    assert harness.script.outcomes == [("unhandled", "busy")] * 2, "the lane goes on"


async def test_commands_of_a_client_that_has_left_take_effect_and_its_queries_end() -> None:
    harness = EndpointHarness(
        a=(Steps("a", (INTERRUPT, OTHER_COMMAND), "commands"), Steps("b", (OTHER_COMMAND,), "commands")),
        c=(Steps("c", (q.ListPermissions(SESSION), OTHER_COMMAND), "queries"), Steps("d", (INTERRUPT,), "queries")),
    )
    harness.gateway.hold |= {cmd.Interrupt, q.ListPermissions}
    harness.open()
    harness.say("a", "c")
    await asyncio.sleep(0)
    harness.endpoint.on_close(harness.wire, 1006)
    harness.gateway.release.set()
    await harness.doer.tasks.wait()
    assert [name for name, _ in harness.script.outcomes] == ["a", "a", "b"]


async def test_a_credential_revoked_before_the_socket_is_open_ends_it_at_once() -> None:
    harness = EndpointHarness()
    harness.endpoint.on_revoked()
    harness.open()
    assert (harness.wire.sent, harness.wire.code) == ([], REVOKED)


async def test_too_many_messages_are_answered_and_not_acted_on() -> None:
    harness = EndpointHarness(ServerLimits(commands_per_s=2), a=(Steps("t", (INTERRUPT,), "lane", ahead=True),))
    harness.open()
    harness.say("a", "a", "a")
    await until(lambda: len(harness.gateway.commands) == 2)
    assert ("throttled", "too_many") in harness.script.outcomes
    await harness.clock.advance(0.5)
    harness.say("a")
    await harness.doer.tasks.wait()
    assert len(harness.gateway.commands) == 3


async def test_held_subscriptions_go_on_and_their_frames_follow_in_order() -> None:
    sent: list[tuple[bytes, int]] = []
    harness = EndpointHarness(
        sub=(
            HoldSubscriptions(True),
            Steps("s", (Subscribe(SESSION, None, CODEC, sent=lambda data, cursor: sent.append((data, cursor.seq))),)),
        ),
        a=(Write(b"answer"), HoldSubscriptions(False)),
    )
    harness.open()
    harness.say("sub")
    await harness.doer.tasks.wait()
    for text in ("one", "two"):
        harness.gateway.say(text)
    (watch,) = harness.gateway.watches
    assert (harness.wire.sent, sent) == ([b"hello", b"<s>"], [])
    assert watch.position == 2 and watch.sink.backlog() > harness.wire.backlog(), "what waits counts as a backlog"
    harness.say("a")
    assert harness.wire.sent[2] == b"answer" and [b"one" in data for data in harness.wire.sent[3:]] == [True, False]
    assert sent == [(harness.wire.sent[3], 1), (harness.wire.sent[4], 2)] and watch.drains == 1
    assert watch.sink.backlog() == harness.wire.backlog()
    harness.gateway.say("three")
    assert sent[2] == (harness.wire.sent[5], 3)


async def test_frames_that_were_held_back_until_the_end_were_not_sent() -> None:
    sent: list[bytes] = []
    harness = EndpointHarness(
        sub=(
            HoldSubscriptions(True),
            Steps("s", (Subscribe(SESSION, None, CODEC, sent=lambda data, cursor: sent.append(data)),)),
        ),
        a=(HoldSubscriptions(False),),
    )
    harness.open()
    harness.say("sub")
    await harness.doer.tasks.wait()
    harness.gateway.say("one")
    harness.endpoint.on_close(harness.wire, 1006)
    harness.say("a")
    assert (harness.wire.sent, sent) == ([b"hello", b"<s>"], [])


async def test_a_pause_of_a_client_that_has_left_ends() -> None:
    harness = EndpointHarness(a=(Steps("p", (Pause(5), INTERRUPT)),))
    harness.open()
    harness.say("a")
    await until(lambda: harness.clock.waiting == 1)
    harness.endpoint.on_close(harness.wire, 1006)
    await harness.doer.tasks.wait()
    assert harness.clock.waiting == 0 and harness.gateway.commands == []


class Kept:
    def __init__(self) -> None:
        self.forgotten = False

    def forget(self) -> None:
        self.forgotten = True


async def test_a_state_is_kept_until_some_minutes_after_the_close() -> None:
    first, second, late = Kept(), Kept(), Kept()
    harness = EndpointHarness(a=(KeepState("k", first),), b=(KeepState("l", second),), c=(KeepState("m", late),))
    recall = harness.services.handlers()[RecallState]
    harness.open()
    harness.say("a")
    assert await recall(ADMIN, RecallState("k")) is first
    harness.say("b")
    assert first.forgotten and await recall(ADMIN, RecallState("l")) is second, "a socket keeps one"
    await harness.clock.advance(2 * KEPT_S)
    harness.endpoint.on_close(harness.wire, 1006)
    harness.say("c")
    assert await recall(ADMIN, RecallState("l")) is second and await recall(ADMIN, RecallState("m")) is None
    await harness.clock.advance(KEPT_S)
    assert second.forgotten and await recall(ADMIN, RecallState("l")) is None


class RecordingOwner:
    """A socket owner that records what happened to its socket."""

    def __init__(self) -> None:
        self.wire: HeldWire | None = None
        self.story: list[Any] = []

    def attached(self, wire: HeldWire) -> None:
        self.wire = wire
        self.story.append("attached")

    def received(self, data: bytes, text: bool) -> None:
        self.story.append((data, text))

    def drained(self) -> None:
        self.story.append("drained")

    def detached(self, code: int, reason: str) -> None:
        self.story.append((code, reason))


async def test_attached_owner_receives_everything_on_its_socket() -> None:
    owner = RecordingOwner()
    harness = EndpointHarness(
        ServerLimits(commands_per_s=1), give=(Write(b"before"), AttachOwner(owner, [(b"early", False)]))
    )
    harness.open()
    harness.say("give")
    assert harness.wire.sent == [b"hello", b"before"]
    for word in ("one", "two", "three"):
        harness.say(word)
    harness.take()
    messages = [(b"early", False), (b"one", True), (b"two", True), (b"three", True)]
    assert owner.story == ["attached", *messages, "drained"], "its messages are not commands"
    assert owner.wire is not None
    owner.wire.send(b"at any time")
    assert (harness.wire.sent[-1], owner.wire.backlog()) == (b"at any time", len(b"at any time"))
    owner.wire.pause()
    owner.wire.resume()
    assert harness.wire.pauses == [True, False]
    owner.wire.probe(lambda: owner.story.append("taken"))
    harness.wire.probes[0]()
    owner.wire.close(4001, "enough")
    assert harness.wire.code == 4001
    harness.endpoint.on_close(harness.wire, 4001)
    assert owner.story[-2:] == ["taken", (4001, "")]


async def test_owner_receives_the_type_of_each_message_and_the_close_reason() -> None:
    owner = RecordingOwner()
    harness = EndpointHarness(ServerLimits(commands_per_s=1))
    harness.endpoint.begin_with((AttachOwner(owner),))
    harness.open()
    assert harness.wire.sent == [], "what was agreed takes the place of the conversation's first words"
    harness.endpoint.on_message(harness.wire, b"text", True)
    harness.endpoint.on_message(harness.wire, b"bytes", False)
    harness.take()
    harness.wire.reason = "enough"
    harness.endpoint.on_close(harness.wire, 4001)
    harness.endpoint.abandon()
    assert owner.story == ["attached", (b"text", True), (b"bytes", False), "drained", (4001, "enough")]


async def test_owner_learns_of_a_client_that_left_before_its_socket_was_open() -> None:
    early, late = RecordingOwner(), RecordingOwner()
    harness = EndpointHarness(give=(AttachOwner(late),))
    harness.endpoint.begin_with((AttachOwner(early),))
    harness.endpoint.abandon()
    assert early.story == [(1006, "")]
    harness.open()
    harness.endpoint.on_close(harness.wire, 1001)
    harness.say("give")
    assert late.story == [(1006, "")]

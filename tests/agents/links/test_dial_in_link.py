"""The dial-in link: one stream of bytes over sockets that connect and drop, and a process that is reaped."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.links.fake_socket import Agent, FakeSocket
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.links.dialin import UNREAD_BYTES, UNSENT_BYTES, DialInConnection, DialInLimits, DialInLink
from fairlead.agents.links.dialin_state import DialInState
from fairlead.agents.links.framing import LineSplitter
from fairlead.agents.links.stdio import WRITE_SECONDS, start_child
from fairlead.model.agents import Exit
from fairlead.model.errors import AgentNotRunning, AgentTimeout, Busy
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead_testing.clock import ManualClock
from patience import PATIENCE

TERMS = DialInLimits(tries_s=6.0, close_code=4001)
LINE = b'{"type":"user"}\n'


class LinkHarness:
    """A link to an agent that a person started, and the bytes received from it."""

    def __init__(self, terms: DialInLimits = TERMS) -> None:
        self.clock = ManualClock()
        self.ended = 0
        self.link = DialInLink(self.clock, terms, None, self._end)
        self.received = b""
        self.arrivals: list[DialInConnection] = []
        self.gate: asyncio.Event | None = None
        self.link.expect()
        self.listening = asyncio.create_task(self.link.receive(self._take, self._arrived))

    def _end(self) -> None:
        self.ended += 1

    async def _take(self, data: bytes) -> None:
        if self.gate is not None:
            await self.gate.wait()
        self.received += data

    async def _arrived(self, arrival: DialInConnection) -> None:
        self.arrivals.append(arrival)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_lines_sent_before_the_agent_connects_are_delivered_first() -> None:
    harness = LinkHarness()
    await harness.link.send(LINE)
    assert harness.link.state is DialInState.CONNECTING
    agent = Agent(harness.link)
    assert (harness.link.state, agent.wire.sent) == (DialInState.CONNECTED, [LINE])
    agent.say("one", "two")
    await settle()
    assert (harness.received, harness.arrivals) == (b"one\ntwo\n", [DialInConnection(False)])


@pytest.mark.rules("S004-305")
async def test_a_line_for_a_disconnected_agent_is_reported_as_unsent_and_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "fairlead.agents.dialin")
    harness = LinkHarness()
    agent = Agent(harness.link)
    await harness.link.send(LINE)
    agent.wire.taken()
    agent.drop()
    assert "queued" not in caplog.text
    await harness.link.send(LINE)
    assert "line queued for a disconnected agent" in caplog.text
    assert Agent(harness.link).wire.sent == [LINE]


@pytest.mark.rules("S004-278", "S004-306")
@pytest.mark.parametrize("got", range(6))
async def test_after_a_cut_the_agent_gets_exactly_the_missing_lines(got: int) -> None:
    harness = LinkHarness()
    agent = Agent(harness.link)
    lines = [b'{"n":%d}\n' % number for number in range(5)]
    for number, line in enumerate(lines):
        await harness.link.send(line)
        if number < got:
            agent.wire.taken()
    agent.drop()
    assert harness.link.state is DialInState.RECONNECTING
    again = Agent(harness.link, "u-1")
    assert again.wire.sent == lines[got:]
    again.wire.taken()
    again.drop()
    assert Agent(harness.link).wire.sent == []
    await settle()
    assert harness.arrivals == [DialInConnection(False), DialInConnection(True, "u-1"), DialInConnection(True)]


async def test_a_late_receipt_from_an_earlier_socket_is_harmless() -> None:
    harness = LinkHarness()
    first = Agent(harness.link)
    await harness.link.send(b"1\n")
    first.drop()
    second = Agent(harness.link)
    await harness.link.send(b"2\n")
    first.wire.taken()
    second.drop()
    assert Agent(harness.link).wire.sent == [b"2\n"]


async def test_a_new_socket_of_the_agent_replaces_the_abandoned_one() -> None:
    harness = LinkHarness()
    first = Agent(harness.link)
    await harness.link.send(LINE)
    second = Agent(harness.link)
    assert first.wire.closed is not None and second.wire.sent == [LINE]
    first.drop()
    assert harness.link.state is DialInState.CONNECTED


@pytest.mark.rules("S004-280")
async def test_an_agent_that_stays_away_is_gone_after_its_retries() -> None:
    harness = LinkHarness()
    agent = Agent(harness.link)
    agent.say("last")
    agent.drop()
    await harness.clock.advance(5.9)
    assert not harness.listening.done()
    await harness.clock.advance(0.2)
    await harness.listening
    assert (harness.link.state, harness.received, harness.ended) == (DialInState.CLOSED, b"last\n", 1)
    with pytest.raises(AgentNotRunning):
        await harness.link.send(LINE)
    with pytest.raises(Busy):
        harness.link.accept_socket("")


async def test_an_agent_that_comes_back_has_all_its_retries_again() -> None:
    harness = LinkHarness()
    Agent(harness.link).drop()
    await harness.clock.advance(5)
    again = Agent(harness.link)
    await harness.clock.advance(60)
    again.drop()
    await harness.clock.advance(5)
    assert harness.link.state is DialInState.RECONNECTING


async def test_stopping_closes_the_socket_with_the_code_that_ends_the_agent() -> None:
    harness = LinkHarness()
    agent = Agent(harness.link)
    assert await harness.link.stop() == Exit()
    assert agent.wire.closed is not None and agent.wire.closed[0] == 4001
    await harness.listening
    agent.drop(4001)
    assert (harness.link.state, harness.ended) == (DialInState.CLOSED, 1)
    assert await harness.link.stop() == Exit()


async def test_a_socket_that_connects_while_the_link_closes_is_rejected() -> None:
    harness = LinkHarness()
    holder = harness.link.accept_socket("")
    await harness.link.stop()
    wire = FakeSocket()
    holder.attached(wire)
    assert wire.closed is not None
    assert harness.arrivals == []


async def test_an_agent_that_sends_more_than_is_stored_is_paused() -> None:
    harness = LinkHarness()
    harness.gate = asyncio.Event()
    agent = Agent(harness.link)
    agent.say("x" * UNREAD_BYTES)
    agent.say("y" * UNREAD_BYTES)
    assert agent.wire.pauses == [True]
    with pytest.raises(Busy):
        await harness.link.post(b"z\n")
    harness.gate.set()
    await settle()
    assert agent.wire.pauses == [True, False]
    assert len(harness.received) == 2 * (UNREAD_BYTES + 1)


async def test_a_line_waits_for_a_limited_time_while_the_agent_does_not_read() -> None:
    harness = LinkHarness()
    agent = Agent(harness.link)
    agent.wire.waiting = UNSENT_BYTES + 1
    sending = asyncio.create_task(harness.link.send(LINE))
    await settle()
    assert agent.wire.sent == []
    agent.drain()
    await sending
    assert agent.wire.sent == [LINE]
    agent.wire.waiting = UNSENT_BYTES + 1
    late = asyncio.create_task(harness.link.send(LINE))
    await settle()
    await harness.clock.advance(WRITE_SECONDS + 1)
    with pytest.raises(AgentTimeout):
        await late


async def test_a_last_line_without_its_newline_is_complete_when_the_socket_ends() -> None:
    harness = LinkHarness()
    agent = Agent(harness.link)
    agent.say_bytes(b"one\ntwo")
    agent.drop()
    Agent(harness.link).say("three")
    await settle()
    assert harness.received == b"one\ntwo\nthree\n"


@pytest.mark.rules("S004-024", "S004-046")
@given(st.lists(st.binary(min_size=1, max_size=8), max_size=12))
def test_any_cut_of_the_bytes_into_frames_is_the_same_stream(pieces: list[bytes]) -> None:
    async def scene() -> bytes:
        harness = LinkHarness()
        agent = Agent(harness.link)
        for piece in pieces:
            agent.say_bytes(piece)
        await harness.link.stop()
        await harness.listening
        return harness.received

    assert asyncio.run(scene()) == b"".join(pieces)


# --- with a process


def start(code: str, terms: DialInLimits = TERMS) -> DialInLink:
    clock = SystemClock()
    link = DialInLink(clock, terms, start_child([sys.executable, "-I", "-c", code], env={}, cwd="/", clock=clock))
    link.expect()
    return link


async def everything(link: DialInLink) -> bytes:
    received = bytearray()

    async def take(data: bytes) -> None:
        received.extend(data)

    async def arrived(arrival: DialInConnection) -> None:
        pass

    async with asyncio.timeout(PATIENCE):
        await link.receive(take, arrived)
    return bytes(received)


@pytest.mark.process
async def test_the_output_of_a_process_that_ends_without_connecting_is_delivered() -> None:
    link = start("import sys; print('{\"type\":\"result\"}'); sys.stderr.write('no'); sys.exit(3)")
    assert await everything(link) == b'{"type":"result"}\n'
    assert await link.stop() == Exit(code=3, stderr="no")
    assert link.state is DialInState.CLOSED


@pytest.mark.process
async def test_the_output_of_a_connected_process_is_not_a_message() -> None:
    link = start("import time; print('noise'); time.sleep(60)", DialInLimits(tries_s=6.0))
    agent = Agent(link)
    agent.say("message")
    listening = asyncio.create_task(everything(link))
    stopping = asyncio.create_task(link.stop())
    await asyncio.sleep(0)
    agent.drop()
    assert (await stopping).signal == 15, "nothing else ends a version without a close code"
    assert await listening == b"message\n"


@pytest.mark.process
async def test_a_process_that_does_not_come_back_is_ended_and_reaped() -> None:
    link = start("import time; time.sleep(60)", DialInLimits(tries_s=0.05))
    Agent(link).drop()
    assert await everything(link) == b""
    assert (await link.stop()).signal == 15
    assert link.child is not None and not link.child.running


@pytest.mark.process
async def test_the_end_of_the_process_waits_for_the_last_data_of_its_socket() -> None:
    link = start("pass", DialInLimits(tries_s=6.0, patience=StopTimeouts(close=1.0)))
    agent = Agent(link)
    assert link.child is not None
    await link.child.wait()
    agent.say("last words")
    agent.drop()
    assert await everything(link) == b"last words\n"


GOLDEN = Path(__file__).parents[2] / "golden" / "claude"


@pytest.mark.rules("S004-002")
def test_every_golden_line_is_the_same_over_a_socket_as_over_a_pipe() -> None:
    """Both use the same splitter and decoder: a link must not change a byte."""

    async def over_a_socket(lines: list[bytes]) -> bytes:
        harness = LinkHarness()
        agent = Agent(harness.link)
        for line in lines:
            agent.say_bytes(line)
        await harness.link.stop()
        await harness.listening
        return harness.received

    for case in sorted(GOLDEN.glob("2.1.*/records.jsonl")):
        data = case.read_bytes()
        received = asyncio.run(over_a_socket(data.splitlines(keepends=True)))
        assert [decode(line) for line in LineSplitter().feed(received) if isinstance(line, bytes)] == [
            decode(line) for line in LineSplitter().feed(data) if isinstance(line, bytes)
        ], case.parent.name

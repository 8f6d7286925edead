"""The stdio link: a child's pipes with the model's errors."""

import asyncio
import sys

import pytest

from fairlead.agents.links.stdio import WRITE_SECONDS, StdioLink, start_child
from fairlead.model.agents import Exit
from fairlead.model.errors import AgentMissing, AgentNotRunning, AgentTimeout, BadRequest
from fairlead.system.clock import Clock, SystemClock
from fairlead.system.process import StopTimeouts
from fairlead_testing.clock import ManualClock
from patience import PATIENCE

pytestmark = pytest.mark.process


def open_link(code: str, clock: Clock | None = None, cwd: str = "/") -> StdioLink:
    clock = clock or SystemClock()
    return StdioLink(
        start_child([sys.executable, "-I", "-c", code], env={}, cwd=cwd, clock=clock), clock, StopTimeouts()
    )


async def test_bytes_go_both_ways_and_stop_returns_the_exit() -> None:
    link = open_link(
        "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)\nsys.stderr.write('bye')"
    )
    received = bytearray()
    first = asyncio.Event()

    async def take(data: bytes) -> None:
        received.extend(data)
        first.set()

    receiving = asyncio.create_task(link.receive(take))
    await link.send(b"hello\n")
    await asyncio.wait_for(first.wait(), PATIENCE)
    assert link.running
    assert link.started
    assert link.group == link.pid
    assert await link.stop() == Exit(code=0, stderr="bye")
    await receiving
    assert received == b"HELLO\n"
    with pytest.raises(AgentNotRunning):
        await link.send(b"late\n")
    assert await link.stop() == Exit(code=0, stderr="bye")


def test_a_missing_program_and_a_missing_folder_are_distinguished() -> None:
    async def missing() -> None:
        clock = SystemClock()
        with pytest.raises(AgentMissing, match="/nonexistent/claude"):
            start_child(["/nonexistent/claude"], env={}, cwd="/", clock=clock)
        with pytest.raises(AgentMissing, match="Permission denied"):
            start_child(["/etc/passwd"], env={}, cwd="/", clock=clock)
        with pytest.raises(BadRequest, match="/nonexistent/folder"):
            open_link("", cwd="/nonexistent/folder")

    asyncio.run(missing())


async def test_an_agent_that_does_not_read_is_reported() -> None:
    clock = ManualClock()
    link = open_link("import time; time.sleep(300)", clock)
    sending = asyncio.create_task(link.send(b"x" * (1 << 20)))
    await clock.advance(WRITE_SECONDS + 1)
    with pytest.raises(AgentTimeout):
        await sending
    stopping = asyncio.create_task(link.stop())
    await clock.advance(StopTimeouts().close + 0.1)
    assert (await asyncio.wait_for(stopping, PATIENCE)).signal == 15

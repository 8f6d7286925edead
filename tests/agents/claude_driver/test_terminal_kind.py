"""Claude Code in a terminal, as a kind of agent: how its prompts are encoded, and how its process is recorded."""

import asyncio
import json
import os
import stat
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.claude_driver.fake_tui import FakeTerminals, FakeTui, passing
from agents.claude_driver.harness import MemorySink
from agents.claude_driver.test_terminal_agent import SESSION, Tokens
from fairlead.agents.claude.kind import ClaudeKind
from fairlead.agents.claude.settings import ClaudeSettings
from fairlead.agents.claude.transcripts.paths import transcript_path
from fairlead.agents.claude.tui.driver import ClaudeTerminal
from fairlead.model.agents import Agent, Exit, Launch, ProcessInfo
from fairlead.model.commands import Settings
from fairlead.model.content import TextBlock
from fairlead.model.errors import AgentNotRunning, AgentRefused, BadId, BadRequest, Conflict, HistoryMissing
from fairlead.model.ids import MessageId
from fairlead_testing.clock import ManualClock
from patience import PATIENCE

pytestmark = pytest.mark.process

MESSAGE = MessageId("aaaaaaaa-0000-4000-8000-000000000001")


class Forgetful(MemorySink):
    """A sink whose store fails."""

    async def started(self, child: ProcessInfo) -> None:
        raise Conflict(7)


class TerminalHarness:
    def __init__(self, folder: Path) -> None:
        program = folder / "claude"
        program.write_text("#!/bin/sh\necho '2.1.325 (Claude Code)'\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.clock = ManualClock()
        self.sink = MemorySink()
        self.terminals = FakeTerminals(lambda program: FakeTui(folder / "x.jsonl"))
        host = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.settings = ClaudeSettings(host=host, executable=str(program), gateway="ws://127.0.0.1:1")
        self.kind = ClaudeKind(self.settings, self.clock, Tokens(), self.terminals)
        self.launch = Launch(session=SESSION, cwd=str(folder), settings=Settings(link="terminal"))

    async def open(self) -> Agent:
        opening = asyncio.create_task(self.kind.launch(self.launch, self.sink))
        async with asyncio.timeout(PATIENCE):
            while not self.terminals.opened and not opening.done():
                await asyncio.sleep(0.01)  # the version of the program is being probed
        if self.terminals.opened:
            self.terminals.opened[-1][2].draw(up=True)
        await passing(self.clock, opening.done)
        return opening.result()

    def kind_of_line(self) -> str:
        return str(json.loads(self.kind.prompt([TextBlock("hi")], MESSAGE, SESSION).raw)["type"])

    async def end(self) -> None:
        self.terminals.opened[-1][2].end(Exit(code=0))
        await passing(self.clock, lambda: self.sink.all("exited"))


@pytest.fixture
def harness(tmp_path: Path) -> TerminalHarness:
    return TerminalHarness(tmp_path)


async def test_prompts_are_typed_only_while_the_terminal_runs(harness: TerminalHarness) -> None:
    assert harness.kind_of_line() == "user"
    agent = await harness.open()
    assert isinstance(agent, ClaudeTerminal)
    assert harness.kind_of_line() == "fairlead_typed"
    await harness.end()
    assert harness.kind_of_line() == "user"


async def test_a_prompt_into_a_running_turn_is_rejected(harness: TerminalHarness) -> None:
    agent = await harness.open()
    assert isinstance(agent, ClaudeTerminal)
    agent.is_busy = True
    with pytest.raises(AgentRefused, match="interrupt it"):
        harness.kind_of_line()
    await harness.end()


async def test_prompts_follow_a_person_into_another_conversation(harness: TerminalHarness) -> None:
    agent = await harness.open()
    assert isinstance(agent, ClaudeTerminal)
    agent.moved("another")
    assert json.loads(harness.kind.prompt([TextBlock("hi")], MESSAGE, "another").raw)["type"] == "fairlead_typed"
    await harness.end()


def resuming(harness: TerminalHarness, **fields: Any) -> str:
    conversation = str(uuid.uuid4())
    harness.launch = msgspec.structs.replace(harness.launch, resume=conversation, **fields)
    return conversation


async def test_resuming_a_conversation_without_a_transcript_starts_nothing(harness: TerminalHarness) -> None:
    resuming(harness)
    await harness.kind.version()  # in real time, not in that of the manual clock
    opening = asyncio.create_task(harness.kind.launch(harness.launch, harness.sink))
    await passing(harness.clock, opening.done)
    with pytest.raises(HistoryMissing, match="No conversation found"):
        opening.result()
    assert harness.sink.story == [] and harness.terminals.opened == []


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_conversation_with_a_transcript_is_resumed(
    harness: TerminalHarness, tmp_path: Path, elsewhere: bool
) -> None:
    file = transcript_path(tmp_path / ".claude", str(tmp_path), resuming(harness))
    if elsewhere:
        file = file.parent.with_name("-another") / file.name
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    agent = await harness.open()
    assert isinstance(agent, ClaudeTerminal)
    await harness.end()


async def test_an_invalid_conversation_id_is_rejected(harness: TerminalHarness) -> None:
    harness.launch = msgspec.structs.replace(harness.launch, resume="../the-last-one")
    with pytest.raises(BadId):
        await harness.open()


@pytest.mark.parametrize(("version", "advised"), [("2.1.325", True), ("2.1.120", False)])
async def test_a_cli_that_does_not_dial_in_is_reported_with_advice_for_its_version(
    harness: TerminalHarness, tmp_path: Path, version: str, advised: bool
) -> None:
    (tmp_path / "claude").write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
    harness.launch = msgspec.structs.replace(harness.launch, settings=Settings(link="dial-in"))
    await harness.kind.version()
    opening = asyncio.create_task(harness.kind.launch(harness.launch, harness.sink))
    await passing(harness.clock, opening.done)
    with pytest.raises(AgentNotRunning) as gone:
        opening.result()
    assert ("set the session's link to stdio" in gone.value.message) == advised


async def test_the_process_is_recorded_as_running_in_a_terminal(harness: TerminalHarness) -> None:
    await harness.open()
    (child,) = harness.sink.all("started")
    assert (child.in_terminal, child.dials_in, child.agent_session) == (True, False, SESSION)
    assert harness.sink.story[0][0] == "started"
    await harness.end()


async def test_a_process_that_cannot_be_recorded_does_not_run(harness: TerminalHarness) -> None:
    harness.sink = Forgetful()
    with pytest.raises(Conflict):
        await harness.open()
    assert harness.terminals.names() == ()


async def test_without_terminals_the_launch_is_rejected_with_advice(harness: TerminalHarness) -> None:
    kind = ClaudeKind(harness.settings, harness.clock, Tokens())
    with pytest.raises(BadRequest, match="set the session's link to stdio"):
        await kind.launch(harness.launch, harness.sink)

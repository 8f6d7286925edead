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
from fairlead.agents.claude.kind import ClaudeKind, ClaudeSettings
from fairlead.agents.claude.transcripts.paths import transcript_path
from fairlead.agents.claude.tui.driver import ClaudeTerminal
from fairlead.model.agents import Agent, Exit, Launch, ProcessInfo
from fairlead.model.commands import Settings
from fairlead.model.content import TextBlock
from fairlead.model.errors import AgentNotRunning, AgentRefused, BadId, BadRequest, Conflict
from fairlead.model.ids import MessageId
from fairlead_testing.clock import ManualClock
from patience import PATIENCE

pytestmark = pytest.mark.process

MESSAGE = MessageId("aaaaaaaa-0000-4000-8000-000000000001")


class Forgetful(MemorySink):
    """A sink whose store fails."""

    async def started(self, child: ProcessInfo) -> None:
        raise Conflict(7)


class House:
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
        opening = asyncio.create_task(self.kind.launch(self.launch, self.sink, self.sink))
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
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_prompts_are_typed_only_while_the_terminal_runs(house: House) -> None:
    assert house.kind_of_line() == "user"
    agent = await house.open()
    assert isinstance(agent, ClaudeTerminal)
    assert house.kind_of_line() == "fairlead_typed"
    await house.end()
    assert house.kind_of_line() == "user"


async def test_a_prompt_into_a_running_turn_is_rejected(house: House) -> None:
    agent = await house.open()
    assert isinstance(agent, ClaudeTerminal)
    agent.is_busy = True
    with pytest.raises(AgentRefused, match="interrupt it"):
        house.kind_of_line()
    await house.end()


async def test_prompts_follow_a_person_into_another_conversation(house: House) -> None:
    agent = await house.open()
    assert isinstance(agent, ClaudeTerminal)
    agent.moved("another")
    assert json.loads(house.kind.prompt([TextBlock("hi")], MESSAGE, "another").raw)["type"] == "fairlead_typed"
    await house.end()


def resuming(house: House, **fields: Any) -> str:
    conversation = str(uuid.uuid4())
    house.launch = msgspec.structs.replace(house.launch, resume=conversation, **fields)
    return conversation


async def test_resuming_a_conversation_without_a_transcript_starts_nothing(house: House) -> None:
    resuming(house)
    await house.kind.version()  # in real time, not in that of the manual clock
    opening = asyncio.create_task(house.kind.launch(house.launch, house.sink, house.sink))
    await passing(house.clock, opening.done)
    with pytest.raises(AgentNotRunning, match="No conversation found"):
        opening.result()
    assert house.sink.story == [] and house.terminals.opened == []


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_conversation_with_a_transcript_is_resumed(house: House, tmp_path: Path, elsewhere: bool) -> None:
    file = transcript_path(tmp_path / ".claude", str(tmp_path), resuming(house))
    if elsewhere:
        file = file.parent.with_name("-another") / file.name
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    agent = await house.open()
    assert isinstance(agent, ClaudeTerminal)
    await house.end()


async def test_an_invalid_conversation_id_is_rejected(house: House) -> None:
    house.launch = msgspec.structs.replace(house.launch, resume="../the-last-one")
    with pytest.raises(BadId):
        await house.open()


@pytest.mark.parametrize(("version", "advised"), [("2.1.325", True), ("2.1.120", False)])
async def test_a_cli_that_does_not_dial_in_is_reported_with_advice_for_its_version(
    house: House, tmp_path: Path, version: str, advised: bool
) -> None:
    (tmp_path / "claude").write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
    house.launch = msgspec.structs.replace(house.launch, settings=Settings(link="dial-in"))
    await house.kind.version()
    opening = asyncio.create_task(house.kind.launch(house.launch, house.sink, house.sink))
    await passing(house.clock, opening.done)
    with pytest.raises(AgentNotRunning) as gone:
        opening.result()
    assert ("set the session's link to stdio" in gone.value.message) == advised


async def test_the_process_is_recorded_as_running_in_a_terminal(house: House) -> None:
    await house.open()
    (child,) = house.sink.all("started")
    assert (child.in_terminal, child.dials_in, child.agent_session) == (True, False, SESSION)
    assert house.sink.story[0][0] == "started"
    await house.end()


async def test_a_process_that_cannot_be_recorded_does_not_run(house: House) -> None:
    house.sink = Forgetful()
    with pytest.raises(Conflict):
        await house.open()
    assert house.terminals.names() == ()


async def test_without_terminals_the_launch_is_rejected_with_advice(house: House) -> None:
    kind = ClaudeKind(house.settings, house.clock, Tokens())
    with pytest.raises(BadRequest, match="set the session's link to stdio"):
        await kind.launch(house.launch, house.sink, house.sink)

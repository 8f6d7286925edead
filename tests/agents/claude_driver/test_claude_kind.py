"""The whole driver on real processes: a stand-in for the CLI, and small programs that misbehave."""

import asyncio
import json
import os
import resource
import signal
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.claude_driver.harness import MemorySink
from agents.claude_driver.standin_kind import StandinKind
from fairlead.agents.claude.kind import ClaudeKind
from fairlead.agents.claude.settings import ClaudeSettings
from fairlead.agents.claude.stdio.driver import ClaudeAgent
from fairlead.model.agents import AgentKind, Decision, Launch, ProcessInfo, Record
from fairlead.model.commands import Settings
from fairlead.model.content import TextBlock
from fairlead.model.errors import AgentMissing, AgentNotRunning, BadMode, BadRequest, HistoryMissing
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.policy import Behavior, Verdict
from fairlead.model.store import OutputPosition
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.system.proctable import start_mark

pytestmark = pytest.mark.process

PATIENCE = StopTimeouts(close=20, terminate=20, kill=20)


def new_session() -> SessionId:
    return SessionId(str(uuid.uuid4()))


class KindHarness:
    """A working folder with its own stand-in."""

    def __init__(self, tmp_path: Path) -> None:
        self.cwd = tmp_path / "work"
        self.cwd.mkdir()
        self.home = tmp_path / "home"
        host = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "secret"}
        settings = ClaudeSettings(host=host, home=str(self.home), patience=PATIENCE)
        self.kind = StandinKind(settings, SystemClock())
        self.sink = MemorySink()
        self.sink.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
        self.session = new_session()

    async def launch(self, **more: Any) -> ClaudeAgent:
        settings = more.pop("settings", Settings())
        launch = Launch(session=more.pop("session", self.session), cwd=str(self.cwd), settings=settings, **more)
        agent = await self.kind.launch(launch, self.sink)
        assert isinstance(agent, ClaudeAgent)
        return agent

    async def prompt(self, agent: ClaudeAgent, text: str) -> MessageId:
        message = MessageId(str(uuid.uuid4()))
        await agent.write(self.kind.prompt([TextBlock(text)], message, ""))
        return message

    async def turn(self, agent: ClaudeAgent, text: str) -> dict[str, Any]:
        start = len(self.sink.raws)
        await self.prompt(agent, text)
        return dict(json.loads(await self.result(start)))

    async def result(self, start: int = 0) -> bytes:
        return await self.sink.record_with(b'"type":"result"', start)

    @property
    def transcript(self) -> Path:
        return Path(self.child.transcript)

    @property
    def child(self) -> ProcessInfo:
        child: ProcessInfo = self.sink.all("started")[-1]
        return child


@pytest.fixture
def harness(tmp_path: Path) -> KindHarness:
    return KindHarness(tmp_path)


async def test_a_turn_from_start_to_end(harness: KindHarness) -> None:
    agent = await harness.launch()
    kind: AgentKind = harness.kind
    assert kind.name == harness.child.agent == "claude"
    assert harness.sink.story[0][0] == "started"
    assert (harness.child.pid, harness.child.session, harness.child.agent_session) == (
        agent.pid,
        harness.session,
        harness.session,
    )
    assert start_mark(agent.pid) == harness.child.started
    result = await harness.turn(agent, "SCRIPT:text hello")
    assert result["subtype"] == "success"
    assert "hello" in result["result"]
    assert harness.transcript.exists()
    assert any(b'"stream_event"' in raw for raw in harness.sink.raws)
    ended = await agent.stop("done")
    assert ended.code == 0
    await harness.sink.until(lambda: harness.sink.all("exited"))
    assert harness.sink.story[-1] == ("exited", ended)
    assert start_mark(agent.pid) == ""
    with pytest.raises(AgentNotRunning):
        await harness.prompt(agent, "late")


async def test_info_of_an_installed_cli(harness: KindHarness) -> None:
    info = await harness.kind.info()
    assert (info.name, info.path, info.problem) == ("claude", sys.executable, "")
    assert info.ways["stdio"] == "yes"
    assert info.version


async def test_the_policy_is_asked_before_the_tool_and_a_deny_holds(harness: KindHarness) -> None:
    harness.sink.verdict = Verdict(Behavior.DENY, "not in this house")
    agent = await harness.launch()
    await harness.turn(agent, "SCRIPT:bash touch made.txt")
    assert [check.tool for check in harness.sink.all("check")] == ["Bash"]
    assert not (harness.cwd / "made.txt").exists()
    assert any(b"not in this house" in raw for raw in harness.sink.raws)
    await agent.stop("done")


@pytest.mark.parametrize("decision", [Decision("allow"), Decision("deny", "no")])
async def test_a_person_decides(decision: Decision, harness: KindHarness) -> None:
    harness.sink.verdict = Verdict(Behavior.ASK, "ask")
    agent = await harness.launch()
    await harness.prompt(agent, "SCRIPT:bash touch made.txt")
    await harness.sink.until(lambda: harness.sink.all("asked"))
    assert not (harness.cwd / "made.txt").exists()
    await agent.answer(harness.sink.all("asked")[0].request, decision)
    await harness.result()
    assert (harness.cwd / "made.txt").exists() is (decision.behavior == "allow")
    await agent.stop("done")


async def test_an_interrupt_ends_the_turn_and_the_agent_goes_on(harness: KindHarness) -> None:
    agent = await harness.launch()
    await harness.prompt(agent, "SCRIPT:slow")
    await harness.sink.record_with(b"text_delta")
    await agent.interrupt()
    await harness.result()
    assert (await harness.turn(agent, "SCRIPT:text again"))["subtype"] == "success"
    await agent.stop("done")


async def test_a_crash_is_reported_once_with_its_stderr_and_the_session_resumes(harness: KindHarness) -> None:
    agent = await harness.launch()
    await harness.turn(agent, "SCRIPT:text before")
    await harness.prompt(agent, "SCRIPT:crash")
    await harness.sink.until(lambda: harness.sink.all("exited"))
    (ended,) = harness.sink.all("exited")
    assert ended.code == 1
    assert "crashed" in ended.stderr
    with pytest.raises(AgentNotRunning):
        await agent.interrupt()
    again = await harness.launch(resume=harness.session)
    result = await harness.turn(again, "SCRIPT:text after")
    assert result["session_id"] == harness.session
    forked = new_session()
    fork = await harness.launch(session=forked, resume=harness.session, fork=True)
    assert (await harness.turn(fork, "SCRIPT:text fork"))["session_id"] == forked
    await asyncio.gather(again.stop("done"), fork.stop("done"))


async def test_a_process_killed_from_outside_is_reported_with_its_signal(harness: KindHarness) -> None:
    agent = await harness.launch()
    os.kill(agent.pid, signal.SIGKILL)
    await harness.sink.until(lambda: harness.sink.all("exited"))
    assert harness.sink.all("exited")[0].signal == signal.SIGKILL


async def test_resuming_a_conversation_without_a_transcript_starts_nothing(harness: KindHarness) -> None:
    with pytest.raises(HistoryMissing, match="No conversation found"):
        await harness.launch(resume=str(uuid.uuid4()))
    assert harness.sink.story == []


async def test_a_missing_conversation_is_reported_with_the_error_of_the_agent(harness: KindHarness) -> None:
    agent = await harness.launch()
    await agent.stop("only to learn where the file is")
    elsewhere = harness.transcript.parent.parent / "-another-folder"
    elsewhere.mkdir(parents=True)
    conversation = str(uuid.uuid4())
    (elsewhere / f"{conversation}.jsonl").write_text("{}\n")
    await harness.sink.until(lambda: harness.sink.all("exited"))
    harness.sink.story.clear()
    with pytest.raises(HistoryMissing, match="No conversation found"):
        await harness.launch(resume=conversation)
    assert [kind for kind, _ in harness.sink.story if kind != "record"] == ["started", "exited"]


async def test_a_session_whose_file_cannot_be_resumed_gets_another_conversation(harness: KindHarness) -> None:
    """2.1.37, killed at its first output, leaves a file that it can neither resume nor reuse."""
    agent = await harness.launch()
    await agent.stop("only to learn where the file is")
    left = harness.transcript
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_text('{"type":"queue-operation","operation":"enqueue"}\n')
    again = await harness.launch()
    assert harness.child.agent_session != harness.session
    assert (await harness.turn(again, "SCRIPT:text x"))["session_id"] == harness.child.agent_session
    await again.stop("done")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"settings": Settings(mode="nonsense")}, BadMode),
        ({"settings": Settings(model="--version")}, BadRequest),
        ({"resume": "../../etc"}, BadRequest),
    ],
)
async def test_a_bad_setting_starts_nothing(more: dict[str, Any], error: type[Exception], harness: KindHarness) -> None:
    with pytest.raises(error):
        await harness.launch(**more)
    assert harness.sink.story == []


async def test_a_missing_folder_is_named_in_the_error(harness: KindHarness) -> None:
    harness.cwd.rmdir()
    with pytest.raises(BadRequest, match="work"):
        await harness.launch()


async def test_a_process_that_cannot_be_recorded_is_ended_without_events(harness: KindHarness) -> None:
    seen: list[ProcessInfo] = []

    async def refuse(child: ProcessInfo) -> None:
        seen.append(child)
        raise OSError("disk full")

    harness.sink.started = refuse  # type: ignore[method-assign]  # the store's side fails
    with pytest.raises(OSError, match="disk full"):
        await harness.launch()
    assert start_mark(seen[0].pid) == ""
    assert harness.sink.story == []


async def test_a_process_that_outlived_its_gateway_is_followed_to_its_end(harness: KindHarness) -> None:
    """The gateway is gone (its pipes close); the agent finishes its turn and writes it to the transcript."""
    agent = await harness.launch()
    await harness.turn(agent, "SCRIPT:text before")
    message = await harness.prompt(agent, "SCRIPT:slowtool 1")
    await harness.sink.until(lambda: len(harness.sink.all("check")) == 1)
    later = MemorySink()
    following = asyncio.create_task(harness.kind.follow(harness.child, later, message))
    await asyncio.gather(agent.stop("as a dying gateway would"), asyncio.wait_for(following, 300))
    rows = [json.loads(raw) for raw in later.raws]
    assert not any("before" in json.dumps(row) for row in rows)
    answers = [row for row in rows if row["type"] == "assistant"]
    assert "Done" in json.dumps(answers[-1])
    assert later.story[-1][0] == "exited"


async def test_a_process_that_outlived_its_gateway_can_be_ended(harness: KindHarness) -> None:
    agent = await harness.launch()
    await harness.kind.end(harness.child)
    await harness.sink.until(lambda: harness.sink.all("exited"))
    assert start_mark(agent.pid) == ""


async def test_a_forgotten_session_leaves_no_file(harness: KindHarness) -> None:
    agent = await harness.launch()
    await harness.turn(agent, "SCRIPT:text x")
    await agent.stop("done")
    subagents = harness.transcript.with_suffix("") / "subagents"
    subagents.mkdir(parents=True)
    neighbour = harness.transcript.with_name("other.jsonl")
    neighbour.touch()
    for bad in ("..", "", "*"):
        await harness.kind.forget(bad, str(harness.cwd))
    assert harness.transcript.exists()
    elsewhere = harness.transcript.parent.with_name("elsewhere")
    elsewhere.mkdir()
    moved = harness.transcript.rename(elsewhere / harness.transcript.name)
    await harness.kind.forget(harness.session, str(harness.cwd))
    assert not moved.exists()
    harness.transcript.write_text("again")
    await harness.kind.forget(harness.session, str(harness.cwd))
    assert not harness.transcript.exists()
    assert not subagents.exists()
    assert neighbour.exists()


def test_the_kind_encodes_prompts_and_interrupts() -> None:
    kind = ClaudeKind(ClaudeSettings(host={}), SystemClock())
    session = new_session()
    assert kind.name == "claude"
    assert kind.interpreter(session).turn is None
    marker = kind.interrupt_record("why")
    assert marker.origin == "gateway"
    assert json.loads(marker.raw)["cause"] == "why"
    prompt = kind.prompt([TextBlock("hi")], MessageId(session), "their-id")
    assert json.loads(prompt.raw) == {
        "type": "user",
        "message": {"role": "user", "content": "hi"},
        "parent_tool_use_id": None,
        "session_id": "their-id",
        "uuid": session,
    }


async def test_a_missing_cli_is_reported_before_anything_starts(tmp_path: Path) -> None:
    kind = ClaudeKind(ClaudeSettings(host={"PATH": str(tmp_path)}), SystemClock())
    sink = MemorySink()
    with pytest.raises(AgentMissing):
        await kind.launch(Launch(session=new_session(), cwd="/", settings=Settings()), sink)
    assert sink.story == []


# --- agents that misbehave ----------------------------------------------------------------------------------

FLOOD = """#!{python} -I
import json, os, sys
if "--version" in sys.argv:
    print("2.1.325 (flood)")
    raise SystemExit
request = json.loads(sys.stdin.readline())
answer = {{"subtype": "success", "request_id": request["request_id"], "response": {{}}}}
print(json.dumps({{"type": "control_response", "response": answer}}), flush=True)
sys.stdin.readline()
line = json.dumps({{"type": "flood", "fill": "x" * 10_000}}) + "\\n"
for number in range({count}):
    sys.stdout.write(line)
sys.stdout.flush()
"""


class SlowSink(MemorySink):
    """A slow sink that counts records instead of storing them."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.largest = 0

    async def records(self, batch: Sequence[Record], position: OutputPosition | None = None) -> None:
        size = sum(len(record.raw) for record in batch)
        self.bytes += size
        self.largest = max(self.largest, size)
        for _ in range(3):
            await asyncio.sleep(0)


async def test_an_agent_that_floods_the_gateway_is_slowed_not_buffered(tmp_path: Path) -> None:
    """100 MB of records through a slow sink: our peak memory hardly grows."""
    program = tmp_path / "claude"
    program.write_text(FLOOD.format(python=sys.executable, count=10_000))
    program.chmod(0o755)
    host = {"PATH": os.environ["PATH"]}
    kind = ClaudeKind(ClaudeSettings(host=host, executable=str(program), home=str(tmp_path)), SystemClock())
    sink = SlowSink()
    agent = await kind.launch(Launch(session=new_session(), cwd="/", settings=Settings()), sink)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await agent.write(kind.prompt([TextBlock("go")], MessageId(str(uuid.uuid4())), ""))
    await sink.until(lambda: sink.all("exited"))
    assert sink.bytes > 100_000_000
    assert sink.largest < 1_000_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 30 * 1024, f"{grown} KiB more at the peak"

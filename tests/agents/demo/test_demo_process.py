"""The demo agent as a real process: every script to its end, requests, interrupts, resume, death."""

import uuid
from pathlib import Path

import pytest

from agents.demo.demo_harness import DemoHarness, demo
from fairlead.agents.demo.wire import DemoMessage, encode
from fairlead.agents.scripts import catalogue
from fairlead.model import events as ev
from fairlead.model.agents import Decision
from fairlead.model.commands import Settings
from fairlead.model.content import TextBlock
from fairlead.model.errors import HistoryMissing
from fairlead.model.ids import MessageId
from fairlead.model.policy import Behavior, Verdict

pytestmark = pytest.mark.process

FINISHING = {
    "text hi": "Hello from the scripted model. hi",
    "echo": "I see 1 messages",
    "long 30": "word29",
    "think": "I thought about it.",
    "tool": "Done. The tool said: hi",
    "bash echo out": "said: out",
    "write made.txt": "created successfully",
    "read here.txt": "hello",
    "edit here.txt": "updated successfully",
    "parallel": "no output",
    "twice": "no output",
    "subagent tool": "Done. The tool said: hi",
    "background text": "works in the background",
    "question": "Blue",
    "plan": "approved the plan",
    "slow 2": "tick tick",
    "slowtool 0": "said: 1",
    "bgbash echo hi": "running in background",
    "mcp mcp__missing__add": "There is no tool",
    "todo": "todos have been changed",
    "glob *.txt": "here.txt",
    "error_once": "second attempt",
    "cut": "second attempt",
    "unknown": "unknown types",
    "burst 1000": "word word",
    "structured": '{"x": 1}',
}


@pytest.mark.parametrize("script", FINISHING)
async def test_a_script_runs_to_its_end(script: str, tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        (harness.cwd / "here.txt").write_text("hello\nworld\n")
        ended = await harness.turn(f"SCRIPT:{script}")
        assert ended.status == "completed"
        assert FINISHING[script] in ended.text
        called, closed = harness.all(ev.ToolCalled), harness.all(ev.ToolEnded)
        assert sorted(event.call for event in called) == sorted(event.call for event in closed)


def test_no_script_is_left_untested() -> None:
    elsewhere = {"loop", "error", "crash"}
    assert {name for name, _, _ in catalogue()} == {script.split()[0] for script in FINISHING} | elsewhere


async def test_a_prompt_without_a_marker_gets_the_tour_and_deltas_join_to_the_text(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        ended = await harness.turn("hello")
        assert "SCRIPT:question" in ended.text
        (text,) = harness.all(ev.Text)
        deltas = harness.all(ev.TextDelta)
        assert len(text.marks) == len(deltas) > 10
        assert "".join(delta.text for delta in deltas) == text.text == ended.text


async def test_a_denied_call_does_not_run_and_the_model_gets_the_reason(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        harness.sink.verdict = Verdict(Behavior.DENY, "not today", by="rule")
        assert "not today" in (await harness.turn("SCRIPT:write a.txt")).text
        harness.sink.verdict = Verdict(Behavior.ASK, "ask")
        harness.sink.decision = Decision("deny", message="no way")
        assert "no way" in (await harness.turn("SCRIPT:write a.txt")).text
        harness.sink.decision = Decision("deny", interrupt=True)
        assert (await harness.turn("SCRIPT:write a.txt")).status == "cancelled"
        assert not (harness.cwd / "a.txt").exists()


async def test_a_call_that_the_policy_failed_to_check_does_not_run(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        harness.sink.verdict = RuntimeError("broken")
        assert "could not be asked" in (await harness.turn("SCRIPT:write a.txt")).text
        assert not (harness.cwd / "a.txt").exists()


async def test_a_changed_input_is_what_runs(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        harness.sink.verdict = Verdict(Behavior.ASK, "ask")
        harness.sink.decision = Decision("allow", updated_input={"command": "echo changed"})
        assert "changed" in (await harness.turn("SCRIPT:bash echo original")).text


async def test_an_interrupt_ends_a_text_a_command_and_a_request(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        assert harness.agent is not None
        await harness.send("SCRIPT:slow 1000")
        await harness.until(ev.TextDelta, 2)
        await harness.agent.interrupt()
        assert (await harness.ended(1)).status == "cancelled"
        assert harness.all(ev.Text)[-1].text.startswith("tick "), "the text so far is kept"
        await harness.send("SCRIPT:slowtool 300")
        await harness.until(ev.ToolProgress)
        await harness.agent.interrupt()
        assert (await harness.ended(2)).status == "cancelled"
        harness.sink.verdict, harness.sink.decision = Verdict(Behavior.ASK, "ask"), None
        await harness.send("SCRIPT:question")
        asked = await harness.until(ev.QuestionAsked)
        await harness.agent.interrupt()
        assert (await harness.ended(3)).status == "cancelled"
        await harness.sink.until(lambda: harness.sink.all("cancelled") == [asked.request])


async def test_an_interrupt_that_arrives_together_with_its_prompt_ends_the_turn(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        assert harness.agent is not None
        record = harness.kind.prompt([TextBlock("SCRIPT:slow 1000")], MessageId(str(uuid.uuid4())), harness.session)
        harness.sink.take(record)
        await harness.agent._link.send(record.raw + b"\n" + encode(DemoMessage("interrupt")) + b"\n")
        assert (await harness.ended(1)).status == "cancelled"
        assert (await harness.turn("SCRIPT:text again")).status == "completed"
        await harness.agent.interrupt()
        assert (await harness.turn("SCRIPT:text idle")).status == "completed", "an interrupt without a turn is none"


async def test_a_message_in_a_running_turn_joins_it(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        await harness.send(f"SCRIPT:bash until [ -e {harness.cwd}/go ]; do sleep 0.05; done")
        await harness.until(ev.ToolCalled)
        await harness.send("SCRIPT:text joined")
        assert harness.all(ev.UserMessage)[-1].via == "steer"
        (harness.cwd / "go").touch()
        assert (await harness.ended()).text.endswith("joined")
        assert len(harness.all(ev.TurnStarted)) == 1


async def test_background_work_reports_back_in_a_turn_of_the_agent(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        await harness.send("SCRIPT:background tool")
        first, second = await harness.ended(1), await harness.ended(2)
        assert "A background task ended" in second.text
        assert first.turn != second.turn
        assert [event.trigger for event in harness.all(ev.TurnStarted)] == ["prompt", "agent"]
        (started,), (ended,) = harness.all(ev.SubagentStarted), harness.all(ev.SubagentEnded)
        assert (started.child, started.background, ended.status) == (ended.child, True, "completed")
        assert all(event.turn for event in harness.all(ev.Text))
        assert harness.sink.interpreter.background_work == ()


@pytest.mark.parametrize(("script", "reason"), [("error 400", "unknown"), ("error 429", "rate_limit")])
async def test_an_error_of_the_api_fails_the_turn(script: str, reason: str, tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        ended = await harness.turn(f"SCRIPT:{script}")
        assert (ended.status, ended.reason) == ("failed", reason)


async def test_limits_of_the_settings_end_a_turn(tmp_path: Path) -> None:
    async with demo(tmp_path, settings=Settings(max_turns=2)) as harness:
        ended = await harness.turn("SCRIPT:loop")
        assert (ended.status, ended.reason, len(harness.all(ev.ToolEnded))) == ("failed", "error_max_turns", 2)


async def test_a_crash_ends_the_open_turn(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        await harness.send("SCRIPT:crash")
        await harness.sink.until(lambda: harness.sink.all("exited"))
        (exited,) = harness.sink.all("exited")
        assert (exited.code, "crashed" in exited.stderr) == (1, True)
        events = harness.sink.interpreter.exited("it crashed", "x").events
        assert [event.status for event in events if isinstance(event, ev.TurnEnded)] == ["failed"]


async def test_files_are_rewound_to_a_prompt(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        assert harness.agent is not None
        first = await harness.send("SCRIPT:write a.txt")
        await harness.ended()
        path = harness.cwd / "a.txt"
        assert (await harness.agent.rewind(first, dry_run=True))["filesChanged"] == [str(path)]
        assert path.exists()
        await harness.agent.rewind(first, dry_run=False)
        assert not path.exists()


async def test_a_resume_and_a_fork_have_the_history(tmp_path: Path) -> None:
    async with demo(tmp_path) as harness:
        await harness.turn("SCRIPT:text one")
        last = harness.all(ev.Text)[-1].id.split("/", 1)[0]
        await harness.turn("SCRIPT:text two")
    for more, seen in (({}, 3), ({"resume_at": last}, 2)):
        again = DemoHarness(tmp_path)
        agent = await again.start(session=again.session, resume=harness.session, fork=True, **more)
        assert (await again.turn("SCRIPT:echo")).text == f"I see {seen} messages."
        await agent.stop("done")
    again = DemoHarness(tmp_path)
    again.session = harness.session
    agent = await again.start(resume=harness.session)
    assert (await again.turn("SCRIPT:echo")).text == "I see 3 messages."
    await agent.stop("done")


async def test_a_conversation_that_does_not_exist_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(HistoryMissing, match="no conversation"):
        await DemoHarness(tmp_path).start(resume="0b7e5a3c-0000-4000-8000-000000000000")

"""The driver of Claude Code in a terminal, with a fake terminal and a manual clock."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agents.claude_driver.fake_tui import FakeTerminals, FakeTui, passing
from agents.claude_driver.harness import MemorySink
from fairlead.agents.claude.launch import PreparedLaunch
from fairlead.agents.claude.tui.driver import ClaudeTerminal
from fairlead.agents.claude.tui.hook_server import HookServer
from fairlead.agents.claude.tui.launcher import open_terminal
from fairlead.agents.claude.versions import Version
from fairlead.agents.claude.wire.markers import TypedPrompt, encode_marker
from fairlead.model.agents import Decision, Exit, Launch, Record
from fairlead.model.commands import Settings
from fairlead.model.errors import AgentNotRunning, AgentRefused, BadRequest, Conflict, HistoryMissing
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.policy import Behavior, Verdict
from fairlead_testing.clock import ManualClock

SESSION = SessionId("6a1f0b6e-5f5c-4c55-9a44-000000000001")
OTHER = "6a1f0b6e-5f5c-4c55-9a44-000000000002"
MESSAGE = "aaaaaaaa-0000-4000-8000-000000000001"
NEW: Version = (2, 1, 325)


class Tokens:
    def issue(self, session: SessionId) -> str:
        return f"token-{session}"

    def revoke(self, session: SessionId) -> None:
        pass


class TerminalHarness:
    """One agent in a terminal, with its fake dependencies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.sink = MemorySink()
        self.hook_server = HookServer(Tokens(), "http://127.0.0.1:1", self.clock)
        self.transcript = folder / "projects" / "-w" / f"{SESSION}.jsonl"
        self.terminals = FakeTerminals(lambda program: FakeTui(self.transcript))
        self.agents: list[ClaudeTerminal] = []

    @property
    def tui(self) -> FakeTui:
        return self.terminals.opened[-1][2]

    @property
    def argv(self) -> list[str]:
        return list(self.terminals.opened[-1][1].argv)

    async def open(self, version: Version = NEW, **launch: Any) -> ClaudeTerminal:
        prepared = PreparedLaunch(
            launch=Launch(session=SESSION, cwd="/w", settings=Settings(link="terminal"), **launch),
            version=version,
            command=("claude",),
            env={"PATH": "/bin", "HOME": str(self.folder)},
            cwd="/w",
            agent_session=SESSION,
            transcript=self.transcript,
            spill=None,
        )
        agent = await open_terminal(prepared, self.terminals, self.hook_server, self.sink, self.clock)
        starting = asyncio.create_task(agent.start())
        self.starting = starting
        await passing(self.clock, lambda: starting.done() or self.tui.up or self.clock.monotonic() > 0)
        if not self.tui.up:
            self.tui.draw(up=True)
        await passing(self.clock, starting.done)
        starting.result()
        self.agents.append(agent)
        return agent

    async def so(self, reached: Any) -> None:
        await passing(self.clock, reached)

    def marks(self, what: str) -> list[dict[str, Any]]:
        given = [json.loads(raw) for raw in self.sink.raws if b"fairlead_screen" in raw]
        return [mark for mark in given if mark["what"] == what]

    def rows(self) -> list[bytes]:
        return [record.raw for record in self.sink.all("record") if record.origin == "transcript"]

    async def hook(self, event: str, **given: Any) -> dict[str, Any]:
        facts = {"session_id": SESSION, "transcript_path": str(self.transcript), "cwd": "/w", **given}
        endpoint = self.hook_server._endpoints[SESSION]
        answer: dict[str, Any] = json.loads(await endpoint.answer_hook(event, f"{event} {len(self.sink.story)}", facts))
        return answer


def prompt(text: str = "hello", message: str = MESSAGE) -> Record:
    return Record(encode_marker(TypedPrompt(uuid=message, content=text)), "gateway")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[TerminalHarness]:
    made = TerminalHarness(tmp_path)
    yield made
    for _, _, tui in made.terminals.opened:
        tui.end(Exit(code=0))
    for agent in made.agents:
        assert agent._life is not None
        await passing(made.clock, agent._life.done)


# --- starting


@pytest.mark.rules("S003-105")
async def test_the_cli_is_started_with_hooks_environment_and_size(harness: TerminalHarness) -> None:
    await harness.open()
    name, program, _ = harness.terminals.opened[0]
    assert name == f"session/{SESSION}"
    assert (program.size.columns, program.size.rows) == (120, 40)
    assert program.env["FAIRLEAD_HOOK_TOKEN"] == f"token-{SESSION}" and program.env["TERM"] == "xterm-256color"
    assert program.env["LC_ALL"] == "C.UTF-8"
    assert "--permission-mode=default" in harness.argv and f"--session-id={SESSION}" in harness.argv
    assert not any(f"token-{SESSION}" in word for word in harness.argv)
    hooks = json.loads(next(word for word in harness.argv if word.startswith("--settings=")).partition("=")[2])["hooks"]
    assert set(hooks) == {"PreToolUse", "Stop", "SessionStart"}
    (ready,) = harness.marks("ready")
    assert (ready["agent_session"], ready["version"], ready["mode"]) == (SESSION, "2.1.325", "default")


async def test_an_exit_before_the_prompt_box_reports_the_reason(harness: TerminalHarness) -> None:
    starting = asyncio.create_task(harness.open())
    await passing(harness.clock, lambda: harness.terminals.opened)
    harness.tui.draw(up=True, dialog=("No conversation found with session ID: x",))
    harness.tui.end(Exit(code=1))
    with pytest.raises(HistoryMissing, match="No conversation found"):
        await starting
    assert harness.sink.all("exited") == [Exit(code=1, stderr=harness.sink.all("exited")[0].stderr)]
    assert "No conversation found" in harness.sink.all("exited")[0].stderr


async def test_a_dialog_at_the_start_is_reported_once_and_no_key_is_pressed(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.draw(dialog=(" Do you trust the files in this folder?",))
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(lambda: harness.marks("shows"))
    await harness.clock.advance(120)
    assert len(harness.marks("shows")) == 1 and harness.tui.writes == []
    (shown,) = harness.marks("shows")
    assert shown["kind"] == "dialog" and "trust this folder" in shown["text"]
    assert " Do you trust the files in this folder?" in shown["lines"]
    harness.tui.draw(dialog=())
    await harness.so(writing.done)
    assert harness.tui.submitted == ["hello"]


async def test_2_1_120_resumes_a_conversation_by_its_command(harness: TerminalHarness) -> None:
    harness.transcript.parent.mkdir(parents=True)
    harness.transcript.write_text('{"type":"user","uuid":"old","message":{"role":"user","content":"old"}}\n')
    opening = asyncio.create_task(harness.open((2, 1, 120), resume=SESSION))
    await harness.so(lambda: harness.terminals.opened and harness.tui.submitted)
    assert harness.tui.submitted == [f"/resume {SESSION}"] and not any("--resume" in word for word in harness.argv)
    assert not opening.done()
    await harness.hook("session-start", source="resume")
    await harness.so(opening.done)
    await harness.clock.advance(5)
    assert not any(b'"old"' in row for row in harness.rows()), "what was there before is known"


# --- typing


async def test_a_prompt_is_typed_then_entered_and_its_row_is_delivered(harness: TerminalHarness) -> None:
    agent = await harness.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    assert harness.tui.writes == [b"h", b"e", b"l", b"l", b"o", b"\r"]
    await harness.so(lambda: any(b'"hello"' in row for row in harness.rows()))


async def test_several_lines_are_pasted(harness: TerminalHarness) -> None:
    agent = await harness.open()
    writing = asyncio.create_task(agent.write(prompt("one\ntwo")))
    await harness.so(writing.done)
    assert harness.tui.writes == [b"\x1b[200~one\ntwo\x1b[201~", b"\r"]


async def test_an_ignored_enter_is_pressed_again(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.deaf = 2
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    assert harness.tui.submitted == ["hello"] and harness.tui.writes.count(b"\r") == 3
    assert harness.marks("untyped") == []


async def test_a_prompt_that_is_never_accepted_is_removed_and_reported(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.deaf = 100
    writing = asyncio.create_task(agent.write(prompt("one\ntwo")))
    await harness.so(writing.done)
    (failed,) = harness.marks("untyped")
    assert failed["message"] == MESSAGE and "did not accept" in failed["text"]
    assert harness.tui.box == "" and harness.tui.writes.count(b"\r") == 3
    assert not agent.is_busy


async def test_a_prompt_that_is_accepted_but_never_written_is_reported(harness: TerminalHarness) -> None:
    """For example when one of the user's own hooks rejected the prompt."""
    agent = await harness.open()
    harness.tui.silent = True
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    assert harness.tui.submitted == ["hello"] and harness.tui.writes.count(b"\r") == 1
    assert "did not store the text" in harness.marks("untyped")[0]["text"]


async def test_a_prompt_queued_by_the_cli_is_waited_for_while_it_works(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.silent = True
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(lambda: harness.tui.submitted)
    harness.tui.draw(working=True)
    await harness.clock.advance(300)
    assert not writing.done()
    harness.tui.row("user", "hello")
    await harness.so(writing.done)
    assert harness.marks("untyped") == []


async def test_enter_waits_for_work_that_started_meanwhile(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.blind = True
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(lambda: harness.tui.box == "hello")
    harness.tui.draw(blind=False, working=True)
    await harness.clock.advance(60)
    assert b"\r" not in harness.tui.writes
    harness.tui.draw(working=False)
    await harness.so(writing.done)
    assert harness.tui.submitted == ["hello"]


async def test_a_prompt_overwritten_before_enter_is_typed_again(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.draw(blind=True)
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(lambda: harness.tui.box == "hello")
    harness.tui.draw(working=True, blind=False)
    await harness.clock.advance(1)
    harness.tui.draw(working=False, box="")
    await harness.so(writing.done)
    assert harness.tui.submitted == ["hello"] and harness.tui.writes.count(b"h") == 2
    assert harness.marks("untyped") == []


async def test_an_interrupt_after_enter_presses_esc(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.silent = True
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(lambda: harness.tui.submitted)
    harness.tui.draw(working=True)
    await harness.clock.advance(1)
    harness.tui.on_escape = lambda: harness.tui.draw(working=False)
    await agent.interrupt()
    await harness.so(lambda: b"\x1b" in harness.tui.writes)
    await harness.so(writing.done)
    assert len(harness.marks("untyped")) == 1


async def test_a_screen_that_does_not_show_the_prompt_gets_no_enter(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.blind = True
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    assert b"\r" not in harness.tui.writes
    assert "did not show" in harness.marks("untyped")[0]["text"]


async def test_text_of_a_person_is_never_typed_over(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.draw(box="half a thought")
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(lambda: harness.marks("shows"))
    assert harness.marks("shows")[0]["kind"] == "occupied"
    await harness.clock.advance(300)
    assert harness.tui.writes == [] and not writing.done()
    harness.tui.draw(box="")
    await harness.so(writing.done)
    assert harness.tui.submitted == ["hello"]


async def test_nothing_is_typed_while_the_cli_works(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.draw(working=True)
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.clock.advance(60)
    assert harness.tui.writes == []
    harness.tui.draw(working=False)
    await harness.so(writing.done)
    assert harness.tui.submitted == ["hello"]


async def test_an_interrupt_before_typing_withdraws_the_prompt(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.draw(box="mine")
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.clock.advance(1)
    await agent.interrupt()
    await harness.so(writing.done)
    assert "interrupted before" in harness.marks("untyped")[0]["text"]
    assert harness.tui.writes == [] and harness.tui.box == "mine"


@pytest.mark.parametrize("raw", [b'{"type":"user"}', b'{"type":"fairlead_screen"}', b"{"])
async def test_only_prompts_are_typed(harness: TerminalHarness, raw: bytes) -> None:
    agent = await harness.open()
    with pytest.raises(BadRequest):
        await agent.write(Record(raw, "gateway"))


async def test_images_are_not_typed(harness: TerminalHarness) -> None:
    agent = await harness.open()
    image = {"type": "image", "source": {}}
    await agent.write(
        Record(encode_marker(TypedPrompt(uuid=MESSAGE, content=[{"type": "text", "text": "see"}, image])), "gateway")
    )
    assert harness.tui.writes == [] and not agent.is_busy


# --- the end of a turn


async def test_the_stop_hook_delivers_the_rows_before_the_end(harness: TerminalHarness) -> None:
    agent = await harness.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    harness.tui.draw(working=True)
    harness.tui.answer()
    assert await harness.hook("stop") == {}
    order = [kind for kind in harness.sink.raws if b'"done"' in kind or b'"stopped"' in kind]
    assert b'"done"' in order[0] and b'"stopped"' in order[1]


async def test_a_cli_back_at_its_prompt_is_idle_and_later_marked_left(harness: TerminalHarness) -> None:
    agent = await harness.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    harness.tui.draw(working=True)
    seen = len(harness.marks("idle"))
    await harness.clock.advance(60)
    assert len(harness.marks("idle")) == seen, "not while it works"
    harness.tui.draw(working=False)
    await harness.so(lambda: len(harness.marks("idle")) > seen)
    assert not agent.is_busy
    await harness.so(lambda: harness.marks("left"))


async def test_a_dialog_in_a_turn_is_reported_and_does_not_end_it(harness: TerminalHarness) -> None:
    agent = await harness.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    harness.tui.draw(working=True)
    await harness.clock.advance(1)
    seen = len(harness.marks("idle"))
    harness.tui.draw(dialog=(" Which colour?",))
    await harness.so(lambda: harness.marks("shows"))
    await harness.clock.advance(60)
    assert len(harness.marks("idle")) == seen and len(harness.marks("shows")) == 1


async def test_an_interrupt_presses_esc_until_the_work_stops(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.draw(working=True)
    await harness.clock.advance(1)
    pressed: list[int] = []

    def escape() -> None:
        pressed.append(1)
        harness.tui.working = len(pressed) < 2

    harness.tui.on_escape = escape
    await agent.interrupt()
    await harness.so(lambda: not harness.tui.working)
    await harness.clock.advance(60)
    assert harness.tui.writes == [b"\x1b", b"\x1b"]


async def test_an_early_interrupt_waits_until_the_screen_shows_the_work(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.silent = True
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(lambda: harness.tui.submitted)
    await agent.interrupt()
    await harness.clock.advance(0.5)
    assert b"\x1b" not in harness.tui.writes
    harness.tui.on_escape = lambda: harness.tui.draw(working=False)
    harness.tui.draw(working=True)
    await harness.so(lambda: b"\x1b" in harness.tui.writes)
    harness.tui.row("user", "hello")
    await harness.so(writing.done)


async def test_an_interrupt_affects_only_its_own_turn(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.draw(working=True)
    await harness.clock.advance(1)
    harness.tui.on_escape = lambda: harness.tui.draw(working=False)
    await agent.interrupt()
    await harness.so(lambda: not harness.tui.working)
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    harness.tui.draw(working=True)
    await harness.clock.advance(60)
    assert harness.tui.writes.count(b"\x1b") == 1 and harness.tui.working


async def test_esc_is_never_pressed_at_the_prompt(harness: TerminalHarness) -> None:
    """Pressed twice there, it opens a menu."""
    agent = await harness.open()
    await harness.clock.advance(1)
    await agent.interrupt()
    await harness.clock.advance(60)
    assert harness.tui.writes == []


@pytest.mark.parametrize(("back", "left"), [("hello", ""), ("mine", "mine")])
async def test_our_prompt_restored_by_an_interrupt_is_removed_but_text_of_a_person_is_not(
    harness: TerminalHarness, back: str, left: str
) -> None:
    agent = await harness.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.so(writing.done)
    harness.tui.draw(working=True)
    await harness.clock.advance(1)
    harness.tui.on_escape = lambda: harness.tui.draw(working=False, box=back)
    await agent.interrupt()
    await harness.so(lambda: not harness.tui.working)
    await harness.clock.advance(60)
    assert harness.tui.box == left


# --- hooks


async def test_the_row_of_a_call_is_delivered_before_its_permission_request(harness: TerminalHarness) -> None:
    agent = await harness.open()
    asking = asyncio.create_task(
        harness.hook("pre-tool-use", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="toolu_1")
    )
    await harness.clock.advance(0.2)
    assert harness.sink.all("asked") == []
    harness.tui.row("assistant", [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}])
    await harness.so(lambda: harness.sink.all("asked"))
    stories = [raw for raw in harness.sink.raws if b"toolu_1" in raw]
    assert b"tool_use" in stories[0] and b"control_request" in stories[1]
    (ask,) = harness.sink.all("asked")
    await agent.answer(ask.request, Decision("deny", "no"))
    await harness.so(asking.done)
    assert asking.result()["hookSpecificOutput"]["permissionDecision"] == "deny"


async def test_a_missing_row_does_not_block_the_hook(harness: TerminalHarness) -> None:
    await harness.open()
    harness.sink.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
    asking = asyncio.create_task(harness.hook("pre-tool-use", tool_name="Read", tool_input={}, tool_use_id="toolu_9"))
    await harness.so(asking.done)
    assert asking.result()["hookSpecificOutput"]["permissionDecision"] == "allow"


@pytest.mark.parametrize(("behavior", "answer"), [(Behavior.ASK, None), (Behavior.DENY, "deny")])
async def test_2_1_37_asks_questions_on_its_own_screen(
    harness: TerminalHarness, behavior: Behavior, answer: str | None
) -> None:
    await harness.open((2, 1, 37))
    harness.sink.verdict = Verdict(behavior, "because")
    given = {"tool_name": "AskUserQuestion", "tool_input": {"questions": []}, "tool_use_id": "toolu_1"}
    asking = asyncio.create_task(harness.hook("pre-tool-use", **given))
    await harness.so(asking.done)
    assert asking.result().get("hookSpecificOutput", {}).get("permissionDecision") == answer
    assert harness.sink.all("asked") == []


async def test_another_conversation_is_followed(harness: TerminalHarness) -> None:
    """A person cleared the conversation: the next rows are in another file."""
    agent = await harness.open()
    moved: list[str] = []
    agent.moved = moved.append
    other = harness.transcript.with_name(f"{OTHER}.jsonl")
    await harness.hook("session-start", source="clear", session_id=OTHER, transcript_path=str(other))
    harness.tui.transcript = other
    harness.tui.row("user", "in the other")
    await harness.so(lambda: any(b"in the other" in row for row in harness.rows()))
    assert moved == [OTHER] and harness.marks("ready")[-1]["agent_session"] == OTHER


@pytest.mark.parametrize("path", ["/etc/passwd", "/tmp/elsewhere/{other}.jsonl", "{folder}/x.jsonl"])
async def test_no_other_file_is_followed(harness: TerminalHarness, path: str) -> None:
    agent = await harness.open()
    moved: list[str] = []
    agent.moved = moved.append
    other_path = path.format(other=OTHER, folder=harness.transcript.parent)
    await harness.hook("stop", session_id=OTHER, transcript_path=other_path)
    assert moved == []


# --- the end


async def test_the_exit_is_delivered_after_the_last_row(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.answer("last words")
    harness.tui.end(Exit(code=0))
    assert agent._life is not None
    await harness.so(agent._life.done)
    assert b"last words" in harness.rows()[-1]
    assert harness.sink.story[-1] == ("exited", Exit(code=0))
    with pytest.raises(AgentNotRunning):
        await agent.interrupt()
    assert harness.terminals.names() == ()


async def test_stopping_denies_pending_requests(harness: TerminalHarness) -> None:
    agent = await harness.open()
    asking = asyncio.create_task(harness.hook("pre-tool-use", tool_name="Bash", tool_input={}, tool_use_id="toolu_1"))
    await harness.so(lambda: harness.sink.all("asked"))
    ended = await agent.stop("closed")
    assert ended == Exit(signal=1)
    await harness.so(asking.done)
    assert asking.result()["hookSpecificOutput"]["permissionDecision"] == "deny"
    await harness.so(lambda: harness.sink.all("exited"))


async def test_an_exit_ends_a_waiting_prompt(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.draw(box="mine")
    writing = asyncio.create_task(agent.write(prompt()))
    await harness.clock.advance(1)
    harness.tui.end(Exit(code=0))
    await harness.so(writing.done)
    await harness.so(lambda: harness.sink.all("exited"))
    assert harness.tui.writes == []


async def test_unsupported_commands_are_rejected(harness: TerminalHarness) -> None:
    agent = await harness.open()
    for call in (
        agent.control("mcp_status", {}),
        agent.set_mode("plan"),
        agent.set_model("x"),
        agent.set_thinking(1),
        agent.set_variables({"A": "b"}),
    ):
        with pytest.raises(AgentRefused):
            await call
    assert agent.needs_restart(Settings(), Settings(mode="plan")) and not agent.needs_restart(Settings(), Settings())
    assert agent.version == "2.1.325" and "plan" in agent.modes


async def test_an_answer_after_the_exit_is_rejected(harness: TerminalHarness) -> None:
    agent = await harness.open()
    harness.tui.end(Exit(code=0))
    await harness.so(lambda: harness.sink.all("exited"))
    with pytest.raises(AgentNotRunning, match="cannot receive the answer"):
        await agent.answer(RequestId("r1"), Decision("deny"))


async def test_a_message_of_only_control_keys_is_not_typed_but_reported(harness: TerminalHarness) -> None:
    agent = await harness.open()
    writing = asyncio.create_task(agent.write(prompt("\x1b\x07")))
    await harness.so(lambda: harness.marks("untyped"))
    await harness.so(writing.done)
    assert harness.rows() == []


async def test_a_screen_that_never_comes_up_does_not_fail_the_start(harness: TerminalHarness) -> None:
    starting = asyncio.create_task(harness.open())
    await passing(harness.clock, lambda: harness.terminals.opened)
    harness.tui.draw(up=False)
    harness.tui.up = False
    await harness.so(lambda: starting.done())
    assert isinstance(starting.result(), ClaudeTerminal)


async def test_a_store_that_fails_ends_the_agent(harness: TerminalHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await harness.open()

    async def failing(batch: Any) -> None:
        raise Conflict(7)

    monkeypatch.setattr(harness.sink, "records", failing)
    harness.transcript.parent.mkdir(parents=True, exist_ok=True)
    row = {"type": "user", "uuid": "u1", "sessionId": SESSION, "message": {"role": "user", "content": "hi"}}
    harness.transcript.write_text(json.dumps(row) + "\n")
    await harness.so(lambda: not harness.tui.running)
    await harness.so(lambda: harness.sink.all("exited"))

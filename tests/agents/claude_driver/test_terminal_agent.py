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
from fairlead.model.errors import AgentNotRunning, AgentRefused, BadRequest, Conflict
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


class House:
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
        post = self.hook_server._endpoints[SESSION]
        answer: dict[str, Any] = json.loads(await post.answer_hook(event, f"{event} {len(self.sink.story)}", facts))
        return answer


def prompt(text: str = "hello", message: str = MESSAGE) -> Record:
    return Record(encode_marker(TypedPrompt(uuid=message, content=text)), "gateway")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path)
    yield made
    for _, _, tui in made.terminals.opened:
        tui.end(Exit(code=0))
    for agent in made.agents:
        assert agent._life is not None
        await passing(made.clock, agent._life.done)


# --- starting


@pytest.mark.rules("S003-105")
async def test_the_cli_is_started_with_hooks_environment_and_size(house: House) -> None:
    await house.open()
    name, program, _ = house.terminals.opened[0]
    assert name == f"session/{SESSION}"
    assert (program.size.columns, program.size.rows) == (120, 40)
    assert program.env["FAIRLEAD_HOOK_TOKEN"] == f"token-{SESSION}" and program.env["TERM"] == "xterm-256color"
    assert program.env["LC_ALL"] == "C.UTF-8"
    assert "--permission-mode=default" in house.argv and f"--session-id={SESSION}" in house.argv
    assert not any(f"token-{SESSION}" in word for word in house.argv)
    hooks = json.loads(next(word for word in house.argv if word.startswith("--settings=")).partition("=")[2])["hooks"]
    assert set(hooks) == {"PreToolUse", "Stop", "SessionStart"}
    (ready,) = house.marks("ready")
    assert (ready["agent_session"], ready["version"], ready["mode"]) == (SESSION, "2.1.325", "default")


async def test_an_exit_before_the_prompt_box_reports_the_reason(house: House) -> None:
    starting = asyncio.create_task(house.open())
    await passing(house.clock, lambda: house.terminals.opened)
    house.tui.draw(up=True, dialog=("No conversation found with session ID: x",))
    house.tui.end(Exit(code=1))
    with pytest.raises(AgentNotRunning, match="No conversation found"):
        await starting
    assert house.sink.all("exited") == [Exit(code=1, stderr=house.sink.all("exited")[0].stderr)]
    assert "No conversation found" in house.sink.all("exited")[0].stderr


async def test_a_dialog_at_the_start_is_reported_once_and_no_key_is_pressed(house: House) -> None:
    agent = await house.open()
    house.tui.draw(dialog=(" Do you trust the files in this folder?",))
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(lambda: house.marks("shows"))
    await house.clock.advance(120)
    assert len(house.marks("shows")) == 1 and house.tui.writes == []
    (shown,) = house.marks("shows")
    assert shown["kind"] == "dialog" and "trust this folder" in shown["text"]
    assert " Do you trust the files in this folder?" in shown["lines"]
    house.tui.draw(dialog=())
    await house.so(writing.done)
    assert house.tui.submitted == ["hello"]


async def test_2_1_120_resumes_a_conversation_by_its_command(house: House) -> None:
    house.transcript.parent.mkdir(parents=True)
    house.transcript.write_text('{"type":"user","uuid":"old","message":{"role":"user","content":"old"}}\n')
    opening = asyncio.create_task(house.open((2, 1, 120), resume=SESSION))
    await house.so(lambda: house.terminals.opened and house.tui.submitted)
    assert house.tui.submitted == [f"/resume {SESSION}"] and not any("--resume" in word for word in house.argv)
    assert not opening.done()
    await house.hook("session-start", source="resume")
    await house.so(opening.done)
    await house.clock.advance(5)
    assert not any(b'"old"' in row for row in house.rows()), "what was there before is known"


# --- typing


async def test_a_prompt_is_typed_then_entered_and_its_row_is_delivered(house: House) -> None:
    agent = await house.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    assert house.tui.writes == [b"h", b"e", b"l", b"l", b"o", b"\r"]
    await house.so(lambda: any(b'"hello"' in row for row in house.rows()))


async def test_several_lines_are_pasted(house: House) -> None:
    agent = await house.open()
    writing = asyncio.create_task(agent.write(prompt("one\ntwo")))
    await house.so(writing.done)
    assert house.tui.writes == [b"\x1b[200~one\ntwo\x1b[201~", b"\r"]


async def test_an_ignored_enter_is_pressed_again(house: House) -> None:
    agent = await house.open()
    house.tui.deaf = 2
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    assert house.tui.submitted == ["hello"] and house.tui.writes.count(b"\r") == 3
    assert house.marks("untyped") == []


async def test_a_prompt_that_is_never_accepted_is_removed_and_reported(house: House) -> None:
    agent = await house.open()
    house.tui.deaf = 100
    writing = asyncio.create_task(agent.write(prompt("one\ntwo")))
    await house.so(writing.done)
    (failed,) = house.marks("untyped")
    assert failed["message"] == MESSAGE and "did not accept" in failed["text"]
    assert house.tui.box == "" and house.tui.writes.count(b"\r") == 3
    assert not agent.is_busy


async def test_a_prompt_that_is_accepted_but_never_written_is_reported(house: House) -> None:
    """For example when one of the user's own hooks rejected the prompt."""
    agent = await house.open()
    house.tui.silent = True
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    assert house.tui.submitted == ["hello"] and house.tui.writes.count(b"\r") == 1
    assert "did not store the text" in house.marks("untyped")[0]["text"]


async def test_a_prompt_queued_by_the_cli_is_waited_for_while_it_works(house: House) -> None:
    agent = await house.open()
    house.tui.silent = True
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(lambda: house.tui.submitted)
    house.tui.draw(working=True)
    await house.clock.advance(300)
    assert not writing.done()
    house.tui.row("user", "hello")
    await house.so(writing.done)
    assert house.marks("untyped") == []


async def test_enter_waits_for_work_that_started_meanwhile(house: House) -> None:
    agent = await house.open()
    house.tui.blind = True
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(lambda: house.tui.box == "hello")
    house.tui.draw(blind=False, working=True)
    await house.clock.advance(60)
    assert b"\r" not in house.tui.writes
    house.tui.draw(working=False)
    await house.so(writing.done)
    assert house.tui.submitted == ["hello"]


async def test_a_prompt_overwritten_before_enter_is_typed_again(house: House) -> None:
    agent = await house.open()
    house.tui.draw(blind=True)
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(lambda: house.tui.box == "hello")
    house.tui.draw(working=True, blind=False)
    await house.clock.advance(1)
    house.tui.draw(working=False, box="")
    await house.so(writing.done)
    assert house.tui.submitted == ["hello"] and house.tui.writes.count(b"h") == 2
    assert house.marks("untyped") == []


async def test_an_interrupt_after_enter_presses_esc(house: House) -> None:
    agent = await house.open()
    house.tui.silent = True
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(lambda: house.tui.submitted)
    house.tui.draw(working=True)
    await house.clock.advance(1)
    house.tui.on_escape = lambda: house.tui.draw(working=False)
    await agent.interrupt()
    await house.so(lambda: b"\x1b" in house.tui.writes)
    await house.so(writing.done)
    assert len(house.marks("untyped")) == 1


async def test_a_screen_that_does_not_show_the_prompt_gets_no_enter(house: House) -> None:
    agent = await house.open()
    house.tui.blind = True
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    assert b"\r" not in house.tui.writes
    assert "did not show" in house.marks("untyped")[0]["text"]


async def test_text_of_a_person_is_never_typed_over(house: House) -> None:
    agent = await house.open()
    house.tui.draw(box="half a thought")
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(lambda: house.marks("shows"))
    assert house.marks("shows")[0]["kind"] == "occupied"
    await house.clock.advance(300)
    assert house.tui.writes == [] and not writing.done()
    house.tui.draw(box="")
    await house.so(writing.done)
    assert house.tui.submitted == ["hello"]


async def test_nothing_is_typed_while_the_cli_works(house: House) -> None:
    agent = await house.open()
    house.tui.draw(working=True)
    writing = asyncio.create_task(agent.write(prompt()))
    await house.clock.advance(60)
    assert house.tui.writes == []
    house.tui.draw(working=False)
    await house.so(writing.done)
    assert house.tui.submitted == ["hello"]


async def test_an_interrupt_before_typing_withdraws_the_prompt(house: House) -> None:
    agent = await house.open()
    house.tui.draw(box="mine")
    writing = asyncio.create_task(agent.write(prompt()))
    await house.clock.advance(1)
    await agent.interrupt()
    await house.so(writing.done)
    assert "interrupted before" in house.marks("untyped")[0]["text"]
    assert house.tui.writes == [] and house.tui.box == "mine"


@pytest.mark.parametrize("raw", [b'{"type":"user"}', b'{"type":"fairlead_screen"}', b"{"])
async def test_only_prompts_are_typed(house: House, raw: bytes) -> None:
    agent = await house.open()
    with pytest.raises(BadRequest):
        await agent.write(Record(raw, "gateway"))


async def test_images_are_not_typed(house: House) -> None:
    agent = await house.open()
    image = {"type": "image", "source": {}}
    await agent.write(
        Record(encode_marker(TypedPrompt(uuid=MESSAGE, content=[{"type": "text", "text": "see"}, image])), "gateway")
    )
    assert house.tui.writes == [] and not agent.is_busy


# --- the end of a turn


async def test_the_stop_hook_delivers_the_rows_before_the_end(house: House) -> None:
    agent = await house.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    house.tui.draw(working=True)
    house.tui.answer()
    assert await house.hook("stop") == {}
    order = [kind for kind in house.sink.raws if b'"done"' in kind or b'"stopped"' in kind]
    assert b'"done"' in order[0] and b'"stopped"' in order[1]


async def test_a_cli_back_at_its_prompt_is_idle_and_later_marked_left(house: House) -> None:
    agent = await house.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    house.tui.draw(working=True)
    seen = len(house.marks("idle"))
    await house.clock.advance(60)
    assert len(house.marks("idle")) == seen, "not while it works"
    house.tui.draw(working=False)
    await house.so(lambda: len(house.marks("idle")) > seen)
    assert not agent.is_busy
    await house.so(lambda: house.marks("left"))


async def test_a_dialog_in_a_turn_is_reported_and_does_not_end_it(house: House) -> None:
    agent = await house.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    house.tui.draw(working=True)
    await house.clock.advance(1)
    seen = len(house.marks("idle"))
    house.tui.draw(dialog=(" Which colour?",))
    await house.so(lambda: house.marks("shows"))
    await house.clock.advance(60)
    assert len(house.marks("idle")) == seen and len(house.marks("shows")) == 1


async def test_an_interrupt_presses_esc_until_the_work_stops(house: House) -> None:
    agent = await house.open()
    house.tui.draw(working=True)
    await house.clock.advance(1)
    pressed: list[int] = []

    def escape() -> None:
        pressed.append(1)
        house.tui.working = len(pressed) < 2

    house.tui.on_escape = escape
    await agent.interrupt()
    await house.so(lambda: not house.tui.working)
    await house.clock.advance(60)
    assert house.tui.writes == [b"\x1b", b"\x1b"]


async def test_an_early_interrupt_waits_until_the_screen_shows_the_work(house: House) -> None:
    agent = await house.open()
    house.tui.silent = True
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(lambda: house.tui.submitted)
    await agent.interrupt()
    await house.clock.advance(0.5)
    assert b"\x1b" not in house.tui.writes
    house.tui.on_escape = lambda: house.tui.draw(working=False)
    house.tui.draw(working=True)
    await house.so(lambda: b"\x1b" in house.tui.writes)
    house.tui.row("user", "hello")
    await house.so(writing.done)


async def test_an_interrupt_affects_only_its_own_turn(house: House) -> None:
    agent = await house.open()
    house.tui.draw(working=True)
    await house.clock.advance(1)
    house.tui.on_escape = lambda: house.tui.draw(working=False)
    await agent.interrupt()
    await house.so(lambda: not house.tui.working)
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    house.tui.draw(working=True)
    await house.clock.advance(60)
    assert house.tui.writes.count(b"\x1b") == 1 and house.tui.working


async def test_esc_is_never_pressed_at_the_prompt(house: House) -> None:
    """Pressed twice there, it opens a menu."""
    agent = await house.open()
    await house.clock.advance(1)
    await agent.interrupt()
    await house.clock.advance(60)
    assert house.tui.writes == []


@pytest.mark.parametrize(("back", "left"), [("hello", ""), ("mine", "mine")])
async def test_our_prompt_restored_by_an_interrupt_is_removed_but_text_of_a_person_is_not(
    house: House, back: str, left: str
) -> None:
    agent = await house.open()
    writing = asyncio.create_task(agent.write(prompt()))
    await house.so(writing.done)
    house.tui.draw(working=True)
    await house.clock.advance(1)
    house.tui.on_escape = lambda: house.tui.draw(working=False, box=back)
    await agent.interrupt()
    await house.so(lambda: not house.tui.working)
    await house.clock.advance(60)
    assert house.tui.box == left


# --- hooks


async def test_the_row_of_a_call_is_delivered_before_its_permission_request(house: House) -> None:
    agent = await house.open()
    asking = asyncio.create_task(
        house.hook("pre-tool-use", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="toolu_1")
    )
    await house.clock.advance(0.2)
    assert house.sink.all("asked") == []
    house.tui.row("assistant", [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}])
    await house.so(lambda: house.sink.all("asked"))
    stories = [raw for raw in house.sink.raws if b"toolu_1" in raw]
    assert b"tool_use" in stories[0] and b"control_request" in stories[1]
    (ask,) = house.sink.all("asked")
    await agent.answer(ask.request, Decision("deny", "no"))
    await house.so(asking.done)
    assert asking.result()["hookSpecificOutput"]["permissionDecision"] == "deny"


async def test_a_missing_row_does_not_block_the_hook(house: House) -> None:
    await house.open()
    house.sink.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
    asking = asyncio.create_task(house.hook("pre-tool-use", tool_name="Read", tool_input={}, tool_use_id="toolu_9"))
    await house.so(asking.done)
    assert asking.result()["hookSpecificOutput"]["permissionDecision"] == "allow"


@pytest.mark.parametrize(("behavior", "answer"), [(Behavior.ASK, None), (Behavior.DENY, "deny")])
async def test_2_1_37_asks_questions_on_its_own_screen(house: House, behavior: Behavior, answer: str | None) -> None:
    await house.open((2, 1, 37))
    house.sink.verdict = Verdict(behavior, "because")
    given = {"tool_name": "AskUserQuestion", "tool_input": {"questions": []}, "tool_use_id": "toolu_1"}
    asking = asyncio.create_task(house.hook("pre-tool-use", **given))
    await house.so(asking.done)
    assert asking.result().get("hookSpecificOutput", {}).get("permissionDecision") == answer
    assert house.sink.all("asked") == []


async def test_another_conversation_is_followed(house: House) -> None:
    """A person cleared the conversation: the next rows are in another file."""
    agent = await house.open()
    moved: list[str] = []
    agent.moved = moved.append
    other = house.transcript.with_name(f"{OTHER}.jsonl")
    await house.hook("session-start", source="clear", session_id=OTHER, transcript_path=str(other))
    house.tui.transcript = other
    house.tui.row("user", "in the other")
    await house.so(lambda: any(b"in the other" in row for row in house.rows()))
    assert moved == [OTHER] and house.marks("ready")[-1]["agent_session"] == OTHER


@pytest.mark.parametrize("path", ["/etc/passwd", "/tmp/elsewhere/{other}.jsonl", "{folder}/x.jsonl"])
async def test_no_other_file_is_followed(house: House, path: str) -> None:
    agent = await house.open()
    moved: list[str] = []
    agent.moved = moved.append
    other_path = path.format(other=OTHER, folder=house.transcript.parent)
    await house.hook("stop", session_id=OTHER, transcript_path=other_path)
    assert moved == []


# --- the end


async def test_the_exit_is_delivered_after_the_last_row(house: House) -> None:
    agent = await house.open()
    house.tui.answer("last words")
    house.tui.end(Exit(code=0))
    assert agent._life is not None
    await house.so(agent._life.done)
    assert b"last words" in house.rows()[-1]
    assert house.sink.story[-1] == ("exited", Exit(code=0))
    with pytest.raises(AgentNotRunning):
        await agent.interrupt()
    assert house.terminals.names() == ()


async def test_stopping_denies_pending_requests(house: House) -> None:
    agent = await house.open()
    asking = asyncio.create_task(house.hook("pre-tool-use", tool_name="Bash", tool_input={}, tool_use_id="toolu_1"))
    await house.so(lambda: house.sink.all("asked"))
    ended = await agent.stop("closed")
    assert ended == Exit(signal=1)
    await house.so(asking.done)
    assert asking.result()["hookSpecificOutput"]["permissionDecision"] == "deny"
    await house.so(lambda: house.sink.all("exited"))


async def test_an_exit_ends_a_waiting_prompt(house: House) -> None:
    agent = await house.open()
    house.tui.draw(box="mine")
    writing = asyncio.create_task(agent.write(prompt()))
    await house.clock.advance(1)
    house.tui.end(Exit(code=0))
    await house.so(writing.done)
    await house.so(lambda: house.sink.all("exited"))
    assert house.tui.writes == []


async def test_unsupported_commands_are_rejected(house: House) -> None:
    agent = await house.open()
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


async def test_an_answer_after_the_exit_is_rejected(house: House) -> None:
    agent = await house.open()
    house.tui.end(Exit(code=0))
    await house.so(lambda: house.sink.all("exited"))
    with pytest.raises(AgentNotRunning, match="cannot receive the answer"):
        await agent.answer(RequestId("r1"), Decision("deny"))


async def test_a_message_of_only_control_keys_is_not_typed_but_reported(house: House) -> None:
    agent = await house.open()
    writing = asyncio.create_task(agent.write(prompt("\x1b\x07")))
    await house.so(lambda: house.marks("untyped"))
    await house.so(writing.done)
    assert house.rows() == []


async def test_a_screen_that_never_comes_up_does_not_fail_the_start(house: House) -> None:
    starting = asyncio.create_task(house.open())
    await passing(house.clock, lambda: house.terminals.opened)
    house.tui.draw(up=False)
    house.tui.up = False
    await house.so(lambda: starting.done())
    assert isinstance(starting.result(), ClaudeTerminal)


async def test_a_store_that_fails_ends_the_agent(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.open()

    async def failing(batch: Any) -> None:
        raise Conflict(7)

    monkeypatch.setattr(house.sink, "records", failing)
    house.transcript.parent.mkdir(parents=True, exist_ok=True)
    row = {"type": "user", "uuid": "u1", "sessionId": SESSION, "message": {"role": "user", "content": "hi"}}
    house.transcript.write_text(json.dumps(row) + "\n")
    await house.so(lambda: not house.tui.running)
    await house.so(lambda: house.sink.all("exited"))

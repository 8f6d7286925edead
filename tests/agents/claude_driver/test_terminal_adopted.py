"""A CLI in a terminal at the keeper, and the drivers of two gateways, one after the other."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agents.claude_driver.fake_tui import FakeTerminals, FakeTui, passing
from agents.claude_driver.harness import MemorySink
from agents.claude_driver.hook_harness import decided, tool_use
from agents.claude_driver.test_terminal_agent import NEW, SESSION, Tokens, prompt
from fairlead.agents.claude.launch import PreparedLaunch
from fairlead.agents.claude.tui.driver import ClaudeTerminal
from fairlead.agents.claude.tui.hook_server import HookServer
from fairlead.agents.claude.tui.launcher import TerminalAgents
from fairlead.model.agents import Decision, Exit, Launch, ProcessInfo
from fairlead.model.commands import Settings
from fairlead.model.decisions import hook_request
from fairlead.model.errors import AgentNotRunning, NotFound
from fairlead.model.events import PermissionResolved
from fairlead.model.ids import CallId, EventId, RequestId
from fairlead.model.policy import Behavior, Verdict
from fairlead.model.store import OutputPosition, StoredOutput
from fairlead_testing.clock import ManualClock

NAME = f"session/{SESSION}"
ADDRESS = "http://127.0.0.1:1"


class RevocableTokens(Tokens):
    def __init__(self) -> None:
        self.revoked: list[str] = []

    def revoke(self, session: str) -> None:
        self.revoked.append(session)


class Gateway:
    """One gateway of several with the same CLI."""

    def __init__(self, folder: Path, tui: FakeTui | None = None, address: str = ADDRESS) -> None:
        self.folder = folder
        self.transcript = folder / "projects" / "-w" / f"{SESSION}.jsonl"
        self.tui = tui or FakeTui(self.transcript, NAME)
        self.tui.survives = True
        self.clock = ManualClock()
        self.sink = MemorySink()
        self.tokens = RevocableTokens()
        self.terminals = FakeTerminals(lambda program: self.tui)
        self.hooks = HookServer(self.tokens, address, self.clock)
        self.agents = TerminalAgents(self.terminals, self.hooks, self.clock)
        self.launch = Launch(session=SESSION, cwd="/w", settings=Settings(link="terminal"))
        self.agent: ClaudeTerminal | None = None
        self._recalled: tuple[bytes, ...] = ()

    @property
    def child(self) -> ProcessInfo:
        tui = self.tui
        return ProcessInfo(
            session=SESSION,
            pid=tui.pid,
            started=tui.started,
            group=tui.group,
            agent="claude",
            agent_session=SESSION,
            cwd="/w",
            transcript=str(self.transcript),
            in_terminal=True,
            kept=True,
        )

    async def start(self) -> ClaudeTerminal:
        prepared = PreparedLaunch(
            launch=self.launch,
            version=NEW,
            command=("claude",),
            env={"PATH": "/bin"},
            cwd="/w",
            agent_session=SESSION,
            transcript=self.transcript,
            spill=None,
        )
        starting = asyncio.create_task(self.agents.start(prepared, self.sink, lambda terminal: self.child))
        await passing(self.clock, lambda: self.terminals.opened)
        self.tui.draw(up=True)
        await passing(self.clock, starting.done)
        self.agent = starting.result()
        return self.agent

    def stored(self) -> StoredOutput:
        positions: list[OutputPosition] = self.sink.all("position")
        recalls = [position.recall for position in positions if position.recall is not None]
        return StoredOutput(0, recalls[-1] if recalls else self._recalled)

    def kill(self) -> None:
        """End the driver as a killed gateway does: nothing is stored any more."""
        assert self.agent is not None and self.agent._life is not None
        self.agent._life.cancel()
        self.agent._permissions._released = True

    async def next(self, address: str = ADDRESS) -> "Gateway":
        """Another gateway, which adopts the CLI."""
        made = self.prepare_next(address)
        await made.adopt(self.stored())
        return made

    def prepare_next(self, address: str = ADDRESS) -> "Gateway":
        made = Gateway(self.folder, self.tui, address)
        made.terminals.restored[NAME] = self.tui
        made.sink.request_states = self.sink.request_states
        return made

    async def adopt(self, stored: StoredOutput) -> ClaudeTerminal:
        self._recalled = stored.recall
        adopting = asyncio.create_task(self.agents.adopt(self.child, self.launch, NEW, None, self.sink, stored))
        await passing(self.clock, adopting.done)
        self.agent = adopting.result()
        return self.agent

    async def so(self, reached: Any) -> None:
        await passing(self.clock, reached)

    def marks(self, what: str) -> list[dict[str, Any]]:
        given = [json.loads(raw) for raw in self.sink.raws if b"fairlead_screen" in raw]
        return [mark for mark in given if mark["what"] == what]

    def rows(self) -> list[Any]:
        raws = [record.raw for record in self.sink.all("record") if record.origin == "transcript"]
        return [json.loads(raw)["message"]["content"] for raw in raws]

    def hook(self, call: str = "toolu_1") -> "asyncio.Task[bytes]":
        given = {**tool_use(call, command="ls"), "transcript_path": str(self.transcript), "session_id": SESSION}
        endpoint = self.hooks._endpoints[SESSION]
        return asyncio.create_task(endpoint.answer_hook("pre-tool-use", f"pre-tool-use {call}", given))

    async def decision(self, hook: "asyncio.Task[bytes]") -> tuple[str, str]:
        await self.so(hook.done)
        return decided(json.loads(hook.result()))

    async def asked(self) -> RequestId:
        await self.so(lambda: self.sink.all("asked"))
        request = self.sink.all("asked")[-1].request
        assert isinstance(request, str)
        self.sink.request_states[request] = "pending"
        return RequestId(request)


@pytest.fixture
async def first(tmp_path: Path) -> AsyncIterator[Gateway]:
    made = Gateway(tmp_path)
    yield made
    made.tui.end(Exit(code=0))
    await asyncio.sleep(0.01)


def resolved(request: str, **fields: Any) -> PermissionResolved:
    given = {"tool": "Bash", "input": {"command": "ls"}, "behavior": "allow", "how": "person", **fields}
    return PermissionResolved(id=EventId("e"), request=RequestId(request), call=CallId("toolu_1"), **given)


# --- records


async def test_an_adopted_cli_is_not_reported_as_ready_again_and_its_rows_go_on_exactly(first: Gateway) -> None:
    await first.start()
    first.tui.row("user", "one")
    await first.so(lambda: first.rows() == ["one"])
    first.kill()
    first.tui.row("user", "two")
    second = await first.next()
    await second.so(lambda: second.rows() == ["two"])
    first.tui.row("user", "three")
    await second.so(lambda: second.rows() == ["two", "three"])
    assert len(first.marks("ready")) == 1 and second.marks("ready") == []
    assert second.agent is not None and second.agents.find(SESSION) is second.agent


async def test_rows_of_subagents_go_on_exactly_too(first: Gateway) -> None:
    await first.start()
    folder = first.transcript.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    side = FakeTui(folder / "agent-a1.jsonl")
    first.tui.row("user", "main")
    side.row("user", "sub one", isSidechain=True, agentId="a1")
    await first.so(lambda: sorted(first.rows()) == ["main", "sub one"])
    first.kill()
    side.row("user", "sub two", isSidechain=True, agentId="a1")
    second = await first.next()
    await second.so(lambda: second.rows() == ["sub two"])


async def test_a_cli_that_was_not_ready_is_reported_when_it_is(first: Gateway) -> None:
    first.tui.draw(up=True)
    second = first.prepare_next()
    await second.adopt(StoredOutput())
    assert len(second.marks("ready")) == 1
    second.kill()
    third = await second.next()
    assert third.marks("ready") == []


async def test_a_dialog_is_reported_once_by_both_gateways_together(first: Gateway) -> None:
    await first.start()
    first.tui.draw(dialog=(" Do you want it?",))
    await first.so(lambda: first.marks("shows"))
    first.kill()
    second = await first.next()
    await second.clock.advance(60)
    assert second.marks("shows") == []
    first.tui.draw(dialog=(" Do you want that?",))
    await second.so(lambda: second.marks("shows"))


async def test_a_cli_that_ended_without_a_gateway_is_reported_with_its_exit(first: Gateway) -> None:
    await first.start()
    first.kill()
    first.tui.answer("last words")
    first.tui.end(Exit(code=3))
    second = first.prepare_next()
    adopting = asyncio.create_task(
        second.agents.adopt(second.child, second.launch, NEW, None, second.sink, first.stored())
    )
    await second.so(adopting.done)
    await second.so(lambda: second.sink.all("exited"))
    assert [exit.code for exit in second.sink.all("exited")] == [3]
    assert len(second.rows()) == 1


async def test_without_its_terminal_it_is_not_found_and_its_hooks_are_rejected(first: Gateway) -> None:
    with pytest.raises(NotFound):
        await first.adopt(StoredOutput())
    assert first.tokens.revoked == [SESSION]


async def test_another_process_in_the_terminal_is_ended(first: Gateway) -> None:
    second = first.prepare_next()
    child = second.child
    first.tui.pid = 1
    with pytest.raises(NotFound):
        await second.agents.adopt(child, second.launch, NEW, None, second.sink, StoredOutput())
    assert not first.tui.running


async def test_a_changed_address_of_the_gateway_is_a_warning(first: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    await first.start()
    first.kill()
    second = await first.next()
    assert "address has changed" not in caplog.text
    second.kill()
    await second.next("http://127.0.0.1:2")
    assert "address has changed" in caplog.text


# --- hooks


async def test_a_pending_request_is_held_again_and_not_asked_twice(first: Gateway) -> None:
    await first.start()
    first.hook()
    request = await first.asked()
    first.kill()
    second = await first.next()
    hook = second.hook()
    await second.clock.advance(60)
    assert not hook.done() and second.sink.all("asked") == []
    assert not any(b"can_use_tool" in raw for raw in second.sink.raws)
    assert second.agent is not None
    await second.agent.answer(request, Decision("deny", "no"))
    assert await second.decision(hook) == ("deny", "no")
    assert second.sink.all("cancelled") == []


async def test_an_answer_that_comes_before_the_hook_is_kept_for_it(first: Gateway) -> None:
    await first.start()
    first.hook()
    request = await first.asked()
    first.kill()
    second = await first.next()
    assert second.agent is not None
    await second.agent.answer(request, Decision("deny", "no"))
    second.sink.request_states[request] = "settled"
    assert await second.decision(second.hook()) == ("deny", "no")
    assert second.sink.all("asked") == []


async def test_a_request_whose_hook_does_not_come_back_is_cancelled(first: Gateway) -> None:
    await first.start()
    first.hook()
    request = await first.asked()
    first.kill()
    second = await first.next()
    await second.so(lambda: second.sink.all("cancelled"))
    assert second.sink.all("cancelled") == [request]


async def test_a_decision_in_the_log_is_the_answer(first: Gateway) -> None:
    await first.start()
    first.hook()
    request = await first.asked()
    first.kill()
    first.sink.request_states[request] = resolved(request, behavior="deny", message="never")
    second = await first.next()
    assert await second.decision(second.hook()) == ("deny", "never")
    assert second.sink.all("check") == second.sink.all("asked") == []


async def test_a_verdict_of_the_policy_in_the_log_counts_for_the_same_call_only(first: Gateway) -> None:
    await first.start()
    first.kill()
    known = hook_request(CallId("toolu_1"))
    first.sink.request_states[known] = resolved(known, behavior="deny", how="rule", rule="Bash", message="a rule")
    second = await first.next()
    assert await second.decision(second.hook()) == ("deny", "a rule")
    assert second.sink.all("check") == []
    second.sink.request_states[known] = resolved(known, input={"command": "other"})
    second.sink.verdict = Verdict(Behavior.DENY, "now")
    given = {**tool_use("toolu_1", command="ls"), "transcript_path": str(second.transcript), "session_id": SESSION}
    answering = second.hooks._endpoints[SESSION].answer_hook("pre-tool-use", "another body", given)
    assert await second.decision(asyncio.create_task(answering)) == ("deny", "now")


async def test_a_call_that_was_settled_is_asked_anew(first: Gateway) -> None:
    await first.start()
    first.hook()
    request = await first.asked()
    first.kill()
    first.sink.request_states[request] = "settled"
    second = await first.next()
    second.hook()
    assert await second.asked() != request


# --- a gateway that stops


async def test_a_released_cli_goes_on_and_its_hook_gets_no_answer(first: Gateway) -> None:
    agent = await first.start()
    assert agent.kept
    hook = first.hook()
    await first.asked()
    await agent.release()
    with pytest.raises(AgentNotRunning):
        await hook
    with pytest.raises(AgentNotRunning):
        await first.hook()
    await first.so(lambda: first.sink.all("exited"))
    await first.clock.advance(30)
    assert first.tui.running and first.sink.all("cancelled") == [] and first.tui.writes == []
    first.tui.row("user", "later")
    second = await first.next()
    await second.so(lambda: second.rows() == ["later"])
    assert first.rows() == []


async def test_a_stop_during_an_adoption_leaves_the_cli_running(first: Gateway) -> None:
    await first.start()
    first.kill()
    second = first.prepare_next()
    adopting = asyncio.create_task(
        second.agents.adopt(second.child, second.launch, NEW, None, second.sink, first.stored())
    )
    await asyncio.sleep(0.01)
    adopting.cancel()
    await asyncio.wait({adopting})
    assert adopting.cancelled() and first.tui.running


# --- prompts


async def test_a_prompt_that_is_in_the_transcript_is_not_typed_again(first: Gateway) -> None:
    await first.start()
    first.kill()
    first.tui.row("user", "hello")
    second = await first.next()
    assert second.agent is not None
    await second.so(lambda: second.rows() == ["hello"])
    await second.agent.write(prompt(), again=True)
    assert first.tui.writes == []


async def test_a_prompt_on_which_the_cli_works_is_not_typed_again(first: Gateway) -> None:
    await first.start()
    first.kill()
    first.tui.draw(working=True)
    second = await first.next()
    assert second.agent is not None and second.agent.is_busy
    writing = asyncio.create_task(second.agent.write(prompt(), again=True))
    await second.clock.advance(60)
    assert not writing.done()
    first.tui.row("user", "hello")
    await second.so(writing.done)
    assert first.tui.writes == []


async def test_a_prompt_in_the_box_is_erased_and_typed_again(first: Gateway) -> None:
    await first.start()
    first.kill()
    first.tui.draw(box="hel")
    second = await first.next()
    assert second.agent is not None
    writing = asyncio.create_task(second.agent.write(prompt(), again=True))
    await second.so(writing.done)
    assert first.tui.submitted == ["hello"]


async def test_a_prompt_that_was_never_typed_is_typed(first: Gateway) -> None:
    await first.start()
    first.kill()
    second = await first.next()
    assert second.agent is not None
    writing = asyncio.create_task(second.agent.write(prompt(), again=True))
    await second.so(writing.done)
    assert first.tui.submitted == ["hello"]


async def test_a_prompt_that_an_interrupt_put_back_into_the_box_is_erased(first: Gateway) -> None:
    agent = await first.start()
    writing = asyncio.create_task(agent.write(prompt()))
    await first.so(writing.done)
    await first.so(lambda: first.rows() == ["hello"])
    first.kill()
    first.tui.draw(box="hello")
    second = await first.next()
    assert second.agent is not None
    await second.agent.interrupt("interrupt:7")
    await second.so(lambda: first.tui.box == "")
    assert first.tui.submitted == ["hello"]


async def test_a_repeated_interrupt_presses_no_key_at_the_prompt(first: Gateway) -> None:
    await first.start()
    first.kill()
    first.tui.row("user", "hello")
    second = await first.next()
    assert second.agent is not None
    await second.so(lambda: second.rows() == ["hello"])
    await second.agent.write(prompt(), again=True)
    await second.agent.interrupt("interrupt:7")
    await second.clock.advance(30)
    assert first.tui.writes == []

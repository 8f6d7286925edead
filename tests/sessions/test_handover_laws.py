"""Whatever happens around a handover, in whatever order: turns balance, the queue keeps its order, one process lives,
and the log contains all of it."""

import asyncio
import contextlib
import itertools
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.agents.claude.wire.markers import TerminalMarker, encode_marker
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import AgentSink, Exit, Launch, Record
from fairlead.model.errors import AgentNotRunning, FairleadError
from fairlead.model.store import Entry
from fairlead.sessions.state import SessionState, evolve
from fairlead_testing.native_client import Fold
from sessions.harness import SESSION, CoreHarness, FakeAgent, FakeKind
from sessions.test_restart import row

STEPS = (
    *("send", "say", "ask", "end", "tick", "to terminal", "to stdio", "now", "withdraw"),
    *("kill", "restart", "start fails", "close", "set mode"),
)


class OneAtATime(FakeKind):
    """The processes share one conversation: a second one at the same time would corrupt it."""

    async def launch(self, launch: Launch, sink: AgentSink) -> FakeAgent:
        assert all(agent.gone for agent in self.agents), "a second process"
        return await super().launch(launch, sink)


class HandoverDriver:
    """One session and the steps performed on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.harness = CoreHarness(folder)
        self.harness.kind = OneAtATime()
        self.sent: list[str] = []
        self.asked: set[asyncio.Task[Any]] = set()
        self.numbers = itertools.count()

    async def begin(self) -> None:
        await self.harness.start()
        await self.harness.open()

    async def step(self, step: str) -> None:
        harness, agent = self.harness, self.agent
        match step:
            case "send":
                self.sent.append(f"message {next(self.numbers)}")
                await harness.send(self.sent[-1])
            case "tick":
                await self.tick()
            case "to terminal" | "to stdio":
                self.ask(cmd.StartHandover(session=SESSION, link="terminal" if "terminal" in step else "stdio"))
            case "now":
                link: cmd.Link = "terminal" if next(self.numbers) % 2 else "stdio"
                self.ask(cmd.StartHandover(session=SESSION, link=link, when="now"))
            case "withdraw":
                self.ask(cmd.WithdrawHandover(session=SESSION))
            case "set mode":
                self.ask(cmd.SetMode(session=SESSION, mode="plan" if next(self.numbers) % 2 else "default"))
            case "close":
                self.ask(cmd.Close(session=SESSION))
            case "start fails":
                harness.kind.failures = [AgentNotRunning("refused")]
            case "restart":
                await self.restart()
            case "say" if agent is not None:
                await self.says(agent, "tool_use")
            case "ask" if agent is not None:
                call = f"c{next(self.numbers)}"
                await agent.call(call, command="touch x")
                # The agent may have been stopped meanwhile, and a process that has exited sends no request.
                if not agent.gone:
                    await agent.ask(f"r-{call}", call, command="touch x")
            case "end" if agent is not None and self.loaded.core.state.turn is not None:
                await self.ends(agent)
            case "kill" if agent is not None:
                await agent.die(Exit(signal=9))

    async def says(self, agent: FakeAgent, stop_reason: str) -> None:
        """Emit text over the wire, or in the transcript if the agent runs in a terminal."""
        if agent.launch.settings.link == "stdio":
            await agent.text("well")
            return
        name = f"row-{next(self.numbers)}"
        answer = row("assistant", name, [{"type": "text", "text": "well"}], id=name, stop_reason=stop_reason)
        await agent.sink.records([Record(answer, "transcript")])

    async def ends(self, agent: FakeAgent) -> None:
        """End the agent's turn: by a result, or by its last row and its hook."""
        if agent.launch.settings.link == "stdio":
            await agent.result()
            return
        await self.says(agent, "end_turn")
        stopped = encode_marker(TerminalMarker(what="stopped", cause=f"stop-{next(self.numbers)}"))
        await agent.sink.records([Record(stopped, "gateway")])

    def ask(self, command: cmd.Command) -> None:
        self.asked.add(asyncio.create_task(self.harness.do(command)))

    @property
    def agent(self) -> FakeAgent | None:
        return next((agent for agent in self.harness.kind.agents if not agent.gone), None)

    @property
    def loaded(self) -> Any:
        return self.harness.loaded()

    async def tick(self) -> None:
        """Wait until the store has answered once."""
        await self.harness.store.summary(SESSION)

    async def restart(self) -> None:
        """Kill the gateway process and its agent without warning, and start a new gateway."""
        harness, runner = self.harness, self.loaded.supervisor
        runner._closing = True
        pending = {*self.asked, *([runner._dispatching] if runner._dispatching is not None else [])}
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending)
            for task in pending:
                assert task.cancelled() or task.exception() is None or isinstance(task.exception(), FairleadError)
        self.asked.clear()
        for agent in harness.kind.agents:
            agent.gone = True
        await harness.crash()
        self.harness = CoreHarness(self.folder)
        self.harness.kind = harness.kind
        await self.harness.start()
        await self.harness.registry.get(SESSION)

    async def end(self) -> None:
        """Finish everything that has begun."""
        for _ in range(3000):
            state, runner = self.loaded.core.state, self.loaded.supervisor
            if all(task.done() for task in self.asked) and not (runner.busy or state.turn):
                break
            if self.agent is not None and state.turn is not None:
                with contextlib.suppress(AgentNotRunning):
                    await self.ends(self.agent)
            await self.tick()
        else:
            raise AssertionError(f"it does not end: {self.loaded.core.state}")
        for task in self.asked:
            # A rejected command is fine; an exception other than FairleadError is not.
            assert task.exception() is None or isinstance(task.exception(), FairleadError), task.exception()

    async def entries(self) -> tuple[Entry, ...]:
        return tuple((await self.harness.store.read(SESSION, 0, 10_000)).entries)


def balanced(events: list[ev.Event]) -> None:
    open_turn: str | None = None
    wish = False
    running = False
    for event in events:
        match event:
            case ev.TurnStarted():
                assert open_turn is None
                open_turn = event.turn
            case ev.TurnEnded():
                assert event.turn == open_turn is not None
                open_turn = None
            case ev.AgentStarted():
                assert not running
                running = True
            case ev.AgentExited():
                running = False
            case ev.HandoverRequested():
                wish = True
            case ev.HandoverSettled():
                assert wish
                wish = False
            case ev.UserMessage(via="prompt"):
                assert event.turn == open_turn is not None
            case _:
                pass
    assert open_turn is None and not wish


def text_of(event: ev.UserMessage) -> str:
    return str(msgspec.to_builtins(event.content)[0]["text"])


@given(st.lists(st.sampled_from(STEPS), max_size=25))
@example(["send", "tick", "tick", "tick", "to terminal", "send", "end", "restart", "end"])
@example(["send", "tick", "tick", "tick", "now", "tick", "restart", "tick", "kill", "to stdio"])
@example(["send", "send", "close", "send", "ask"])
@settings(deadline=None, max_examples=40)
@pytest.mark.rules("S001-137")
def test_invariants_hold_in_any_sequence_around_a_handover(steps: list[str]) -> None:
    async def run(folder: Path) -> None:
        driver = HandoverDriver(folder)
        await driver.begin()
        for step in steps:
            await driver.step(step)
        await driver.end()
        entries = await driver.entries()
        events = [ev.decode(entry.event) for entry in entries]
        balanced(events)
        ids = [event.id for event in events]
        assert len(ids) == len(set(ids))
        assert [text_of(e) for e in events if isinstance(e, ev.UserMessage) and e.via == "prompt"] == driver.sent
        written = [record.raw for agent in driver.harness.kind.agents for record in agent.written]
        assert len(written) == len(set(written))

        state = SessionState(session=SESSION)
        fold = Fold()
        for entry, event in zip(entries, events, strict=True):
            state = evolve(state, event, entry.seq, entry.event)
            fold.apply({"seq": entry.seq, **msgspec.json.decode(entry.event)})
        assert state == driver.loaded.core.state
        assert (fold.state.handover, fold.state.queue, fold.state.turn) == (None, [], None)
        if driver.agent is not None:
            assert driver.loaded.supervisor.agent is driver.agent
        await driver.restart()
        await driver.end()
        again = driver.loaded.core.state
        assert (again.settings, again.handover, again.turn) == (state.settings, None, None)
        await driver.harness.stop()

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        asyncio.run(run(Path(folder)))

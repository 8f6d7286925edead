"""The demo agent on a real process: its kind, driver and interpreter, with a sink that keeps the events."""

import os
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from agents.claude_driver.harness import MemorySink
from fairlead.agents.context import AgentContext
from fairlead.agents.demo.driver import DemoProcess
from fairlead.agents.demo.interpreter import DemoInterpreter
from fairlead.agents.demo.kind import create_kinds
from fairlead.model import events as ev
from fairlead.model.agents import Decision, Launch, PermissionRequest, Record
from fairlead.model.commands import Settings
from fairlead.model.content import TextBlock
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.policy import Behavior, Verdict
from fairlead.model.store import OutputPosition
from fairlead.system.clock import SystemClock

E = TypeVar("E", bound=ev.EventBase)


class DemoSink(MemorySink):
    """Interprets the records, as the core does. `decision` answers every request; without it, requests wait."""

    def __init__(self, session: SessionId) -> None:
        super().__init__()
        self.verdict = Verdict(Behavior.ALLOW, "fine", by="rule")
        self.interpreter = DemoInterpreter(session)
        self.events: list[ev.Event] = []
        self.agent: DemoProcess | None = None
        self.decision: Decision | None = Decision("allow")

    async def records(self, batch: Sequence[Record], position: OutputPosition | None = None) -> None:
        for record in batch:
            self.take(record)
        await super().records(batch, position)

    def take(self, record: Record) -> None:
        for event in self.interpreter.step(record).events:
            self.events.append(event)
            self.interpreter.assign_seq(event, len(self.events))

    async def permission_requested(self, ask: PermissionRequest) -> None:
        await super().permission_requested(ask)
        if self.decision is not None and self.agent is not None:
            decision = self.decision
            if "questions" in ask.input and decision.behavior == "allow":
                answered = {**ask.input, "answers": {"Which colour?": "Blue"}}
                decision = Decision("allow", updated_input=answered)
            await self.agent.answer(ask.request, decision)


class DemoHarness:
    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "work"
        self.cwd.mkdir(exist_ok=True)
        context = AgentContext(host={"PATH": os.environ["PATH"]}, clock=SystemClock(), data=str(folder / "data"))
        (self.kind,) = create_kinds(context)
        self.session = SessionId(str(uuid.uuid4()))
        self.sink = DemoSink(self.session)
        self.agent: DemoProcess | None = None

    async def start(self, **more: Any) -> DemoProcess:
        settings = more.pop("settings", Settings())
        launch = Launch(session=more.pop("session", self.session), cwd=str(self.cwd), settings=settings, **more)
        agent = await self.kind.launch(launch, self.sink)
        assert isinstance(agent, DemoProcess)
        self.agent = self.sink.agent = agent
        return agent

    async def send(self, text: str) -> MessageId:
        assert self.agent is not None
        message = MessageId(str(uuid.uuid4()))
        record = self.kind.prompt([TextBlock(text)], message, self.session)
        self.sink.take(record)
        await self.agent.write(record)
        return message

    async def turn(self, text: str) -> ev.TurnEnded:
        before = len(self.all(ev.TurnEnded))
        await self.send(text)
        return await self.ended(before + 1)

    async def ended(self, number: int = 1) -> ev.TurnEnded:
        await self.sink.until(lambda: len(self.all(ev.TurnEnded)) >= number)
        return self.all(ev.TurnEnded)[number - 1]

    async def until(self, kind: type[E], number: int = 1) -> E:
        await self.sink.until(lambda: len(self.all(kind)) >= number)
        return self.all(kind)[number - 1]

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.sink.events if isinstance(event, kind)]


@asynccontextmanager
async def demo(folder: Path, **launch: Any) -> AsyncIterator[DemoHarness]:
    harness = DemoHarness(folder)
    agent = await harness.start(**launch)
    try:
        yield harness
    finally:
        await agent.stop("the test is over")

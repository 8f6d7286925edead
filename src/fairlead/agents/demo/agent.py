"""The demo agent's life cycle: open or continue a session, read the gateway's messages, run turn after turn, end.

The agent ends when its input has ended and nothing is left to answer, with the exit code 1 if the last turn failed.
"""

import asyncio
import os
import signal
import time
import uuid
from itertools import takewhile
from typing import Any

from fairlead.agents.demo import tools, wire
from fairlead.agents.demo.execution import Executor
from fairlead.agents.demo.history import CannotStart, file_of, load
from fairlead.agents.demo.host import Host
from fairlead.agents.demo.permissions import Stopped
from fairlead.agents.demo.session import MODELS, DemoSession
from fairlead.agents.demo.thread import Thread, TurnOver
from fairlead.agents.demo.tools import Record
from fairlead.model import events as ev
from fairlead.model.content import content_block
from fairlead.model.ids import MessageId

MODES = ("acceptEdits", "bypassPermissions", "default", "dontAsk", "plan")
_CANCELLED = {"status": "cancelled", "reason": "interrupted"}


class DemoAgent:
    """One process, one session."""

    def __init__(self) -> None:
        self._waiting: list[wire.SendPrompt] = []
        self._stirred = asyncio.Event()
        self._ended = False
        self._turn: asyncio.Task[Record] | None = None
        self._seen: set[str] = set()
        self._session: DemoSession | None = None
        self._host = Host(self._take, self._end)

    async def run(self) -> int:
        self._host.start()
        failed = False
        while prompts := await self._next():
            failed = await self._answer(prompts)
        self._host.flush()
        return 1 if failed else 0

    # -- input from the gateway

    def _take(self, message: wire.FromGateway) -> None:
        session = self._session
        match message:
            case wire.OpenSession() if session is None:
                self._open(message)
            case wire.DemoAnswer():
                self._host.settle(message.id, message.result, message.error)
            case _ if session is None:
                pass
            case wire.SendPrompt():
                self._enqueue(message)
            case wire.DecideRequest():
                self._host.settle(message.request, message)
            case wire.InterruptTurn():
                if self._turn is not None:
                    self._turn.cancel()
            case wire.SetMode() | wire.SetModel() | wire.RewindFiles() | wire.StopTask():
                self._host.send(_changed(session, message))

    def _open(self, opened: wire.OpenSession) -> None:
        """Start a session, or continue one: a fork copies the file under its own id, a resume uses the same file."""
        home = os.environ["HOME"]
        name = opened.resume if opened.resume and not opened.fork else opened.session
        path, messages = file_of(home, name), 0
        try:
            if opened.resume:
                lines, messages = load(file_of(home, opened.resume), opened.at)
                if opened.fork and not path.exists():
                    path.write_bytes(b"".join(line + b"\n" for line in lines))
        except (CannotStart, OSError) as error:
            self._host.send(wire.DemoAnswer(id=opened.id, error=str(error)))
            return
        self._host.keep(path)
        self._session = DemoSession(name, os.getcwd(), self._host, opened, messages)
        self._executor = Executor(self._session, self._notify)
        self._joining = asyncio.create_task(self._join(opened))

    async def _join(self, opened: wire.OpenSession) -> None:
        assert self._session is not None
        await self._session.mcp.join(opened.mcp)
        self._session.emit_ready()
        self._host.send(wire.DemoAnswer(id=opened.id))

    def _enqueue(self, prompt: wire.SendPrompt) -> None:
        if prompt.message not in self._seen:
            self._seen.add(prompt.message)
            self._waiting.append(prompt)
            self._stirred.set()

    def _notify(self, text: str) -> None:
        self._waiting.append(wire.SendPrompt(message="", content=[{"type": "text", "text": text}]))
        self._stirred.set()

    def _end(self) -> None:
        self._ended = True
        self._stirred.set()

    # -- turns

    async def _next(self) -> list[wire.SendPrompt]:
        """The prompts of the next turn; none if no more will come."""
        while not self._waiting:
            if self._ended and not (self._session and self._session.tasks):
                return []
            self._stirred.clear()
            await self._stirred.wait()  # also the end of a task sets it, by its notification
        # Messages that arrived while the agent was busy form one turn.
        return self._take_ordinary() or [self._waiting.pop(0)]

    def _take_ordinary(self) -> list[wire.SendPrompt]:
        """A command and a notification have turns of their own."""
        taken = list(takewhile(lambda p: bool(p.message) and not _text(p).startswith("/"), self._waiting))
        del self._waiting[: len(taken)]
        return taken

    async def _answer(self, prompts: list[wire.SendPrompt]) -> bool:
        """Run one turn to its end; True if it failed."""
        session, host, began = self._session, self._host, time.monotonic()
        assert session is not None
        by_person = bool(prompts[0].message)
        host.emit(ev.TurnStarted, trigger="prompt" if by_person else "agent")
        self._write(prompts)
        thread = Thread(session, self._executor.run, take_steering=self._steering)
        if _text(prompts[0]).strip() == "/compact":
            _compact(session)
            ending: Record = {"status": "completed"}
        else:
            self._turn = asyncio.create_task(self._work(thread, prompts))
            try:
                ending = await self._turn
            except (asyncio.CancelledError, Stopped):
                ending = _CANCELLED
            self._turn = None
        elapsed = int((time.monotonic() - began) * 1000)
        used = {"duration_ms": elapsed, "api_ms": elapsed if thread.calls else 0, "model_turns": thread.calls}
        host.emit(ev.TurnEnded, **session.take_usage(), **ending, **used)
        return bool(ending["status"] == "failed")

    async def _work(self, thread: Thread, prompts: list[wire.SendPrompt]) -> Record:
        """Do everything that an interrupt may stop; return how it ended."""
        assert self._session is not None
        for prompt in prompts:
            self._session.checkpoints.add_prompt(prompt.message)
        try:
            return {"status": "completed", "text": await thread.run("\n".join(map(_text, prompts)))}
        except TurnOver as over:
            return over.ending

    def _steering(self) -> list[str]:
        taken = self._take_ordinary()
        self._write(taken)
        return [_text(prompt) for prompt in taken]

    def _write(self, prompts: list[wire.SendPrompt]) -> None:
        """Write the prompts to the session's file; the gateway has them in its log already."""
        for prompt in prompts:
            if prompt.message:
                content = tuple(content_block(block) for block in prompt.content)
                self._host.emit(ev.UserMessage, message=MessageId(prompt.message), content=content)


def _changed(
    session: DemoSession, message: wire.SetMode | wire.SetModel | wire.RewindFiles | wire.StopTask
) -> wire.DemoAnswer:
    """The answer to a message that changes something."""
    match message:
        case wire.SetMode():
            if message.mode not in MODES:
                return wire.DemoAnswer(id=message.id, error=f"The mode must be one of {', '.join(MODES)}.")
            session.mode = message.mode
        case wire.SetModel():
            session.model = message.model or MODELS[0]
        case wire.RewindFiles():
            try:
                result = session.checkpoints.rewind(message.message, dry_run=message.dry_run)
            except (LookupError, OSError) as error:
                return wire.DemoAnswer(id=message.id, error=str(error))
            return wire.DemoAnswer(id=message.id, result=result)
        case wire.StopTask():
            task = session.tasks.get(message.task)
            if task is None or task.work is None:
                return wire.DemoAnswer(id=message.id, error=f"There is no task {message.task}.")
            task.work.cancel()
    return wire.DemoAnswer(id=message.id)


def _text(prompt: wire.SendPrompt) -> str:
    blocks = [block for block in prompt.content if isinstance(block, dict)]
    return "\n".join(str(block["text"]) for block in blocks if "text" in block)


def _compact(session: DemoSession) -> None:
    """`/compact`: the conversation becomes its summary."""
    host = session.host
    host.emit(ev.Compaction, phase="started")
    summary = f"This session continues an earlier conversation of {session.messages} messages."
    session.messages = 1
    host.emit(ev.Compaction, phase="ended")
    host.emit(ev.Compaction, phase="boundary", trigger="manual", pre_tokens=61)
    content = (content_block({"type": "text", "text": summary}),)
    host.emit(ev.UserMessage, message=MessageId(str(uuid.uuid4())), content=content, via="agent", synthetic=True)
    host.emit(ev.Notice, kind="local_command", text="Compacted")


def run_agent() -> int:
    def terminate(*_: Any) -> None:
        tools.kill_all()
        os._exit(143)

    # Not through the event loop: a SIGTERM must work while a write waits for a slow gateway.
    signal.signal(signal.SIGTERM, terminate)

    async def live() -> int:
        return await DemoAgent().run()  # the pipes need a running event loop

    return asyncio.run(live())

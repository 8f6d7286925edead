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

import msgspec

from fairlead.agents.demo import tools
from fairlead.agents.demo.execution import Executor
from fairlead.agents.demo.history import file_of, load
from fairlead.agents.demo.host import Host
from fairlead.agents.demo.session import MODELS, DemoSession
from fairlead.agents.demo.thread import Stopped, Thread, TurnOver
from fairlead.agents.demo.tools import Record
from fairlead.agents.demo.wire import DemoMessage
from fairlead.model import events as ev
from fairlead.model.agents import Decision, Launch
from fairlead.model.content import content_block
from fairlead.model.ids import MessageId


class Prompt(msgspec.Struct, frozen=True):
    """A person's message; without an id it is the notification of a background task."""

    message: str
    content: list[Any]

    @property
    def text(self) -> str:
        blocks = [block for block in self.content if isinstance(block, dict)]
        return "\n".join(str(block["text"]) for block in blocks if "text" in block)

    @property
    def is_ordinary(self) -> bool:
        """Whether it may share a turn with others: a command and a notification have their own."""
        return bool(self.message) and not self.text.startswith("/")


class DemoAgent:
    """One process, one session."""

    def __init__(self) -> None:
        self._waiting: list[Prompt] = []
        self._stirred = asyncio.Event()
        self._turn: asyncio.Task[str] | None = None
        self._interrupted = False
        """The next turn is to be cancelled at once."""
        self._seen: set[str] = set()
        self._session: DemoSession | None = None
        self._host = Host(self._take)

    async def run(self) -> int:
        self._listening = asyncio.create_task(self._host.listen())
        self._listening.add_done_callback(lambda _: self._stirred.set())
        failed = False
        while prompts := await self._next():
            failed = await self._answer(prompts)
        self._host.flush()
        return 1 if failed else 0

    def _take(self, message: DemoMessage) -> None:
        match message.do:
            case "open" if self._session is None:
                self._open(message.id, msgspec.convert(message.data, Launch))
            case "answer":
                self._host.settle(message.id, message.data, message.error)
            case "decide":
                self._host.settle(message.id, msgspec.convert(message.data, Decision))
            case "prompt":
                self._enqueue(msgspec.convert(message.data, Prompt))
            case "interrupt":
                if self._turn is not None:
                    self._turn.cancel()
                else:
                    # It may have arrived together with the prompt, whose turn has not begun yet.
                    self._interrupted = bool(self._waiting)
            case _ if self._session is not None:
                self._host.send(_changed(self._session, message))

    def _open(self, request: str, launch: Launch) -> None:
        """Start a session, or continue one: a fork copies the file under its own id, a resume uses the same file."""
        home = os.environ["HOME"]
        name = launch.resume if launch.resume and not launch.fork else launch.session
        path, seen = file_of(home, name), 0
        try:
            if launch.resume:
                lines, seen = load(file_of(home, launch.resume), launch.resume_at)
                if launch.fork and not path.exists():
                    path.write_bytes(b"".join(line + b"\n" for line in lines))
        except (LookupError, OSError) as error:
            self._host.send(DemoMessage("answer", request, error=str(error)))
            return
        self._host.keep(path, seen)
        self._session = session = DemoSession(name, os.getcwd(), self._host, launch)
        self._executor = Executor(session, lambda text: self._enqueue(Prompt("", [{"type": "text", "text": text}])))

        async def join() -> None:
            await session.mcp.join(launch.mcp)
            session.emit_ready()
            self._host.send(DemoMessage("answer", request))

        self._joining = asyncio.create_task(join())

    def _enqueue(self, prompt: Prompt) -> None:
        if not prompt.message or prompt.message not in self._seen:
            self._seen.add(prompt.message)
            self._waiting.append(prompt)
            self._stirred.set()

    async def _next(self) -> list[Prompt]:
        """The prompts of the next turn; none if no more will come."""
        while not self._waiting:
            if self._listening.done() and not (self._session and self._session.tasks):
                return []
            self._stirred.clear()
            await self._stirred.wait()  # also the end of a task sets it, by its notification
        # Messages that arrived while the agent was busy form one turn.
        return self._take_ordinary() or [self._waiting.pop(0)]

    def _take_ordinary(self) -> list[Prompt]:
        """Take the messages that may share a turn. They are written to the session's file."""
        taken = list(takewhile(lambda prompt: prompt.is_ordinary, self._waiting))
        del self._waiting[: len(taken)]
        for prompt in taken:
            content = tuple(content_block(block) for block in prompt.content)
            self._host.emit(ev.UserMessage, message=MessageId(prompt.message), content=content)
        return taken

    async def _answer(self, prompts: list[Prompt]) -> bool:
        """Run one turn to its end; True if it failed."""
        session, began = self._session, time.monotonic()
        assert session is not None
        self._host.emit(ev.TurnStarted, trigger="prompt" if prompts[0].message else "agent")
        thread = Thread(session, self._executor.run, lambda: [prompt.text for prompt in self._take_ordinary()])
        for prompt in prompts:
            session.checkpoints.add_prompt(prompt.message)
        if prompts[0].text.strip() == "/compact":
            _compact(session)
            ending: Record = {"status": "completed"}
        else:
            self._turn = asyncio.create_task(thread.run("\n".join(prompt.text for prompt in prompts)))
            if self._interrupted:
                self._turn.cancel()
            try:
                ending = {"status": "completed", "text": await self._turn}
            except TurnOver as over:
                ending = over.ending
            except (asyncio.CancelledError, Stopped):
                ending = {"status": "cancelled", "reason": "interrupted"}
            self._turn = None
        self._interrupted = False
        elapsed = int((time.monotonic() - began) * 1000)
        used = {"duration_ms": elapsed, "api_ms": elapsed if thread.calls else 0, "model_turns": thread.calls}
        self._host.emit(ev.TurnEnded, **session.take_usage(), **ending, **used)
        return bool(ending["status"] == "failed")


def _changed(session: DemoSession, message: DemoMessage) -> DemoMessage:
    """The answer to a message that changes something."""
    result, given = None, message.data
    try:
        match message.do:
            case "set_mode":
                session.mode = given
            case "set_model":
                session.model = given or MODELS[0]
            case "rewind":
                result = session.checkpoints.rewind(given["message"], dry_run=given["dry_run"])
            case "stop_task":
                session.tasks[given].cancel()
    except (LookupError, OSError) as error:
        return DemoMessage("answer", message.id, error=str(error))
    return DemoMessage("answer", message.id, result)


def _compact(session: DemoSession) -> None:
    """`/compact`: the conversation becomes its summary."""
    emit = session.host.emit
    summary = f"This session continues an earlier conversation of {session.host.seen} messages."
    session.host.seen = 0
    emit(ev.Compaction, phase="started")
    emit(ev.Compaction, phase="ended")
    emit(ev.Compaction, phase="boundary", trigger="manual", pre_tokens=61)
    content = (content_block({"type": "text", "text": summary}),)
    emit(ev.UserMessage, message=MessageId(str(uuid.uuid4())), content=content, via="agent", synthetic=True)
    emit(ev.Notice, kind="local_command", text="Compacted")


def run_agent() -> int:
    def terminate(*_: Any) -> None:
        tools.kill_all()
        os._exit(143)

    # Not through the event loop: a SIGTERM must work while a write waits for a slow gateway.
    signal.signal(signal.SIGTERM, terminate)
    return asyncio.run(DemoAgent().run())

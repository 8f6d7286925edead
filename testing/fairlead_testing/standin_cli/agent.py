"""The stand-in's life cycle: start or resume a session, read the host's messages, run turn after turn, end.

The agent ends when stdin has ended and nothing is left to answer, with the exit code 1 if the last turn was an error,
as the real CLI does.
"""

import asyncio
import os
import signal
import sys
import time
import uuid
from itertools import takewhile
from typing import Any

from fairlead.agents.claude.transcripts.paths import config_folder, transcript_path
from fairlead.agents.demo import tools
from fairlead_testing.model_messages import Record
from fairlead_testing.standin_cli.controls import answer_control
from fairlead_testing.standin_cli.execution import Executor
from fairlead_testing.standin_cli.flags import Options
from fairlead_testing.standin_cli.permissions import Stopped
from fairlead_testing.standin_cli.session import StandinSession
from fairlead_testing.standin_cli.thread import Prompt, Thread, TurnOver
from fairlead_testing.standin_cli.transcript import CannotStart, Transcript, load, messages_of
from fairlead_testing.standin_cli.wire import Wire

_INTERRUPTED = {"subtype": "error_during_execution", "is_error": True, "errors": ["[ede_diagnostic] interrupted"]}


class StandinCli:
    """One process, one session."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._waiting: list[Prompt] = []
        self._stirred = asyncio.Event()
        self._ended = False
        self._turn: asyncio.Task[Record] | None = None
        self._seen: set[str] = set()
        self._wire = Wire(self._take, self._end)

    async def run(self) -> int:
        try:
            self._session = self._open()
        except CannotStart as error:
            print(error, file=sys.stderr)
            self._wire.emit({"type": "result", **_INTERRUPTED, "errors": [str(error)]})
            self._wire.flush()
            return 1
        self._executor = Executor(self._session, self._enqueue)
        self._wire.start()
        failed = False
        while prompts := await self._next():
            failed = await self._answer(prompts)
        self._wire.flush()
        return 1 if failed else 0

    def _open(self) -> StandinSession:
        """Start a session, or continue one: a fork copies the chain into a new file under its own id, a resume uses the
        same file."""
        options, config, cwd = self._options, config_folder(os.environ), os.getcwd()
        resumed = transcript_path(config, cwd, options.resume) if options.resume else None
        chain = load(resumed, options.resume_session_at) if resumed is not None else []
        session_id = options.session_id or str(uuid.uuid4())
        if options.resume and not options.fork_session:
            session_id = options.resume
        path = transcript_path(config, cwd, session_id)
        if path != resumed and path.exists():
            raise CannotStart(f"Error: Session ID {session_id} is already in use.")
        transcript = Transcript(path, session_id, cwd)
        for row in chain if options.fork_session else ():
            transcript.append({**row, "sessionId": session_id})
        if chain:
            transcript.leaf = chain[-1]["uuid"]
        self._seen |= {row["uuid"] for row in chain if row.get("type") == "user"}
        return StandinSession(session_id, cwd, options, self._wire, transcript, messages_of(chain))

    # -- input from the host

    def _take(self, record: Record) -> None:
        match record:
            case {"type": "user", "message": {"content": str() | list() as content}}:
                self._enqueue(content, record.get("uuid"))
            case {"type": "control_request", "request": {"subtype": str()} as request}:
                self._wire.write(answer_control(self._session, str(record.get("request_id")), request))
                if request["subtype"] == "interrupt" and self._turn is not None:
                    self._turn.cancel()
            case {"type": "control_response"}:
                self._wire.settle(record)

    def _enqueue(self, content: str | list[Any], given: Any = None) -> None:
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks = [block for block in content if isinstance(block, dict)]
        prompt = Prompt(blocks, given if isinstance(given, str) else str(uuid.uuid4()))
        if prompt.uuid not in self._seen:
            self._seen.add(prompt.uuid)
            self._waiting.append(prompt)
            self._stirred.set()

    def _end(self) -> None:
        self._ended = True
        self._stirred.set()

    # -- turns

    async def _next(self) -> list[Prompt]:
        """The prompts of the next turn; none if no more will come."""
        if self._waiting:
            # Messages that arrived while the agent was busy form one turn, as in CLI 2.1.120 and later.
            return self._take_ordinary() or [self._waiting.pop(0)]
        while not self._waiting:
            if self._ended and not self._session.tasks:
                return []
            self._stirred.clear()
            await self._stirred.wait()  # also the end of a task sets it, by its notification
        return [self._waiting.pop(0)]

    def _take_ordinary(self) -> list[Prompt]:
        taken = list(takewhile(lambda prompt: prompt.is_ordinary, self._waiting))
        del self._waiting[: len(taken)]
        return taken

    async def _answer(self, prompts: list[Prompt]) -> bool:
        """Run one turn to its result record; True if that was an error."""
        session, began = self._session, time.monotonic()
        if prompts[0].text.strip() == "/compact":
            _compact(session)
            return False
        run_tool, steering = self._executor.run, self._take_ordinary
        thread = Thread(session, session.source, session.transcript, session.messages, run_tool, steering)
        self._turn = asyncio.create_task(self._work(thread, prompts))
        try:
            ending = await self._turn
        except (asyncio.CancelledError, Stopped):
            ending = _INTERRUPTED
        self._turn = None
        elapsed = int((time.monotonic() - began) * 1000)
        times = {"duration_ms": elapsed, "duration_api_ms": elapsed if thread.calls else 0}
        session.emit_result(ending, calls=thread.calls, num_turns=1 + thread.user_records, **times)
        return bool(ending["is_error"])

    async def _work(self, thread: Thread, prompts: list[Prompt]) -> Record:
        """Do everything that an interrupt may stop; return how it ended."""
        session = self._session
        for prompt in prompts:
            session.transcript.add(prompt.as_row())
            session.checkpoints.add_prompt(prompt.uuid)
        # Prompts that waited together form one message to the model.
        session.messages.append({"role": "user", "content": [block for p in prompts for block in p.blocks]})
        await session.mcp.wait_ready()
        session.emit_init()
        try:
            return {"subtype": "success", "is_error": False, "result": await thread.run()}
        except TurnOver as over:
            return over.ending


def _compact(session: StandinSession) -> None:
    """`/compact`: the conversation becomes its summary."""
    session.emit_system("status", status="compacting")
    summary = f"This session continues an earlier conversation of {len(session.messages)} messages."
    session.emit_system("status", status=None)
    session.emit_init()
    metadata = {"trigger": "manual", "pre_tokens": 61}
    boundary = session.source.record("system", subtype="compact_boundary", compact_metadata=metadata)
    session.wire.emit(boundary)
    row = {"type": "system", "subtype": "compact_boundary", "uuid": boundary["uuid"], "compactMetadata": metadata}
    session.transcript.leaf = None
    session.transcript.add(row)
    for content, fields, row_fields in (
        (summary, {"isSynthetic": True}, {"isCompactSummary": True}),
        ("<local-command-stdout>Compacted </local-command-stdout>", {"isReplay": True}, {}),
    ):
        record = session.source.record("user", message={"role": "user", "content": content}, **fields)
        session.wire.emit(record)
        session.transcript.add({name: record[name] for name in ("type", "message", "uuid")} | row_fields)
    session.messages[:] = [{"role": "user", "content": summary}]
    session.emit_result({"subtype": "success", "is_error": False, "result": ""}, calls=0, num_turns=0)


def run_agent(options: Options) -> int:
    def terminate(*_: Any) -> None:
        tools.kill_all()
        os._exit(143)

    # Not through the event loop: a SIGTERM must work while a write waits for a slow host.
    signal.signal(signal.SIGTERM, terminate)

    async def live() -> int:
        return await StandinCli(options).run()  # the wire needs a running event loop

    return asyncio.run(live())

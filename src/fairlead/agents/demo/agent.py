"""The demo agent's life cycle: start or resume a session, read the host's messages, run turn after turn, end.

Rule: only this module connects the parts. The agent ends when stdin has ended and nothing is left to answer, with the
exit code 1 if the last turn was an error, as the real CLI does.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from fairlead.agents.claude.transcripts.paths import config_folder, transcript_path
from fairlead.agents.demo import records, tools
from fairlead.agents.demo.controls import Refused, answer_control
from fairlead.agents.demo.execution import Executor
from fairlead.agents.demo.flags import Options
from fairlead.agents.demo.ids import new_uuid
from fairlead.agents.demo.permissions import Grants
from fairlead.agents.demo.records import Record
from fairlead.agents.demo.session import DemoSession
from fairlead.agents.demo.transcript import NoConversation, Transcript, load
from fairlead.agents.demo.turns import Prompt, Turn, compact
from fairlead.agents.demo.usage import TokenUsage
from fairlead.agents.demo.wire import Wire


class SessionTaken(Exception):
    """The id for a new session has a transcript already. The message is the one that the real CLI prints."""


class DemoAgent:
    """One process, one session."""

    def __init__(self, options: Options, environ: Mapping[str, str], cwd: str) -> None:
        self._options = options
        self._environ = dict(environ)
        self._cwd = cwd
        self._waiting: list[Prompt] = []
        self._stirred = asyncio.Event()
        self._ended = False
        self._turn: Turn | None = None
        self._turns = 0
        self._seen: set[str] = set()
        self._wire = Wire(self._take, self._end)

    async def run(self) -> int:
        """Run from start to end and return the exit code."""
        try:
            self._session = self._open()
        except SessionTaken as error:
            print(error, file=sys.stderr)
            return 1
        except NoConversation as error:
            session_id = self._options.resume or self._options.session_id or new_uuid()
            print(error, file=sys.stderr)
            self._wire.emit(records.failed_start(session_id, str(error)))
            self._wire.flush()
            return 1
        self._executor = Executor(self._session, lambda text, origin: self._enqueue(Prompt(text, origin=origin)))
        self._wire.start()
        failed = False
        while (prompts := await self._next()) is not None:
            failed = await self._answer(prompts)
        if self._turns:
            cost = self._session.ledger.as_cost_state()
            self._session.transcript.line({"type": "cost-state", "sessionId": self._session.id, **cost})
        self._wire.flush()
        return 1 if failed else 0

    # -- the session

    def _open(self) -> DemoSession:
        """Start a session, or continue one: a fork copies the chain into a new file under its own id, a resume uses the
        same file."""
        options, config = self._options, config_folder(self._environ)
        resumed = transcript_path(config, self._cwd, options.resume) if options.resume else None
        history = load(resumed, options.resume_at) if resumed is not None else None
        session_id = options.session_id or new_uuid()
        if options.resume and not options.fork:
            session_id = options.resume
        path = transcript_path(config, self._cwd, session_id)
        if path != resumed and path.exists():
            raise SessionTaken(f"Error: Session ID {session_id} is already in use.")
        transcript = Transcript(path, session_id, self._cwd)
        if history is not None:
            self._seen |= history.prompts
            for record in history.chain if options.fork else ():
                transcript.line({**record, "sessionId": session_id})
            transcript.leaf = history.leaf
        return DemoSession(
            id=session_id,
            cwd=self._cwd,
            options=options,
            wire=self._wire,
            transcript=transcript,
            model=records.resolve_model(options.model),
            grants=Grants(options.mode, self._cwd, options.directories),
            ledger=history.ledger if history is not None else TokenUsage(),
            messages=history.messages if history is not None else [],
            heartbeat=float(self._environ.get("FAIRLEAD_DEMO_HEARTBEAT") or 30),
        )

    # -- input from the host

    def _take(self, record: Record) -> None:
        match record.get("type"):
            case "user":
                self._queue(record)
            case "control_request":
                self._control(record)
            case "control_response":
                self._wire.answered(record)

    def _queue(self, record: Record) -> None:
        message, uuid = record.get("message"), record.get("uuid")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            content = [block for block in content if isinstance(block, dict)]
        elif not isinstance(content, str):
            return
        if isinstance(uuid, str) and uuid in self._seen:
            return
        busy = self._turn is not None or bool(self._waiting)
        prompt = Prompt(content, uuid if isinstance(uuid, str) else None, came_while_busy=busy)
        if prompt.uuid is not None:
            self._seen.add(prompt.uuid)
            self._session.emit_lifecycle(prompt.uuid, "queued")
        self._enqueue(prompt)

    def _enqueue(self, prompt: Prompt) -> None:
        self._session.transcript.queued("enqueue", content=prompt.text)
        self._waiting.append(prompt)
        self._stirred.set()

    def _control(self, record: Record) -> None:
        request_id, request = str(record.get("request_id")), record.get("request")
        if not isinstance(request, dict):
            return
        match request.get("subtype"):
            case "interrupt":
                self._interrupt(request_id)
            case "cancel_async_message":
                self._wire.reply(request_id, {"cancelled": self._cancel(str(request.get("message_uuid")))})
            case _:
                try:
                    self._wire.reply(request_id, answer_control(self._session, request))
                except Refused as refused:
                    self._wire.refuse(request_id, str(refused), **refused.fields)
                else:
                    if request["subtype"] == "set_permission_mode":
                        self._session.emit_status(None, permissionMode=self._session.grants.mode)

    def _interrupt(self, request_id: str) -> None:
        def acknowledge() -> None:
            queued = [p.uuid for p in self._waiting if p.uuid is not None]
            self._wire.reply(request_id, {"still_queued": queued})

        if self._turn is None or not self._turn.interrupt(acknowledge):
            acknowledge()

    def _cancel(self, uuid: str) -> bool:
        kept = [p for p in self._waiting if p.uuid != uuid]
        cancelled = len(kept) < len(self._waiting)
        self._waiting = kept
        return cancelled

    def _end(self, error: str | None) -> None:
        if error is not None:
            print(error, file=sys.stderr, flush=True)
            tools.kill_all()
            os._exit(1)
        self._ended = True
        self._stirred.set()

    # -- turns

    async def _next(self) -> list[Prompt] | None:
        """The prompts of the next turn; None if no more will come."""
        while not self._waiting:
            if self._ended and not self._session.tasks:
                return None
            self._stirred.clear()
            running = [t.work for t in self._session.tasks.values() if t.work is not None]
            stirred = asyncio.create_task(self._stirred.wait())
            await asyncio.wait([stirred, *running], return_when=asyncio.FIRST_COMPLETED)
            stirred.cancel()
        # Messages that arrived while the agent was busy form one turn, as in CLI 2.1.120 and later.
        prompts = [self._waiting.pop(0)]
        if prompts[0].came_while_busy:
            while _ordinary(prompts[0]) and self._waiting and _ordinary(self._waiting[0]):
                prompts.append(self._waiting.pop(0))
        for _ in prompts:
            self._session.transcript.queued("dequeue")
        return prompts

    async def _answer(self, prompts: list[Prompt]) -> bool:
        index = self._turns
        self._turns += 1
        if prompts[0].text.strip() == "/compact":
            compact(self._session, index)
            return False
        self._turn = Turn(self._session, prompts, index, self._executor, self._absorb)
        try:
            return await self._turn.run()
        finally:
            self._turn = None

    def _absorb(self) -> list[str]:
        """Take the messages that arrived meanwhile into the running turn."""
        taken = [p for p in self._waiting if _ordinary(p)]
        self._waiting = [p for p in self._waiting if not _ordinary(p)]
        return [p.text for p in taken]


def _ordinary(prompt: Prompt) -> bool:
    return prompt.origin is None and not prompt.text.startswith("/")


def run_agent(options: Options, environ: Mapping[str, str], cwd: str) -> int:
    """Run the agent in this process and return the exit code."""

    def terminated(*_: Any) -> None:
        tools.kill_all()
        os._exit(143)

    # Not through the event loop: a SIGTERM must work while a write waits for a slow host.
    signal.signal(signal.SIGTERM, terminated)

    async def live() -> int:
        return await DemoAgent(options, environ, cwd).run()  # the wire needs a running event loop

    return asyncio.run(live())

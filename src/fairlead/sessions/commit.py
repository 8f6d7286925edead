"""The core of a session: one lock, one state, one log. Every change of a session goes through `commit`.

Rule: nothing waits for the agent or a client while the lock is held; only the store is awaited under it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import Interpretation, Interpreter, Record
from fairlead.model.commands import Command, Reply, Send, Steer
from fairlead.model.errors import FairleadError, Fenced, Unavailable
from fairlead.model.ids import RequestId, SessionId, event_id
from fairlead.model.policy import PermissionMode
from fairlead.model.store import Checkpoint, Entry, Origin, StoredReply
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.log import PendingEntries, SessionLog
from fairlead.sessions.state import SessionState, evolve

STATE = "state"
INTERPRETER = "interpreter"
"""Names of the two checkpoints of a session."""

BYTES_PER_EVENT = 100
"""Maximum checkpoint bytes per event: less than an event's own row in the log."""

_CHECKPOINTED = (ev.TurnEnded, ev.AgentExited, ev.SessionOpened, ev.SessionForked)
"""Events after which a checkpoint is written."""

logger = logging.getLogger("fairlead.session")


class RequestedMode(NamedTuple):
    """A mode that the agent was asked to enter, and the requester."""

    mode: str
    by: str
    request: str


class Commit:
    """One commit being built: events are staged and reduced as they are added, so that later ones see earlier ones."""

    def __init__(self, core: "SessionCore") -> None:
        self._core = core
        self.stage: PendingEntries = core.log.stage()
        self.state = core.state
        self.events: list[ev.Event] = []
        self.replies: list[StoredReply] = []
        self.offsets: list[Checkpoint] = []
        self.force_checkpoint = False
        """Force a checkpoint: the cause of this commit is not a record, so replaying the log would not reproduce the
        interpreter's state."""

    def add(self, event: ev.Event, origin: Origin = "", raw: bytes | None = None, at: int = 0) -> Entry:
        event, entry = self.stage.add(event, origin, raw, at)
        self.state = evolve(self.state, event, entry.seq, entry.event)
        self.events.append(event)
        self._core.interpreter.assign_seq(event, entry.seq)
        if isinstance(event, ev.ToolEnded):
            self.cancel([item.request for item in self.state.pending if item.call == event.call], "the tool has ended")
        elif isinstance(event, ev.TurnEnded):
            # A background subagent's request outlives the turn that started it.
            self.cancel([item.request for item in self.state.pending if item.subagent is None], "the turn has ended")
        return entry

    def record(self, record: Record, by: str = "", known: Container[str] = ()) -> None:
        """Interpret one record and stage its events; its bytes are stored with the first event.

        `known` are ids of events, and names of records, that are in the log already: a file that is read again adds
        nothing twice."""
        if record.name and record.name in known:
            return
        outcome = self._core.interpreter.step(record)
        raw: bytes | None = record.raw
        for event in outcome.events:
            if event.id in known:
                continue
            if by and isinstance(event, ev.UserMessage):
                event = msgspec.structs.replace(event, by=by)
            self.add(self._core.enrich(event, self.state), record.origin if raw is not None else "", raw, record.at)
            raw = None
        self.stage.drop.update(outcome.drop)

    def save_offset(self, name: str, data: bytes) -> None:
        """Store the read position of a source together with the events read, so that nothing is read twice or
        skipped."""
        self.offsets.append(Checkpoint(name, self.stage.seq, data))

    def save_reply(self, key: str, reply: Reply) -> None:
        self.replies.append(StoredReply(key, msgspec.json.encode(reply)))

    def save_replies(self, command: Command, reply: Reply) -> None:
        """Store the reply for repeats of the command."""
        for key in idempotency_keys(command):
            self.save_reply(key, reply)

    def apply(self, outcome: Interpretation, at: int = 0) -> None:
        """Stage events of the interpreter that come from no record."""
        for event in outcome.events:
            self.add(event, at=at)
        self.stage.drop.update(outcome.drop)

    def close_turn(self, reason: str, cause: str) -> None:
        """End the open turn and calls: no process is left that could end them."""
        self.apply(self._core.interpreter.exited(reason, cause))

    @property
    def has_changes(self) -> bool:
        return bool(self.events or self.stage.drop or self.offsets or self.replies or self.force_checkpoint)

    def cancel(self, requests: Iterable[RequestId], reason: str) -> None:
        for request in requests:
            name, turn = event_id(request, "permission.cancelled"), self.state.turn
            self.add(ev.PermissionCancelled(id=name, turn=turn, request=request, reason=reason))

    def fail(self, error: FairleadError, cause: str, message: str = "") -> None:
        name, turn = event_id(cause, "error"), self._core.interpreter.turn
        self.add(ev.ErrorRaised(id=name, turn=turn, code=error.code, message=message or error.message, data=error.data))

    def interrupt(self, by: str, reference: str = "") -> Entry:
        """Log a requested interrupt: the open turn will end as cancelled."""
        interpreter, cause = self._core.interpreter, self._core.services.new_uuid()
        marker = self._core.services.kind(self.state.agent).interrupt_record(cause)
        interpreter.step(marker)
        name = event_id(cause, "interrupt.asked")
        asked = ev.InterruptRequested(id=name, turn=interpreter.turn, by=by, reference=reference)
        return self.add(asked, marker.origin, marker.raw)


def idempotency_keys(command: Command) -> tuple[str, ...]:
    """The keys under which a command's reply is stored; a message id counts as one."""
    keys = [f"key:{command.key}"] if command.key else []
    if isinstance(command, Send | Steer) and command.message:
        keys.append(f"message:{command.message}")
    return tuple(keys)


def interrupt_key(seq: int) -> str:
    """The key under which an agent gets a logged interrupt, so that it gets it once."""
    return f"interrupt-{seq}"


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end, however often the waiting task is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    task.result()


def _future() -> "asyncio.Future[Unavailable]":
    return asyncio.get_running_loop().create_future()


class SessionCore:
    """State, interpreter and log of one session."""

    def __init__(
        self, services: CoreDependencies, log: SessionLog, state: SessionState, interpreter: Interpreter
    ) -> None:
        self.services = services
        self.log = log
        self.state = state
        self.interpreter = interpreter
        self.lock = asyncio.Lock()
        self._stalled = _future()
        """Completed with the store's error while a patient commit waits for the store."""
        self.on_commit: Callable[[Sequence[ev.Event]], None] = lambda events: None
        """Called after each commit, in order, when the stored events are the session's current state."""
        self.on_fenced: Callable[[], None] = lambda: None
        """Called when the store rejects a commit because another node owns the session by now."""
        self.requested_mode: RequestedMode | None = None
        self.suggest: Callable[[str, dict[str, Any]], tuple[str, ...]] = lambda tool, tool_input: ()
        self.shutting_down = False
        """The gateway is shutting down: commits do not wait for an unavailable store. The next start recovers the
        missing events."""
        self.found_at: int | None = None
        """Modification time of the transcript file, while it is imported for the first time. Lists show that time and
        the state idle, because the imported events happened then."""
        self._since_checkpoint = 0
        self._checkpoint_bytes = 0

    @property
    def session(self) -> SessionId:
        return self.state.session

    @contextlib.asynccontextmanager
    async def client_lock(self) -> AsyncIterator[None]:
        """Take the lock for a client's command. Raises Unavailable if the holder waits for an unavailable store."""
        taking = asyncio.ensure_future(self.lock.acquire())
        either: set[asyncio.Future[Any]] = {taking, self._stalled}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                error = self._stalled.result()
                raise Unavailable(error.message, **error.data)
            yield
        finally:
            if not taking.done():
                taking.cancel()
                await asyncio.wait({taking})
            if not taking.cancelled():
                self.lock.release()

    def transaction(self) -> AbstractAsyncContextManager[Commit]:
        """Take the lock and commit what the block stages, if anything: patiently, for facts that cannot be rejected."""
        return self._staged(self.lock, patient=True)

    def client_transaction(self, *, patient: bool = False) -> AbstractAsyncContextManager[Commit]:
        """The same for a client's command, which fails if the store is unavailable; `patient`: its commit waits."""
        return self._staged(self.client_lock(), patient=patient)

    @contextlib.asynccontextmanager
    async def _staged(self, lock: AbstractAsyncContextManager[None], *, patient: bool) -> AsyncIterator[Commit]:
        async with lock:
            transition = Commit(self)
            yield transition
            if transition.has_changes:
                await self.commit(transition, patient=patient)

    async def commit(self, transition: Commit, *, patient: bool = False) -> None:
        """Store the staged events and make the new state current. Needs the lock.

        `patient`: the events come from the agent and cannot be rejected; while the store is unavailable, the agent
        waits. Cancellation takes effect only at the end, so that the state matches the store."""
        state, stage = transition.state, transition.stage
        summary = state.summary() if state is not self.state else None
        if summary is not None and self.found_at is not None:
            summary = msgspec.structs.replace(summary, state="idle", updated=self.found_at)
        checkpoints = (*self._checkpoints(transition), *transition.offsets)
        write = partial(self.log.write, stage, summary=summary, checkpoints=checkpoints, replies=transition.replies)
        cancelled = False
        while True:
            try:
                try:
                    await write()
                except asyncio.CancelledError:
                    # The outcome is unknown. A repeated write stores nothing twice, and its outcome is known.
                    cancelled = True
                    await _to_its_end(write())
                break
            except Fenced:
                self.on_fenced()
                raise
            except Unavailable as error:
                if cancelled:
                    raise asyncio.CancelledError from error
                if not patient or self.shutting_down:
                    raise
                logger.error("store unavailable", extra={"session": self.session, "error": error.message})
                await self._wait_out(error)
        self.state = state
        if len(checkpoints) > len(transition.offsets):
            self._since_checkpoint = 0
        if transition.events:
            self.on_commit(transition.events)
        if cancelled:
            raise asyncio.CancelledError

    async def _wait_out(self, error: Unavailable) -> None:
        self._stalled.set_result(error)
        try:
            await self.services.clock.sleep(self.services.limits.retry_s)
        finally:
            self._stalled = _future()

    def _checkpoints(self, transition: Commit) -> tuple[Checkpoint, ...]:
        self._since_checkpoint += len(transition.events)
        # A large checkpoint (a long stream) is written less often, so that its cost per event stays the same.
        enough = max(self.services.limits.checkpoint_every, self._checkpoint_bytes // BYTES_PER_EVENT)
        rests = any(isinstance(event, _CHECKPOINTED) for event in transition.events)
        if not (rests or transition.force_checkpoint or self._since_checkpoint >= enough):
            return ()
        seq = transition.stage.seq
        state, memory = msgspec.msgpack.encode(transition.state), self.interpreter.snapshot()
        self._checkpoint_bytes = len(state) + len(memory)
        return Checkpoint(STATE, seq, state), Checkpoint(INTERPRETER, seq, memory)

    def enrich(self, event: ev.Event, state: SessionState) -> ev.Event:
        """Complete or replace an interpreted event with facts that only the core has: the sender of a message, the
        requester of a mode, whether that mode is new and whether the policy follows it, and the rules that would answer
        a request permanently."""
        if isinstance(event, ev.UserMessage) and not event.by:
            return msgspec.structs.replace(event, by=state.sender(event.message))
        if isinstance(event, ev.PermissionRequested):
            rules = self.suggest(event.tool, event.input) if event.certain else ()
            return msgspec.structs.replace(event, suggestions=rules)
        if not isinstance(event, ev.ModeChanged):
            return event
        if event.mode == state.settings.mode:
            return ev.RecordStored(id=event.id, turn=event.turn, record="system", subtype="status")
        if self.requested_mode is not None and self.requested_mode.mode == event.mode:
            return msgspec.structs.replace(event, by=self.requested_mode.by, request=self.requested_mode.request)
        # The policy never follows the agent into bypassPermissions, unless that is allowed.
        if self.services.policy.allow_bypass or event.mode != PermissionMode.BYPASS_PERMISSIONS:
            return event
        text = f"The agent went into the mode {event.mode} by itself; the gateway's policy stays as it was."
        return ev.Notice(id=event.id, turn=event.turn, kind="mode.ignored", text=text)

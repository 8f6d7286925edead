"""The connection to one agent process: logs its start, its records and its exit in the session's log.

Rule: this file only logs what happened to a process; `AgentSupervisor` decides about processes.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import (
    Agent,
    AgentSink,
    Decision,
    Exit,
    Launch,
    LentProcess,
    PermissionRequest,
    ProcessInfo,
    Record,
    RequestState,
    ToolCheck,
)
from fairlead.model.commands import Reply
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.ids import RequestId, event_id
from fairlead.model.policy import Verdict
from fairlead.model.store import OutputPosition, StoredOutput
from fairlead.sessions.commit import SessionCore
from fairlead.sessions.permissions.requests import PermissionRequests
from fairlead.system.process import signal_child
from fairlead.system.proctable import Process

OUTPUT = "output"
RECALL = "recall"
"""Names of the checkpoints of a kept process: how much of its output is stored, and the lines to recall."""
RECENT_ANSWERS = 200
"""Resolved requests that a restarted gateway looks up: more than an agent has open at a time."""

LOST = "gateway lost"
"""Reason of a failed turn whose agent could not finish it without the gateway."""
LOST_GATEWAY = "agent lost its gateway"
"""Reason of its cancelled requests."""


@dataclass(eq=False, repr=False)
class AgentConnection(AgentSink):
    """The sink of one process: late output of an earlier process cannot be mistaken for that of the current one.

    `_launch` is None for a process that outlived its gateway; `_followed` is then the agent's session id. `_on_records`
    is called with the logged events of each batch, `_on_exit` when the exit is logged, `_on_lost` when the keeper that
    held the process has ended."""

    _core: SessionCore
    _asking: PermissionRequests
    _launch: Launch | None
    _cause: str
    _followed: str
    _on_records: Callable[[Sequence[ev.Event]], None]
    _on_exit: Callable[[], None]
    _on_lost: Callable[[ProcessInfo], None]
    _has_records: bool = False
    process: ProcessInfo | None = None
    agent: Agent | None = None
    child: str = ""
    stop_reason: str = ""
    """Why we stop the process; empty while we do not."""
    cut_by: str | None = None
    """The person who wants the process stopped: an open turn counts as cancelled by them, not as failed."""
    gone: bool = False
    again: bool = False
    """The process is lent and was connected before: its start is in the log."""
    released: bool = False
    """The process is lent or kept and goes on without us: its end is not logged."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    last_words: str = ""
    _resolved: dict[RequestId, ev.PermissionResolved] = field(default_factory=dict)

    async def started(self, child: ProcessInfo) -> None:
        if child.pid:  # not for a process that a person started: a restarted gateway does not look for it
            self.child, self.process = child_name(child), child
            await self._core.services.remember_child(child)
        if not self.again:
            await self._log_start(child)

    async def _log_start(self, child: ProcessInfo) -> None:
        assert self._launch is not None
        core, cause, resume = self._core, self._core.services.new_uuid(), self._launch.resume
        async with core.transaction() as transition:
            if resume:
                transition.add(ev.SessionResumed(id=event_id(cause, "session.resumed"), agent_session=resume))
            name = event_id(cause, "agent.started")
            transition.add(ev.AgentStarted(id=name, agent=child.agent, pid=child.pid, resumed=bool(resume)))

    async def records(self, batch: Sequence[Record], position: OutputPosition | None = None) -> None:
        self._has_records = True
        async with self._core.transaction() as transition:
            for record in batch:
                transition.record(record, by=record.by)
            if position is not None:
                # In the same append as what was read: a killed gateway reads on exactly after it.
                transition.save_offset(OUTPUT, _encoder.encode(_SavedOffset(self.child, position.offset)))
                if position.recall is not None:
                    transition.save_offset(RECALL, _encoder.encode(_SavedRecall(self.child, position.recall)))
        self._on_records(transition.events)

    async def adopt(self, child: ProcessInfo) -> StoredOutput:
        """Continue the connection of an earlier gateway to this process; return what is stored of its output."""
        self.child, self.process = child_name(child), child
        store, session = self._core.log.store, self._core.session
        last = await store.tail(session, None, 1, ("agent.started", "agent.exited"))
        if not any(entry.kind == "agent.started" for entry in last.entries):
            await self._log_start(child)  # the gateway died after it had recorded the process
        page = await store.tail(session, None, RECENT_ANSWERS, ("permission.resolved",))
        for entry in page.entries:
            event = ev.decode(entry.event)
            if isinstance(event, ev.PermissionResolved):
                self._resolved[event.request] = event
        offset = 0
        recall: tuple[bytes, ...] = ()
        if (saved := await store.checkpoint(session, OUTPUT)) is not None:
            place = msgspec.msgpack.decode(saved.data, type=_SavedOffset)
            offset = place.offset if place.process == self.child else 0
        if (saved := await store.checkpoint(session, RECALL)) is not None:
            lines = msgspec.msgpack.decode(saved.data, type=_SavedRecall)
            recall = lines.lines if lines.process == self.child else ()
        return StoredOutput(offset, recall)

    async def request_state(self, request: RequestId) -> RequestState:
        state = self._core.state
        if state.find_pending(request) is not None:
            return "pending"
        if request in self._resolved:
            return self._resolved[request]
        return "settled" if any(request == known for known, _ in state.decided) else "unknown"

    async def check(self, call: ToolCheck) -> Verdict:
        return await self._asking.check(call)

    async def permission_requested(self, ask: PermissionRequest) -> None:
        resolved = await self._asking.resolve_by_policy(ask)
        if resolved is not None and self.agent is not None:
            await self._asking.deliver(self.agent, resolved)

    async def permission_cancelled(self, request: RequestId) -> None:
        await self._asking.cancel(request, "the agent withdrew it")

    async def permission_answered(self, request: RequestId, decision: Decision, by: str) -> bool:
        return await self._asking.answered_by_caller(request, decision, by)

    async def interrupted(self, by: str) -> None:
        async with self._core.transaction() as transition:
            if self._core.interpreter.turn is not None:
                transition.interrupt(by)

    async def mcp(self, server: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        servers = self._core.services.mcp
        if server not in servers:
            raise NotFound("MCP server", server)
        return await servers[server].handle(message)

    async def keeper_lost(self) -> None:
        self.gone = True
        self.agent = None
        self.ended.set()
        if self.process is not None and not self.released:
            self._on_lost(self.process)

    async def exited(self, exit: Exit) -> None:
        self.gone = True
        self.last_words = exit.stderr.strip()
        try:
            if self.released:
                self.agent = None
                return
            await self._log_exit(exit)
            self.agent = None
            await self._core.services.forget_child(self._core.session)
        finally:
            self.ended.set()
        self._on_exit()

    async def abandon(self) -> None:
        """Kill the process at once, and log nothing more: another node owns the session."""
        agent, self.released = self.agent, True
        if agent is None:
            return
        if agent.lent:
            await agent.release()
            return
        self.signal(signal.SIGKILL)
        with contextlib.suppress(FairleadError):
            await agent.stop("another node owns the session")

    def signal(self, number: signal.Signals) -> None:
        """Signal our own process and everything that it started."""
        if self.process is not None and not self.process.lent:
            signal_child(Process(self.process.pid, self.process.started), self.process.group, number)

    async def _log_exit(self, exit: Exit) -> None:
        core, cause, follows = self._core, self._cause, self._launch is None
        reason = self.stop_reason or (LOST if follows else _describe(exit))
        async with core.transaction() as transition:
            if self.cut_by is not None and core.interpreter.turn is not None:
                transition.interrupt(self.cut_by)
            transition.cancel([item.request for item in core.state.pending], "the agent has exited")
            transition.close_turn(reason, cause)
            if self._followed and self._has_records and not core.state.resumable:
                # The gateway died before the agent sent its id; without it the next process would start from scratch.
                resumed = event_id(cause, "session.resumed")
                transition.add(ev.SessionResumed(id=resumed, agent_session=self._followed))
            name, expected = event_id(cause, "agent.exited"), bool(self.stop_reason) or follows
            exited = ev.AgentExited(
                id=name, reason=reason, expected=expected, code=exit.code, signal=exit.signal, stderr=exit.stderr
            )
            transition.add(exited)
            if self.child:
                transition.save_reply(exit_key(self.child), Reply(session=core.session))


class _SavedOffset(msgspec.Struct, frozen=True):
    process: str
    offset: int


class _SavedRecall(msgspec.Struct, frozen=True):
    process: str
    lines: tuple[bytes, ...]


_encoder = msgspec.msgpack.Encoder()


def child_name(child: ProcessInfo | LentProcess) -> str:
    """A permanent name of a process: pids are reused."""
    return f"{child.pid}-{child.started}"


def exit_key(child: str) -> str:
    """The key of the reply that marks a logged exit: the gateway may die before it deletes the child record."""
    return f"exit:{child}"


def _describe(exit: Exit) -> str:
    if exit.signal is not None:
        return f"the agent was ended by signal {exit.signal}"
    words = exit.stderr.strip().splitlines()
    return f"the agent exited with code {exit.code}" + (f": {words[-1]}" if words else "")

"""Logs the life of an agent process in its session's log: start, records, interrupt, exit.

Rule: this file only logs what happened to a process; `AgentSupervisor` decides about processes.
"""

from collections.abc import Sequence

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import AgentKind, Exit, Launch, ProcessInfo, Record
from fairlead.model.commands import Reply
from fairlead.model.ids import event_id
from fairlead.model.store import NewEntry
from fairlead.sessions.commit import Commit, SessionCore

LOST = "gateway lost"
"""Reason of a failed turn whose agent could not finish it without the gateway."""


class ProcessEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended, as far as we know. `stopped`: why we ended it. `cut_by`: the person who ended it; an open
    turn counts as cancelled by them. `conversation`: the agent's session id, if records were read from its transcript
    after it had lost its gateway."""

    exit: Exit
    child: str
    stopped: str = ""
    cut_by: str | None = None
    followed: bool = False
    conversation: str = ""


class ProcessLog:
    def __init__(self, core: SessionCore, kind: AgentKind) -> None:
        self._core = core
        self._kind = kind

    async def started(self, child: ProcessInfo, launch: Launch) -> None:
        core = self._core
        if child.pid:  # not for a process that a person started: a restarted gateway does not look for it
            await core.services.remember_child(child)
        cause = core.services.new_uuid()
        async with core.lock:
            transition = core.begin()
            if launch.resume:
                transition.add(ev.SessionResumed(id=event_id(cause, "session.resumed"), agent_session=launch.resume))
            transition.add(
                ev.AgentStarted(
                    id=event_id(cause, "agent.started"),
                    agent=child.agent,
                    pid=child.pid,
                    resumed=bool(launch.resume),
                )
            )
            await core.commit(transition, patient=True)

    async def records(self, batch: Sequence[Record]) -> Sequence[ev.Event]:
        """Log the events of the records; return these events."""
        core = self._core
        async with core.lock:
            transition = core.begin()
            for record in batch:
                transition.record(record)
            if transition.events or transition.stage.drop:
                await core.commit(transition, patient=True)
        return transition.events

    def interrupted(self, transition: Commit, by: str) -> NewEntry:
        """Log a requested interrupt: the open turn will end as cancelled."""
        core = self._core
        cause = core.services.new_uuid()
        marker = self._kind.interrupt_record(cause)
        core.interpreter.step(marker)
        asked = ev.InterruptRequested(id=event_id(cause, "interrupt.asked"), turn=core.interpreter.turn, by=by)
        return transition.add(asked, marker.origin, marker.raw)

    async def exited(self, ending: ProcessEnd, cause: str) -> None:
        core, exit = self._core, ending.exit
        reason = ending.stopped or (LOST if ending.followed else _describe(exit))
        async with core.lock:
            transition = core.begin()
            if ending.cut_by is not None and core.interpreter.turn is not None:
                self.interrupted(transition, ending.cut_by)
            transition.cancel([item.request for item in core.state.pending], "the agent has exited")
            self.close_turn(transition, reason, cause)
            if ending.conversation and not core.state.resumable:
                # The gateway died before the agent sent its id; without it the next process would start from scratch.
                resumed = event_id(cause, "session.resumed")
                transition.add(ev.SessionResumed(id=resumed, agent_session=ending.conversation))
            transition.add(
                ev.AgentExited(
                    id=event_id(cause, "agent.exited"),
                    reason=reason,
                    expected=bool(ending.stopped) or ending.followed,
                    code=exit.code,
                    signal=exit.signal,
                    stderr=exit.stderr,
                )
            )
            if ending.child:
                transition.save_reply(_exit_key(ending.child), Reply(session=core.session))
            await core.commit(transition, patient=True)

    async def knows_exit(self, child: str) -> bool:
        """Whether the exit of this process is logged: the gateway may die before it deletes the child record."""
        return await self._core.log.store.find(self._core.session, _exit_key(child)) is not None

    def close_turn(self, transition: Commit, reason: str, cause: str) -> None:
        """End the open turn and calls: no process is left that could end them."""
        outcome = self._core.interpreter.exited(reason, cause)
        for event in outcome.events:
            transition.add(event)
        transition.stage.drop.update(outcome.drop)

    async def close_lost(self) -> None:
        """Close a turn that is open in the log although no process is left that could end it."""
        await self.cancel_pending("agent lost its gateway")
        core = self._core
        async with core.lock:
            if core.interpreter.turn is not None:
                transition = core.begin()
                self.close_turn(transition, LOST, core.services.new_uuid())
                await core.commit(transition, patient=True)

    async def cancel_pending(self, reason: str) -> None:
        core = self._core
        async with core.lock:
            if not core.state.pending:
                return
            transition = core.begin()
            transition.cancel([item.request for item in core.state.pending], reason)
            await core.commit(transition, patient=True)


def child_name(child: ProcessInfo) -> str:
    """A permanent name of a process: pids are reused."""
    return f"{child.pid}-{child.started}"


def _exit_key(child: str) -> str:
    return f"exit:{child}"


def _describe(exit: Exit) -> str:
    if exit.signal is not None:
        return f"the agent was ended by signal {exit.signal}"
    words = exit.stderr.strip().splitlines()
    return f"the agent exited with code {exit.code}" + (f": {words[-1]}" if words else "")

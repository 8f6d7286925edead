"""Supervises the agent of one session: started for the first message, kept over many turns, stopped when idle, resumed
when needed.

Rule: the supervisor decides when a process lives; its output becomes events in `core`. It sends the agent one message
per turn. Calls to the agent are made without the session's lock: its answers come through that lock.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import (
    Agent,
    AgentInvitation,
    AgentKind,
    InvitedAgent,
    Launch,
    LentProcess,
    ProcessInfo,
    Record,
    ShimInvitation,
)
from fairlead.model.commands import Settings
from fairlead.model.content import Content
from fairlead.model.errors import AgentNotRunning, Busy, FairleadError, HistoryMissing, NotTrusted
from fairlead.model.ids import MessageId, event_id
from fairlead.sessions.commit import Commit
from fairlead.sessions.permissions.requests import PermissionRequests
from fairlead.sessions.process.connection import LOST, LOST_GATEWAY, AgentConnection, child_name
from fairlead.sessions.state import Queued

logger = logging.getLogger("fairlead.agent")


class PendingTask(Protocol):
    """A task on the process that comes before the next message."""

    @property
    def due(self) -> bool: ...
    async def run(self) -> None: ...


class AgentSupervisor:
    def __init__(self, kind: AgentKind, asking: PermissionRequests) -> None:
        core = self.core = asking.core
        self.kind = kind
        self.asking = asking
        self.connection: AgentConnection | None = None
        self.following = False
        self.last_used = core.services.clock.monotonic()
        self.launched = Settings()
        self.starting = asyncio.Lock()
        self._dispatching: asyncio.Task[None] | None = None
        self._closing = False
        self._guest: InvitedAgent | None = None
        self._awaiting: asyncio.Task[None] | None = None
        self.lent_process = ""
        """The name of the lent process whose shim was connected last."""
        self.waiting_for_shim: asyncio.Task[Any] | None = None
        self.recovered = asyncio.Event()
        """Not set while it is being found out which process of an earlier gateway the session has."""
        self.recovered.set()
        self.pending_task: PendingTask | None = None
        self.on_keeper_lost: Callable[[ProcessInfo], None] = lambda child: None
        """Called when the keeper that held the process has ended: the process is followed until its end."""

    @property
    def agent(self) -> Agent | None:
        return None if self.connection is None else self.connection.agent

    # --- when to run -------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """There is a turn, background work or a waiting person: the process must not be stopped to make room, or as
        idle."""
        return (
            self.following
            or (self.agent is not None and self.agent.attended)
            or self._guest is not None
            or self.starting.locked()
            or self.is_working
            or bool(self.core.state.queue)
            or self.core.state.handover is not None
        )

    @property
    def writes_transcript(self) -> bool:
        """Whether the transcript grows by a process whose records we get, or are about to get, from itself."""
        return self.agent is not None or self.following or self._guest is not None

    @property
    def is_working(self) -> bool:
        interpreter = self.core.interpreter
        return interpreter.turn is not None or bool(interpreter.background_work or self.core.state.pending)

    @property
    def is_dispatching(self) -> bool:
        """Whether the next task has begun: the turn of its message may not be open yet."""
        return self._dispatching is not None and not self._dispatching.done()

    def schedule_next(self) -> None:
        """Start the next task: a pending task that is due, else the next queued message if the agent is free for it.
        While the gateway drains, both wait."""
        if self._closing or self.core.services.drain.on or not (self._task_due or self._sendable):
            return
        if not self.is_dispatching:
            self._dispatching = asyncio.get_running_loop().create_task(self._next())
            self._dispatching.add_done_callback(self._dispatched)

    @property
    def _task_due(self) -> bool:
        return self.pending_task is not None and self.pending_task.due

    @property
    def _sendable(self) -> bool:
        free = not self.following and self._guest is None and not self.core.interpreter.busy
        return free and bool(self.core.state.queue)

    async def _next(self) -> None:
        if self.pending_task is not None and self._task_due:
            await self.pending_task.run()
        elif self._sendable:
            await self._dispatch()

    def _dispatched(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("dispatch failed", exc_info=error, extra={"session": self.core.session})
        elif not task.cancelled():
            self.schedule_next()

    async def _dispatch(self) -> None:
        try:
            agent = await self.ensure_running()
        except FairleadError as error:
            await self._refuse_first(error)
            return
        core = self.core
        await core.services.before_turn(core.session, core.state.cwd)
        async with core.transaction() as transition:
            if core.interpreter.busy or not core.state.queue or self.agent is not agent or self._task_due:
                return
            record = self._dequeue(transition, core.state.queue[0])
        await self._write(agent, record)

    def _dequeue(self, transition: Commit, item: Queued) -> Record:
        """Take a message out of the queue; return the record that starts its turn."""
        record = self.kind.prompt(item.content, item.message, self.core.state.agent_session)
        transition.add(ev.MessageDequeued(id=event_id(item.message, "message.dequeued"), message=item.message))
        transition.record(record, by=item.by)
        return record

    async def steer(self, content: Sequence[Content], message: MessageId, by: str) -> int:
        """Send a message into the running turn; return the seq of the message."""
        agent = self.running()
        core = self.core
        async with core.client_transaction(patient=True) as transition:
            record = self.kind.prompt(tuple(content), message, core.state.agent_session)
            transition.record(record, by=by)
        await self._write(agent, record)
        return transition.stage.seq

    async def _write(self, agent: Agent, record: Record) -> None:
        self.last_used = self.core.services.clock.monotonic()
        try:
            await agent.write(record)
        except AgentNotRunning:
            logger.info("the agent exited before it received a message", extra={"session": self.core.session})

    async def _refuse_first(self, error: FairleadError) -> None:
        """Fail the first queued message because the agent cannot be started; the others are tried again."""
        core = self.core
        async with core.transaction() as transition:
            if not core.state.queue or core.interpreter.busy:
                return
            self._dequeue(transition, core.state.queue[0])
            cause = core.services.new_uuid()
            transition.fail(error, cause)
            transition.close_turn(error.message, cause)

    # --- start and stop --------------------------------------------------------------------------------

    def accepts_change(self, **change: Any) -> Agent | None:
        """The running agent, if it accepts this change of settings; None: its next process is started with it."""
        if self.agent is None:
            return None
        changed = msgspec.structs.replace(self.launched, **change)
        return None if self.agent.needs_restart(self.launched, changed) else self.agent

    def running(self) -> Agent:
        if self.agent is None:
            raise AgentNotRunning("The agent is not running: send a message to start it.")
        return self.agent

    async def ensure_running(self) -> Agent:
        """A running agent with the current settings, started or restarted if necessary."""
        async with self.starting:
            if self._guest is not None:
                raise Busy("The session waits for an agent that is to dial in: start it, or close the session.")
            settings = self.core.state.settings
            if self.agent is not None:
                if not self.agent.needs_restart(self.launched, settings):
                    return self.agent
                await self.end_process("restarted for new settings")
            return await self.start_process()

    async def start_process(self) -> Agent:
        await self.core.services.make_room(self.core.session)
        try:
            return await self._launch(resume=True)
        except HistoryMissing:
            logger.warning("no history to resume; starting a new conversation", extra={"session": self.core.session})
            return await self._launch(resume=False)

    async def _plan(self, *, resume: bool) -> Launch:
        state, services = self.core.state, self.core.services
        source = (state.fork_from or (state.agent_session if state.resumable else "")) if resume else ""
        return Launch(
            session=state.session,
            cwd=state.cwd,
            settings=state.settings,
            resume=source,
            fork=bool(resume and state.fork_from),
            resume_at=state.fork_at if resume else "",
            trusted=await services.trusted(state.cwd),
            mcp=tuple(name for name in state.settings.mcp_servers if name in services.mcp),
            mcp_servers={
                name: services.mcp_configs[name] for name in state.settings.mcp_servers if name in services.mcp_configs
            },
            env=services.agent_env(state.session, state.owner),
        )

    async def _launch(self, *, resume: bool) -> Agent:
        launch = await self._plan(resume=resume)
        connection = self.connection = self.connect(launch, self.core.services.new_uuid())
        return await self._live(connection, launch, await self.kind.launch(launch, connection))

    async def adopt(self, child: ProcessInfo) -> Agent:
        """Connect again to a kept process of an earlier gateway. NotFound if the keeper does not have it."""
        launch = child.launch or await self._plan(resume=True)
        async with self.starting:
            connection = self.connection = self.connect(launch, self.core.services.new_uuid())
            stored = await connection.adopt(child)
            try:
                agent = await self.kind.adopt(child, connection, stored)
            except asyncio.CancelledError:
                connection.released = True  # the gateway stops, the agent goes on
                raise
            return await self._live(connection, launch, agent)

    def connect(self, launch: Launch | None, cause: str, followed: str = "") -> AgentConnection:
        callbacks = self._on_records, self.schedule_next, self._on_keeper_lost
        return AgentConnection(self.core, self.asking, launch, cause, followed, *callbacks)

    def _on_keeper_lost(self, child: ProcessInfo) -> None:
        self.following = True
        self.on_keeper_lost(child)

    def _on_records(self, events: Sequence[ev.Event]) -> None:
        self.last_used = self.core.services.clock.monotonic()
        for event in events:
            if isinstance(event, ev.ModeChanged):
                # The process already runs in this mode: it need not be restarted for it.
                self.launched = msgspec.structs.replace(self.launched, mode=event.mode)

    async def _live(self, connection: AgentConnection, launch: Launch, agent: Agent) -> Agent:
        """Register a started agent, which now accepts prompts."""
        self.launched = launch.settings
        self.last_used = self.core.services.clock.monotonic()
        if connection.gone:
            raise AgentNotRunning(connection.last_words or "The agent exited at once.")
        connection.agent = agent
        return agent

    async def invite(self) -> AgentInvitation | ShimInvitation:
        """Invite an agent that a person starts; an idle process of ours is stopped for it."""
        async with self.starting:
            await self._make_way("an agent is to dial in")
            launch = await self._plan(resume=True)
            connection = self.connection = self.connect(launch, self.core.services.new_uuid())
            return self._expect(await self.kind.invite(launch, connection), connection, launch)

    async def attach(self, process: LentProcess) -> AgentInvitation | ShimInvitation:
        """Expect the shim of a lent process; an idle process of ours is stopped for it. A shim that reconnects gets its
        session back even in the middle of a turn."""
        await self.recovered.wait()
        async with self.starting:
            name = child_name(process)
            again = bool(process.pid) and name == self.lent_process
            if again:
                await self._release()
            else:
                await self._make_way("a shim lends its own process")
            await self.cancel_invitation()
            launch = await self._plan(resume=True)
            if not launch.trusted:
                raise NotTrusted(launch.cwd)
            connection = self.connection = self.connect(launch, self.core.services.new_uuid())
            connection.again = again
            self.lent_process = name
            return self._expect(await self.kind.attach(launch, process, connection), connection, launch)

    async def _make_way(self, reason: str) -> None:
        if self.following or self.is_working:
            raise Busy("The agent is at work: wait for its turn's end, or interrupt it.")
        await self.end_process(reason)
        await self.cancel_invitation()

    def _expect(
        self, guest: InvitedAgent, connection: AgentConnection, launch: Launch
    ) -> AgentInvitation | ShimInvitation:
        self._guest = guest
        self._awaiting = asyncio.create_task(self._await(guest, connection, launch))
        return guest.invitation

    async def _release(self) -> None:
        """Drop the connection to a lent or kept process without logging its end: a shim reconnects, and so does the
        next gateway."""
        if self.waiting_for_shim is not None:
            self.waiting_for_shim.cancel()
            await asyncio.wait({self.waiting_for_shim})
        connection = self.connection
        if connection is not None and connection.agent is not None:
            connection.released = True
            await connection.agent.release()
            await connection.ended.wait()

    async def _await(self, guest: InvitedAgent, connection: AgentConnection, launch: Launch) -> None:
        try:
            await self._live(connection, launch, await guest.arrival())
        except FairleadError as error:
            logger.warning("no agent dialed in", extra={"session": self.core.session, "error": error.message})
        finally:
            if self._guest is guest:
                self._guest = None
        self.schedule_next()

    async def cancel_invitation(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None and self._awaiting is not None:
            await guest.cancel()
            await asyncio.wait({self._awaiting})

    async def stop(self, reason: str) -> None:
        """Stop the process, even in a turn; the session stays and can be resumed."""
        async with self.starting:
            await self.cancel_invitation()
            await self.end_process(reason)

    async def end_process(self, reason: str, cut_by: str | None = None) -> None:
        """Stop the process; return when its exit is in the log, so that the exit is not mistaken for a new process's.

        `cut_by`: the person who wants it; an open turn then counts as cancelled by them, not as failed."""
        connection = self.connection
        if connection is not None and connection.agent is not None:
            connection.stop_reason, connection.cut_by = reason, cut_by
            await connection.agent.stop(reason)
            await connection.ended.wait()

    async def shutdown(self, *, detach: bool = False) -> None:
        """Stop for the end of the gateway: no more messages are sent, and the process is stopped. `detach`: a kept
        process goes on."""
        await self._close()
        if self.agent is not None and (self.agent.lent or (detach and self.agent.kept)):
            async with self.starting:
                await self._release()
        else:
            await self.stop("gateway stopped")

    async def _close(self) -> None:
        self._closing = True
        self.core.shutting_down = True
        if self._dispatching is not None:
            self._dispatching.cancel()
            await asyncio.wait({self._dispatching})

    async def abandon(self) -> None:
        """Another node owns the session: kill the process at once, and log nothing more."""
        await self._close()
        await self.cancel_invitation()
        if self.connection is not None:
            await self.connection.abandon()

    # --- log entries ---------------------------------------------------------------------------------------

    async def close_lost(self, reason: str = LOST, cancelled: str = LOST_GATEWAY) -> None:
        """Close a turn that is open in the log although no process is left that could end it."""
        await self.cancel_pending(cancelled)
        async with self.core.transaction() as transition:
            if self.core.interpreter.turn is not None:
                transition.close_turn(reason, self.core.services.new_uuid())

    async def cancel_pending(self, reason: str = LOST_GATEWAY) -> None:
        async with self.core.transaction() as transition:
            transition.cancel([item.request for item in self.core.state.pending], reason)
